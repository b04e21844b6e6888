package client

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
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
		row("GET", topUp, "getTopUp", "How a pool is topped up, and what has come of it",
			server.AccessRead, byID(a.getTopUp), reads, answers(server.RefTo("TopUp"))),
		row("DELETE", topUp, "stopTopUp", "Stop topping a pool up", server.AccessFull,
			byID(a.stopTopUp), server.Asks(server.RequestKey), done),
	}
}

// topUpRequest is the body of PUT /pools/{poolId}/top-up.
//
//schema:request client TopUpRequest check
type topUpRequest struct {
	billing.SetTopUp
	CooldownSeconds uint32 `json:"cooldownSeconds" rule:"min=60,max=2678400,default=3600"`
}

// Fields of a topUpRequest that depend on others, in its order.
const (
	fieldTopUpBelow = iota
	fieldTopUpAmount
	fieldTopUpPrice
	fieldTopUpCurrency
	fieldTopUpCap
)

// checkTopUpRequest judges amounts as the state machine does, which names no field.
func checkTopUpRequest(f *form.Reader, c *topUpRequest) {
	c.CooldownMS = int64(c.CooldownSeconds) * 1000
	positive := func(bit uint, name string, amount decimal.Decimal) bool {
		if f.Right(bit) && amount.Sign() <= 0 {
			f.Problem(name, form.NotPositive)
			return false
		}
		return f.Right(bit)
	}
	positive(fieldTopUpBelow, "below", c.Below)
	positive(fieldTopUpAmount, "amount", c.Amount)
	priced := positive(fieldTopUpPrice, "price", c.Price)
	capped := positive(fieldTopUpCap, "monthlyCap", c.MonthlyCap)
	currency := cmp.Or(c.Currency, "USD")
	places, known := decimal.MinorUnits(currency)
	switch {
	case !known && f.Right(fieldTopUpCurrency):
		f.Problem("currency", form.NotCurrency)
	case known && priced && c.Price != c.Price.Round(places):
		f.Problem("price", form.NotMinorUnits(currency))
	case priced && capped && c.MonthlyCap.Less(c.Price):
		f.Problem("monthlyCap", form.BelowPrice)
	}
}

func (a pools) setTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	a.named(x)
	c := topUpRequest{SetTopUp: billing.SetTopUp{Env: principal(x).Env, ID: id, Actor: x.By()}}
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
