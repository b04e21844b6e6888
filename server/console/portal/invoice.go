package portal

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/valyala/fasthttp"

	"tollgate/server"
	"tollgate/server/console/bill"
	"tollgate/server/console/page"
	"tollgate/server/document"
	"tollgate/server/payments"
)

// ownInvoice finds the invoice that the path names among the customer's; another's is not found.
func (v *visit) ownInvoice() (bill.Invoice, bool) {
	call := v.of("getCustomerInvoice")
	call.Path = append(call.Path, string(v.x.Param(1)))
	reply := v.call(call)
	if reply.Fault != nil && reply.Fault.Status < 500 {
		reply.Fault = server.FaultNotFound // an id that is none says no more than another's
	}
	return dataOf[bill.Invoice](v, reply)
}

// bill is an invoice as a document.
func (v *visit) bill(i *bill.Invoice) *document.Invoice {
	return bill.Of(v.portal.config.Machine, v.link.Env, v.account, i)
}

type invoiceData struct {
	Base   string
	Bill   *document.Invoice
	CanPay bool
}

// invoicesData is a page of a customer's invoices, the newest first.
type invoicesData struct {
	Base     string
	Invoices []bill.Invoice
	CanPay   bool
	Pager    page.Pager
}

// showInvoices lists all invoices, so many a page.
func showInvoices(v *visit) {
	all, ok := dataOf[[]bill.Invoice](v, v.call(v.of("listCustomerInvoices")))
	if !ok {
		return
	}
	slices.Reverse(all)
	from, _ := strconv.Atoi(string(v.x.Ctx.QueryArgs().Peek("from")))
	from = min(max(from, 0), len(all))
	through := min(from+maxInvoices, len(all))
	data := invoicesData{Base: v.base, Invoices: all[from:through], CanPay: v.canPay()}
	if from > 0 {
		data.Pager.First = v.base + "/invoices"
	}
	if through < len(all) {
		data.Pager.Next = v.base + "/invoices?from=" + strconv.Itoa(through)
	}
	data.Pager = data.Pager.Within(from, through-from, len(all), "invoice")
	v.show("invoices", "Invoices", data)
}

func showInvoice(v *visit) {
	i, ok := v.ownInvoice()
	if !ok {
		return
	}
	v.show("invoice", i.Title(), invoiceData{
		Base: v.base + "/invoices/" + i.ID, Bill: v.bill(&i),
		CanPay: i.Open() && v.canPay(),
	})
}

func downloadInvoice(v *visit) {
	i, ok := v.ownInvoice()
	if !ok {
		return
	}
	file, _, err := document.PDF(v.bill(&i))
	if err != nil {
		v.portal.config.Log.Error("no PDF of an invoice", "error", err,
			"request_id", string(v.x.RequestID()))
		v.x.Refuse(server.FaultInternal)
		return
	}
	v.x.Ctx.Response.Header.Set("Content-Disposition",
		`attachment; filename="invoice-`+cmp.Or(i.Digits(), "pending")+`.pdf"`)
	v.portal.site.Guard(v.x)
	v.x.Bare(200, "application/pdf", file)
}

type payData struct {
	Back, URL, Amount, Title string
}

// pay makes the provider's page for an invoice, and shows the way there. It is a link: a provider's
// page is of another origin, and refuses to be in a frame.
func pay(v *visit) {
	i, ok := v.ownInvoice()
	if !ok {
		return
	}
	if i.Status == "PAID" {
		v.finish(server.Reply{}, "paid")
		return
	}
	if !i.Open() || v.portal.config.Machine.PaymentSettings(v.link.Env).Provider == "none" {
		v.x.Refuse(faultNotOffered)
		return
	}
	url, ok := v.checkout(i.ID)
	switch {
	case !ok:
		return
	case v.portal.config.Payments != nil: // going back sends nothing again
		v.portal.site.Redirect(v.x, v.base+"/invoices/"+i.ID+"/pay")
	default:
		v.payAt(&i, url)
	}
}

// showPay is the way to the provider's page that is open. Where there is none, the invoice has the
// button that makes one.
func showPay(v *visit) {
	i, ok := v.ownInvoice()
	if !ok {
		return
	}
	if i.Status == "PAID" {
		v.finish(server.Reply{}, "paid")
		return
	}
	url, ok := v.openCheckout(i.ID)
	switch {
	case !ok:
		return
	case url == "" || !i.Open():
		v.portal.site.Redirect(v.x, v.base+"/invoices/"+i.ID)
	default:
		v.payAt(&i, url)
	}
}

// payAt shows the way to the provider's page, and lets the page that payers come back to lead here.
func (v *visit) payAt(i *bill.Invoice, url string) {
	var c fasthttp.Cookie
	c.SetKey(payments.PortalCookie)
	c.SetValueBytes(v.x.Param(0))
	c.SetPath(payments.Prefix)
	c.SetMaxAge(3600)
	c.SetHTTPOnly(true)
	c.SetSameSite(fasthttp.CookieSameSiteLaxMode)
	c.SetSecure(strings.HasPrefix(v.portal.config.Origin, "https:"))
	v.x.Ctx.Response.Header.SetCookie(&c)
	v.show("pay", "Pay "+strings.ToLower(i.Title()[:1])+i.Title()[1:], payData{
		Back: v.base, URL: url, Amount: page.Money(i.Amount, i.Currency), Title: i.Title(),
	})
}

// checkout is the address of the provider's page for an invoice: the open one, or a new one.
func (v *visit) checkout(invoice string) (url string, ok bool) {
	if url, ok = v.openCheckout(invoice); !ok || url != "" {
		return url, ok
	}
	made, ok := dataOf[struct {
		URL string `json:"url"`
	}](v, v.call(server.Call{
		Operation: "createCheckoutSession", Path: []string{invoice}, OnceKey: v.once(),
	}))
	return made.URL, ok
}

// openCheckout is the address of the provider's page for an invoice that is open; empty where none
// is.
func (v *visit) openCheckout(invoice string) (url string, ok bool) {
	service := v.portal.config.Payments
	if service == nil {
		return "", true
	}
	id, _ := server.ParseUUID(invoice)
	at := payments.Place{Account: v.account, Kind: v.kind, Env: v.link.Env}
	url, fault := service.Reopen(context.Background(), at, id)
	if fault != nil {
		v.x.Refuse(fault)
	}
	return url, fault == nil
}
