package client

import (
	"context"
	"encoding/base64"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/billingview"
	"tollgate/server/form"
	"tollgate/server/payments"
)

// maxInvoices is the size of a page of invoices, at most.
const maxInvoices = 1000

// invoiceRoutes are the rows about invoices.
func (a *invoices) invoiceRoutes() []server.Route {
	const customer = "/billing/invoices/{externalClientCustomerId}"
	list := row("GET", customer, "listCustomerInvoices",
		"A customer's invoices, oldest first: all of them or, with limit, a page",
		server.AccessCustomer, byName(a.listInvoices), reads, server.Asks(
			server.InQuery("include", server.EnumSchema("pending"), "adds the accruing invoices"),
			server.InQuery("status", server.EnumSchema("PENDING", "DUE", "PAST_DUE", "PAID", "VOID"),
				"only these; PENDING lists the accruing ones"),
			server.InQuery("from", server.TimeSchema, "earliest createdAt"),
			server.InQuery("to", server.TimeSchema, "createdAt before this"),
			server.InQuery("limit", server.IntSchema(1, maxInvoices), "all when absent"),
			server.InQuery("cursor", text(1, 64), "nextCursor of the page before")),
		server.Gives(200, "OK; nextCursor where limit was given and there are more",
			server.ArrayOf(server.RefTo("Invoice"))))
	list.Responses[0].Paged = true
	return []server.Route{
		list,
		row("GET", customer+"/{invoiceId}", "getCustomerInvoice", "An invoice, in any status",
			server.AccessCustomer, byName(a.getInvoice), reads, answers(server.RefTo("Invoice"))),
		row("POST", "/billing/invoices/{invoiceId}/mark-paid", "markInvoicePaid",
			"Record that an invoice was paid", server.AccessFull, byID(a.markInvoicePaid),
			server.Asks(server.RequestKey),
			server.MayTake(server.Object(server.May("note", text(1, maxPaidNote)))),
			server.Gives(200, "Paid", nil)),
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
	f.QueryInstant("from", query(x.Ctx, "from"), &q.From)
	f.QueryInstant("to", query(x.Ctx, "to"), &q.To)
	q.HasTo = query(x.Ctx, "to") != ""
	queryLimit(x, f, maxInvoices, &q.Limit)
	if text := query(x.Ctx, "cursor"); text != "" {
		id, ok := server.Cursor(text)
		if !ok || len(id) != len(q.After) {
			f.Problem("cursor", form.NotCursor)
		} else {
			q.After = [16]byte(id)
		}
	}
	return q
}

func (a *invoices) listInvoices(x *server.Exchange, id string) *server.Fault {
	var f form.Reader
	q := invoiceQuery(x, &f)
	if fault := f.Fault(); fault != nil {
		return fault
	}
	return a.ofCustomer(x, id, func(customer *billing.CustomerView) *server.Fault {
		q.CustomerRow = customer.Row
		page, found := a.machine.ListInvoices(&q)
		if !found {
			return form.NotCursor.Fault("cursor")
		}
		data := x.Begin()
		data.Open('[')
		for i := range page.List {
			billingview.WriteInvoice(data, &page.List[i])
		}
		data.Close(']')
		if page.More {
			last := page.List[len(page.List)-1].ID
			data.Text("nextCursor", base64.RawURLEncoding.EncodeToString(last[:]))
		}
		return x.End(200)
	})
}

func (a *invoices) getInvoice(x *server.Exchange, customer string) *server.Fault {
	id, fault := pathUUID(x, 1)
	if fault != nil {
		return fault
	}
	return a.ofCustomer(x, customer, func(*billing.CustomerView) *server.Fault {
		invoice, found := a.machine.Invoice(principal(x).Env, id)
		if !found || invoice.Customer != customer {
			return server.FaultOf(engine.OutcomeInvoiceUnknown)
		}
		return server.One(x, 200, &invoice, billingview.WriteInvoice)
	})
}

// maxPaidNote is the length of the note on a payment, in characters.
const maxPaidNote = 200

func (a *invoices) markInvoicePaid(x *server.Exchange, id [16]byte) *server.Fault {
	a.named(x)
	c := billing.MarkInvoicePaid{Env: principal(x).Env, ID: id}
	if len(x.Body) > 0 {
		fault := form.Read(x.Body, &c, func(f *form.Reader, c *billing.MarkInvoicePaid) {
			for f.Next() {
				if string(f.Name) == "note" {
					f.Text(0, &c.Note, 1, maxPaidNote)
				} else {
					f.Unknown()
				}
			}
		})
		if fault != nil {
			return fault
		}
	}
	return a.carryOutOnce(x, billing.KindMarkInvoicePaid, &c)
}

// paymentRoutes are the rows about collecting invoices.
func (a *invoices) paymentRoutes() []server.Route {
	return []server.Route{
		row("POST", "/billing/invoices/{invoiceId}/payprovider/checkout", "createCheckoutSession",
			"The address of a hosted page on which the invoice can be paid", server.AccessFull,
			byID(a.createCheckout), server.Asks(server.RequestKey),
			server.Gives(200, "url is empty when the invoice is paid already",
				server.Object(server.Must("url", text(0, 0))))),
	}
}

// createCheckout is POST /billing/invoices/{invoiceId}/payprovider/checkout. The checkout is noted
// in the log before the provider is asked, so that whoever repeats the request asks the provider
// the same question.
func (a *invoices) createCheckout(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.OpenCheckout{Env: principal(x).Env, ID: newID(), InvoiceID: id}
	result, first, fault := a.once(x, billing.KindOpenCheckout, &c)
	if fault != nil || billinglog.Replay(x, &first) {
		return fault
	}
	if first.Repeated {
		c.ID = first.First
	}
	url := ""
	switch paid := keyed(x) && first.First == [16]byte{}; {
	case result.Outcome == engine.OutcomeInvoicePaid:
	case result.Outcome != engine.OutcomeDone:
		return server.FaultOf(result.Outcome)
	case paid:
	case a.payments == nil:
		return server.FaultOf(engine.OutcomeNoProvider)
	default:
		p := principal(x)
		at := payments.Place{Env: p.Env, Account: p.Account, Kind: p.Environment}
		if url, fault = a.payments.Checkout(context.Background(), at, c.ID); fault != nil {
			return fault
		}
	}
	x.Object(200, func(data *server.JSON) { data.Text("url", url) })
	return a.keep(x, 0)
}
