package admin

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/uuid"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/form"
)

// Pages of the record of changes.
const (
	defaultChanges = 100
	maxChanges     = 1000
	// scannedActs bounds how many acts one page looks at: those of owners are passed over.
	scannedActs = 100_000
	// scannedChanges is how many changes one page looks at, and maxScannedChanges at most: those that
	// were not asked for are passed over.
	scannedChanges, maxScannedChanges = 20_000, 100_000
	// maxChangeCursor is the length of two numbers with a point between them.
	maxChangeCursor = 31
)

// changeCursor is where a page of changes begins: below a change of the billing group and below an
// act. 0 is from the newest on, 1 is none.
type changeCursor struct {
	change uint64
	act    uint32
}

func readChangeCursor(x *server.Exchange, w *walk) (c changeCursor) {
	given := string(x.Ctx.QueryArgs().Peek("cursor"))
	if given == "" {
		return c
	}
	first, second, both := strings.Cut(given, ".")
	change, ok := server.WholeNumber(first, 1, math.MaxUint64)
	act, ok2 := uint64(0), true
	if both {
		act, ok2 = server.WholeNumber(second, 0, math.MaxUint32)
	}
	w.wrong(!ok || !ok2, "cursor", form.NotCursor)
	return changeCursor{change, uint32(act)}
}

// String is the cursor as requests have it; empty where nothing follows.
func (c changeCursor) String() string {
	if c.change == 1 && c.act == 1 {
		return ""
	}
	return strconv.FormatUint(c.change, 10) + "." + strconv.FormatUint(uint64(c.act), 10)
}

// listChanges is GET /audit: what operators changed, newest first, of both groups of the log.
func (a *accounts) listChanges(x *server.Exchange) *server.Fault {
	var w walk
	limit := pageSize(x, &w, defaultChanges, maxChanges)
	from := readChangeCursor(x, &w)
	f := readChangeFilter(x, &w)
	if fault := cmp.Or(w.fault(), a.noJournal()); fault != nil {
		return fault
	}
	return a.read(x, func() *server.Fault {
		if fault := f.find(a.machine); fault != nil {
			return fault
		}
		changes, next, err := a.machine.Changes(a.events, billing.ChangeQuery{
			Before: from.change, Limit: limit, Scan: f.scan, Like: f.takes,
		})
		if err != nil {
			return a.journalFailed(x, err)
		}
		var acts []audit.Act
		nextAct, ok := uint32(0), true
		if !f.ofAccount() {
			acts, nextAct, ok = a.acts(from.act, limit, server.OwnMemory(x))
			acts = slices.DeleteFunc(acts, func(act audit.Act) bool { return !f.takes(&act.Change) })
		}
		if !ok {
			return server.FaultConsistency
		}
		newest, to := newestFirst(changes, acts, limit)
		to = to.after(from, changes, acts, changeCursor{next, nextAct})
		return server.Page(x, "changes", newest, writeChange, to.String())
	})
}

// changeFilter selects changes; empty fields select all.
type changeFilter struct {
	account, environment, actor, subject, customer string
	// of are the ids of what is the customer's, budget is the key of its own budget.
	of     map[string]bool
	budget string
	scan   int
}

// changeParams are the parameters of a filter.
func changeParams() []server.Param {
	return []server.Param{
		server.InQuery("account", text(1, 64), "only changes of this account"),
		server.InQuery("environment", server.EnumSchema("live", "sandbox"), "only of this environment"),
		server.InQuery("actor", text(1, billing.MaxActor), "only by this actor, as changes name it"),
		server.InQuery("subject", text(1, maxID), "only of the record with this id or name"),
		server.InQuery("customer", text(1, maxID),
			"only about this customer and what is its own, and moves of the test clock; needs account "+
				"and environment"),
		server.InQuery("scan", server.IntSchema(1, maxScannedChanges),
			"how many changes the page looks at: it may be short, or empty, and have a next one; "+
				"20,000 when absent"),
	}
}

func readChangeFilter(x *server.Exchange, w *walk) (f changeFilter) {
	f.account, f.actor = w.query(x, "account", 64), w.query(x, "actor", billing.MaxActor)
	f.subject, f.customer = w.query(x, "subject", maxID), w.query(x, "customer", maxID)
	f.environment = string(x.Ctx.QueryArgs().Peek("environment"))
	_, known := environments[f.environment]
	w.wrong(f.environment != "" && !known, "environment", form.NotAllowed("live", "sandbox"))
	w.when(f.customer != "" && (f.account == "" || f.environment == ""), "customer",
		server.FieldConflict, "needs account and environment")
	f.scan = scanOf(x, w, scannedChanges, maxScannedChanges)
	return f
}

// scanOf reads how many records a page looks at: unless it is given, so many, and at most maximum.
func scanOf(x *server.Exchange, w *walk, unless, maximum int) int {
	text := string(x.Ctx.QueryArgs().Peek("scan"))
	if text == "" {
		return unless
	}
	n, ok := server.WholeNumber(text, 1, uint64(maximum))
	w.wrong(!ok, "scan", form.Outside(1, maximum))
	return int(n)
}

// ofAccount reports whether it selects changes within accounts alone.
func (f *changeFilter) ofAccount() bool {
	return f.account+f.environment+f.subject+f.customer != ""
}

