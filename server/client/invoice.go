package client

import (
	"encoding/base64"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// maxInvoices is the size of a page of invoices, at most.
const maxInvoices = 1000

// invoiceRoutes are the rows about invoices.
func (a *invoices) invoiceRoutes() []server.Route {
	return []server.Route{
		{
			Method: "GET", Path: Prefix + "/billing/invoices/{externalClientCustomerId}",
			Operation: "listCustomerInvoices",
			Summary:   "A customer's invoices, oldest first: all of them, or with limit a page",
			Access:    server.AccessCustomer, Handle: a.listInvoices,
			Params: []server.Param{
				customerParam, consistencyHeader,
				inQuery("include", server.EnumSchema("pending"), "adds the accruing invoices"),
				inQuery("status", server.EnumSchema("PENDING", "DUE", "PAST_DUE", "PAID", "VOID"),
					"only these; PENDING lists the accruing ones"),
				inQuery("from", server.TimeSchema, "earliest createdAt"),
				inQuery("to", server.TimeSchema, "createdAt before this"),
				inQuery("limit", server.IntSchema(1, maxInvoices), "all when absent"),
				inQuery("cursor", text(1, 64), "nextCursor of the page before"),
			},
			Responses: []server.Response{{
				Status: 200, About: "OK; nextCursor where limit was given and there are more",
				Data: server.ArrayOf(server.RefTo("Invoice")), Paged: true,
			}},
		},
		{
			Method: "GET", Path: Prefix + "/billing/invoices/{externalClientCustomerId}/{invoiceId}",
			Operation: "getCustomerInvoice", Summary: "An invoice, in any status",
			Access: server.AccessCustomer, Handle: a.getInvoice,
			Params: []server.Param{
				customerParam, path("invoiceId", server.UUIDSchema, ""), consistencyHeader,
			},
			Responses: answers(server.RefTo("Invoice")),
		},
		{
			Method: "POST", Path: Prefix + "/billing/invoices/{invoiceId}/mark-paid",
			Operation: "markInvoicePaid", Summary: "Record that an invoice was paid",
			Access: server.AccessFull, Handle: a.markInvoicePaid,
			Params:    []server.Param{path("invoiceId", server.UUIDSchema, ""), server.RequestKey},
			Responses: []server.Response{{Status: 200, About: "Paid"}},
		},
	}
}

// invoiceQuery reads the filters and the page of a listing.
func invoiceQuery(x *server.Exchange, f *form.Reader) (q billing.InvoiceQuery) {
	q.Env = principal(x).Env
	switch query(x.Ctx, "include") {
	case "":
	case "pending":
		q.Pending = true
	default:
		f.Problem("include", form.NotAllowed("pending, or absent"))
	}
	if text := query(x.Ctx, "status"); text != "" {
		var known bool
		if q.Status, known = billing.InvoiceStatusNamed(text); !known {
			f.Problem("status", form.NotAllowed("PENDING", "DUE", "PAST_DUE", "PAID", "VOID"))
		}
	}
	queryInstant(x, f, "from", &q.From)
	queryInstant(x, f, "to", &q.To)
	q.HasTo = query(x.Ctx, "to") != ""
	queryLimit(x, f, maxInvoices, &q.Limit)
	if text := query(x.Ctx, "cursor"); text != "" {
		id, ok := server.Cursor(text)
		if !ok || len(id) != len(q.After) {
			f.Problem("cursor", badCursor)
		} else {
			q.After = [16]byte(id)
		}
	}
	return q
}

var badCursor = form.Mistake{
	Code: server.FieldFormat, Text: "must be a nextCursor of an earlier answer",
}

// listInvoices is GET /billing/invoices/{externalClientCustomerId}.
func (a *invoices) listInvoices(x *server.Exchange) {
	id, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	var f form.Reader
	q := invoiceQuery(x, &f)
	if fault := f.Fault(); fault != nil {
		x.Refuse(fault)
		return
	}
	a.read(x, func() *server.Fault {
		customer, found := a.machine.Customer(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		q.CustomerRow = customer.Row
		page, found := a.machine.ListInvoices(&q)
		if !found {
			return badCursor.Fault("cursor")
		}
		data := x.Begin()
		data.Open('[')
		for i := range page.List {
			billingview.WriteInvoice(data, &page.List[i], nil)
		}
		data.Close(']')
		if page.More {
			last := page.List[len(page.List)-1].ID
			data.Text("nextCursor", base64.RawURLEncoding.EncodeToString(last[:]))
		}
		x.End(200)
		return nil
	})
}

// getInvoice is GET /billing/invoices/{externalClientCustomerId}/{invoiceId}.
func (a *invoices) getInvoice(x *server.Exchange) {
	customer, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	id, ok := pathUUID(x, 1, "invoiceId")
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		if _, found := a.machine.Customer(principal(x).Env, customer); !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		invoice, found := a.machine.Invoice(principal(x).Env, id)
		if !found || invoice.Customer != customer {
			return server.FaultOf(engine.OutcomeInvoiceUnknown)
		}
		return server.One(x, 200, &invoice, writeInvoice)
	})
}

func writeInvoice(data *server.JSON, v *billing.InvoiceView) {
	billingview.WriteInvoice(data, v, nil)
}

// markInvoicePaid is POST /billing/invoices/{invoiceId}/mark-paid.
func (a *invoices) markInvoicePaid(x *server.Exchange) {
	if id, ok := pathUUID(x, 0, "invoiceId"); ok {
		a.carryOutOnce(x, billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: principal(x).Env, ID: id,
		})
	}
}
