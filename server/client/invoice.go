package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
)

// listInvoices is GET /billing/invoices/{externalClientCustomerId}.
func (a *API) listInvoices(x *server.Exchange) {
	id, ok := pathID(x, 0, "externalClientCustomerId")
	if !ok {
		return
	}
	include := query(x.Ctx, "include")
	if include != "" && include != "pending" {
		refuseQuery(x, "include", "pending, or absent")
		return
	}
	a.read(x, func() *server.Fault {
		customer, found := a.machine.Customer(x.Principal.Env, id)
		if !found {
			return notFound(engine.OutcomeCustomerUnknown)
		}
		data := x.Begin()
		data.Open('[')
		invoices := a.machine.Invoices(x.Principal.Env, customer.Row)
		if include == "pending" {
			pending := a.machine.PendingInvoices(x.Principal.Env, customer.Row)
			invoices = append(invoices, pending...)
		}
		for i := range invoices {
			server.WriteInvoice(data, &invoices[i], nil)
		}
		data.Close(']')
		x.End(200)
		return nil
	})
}

// markInvoicePaid is POST /billing/invoices/{invoiceId}/mark-paid.
func (a *API) markInvoicePaid(x *server.Exchange) {
	id, ok := pathUUID(x, 0, "invoiceId")
	if !ok {
		return
	}
	command := billing.MarkInvoicePaid{Env: x.Principal.Env, ID: id}
	result, _, fault := a.once(x, billing.KindMarkInvoicePaid, wire.Encode(nil, &command))
	if fault != nil {
		x.Refuse(*fault)
		return
	}
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(server.FaultOf(result.Outcome))
		return
	}
	x.Succeed(200)
}
