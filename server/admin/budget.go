package admin

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
)

// maxBudgets is the largest page of budgets, which is also the usual one.
const maxBudgets = 100

// budgetRoutes are the rows about budgets: the client API makes and changes them.
func (a *accounts) budgetRoutes() []server.Route {
	return []server.Route{
		row("PUT", environment+"/keys/{id}/budget", "bindKey",
			"Bind an API key to a budget, where its requests then count, or unbind it",
			of(a.bindKey), keyed, server.Takes(server.Object(server.May("budget", text(1, maxID)))),
			nothing("Bound")),
		row("GET", environment+"/budgets", "listBudgets",
			"The budgets directly below one, or those at the top", a.within(a.listBudgets),
			server.Asks(server.InQuery("parent", text(1, maxID), "the budget above; none when absent"),
				server.InQuery("customer", text(1, maxID), "the one that is this customer's own, alone")),
			pages("budgets", "Budget", maxBudgets, "100", maxID)),
		row("GET", environment+"/budgets/{budget}", "showBudget",
			"A budget with what is used, held and left of its limits", a.within(a.showBudget),
			answers(server.RefTo("Budget"))),
	}
}

func (a *accounts) bindKey(x *server.Exchange, id [16]byte) *server.Fault {
	c := billing.BindKey{ID: id, Actor: x.By()}
	var w walk
	fault := tagged(x, &w, &c, nil)
	if fault == nil {
		c.Env, fault = a.locate(x)
	}
	if fault != nil {
		return fault
	}
	if _, _, fault = a.singly(x, c.Env, billing.KindBindKey, &c); fault != nil {
		return fault
	}
	return x.Succeed(200)
}

func (a *accounts) listBudgets(x *server.Exchange, env uint32) *server.Fault {
	var w walk
	limit := pageSize(x, &w, maxBudgets, maxBudgets)
	if fault := w.fault(); fault != nil {
		return fault
	}
	asked := func(name string) string { return string(x.Ctx.QueryArgs().Peek(name)) }
	if customer := asked("customer"); customer != "" {
		own, found := a.machine.BudgetsOf(env, customer, a.nowMS())
		if !found {
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		}
		return server.Page(x, "budgets", own, billingview.WriteBudget, "")
	}
	list, next, found := a.machine.Budgets(env, asked("parent"), asked("cursor"), limit, a.nowMS())
	if !found {
		return server.FaultOf(engine.OutcomeBudgetUnknown)
	}
	return server.Page(x, "budgets", list, billingview.WriteBudget, next)
}

func (a *accounts) showBudget(x *server.Exchange, env uint32) *server.Fault {
	v, found := a.machine.Budget(env, string(x.Param(2)), a.nowMS())
	if !found {
		return server.FaultOf(engine.OutcomeBudgetUnknown)
	}
	return server.One(x, 200, &v, billingview.WriteBudget)
}