// find finds the account that is meant, and what is the customer's.
func (f *changeFilter) find(m *billing.Machine) *server.Fault {
	if f.account == "" {
		return nil
	}
	account, known := m.Account(f.account)
	if !known {
		return server.FaultOf(engine.OutcomeAccountUnknown)
	}
	f.account = account.Name
	if f.customer == "" {
		return nil
	}
	env, _ := m.Environment(f.account, environments[f.environment])
	customer, known := m.Customer(env, f.customer)
	if !known {
		return server.FaultOf(engine.OutcomeCustomerUnknown)
	}
	f.of = map[string]bool{f.customer: true, uuid.Text(customer.ID): true}
	for _, s := range m.Subscriptions(customer.Row) {
		f.of[uuid.Text(s.ID)] = true
	}
	for _, i := range m.Invoices(env, customer.Row) {
		f.of[uuid.Text(i.ID)] = true
	}
	for _, p := range m.Pools(customer.Row) {
		f.of[uuid.Text(p.ID)] = true
	}
	for _, k := range m.Keys(env) {
		if k.Customer == f.customer {
			f.of[uuid.Text(k.ID)] = true
		}
	}
	if own, _ := m.BudgetsOf(env, f.customer, 0); len(own) > 0 {
		f.budget = own[0].Key
	}
	return nil
}

// takes reports whether it selects a change. The record of an account's creation is the account's.
func (f *changeFilter) takes(c *billing.ChangeView) bool {
	account := c.Account
	if c.Action == "account.created" {
		account = c.Subject
	}
	switch {
	case f.account != "" && account != f.account,
		f.environment != "" && c.Environment.String() != f.environment,
		f.actor != "" && c.Actor != f.actor,
		f.subject != "" && c.Subject != f.subject:
		return false
	case f.customer == "" || c.Action == "clock.advanced",
		f.of[c.Subject] && !strings.HasPrefix(c.Action, "budget."),
		f.budget != "" && c.Subject == f.budget && strings.HasPrefix(c.Action, "budget."):
		return true
	}
	return slices.ContainsFunc(c.Values, func(v billing.FieldChange) bool {
		return v.Name == "customer" && (v.After == f.customer || v.Before == f.customer)
	})
}

// acts are a page of what operators did for owners of workspaces, which may be stale; not ok where
// this node cannot tell.
func (a *accounts) acts(before uint32, limit int, stale bool) (
	list []audit.Act, next uint32, ok bool,
) {
	if a.operatorActs == nil || before == 1 {
		return nil, 0, true
	}
	return a.operatorActs(before, limit, scannedActs, stale)
}

// newestFirst joins two lists that are newest first, at most limit of them, and says below which of
// each the next page begins; 0 of a list of which none was taken.
func newestFirst(
	changes []billing.ChangeView, acts []audit.Act, limit int,
) (list []audit.Act, to changeCursor) {
	for len(list) < limit && (len(changes) > 0 || len(acts) > 0) {
		if len(acts) == 0 || len(changes) > 0 && changes[0].At >= acts[0].Change.At {
			list, to.change = append(list, audit.Act{Change: changes[0]}), changes[0].Number
			changes = changes[1:]
			continue
		}
		list, to.act = append(list, acts[0]), uint32(acts[0].Change.Number)
		acts = acts[1:]
	}
	return list, to
}

// after completes where the next page begins: where a list was taken whole, behind all that was
// looked at for it, and where nothing of it was taken, where this page began.
func (c changeCursor) after(
	from changeCursor, changes []billing.ChangeView, acts []audit.Act, looked changeCursor,
) changeCursor {
	switch n := len(changes); {
	case n == 0 || c.change == changes[n-1].Number:
		c.change = max(looked.change, 1)
	case c.change == 0:
		c.change = cmp.Or(from.change, math.MaxInt64)
	}
	switch n := len(acts); {
	case n == 0 || c.act == uint32(acts[n-1].Change.Number):
		c.act = max(looked.act, 1)
	case c.act == 0:
		c.act = from.act
	}
	return c
}

func writeChange(data *server.JSON, act *audit.Act) {
	c := &act.Change
	data.Open('{')
	data.Uint("number", c.Number)
	data.Time("at", c.At)
	data.Text("actor", c.Actor)
	data.Text("action", c.Action)
	data.TextIf("account", c.Account)
	data.TextIf("workspace", act.Workspace)
	data.TextIf("environment", c.Environment.String())
	data.TextIf("subject", c.Subject)
	for _, side := range [...]struct {
		name  string
		value func(*billing.FieldChange) string
	}{
		{"before", func(f *billing.FieldChange) string { return f.Before }},
		{"after", func(f *billing.FieldChange) string { return f.After }},
	} {
		data.Name(side.name)
		*data = append(*data, '{')
		for i := range c.Values {
			if value := side.value(&c.Values[i]); value != "" {
				if (*data)[len(*data)-1] != '{' {
					*data = append(*data, ',')
				}
				*data = append(server.AppendString(*data, c.Values[i].Name), ':')
				*data = server.AppendString(*data, value)
			}
		}
		*data = append(*data, '}')
	}
	data.Close('}')
}

func changeSchema() *server.Schema {
	return server.Object(
		server.Must("number", server.IntegerSchema),
		server.May("workspace", text(1, 0)),
		server.Must("at", server.TimeSchema),
		server.Must("actor", text(0, 0)),
		server.Must("action", text(1, 0)),
		server.May("account", text(1, 64)),
		server.May("environment", server.EnumSchema("live", "sandbox")),
		server.May("subject", text(1, 0)),
		server.Must("before", server.FreeObject()),
		server.Must("after", server.FreeObject()),
	)
}
