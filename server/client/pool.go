package client

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// pools are the rows about pools of credits: a customer's answer lists them.
type pools struct{ *base }

func (a pools) poolRoutes() []server.Route {
	const topUp = "/pools/{poolId}/top-up"
	return []server.Route{
		row("PUT", topUp, "setTopUp",
			"Buy credits whenever a pool's balance is low, within a monthly cap", server.AccessFull,
			byID(a.setTopUp), server.Asks(server.RequestKey), server.Takes(server.RefTo("TopUpRequest")),
			done),
		row("GET", topUp, "getTopUp", "How a pool is topped up, and what it has bought",
			server.AccessRead, byID(a.getTopUp), reads, answers(server.RefTo("TopUp"))),
		row("DELETE", topUp, "stopTopUp", "Stop topping up a pool", server.AccessFull,
			byID(a.stopTopUp), server.Asks(server.RequestKey), done),
	}
}

// checkTopUpRequest judges what several fields say together.
func checkTopUpRequest(f *form.Reader, c *billingview.TopUpRequest) {
	c.Judge(func(name string) bool {
		return f.Right(uint(slices.Index(topUpFields, name)))
	}, f.Problem)
}

// topUpFields are the fields of a TopUpRequest that Judge looks at, in its order.
var topUpFields = []string{"below", "amount", "price", "currency", "monthlyCap"}

func (a pools) setTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	a.named(x)
	var c billingview.TopUpRequest
	c.SetTopUp = billing.SetTopUp{Env: principal(x).Env, ID: id, Actor: x.By()}
	if fault := form.Read(x.Body, &c, readTopUpRequest); fault != nil {
		return fault
	}
	return a.carryOutOnce(x, billing.KindSetTopUp, &c.SetTopUp)
}

func (a pools) stopTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	a.named(x)
	return a.carryOutOnce(x, billing.KindStopTopUp, &billing.StopTopUp{
		Env: principal(x).Env, ID: id, Actor: x.By(),
	})
}

func (a pools) getTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		if _, found := a.machine.Pool(principal(x).Env, id); !found {
			return server.FaultOf(engine.OutcomePoolUnknown)
		}
		v, found := a.machine.TopUp(principal(x).Env, id)
		if !found {
			return billingview.FaultNoTopUp
		}
		return server.One(x, 200, &v, billingview.WriteTopUp)
	})
}
