package console

import (
	"cmp"

	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/document"
)

// bill is an invoice as the document that its customer gets.
func (v *visit) bill(i *invoice) *document.Invoice {
	return bill.Of(v.console.config.Machine, v.env, v.account, i)
}

// downloadInvoice is the invoice as a PDF.
func downloadInvoice(v *visit) {
	shown := need[invoice](v, v.admin, v.adminCall("showInvoice", string(v.x.Param(2))))
	if v.fails() {
		return
	}
	file, _, err := document.PDF(v.bill(&shown))
	if err != nil {
		v.console.config.Log.Error("no PDF of an invoice", "error", err,
			"request_id", string(v.x.RequestID()))
		v.x.Refuse(server.FaultInternal)
		return
	}
	name := cmp.Or(shown.Digits(), "pending")
	v.x.Ctx.Response.Header.Set("Content-Disposition",
		`attachment; filename="`+v.account+`-invoice-`+name+`.pdf"`)
	v.console.site.Guard(v.x)
	v.x.Bare(200, "application/pdf", file)
}
