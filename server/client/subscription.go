package client

import (
	"slices"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billinglog"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

func (a *subscriptions) createSubscription(x *server.Exchange) *server.Fault {
	c := billing.CreateSubscription{Env: principal(x).Env, ID: newID(), InvoiceID: newID()}
	if fault := form.Read(x.Body, &c, readSubscriptionRequest); fault != nil {
		return fault
	}
	result, first, fault := a.once(x, billing.KindCreateSubscription, &c)
	if fault != nil || billinglog.Replay(x, &first) {
		return fault
	}
	if first.Repeated {
		c.ID, c.InvoiceID = first.First, first.Second
	}
	switch {
	case result.Outcome == engine.OutcomeUnknown && !keyed(x):
		return server.FaultOf(result.Outcome).With("Look at the customer's subscriptions before you " +
			"repeat the request: without an Idempotency-Key a repeat may create a second one.")
	case result.Outcome != engine.OutcomeDone:
		return server.FaultOf(result.Outcome)
	case !a.answerCreated(x, &c):
		return server.FaultConsistency.With("The subscription " + string(server.AppendUUID(nil, c.ID)) +
			" was created, but cannot be read here yet. Read it, and do not create it again.")
	}
	return a.keep(x, a.machine.CustomerRow(c.Env, []byte(c.Customer)))
}

// answerCreated answers with what the command made. This node may be behind the one that applied
// it; the read index brings it up, and where no leader can be asked any more, its own memory will
// have the entry soon or never.
func (a *subscriptions) answerCreated(x *server.Exchange, c *billing.CreateSubscription) bool {
	deadline := a.readDeadline()
	for {
		fresh := server.Fresh(a.reader, deadline)
		s, ok := a.machine.Subscription(c.Env, c.ID)
		if !ok {
			if !time.Now().Before(deadline) || fresh {
				return false
			}
			continue
		}
		invoice, ok := a.machine.Invoice(c.Env, c.InvoiceID)
		x.Object(201, func(data *server.JSON) {
			data.Name("subscription")
			writeSubscription(data, &s)
			if ok {
				data.Name("invoice")
				billingview.WriteInvoice(data, &invoice)
			}
			data.Object("metadata")
			data.Close('}')
		})
		return ok
	}
}

func (a *customers) listSubscriptions(x *server.Exchange, id string) *server.Fault {
	status := query(x.Ctx, "status")
	if status != "" && status != "all" && status != "active" {
		return form.NotAllowed("all", "active").Fault("status")
	}
	return a.ofCustomer(x, id, func(customer *billing.CustomerView) *server.Fault {
		all := a.machine.Subscriptions(customer.Row)
		if status != "all" {
			all = slices.DeleteFunc(all, func(s billing.SubscriptionView) bool { return !s.IsActive })
		}
		return server.List(x, all, writeSubscription)
	})
}

func (a *subscriptions) getSubscription(x *server.Exchange, id [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		s, found := a.machine.Subscription(principal(x).Env, id)
		if !found {
			return server.FaultOf(engine.OutcomeSubscriptionUnknown)
		}
		return server.One(x, 200, &s, writeSubscription)
	})
}

func (a *subscriptions) listPlans(x *server.Exchange) *server.Fault {
	return a.read(x, func() *server.Fault {
		return server.List(x, a.machine.Plans(principal(x).Env), writePlan)
	})
}
