package admin

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// maxPriority bounds the priority of a pool and of a grant, below zero, too.
const maxPriority = 1_000_000

// poolRoutes are the rows about customers' pools of credits.
func (a *credits) poolRoutes() []server.Route {
	const pools = environment + "/customers/{customer}/pools"
	change := func(
		word, summary string, change func(x *server.Exchange, id [16]byte) *server.Fault,
	) server.Route {
		return row("POST", environment+"/pools/{pool}/"+word, word+"Pool", summary, of(change),
			nothing("Done, or it was before"))
	}
	return []server.Route{
		row("POST", pools, "createPool", "Create a pool of credits for a customer", a.createPool, keyed,
			server.Takes(server.RefTo("PoolRequest")),
			server.Gives(201, "Created", server.RefTo("CreditPool"))),
		row("GET", pools, "listPools", "A customer's pools, oldest first, archived ones too",
			a.listPools, answers(server.ArrayOf(server.RefTo("CreditPool")))),
		row("GET", environment+"/pools/{pool}", "showPool", "A pool of credits", a.one(a.showPool),
			answers(server.RefTo("CreditPool"))),
		row("PUT", environment+"/pools/{pool}/low-balance", "setLowBalance",
			"Set the balance at which a pool counts as low", of(a.setLowBalance),
			server.Takes(server.RefTo("LowBalanceRequest")), nothing("Set, or it was before")),
		row("PUT", environment+"/pools/{pool}/top-up", "setTopUp",
			"Buy credits whenever a pool's balance is low, within a monthly cap", of(a.setTopUp),
			server.Takes(server.RefTo("TopUpRequest")), nothing("Set")),
		row("GET", environment+"/pools/{pool}/top-up", "showTopUp", "How a pool is topped up",
			a.one(a.showTopUp), answers(server.RefTo("TopUp"))),
		change("freeze", "Refuse deductions and usage; grants are still accepted",
			func(x *server.Exchange, id [16]byte) *server.Fault {
				c := billing.FreezePool{ID: id, Actor: x.By()}
				return a.carryOut(x, billing.KindFreezePool, &c, &c.Env)
			}),
		change("unfreeze", "Accept deductions and usage again",
			func(x *server.Exchange, id [16]byte) *server.Fault {
				c := billing.UnfreezePool{ID: id, Actor: x.By()}
				return a.carryOut(x, billing.KindUnfreezePool, &c, &c.Env)
			}),
		row("DELETE", environment+"/pools/{pool}/top-up", "stopTopUp", "Stop topping up a pool",
			of(func(x *server.Exchange, id [16]byte) *server.Fault {
				c := billing.StopTopUp{ID: id, Actor: x.By()}
				return a.carryOut(x, billing.KindStopTopUp, &c, &c.Env)
			}), nothing("Stopped, or it was before")),
		row("POST", environment+"/pools/{pool}/top-up/end", "endTopUp",
			"End a purchase that was not paid", of(a.endTopUp),
			server.Takes(server.Object(
				server.Must("purchase", server.UUIDSchema), server.Must("notPaid", server.BoolSchema))),
			nothing("Ended")),
		change("archive", "Archive a pool, for good",
			func(x *server.Exchange, id [16]byte) *server.Fault {
				c := billing.ArchivePool{ID: id, Actor: x.By()}
				return a.carryOut(x, billing.KindArchivePool, &c, &c.Env)
			}),
	}
}

// pathCustomer reads the path's customer.
func pathCustomer(x *server.Exchange) (string, *server.Fault) {
	if _, ok := form.CheckText(x.Param(2), 0, maxID); !ok {
		return "", server.FieldFault("customer", server.FieldFormat,
			"must have 1–128 printable characters")
	}
	return string(x.Param(2)), nil
}

func (a *credits) createPool(x *server.Exchange) (fault *server.Fault) {
	c := billing.CreatePool{Actor: x.By()}
	if c.Customer, fault = pathCustomer(x); fault != nil {
		return fault
	}
	if c.Env, c.ID, fault = a.onceIn(x, readPool(x, &c)); fault != nil {
		return fault
	}
	result, replayed, fault := a.make(x, c.Env, billing.KindCreatePool, &c)
	if replayed || fault != nil {
		return fault
	}
	if result.Outcome != engine.OutcomeDone {
		return onceFault(x, result.Outcome)
	}
	fault = a.read(x, func() *server.Fault {
		view, found := a.machine.Pool(c.Env, c.ID)
		switch {
		case !found:
			return server.FaultOf(engine.OutcomeUnknown)
		case !asRequested(&c, &view):
			return server.FaultOf(engine.OutcomeRequestKeyReused)
		}
		return server.One(x, 201, &view, billingview.WriteCreditPool)
	})
	if fault != nil {
		return fault
	}
	return a.keep(x, c.Env, c.ID)
}

