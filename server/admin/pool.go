package admin

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
)

// Bounds of what a pool is made of; the state machine has the same.
const (
	maxDenomination = 64
	maxPriority     = 1_000_000
	maxMetadata     = 8 << 10
)

// poolRoutes are the rows about customers' pools of credits.
func (a *credits) poolRoutes() []server.Route {
	pools := environment + "/customers/{customer}/pools"
	customer := environmentAnd(path("customer", text(1, maxID), "externalClientCustomerId"))
	pool := environmentAnd(path("pool", server.UUIDSchema, ""))
	routes := []server.Route{
		{
			Method: "POST", Path: pools, Operation: "createPool",
			Summary: "Make a pool of credits for a customer",
			Access:  server.AccessOperator, Handle: a.createPool,
			Params: append(customer[:3:3], server.RequestKey), Body: server.RefTo("PoolRequest"),
			Responses: []server.Response{{
				Status: 201, About: "Created", Data: server.RefTo("CreditPool"),
			}},
		},
		{
			Method: "GET", Path: pools, Operation: "listPools",
			Summary: "A customer's pools, oldest first, archived ones too",
			Access:  server.AccessOperator, Handle: a.listPools, Params: customer,
			Responses: answers(server.ArrayOf(server.RefTo("CreditPool"))),
		},
		{
			Method: "GET", Path: environment + "/pools/{pool}", Operation: "showPool",
			Summary: "A pool of credits", Access: server.AccessOperator, Handle: a.showPool,
			Params: pool, Responses: answers(server.RefTo("CreditPool")),
		},
	}
	for _, change := range []struct {
		word, about string
		kind        engine.Kind
		command     func(env uint32, id [16]byte, by string) wire.Fielder
	}{
		{
			"freeze", "Refuse deductions and usage; grants are still taken", billing.KindFreezePool,
			func(env uint32, id [16]byte, by string) wire.Fielder {
				return &billing.FreezePool{Env: env, ID: id, Actor: by}
			},
		},
		{
			"unfreeze", "Take deductions and usage again", billing.KindUnfreezePool,
			func(env uint32, id [16]byte, by string) wire.Fielder {
				return &billing.UnfreezePool{Env: env, ID: id, Actor: by}
			},
		},
		{
			"archive", "Take a pool out of use, for good", billing.KindArchivePool,
			func(env uint32, id [16]byte, by string) wire.Fielder {
				return &billing.ArchivePool{Env: env, ID: id, Actor: by}
			},
		},
	} {
		routes = append(routes, server.Route{
			Method: "POST", Path: environment + "/pools/{pool}/" + change.word,
			Operation: change.word + "Pool", Summary: change.about,
			Access: server.AccessOperator, Params: pool, Responses: nothing("Done, or it was before"),
			Handle: func(x *server.Exchange) {
				id, ok := pathUUID(x, 2, "the pool's id")
				if ok && noFields(x) {
					a.carryOut(x, change.kind, func(env uint32) wire.Fielder {
						return change.command(env, id, x.By())
					})
				}
			},
		})
	}
	return routes
}

// pathCustomer reads the path's customer; a malformed one is answered.
func pathCustomer(x *server.Exchange) (id string, ok bool) {
	id = string(x.Param(2))
	if _, ok := form.CheckText(x.Param(2), 0, maxID); !ok {
		x.Refuse(server.FieldFault("customer", server.FieldFormat,
			"must have 1–128 printable characters"))
		return "", false
	}
	return id, true
}

// createPool is POST …/customers/{customer}/pools.
func (a *credits) createPool(x *server.Exchange) {
	c := billing.CreatePool{Actor: x.By()}
	var ok bool
	if c.Customer, ok = pathCustomer(x); !ok {
		return
	}
	if c.Env, c.ID, ok = a.onceIn(x, readPool(x, &c)); !ok {
		return
	}
	result, ok := a.make(x, c.Env, billing.KindCreatePool, &c)
	if !ok {
		return
	}
	if result.Outcome != engine.OutcomeDone {
		x.Refuse(onceFault(x, result.Outcome))
		return
	}
	a.read(x, func() *server.Fault {
		view, found := a.machine.Pool(c.Env, c.ID)
		switch {
		case !found:
			return server.FaultOf(engine.OutcomeUnknown)
		case !asRequested(&c, &view):
			return server.FaultOf(engine.OutcomeRequestKeyReused)
		}
		return server.One(x, 201, &view, billingview.WriteCreditPool)
	})
	a.keep(x, c.Env, c.ID)
}

// asRequested reports whether a pool is the one that a request asks for: a repeated one may be
// another.
func asRequested(c *billing.CreatePool, v *billing.PoolView) bool {
	or := func(value, standard string) string {
		if value == "" {
			return standard
		}
		return value
	}
	return v.Customer == c.Customer && v.Name == c.Name && v.HardLimit == c.HardLimit &&
		v.Denomination == or(c.Denomination, v.Denomination) &&
		v.Currency == or(c.Currency, v.Currency) &&
		v.RolloverPolicy == or(c.RolloverPolicy, "NONE") && v.HasCap == c.HasCap &&
		v.RolloverCap == c.RolloverCap && v.Priority == c.Priority &&
		string(v.Metadata) == string(c.Metadata)
}

func readPool(x *server.Exchange, c *billing.CreatePool) *server.Fault {
	var w walk
	fault := body(x, &w, map[string]reader{
		"name":           w.plain(&c.Name, 1, maxID),
		"denomination":   w.plain(&c.Denomination, 1, maxDenomination),
		"currency":       w.currency(&c.Currency),
		"hardLimit":      w.flag(&c.HardLimit),
		"rolloverPolicy": w.word(&c.RolloverPolicy, "NONE", "FULL", "CAPPED"),
		"priority":       w.integer(&c.Priority, maxPriority),
		"metadata":       w.metadata(&c.Metadata),
		"rolloverCap": func(t *tree, place string) {
			c.HasCap = true
			w.amount(&c.RolloverCap)(t, place)
		},
	}, "name")
	if fault == nil && c.HasCap != (c.RolloverPolicy == "CAPPED") {
		w.problem("rolloverCap", server.FieldConflict,
			"belongs to the rolloverPolicy CAPPED, and only to it")
		fault = w.fault()
	}
	return fault
}

// listPools is GET …/customers/{customer}/pools.
func (a *credits) listPools(x *server.Exchange) {
	id, ok := pathCustomer(x)
	if !ok {
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		customer, found := a.machine.Customer(env, id)
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.List(x, a.machine.Pools(customer.Row), billingview.WriteCreditPool)
	})
}

// showPool is GET …/pools/{pool}.
func (a *credits) showPool(x *server.Exchange) {
	id, ok := pathUUID(x, 2, "the pool's id")
	if !ok {
		return
	}
	a.environment(x, func(env uint32) *server.Fault {
		pool, found := a.machine.Pool(env, id)
		if !found {
			return server.FaultOf(engine.OutcomePoolUnknown)
		}
		return server.One(x, 200, &pool, billingview.WriteCreditPool)
	})
}

func poolRequestSchema() *server.Schema {
	return server.Object(
		server.Must("name", text(1, maxID)),
		server.May("denomination", text(1, maxDenomination)),
		server.May("currency", text(3, 3)),
		server.May("hardLimit", server.BoolSchema),
		server.May("rolloverPolicy", server.EnumSchema("NONE", "FULL", "CAPPED")),
		server.May("rolloverCap", writtenNumbers.exact),
		server.May("priority", server.IntSchema(-maxPriority, maxPriority)),
		server.May("metadata", server.FreeObject()),
	)
}