// asRequested reports whether a pool is the one that a request asks for: a repeated one may be
// another.
func asRequested(c *billing.CreatePool, v *billing.PoolView) bool {
	return v.Customer == c.Customer && v.Name == c.Name && v.HardLimit == c.HardLimit &&
		v.Denomination == cmp.Or(c.Denomination, v.Denomination) &&
		v.Currency == cmp.Or(c.Currency, v.Currency) &&
		v.RolloverPolicy == cmp.Or(c.RolloverPolicy, "NONE") && v.HasCap == c.HasCap &&
		v.RolloverCap == c.RolloverCap && v.Priority == c.Priority && v.LowBalance == c.LowBalance &&
		string(v.Metadata) == string(c.Metadata)
}

func readPool(x *server.Exchange, c *billing.CreatePool) *server.Fault {
	var w walk
	fault := tagged(x, &w, c, map[string]reader{
		"currency": w.currency(&c.Currency),
		"rolloverCap": func(t *tree, place string) {
			c.HasCap = true
			w.amount(&c.RolloverCap)(t, place)
		},
	})
	if fault == nil && c.HasCap != (c.RolloverPolicy == "CAPPED") {
		w.problem("rolloverCap", server.FieldConflict,
			"belongs to the rolloverPolicy CAPPED, and only to it")
		fault = w.fault()
	}
	return fault
}

func (a *credits) setLowBalance(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.SetLowBalance{ID: id, Actor: x.By()}
	var w walk
	if fault := tagged(x, &w, &c, nil); fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindSetLowBalance, &c, &c.Env)
}

func (a *credits) setTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	c := billingview.TopUpRequest{SetTopUp: billing.SetTopUp{ID: id, Actor: x.By()}}
	var w walk
	fault := tagged(x, &w, &c, map[string]reader{"currency": w.currency(&c.Currency)})
	if w.root != nil {
		c.Judge(w.right, func(name string, m form.Mistake) { w.wrong(true, name, m) })
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindSetTopUp, &c.SetTopUp, &c.Env)
}

// endTopUp is POST …/top-up/end. It names the purchase that the operator has looked for, since
// another may be on its way by now.
func (a *credits) endTopUp(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.EndTopUp{Pool: id, Actor: x.By()}
	var w walk
	var notPaid bool
	var purchase string
	fault := body(x, &w, map[string]reader{
		"purchase": w.text(&purchase), "notPaid": w.flag(&notPaid),
	}, "purchase", "notPaid")
	if fault != nil {
		return fault
	}
	var ok bool
	c.ID, ok = server.ParseUUID(purchase)
	w.wrong(!ok, "purchase", form.NotUUID)
	w.when(!notPaid, "notPaid", server.FieldNotAllowed, "must be true: look at the provider before")
	if fault = w.fault(); fault != nil {
		return fault
	}
	return a.carryOut(x, billing.KindEndTopUp, &c, &c.Env)
}

func (a *credits) showTopUp(x *server.Exchange, env uint32, id [16]byte) *server.Fault {
	if _, found := a.machine.Pool(env, id); !found {
		return server.FaultOf(engine.OutcomePoolUnknown)
	}
	v, found := a.machine.TopUp(env, id)
	if !found {
		return billingview.FaultNoTopUp
	}
	return server.One(x, 200, &v, billingview.WriteTopUp)
}

func (a *credits) listPools(x *server.Exchange) *server.Fault {
	id, fault := pathCustomer(x)
	if fault != nil {
		return fault
	}
	return a.environment(x, func(env uint32) *server.Fault {
		customer, found := a.machine.Customer(env, id)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.List(x, a.machine.Pools(customer.Row), billingview.WriteCreditPool)
	})
}

func (a *credits) showPool(x *server.Exchange, env uint32, id [16]byte) *server.Fault {
	pool, found := a.machine.Pool(env, id)
	if !found {
		return server.FaultOf(engine.OutcomePoolUnknown)
	}
	return server.One(x, 200, &pool, billingview.WriteCreditPool)
}
