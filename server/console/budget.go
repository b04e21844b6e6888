package console

import (
	"cmp"
	"net/url"
	"strings"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

const (
	budgetsPath = "/accounts/{account}/{environment}/budgets"
	budgetPath  = budgetsPath + "/{budget}"
)

func (s *Console) budgetRows() []row {
	rows := []row{
		look(budgetsPath, "budgets", showBudgets), look(budgetPath, "budget", showBudget),
	}
	for i := range budgetActs {
		act := &budgetActs[i]
		rows = append(rows, asked(form(budgetPath+"/"+act.path, act.operation, act.carryOut)))
	}
	return append(rows, asked(form(newBudgetPath, "make budget", makeBudget)),
		asked(form(budgetPath+"/change", "change budget", changeBudget)))
}

// budgetNode is a budget with those below it, as far as they are shown.
type budgetNode struct {
	api.Budget
	URL    string
	Limits []spend.Limit
	// Fullest are the first of Limits to run out; Others counts the rest.
	Fullest []spend.Limit
	Others  int
	Below   []*budgetNode
	// More reports whether there are others below it that are not shown.
	More bool
	// Bound names the budget above whose limit refuses first; empty where it is this one's.
	Bound *spend.Running
	// Keys are the names of the API keys that are bound to it.
	Keys []string
}

const (
	// lookedBudgets bounds the budgets of a tree that a page looks at, asking for those below each of
	// askedBudgets; shownBudgets is how many it shows, and shownLimits how many limits of each.
	lookedBudgets = 1000
	askedBudgets  = 40
	shownBudgets  = 40
	shownLimits   = 2
)

// budgetURL is a budget's page.
func (v *visit) budgetURL(key string) string { return v.base() + "/budgets/" + url.PathEscape(key) }

// node is a budget as the pages show it.
func (v *visit) node(b *api.Budget) *budgetNode {
	n := &budgetNode{
		Budget: *b, URL: v.budgetURL(b.Budget), Limits: spend.LimitsOf(b), More: b.Children > 0,
	}
	n.Fullest = spend.Fullest(n.Limits)
	n.Fullest = n.Fullest[:min(len(n.Fullest), shownLimits)]
	n.Others = len(n.Limits) - len(n.Fullest)
	if b.Binding != nil && b.Binding.Budget != b.Budget {
		n.Bound = &spend.Running{Budget: b.Binding.Budget, Limit: spend.LimitOf(b.Binding.BudgetLimit)}
	}
	return n
}

// forest are the budgets below one, or all where key is empty, level by level. more reports whether
// there are others right below that are not among the nodes.
func (v *visit) forest(key string) (nodes []*budgetNode, more bool) {
	archived, looked, keys := v.query("archived") != "", 0, boundKeys(v)
	var queue []*budgetNode
	below := func(parent string) (nodes []*budgetNode, more bool) {
		call := v.adminCall("listBudgets")
		if parent != "" {
			call.Query = url.Values{"parent": {parent}}
		}
		found := need[api.BudgetPage](v, v.admin, call)
		for i := range found.Budgets {
			b := &found.Budgets[i]
			switch {
			case b.Status == "ARCHIVED" && !archived:
				continue
			case looked == lookedBudgets:
				return nodes, true
			}
			n := v.node(b)
			n.Keys = keys[b.Budget]
			queue = append(queue, n)
			if looked++; looked > shownBudgets {
				more = true
				continue
			}
			nodes = append(nodes, n)
		}
		return nodes, more || found.NextCursor != ""
	}
	nodes, more = below(key)
	for asked := 0; len(queue) > 0 && asked < askedBudgets && v.fault == nil; queue = queue[1:] {
		if n := queue[0]; n.Children > 0 {
			asked++
			n.Below, n.More = below(n.Budget.Budget)
		}
	}
	return nodes, more
}

// boundKeys are the names of the keys in use that are bound to each budget.
func boundKeys(v *visit) map[string][]string {
	names := map[string][]string{}
	list := need[[]api.Key](v, v.admin, v.adminCall("listKeys"))
	for i := range list {
		if k := &list[i]; k.Budget != "" && k.RevokedAt.IsZero() {
			names[k.Budget] = append(names[k.Budget], cmp.Or(k.Label, k.Hint+"…"))
		}
	}
	return names
}

type budgetsData struct {
	Base    string
	Make    budgetForm
	Roots   []*budgetNode
	Running []spend.Running
	// MoreRunning is how many others run out.
	MoreRunning int
	More        bool
	Archived    bool
	CSV         string
}

// URLOf is a budget's page.
func (d budgetsData) URLOf(key string) string { return d.Base + "/" + url.PathEscape(key) }

// maxRunning is how many limits that run out the page lists.
const maxRunning = 10

// showBudgets is the tree of budgets, and what is about to run out.
func showBudgets(v *visit) {
	roots, more := v.forest("")
	data := budgetsData{
		Base: v.base() + "/budgets", Roots: roots, More: more, Archived: v.query("archived") != "",
		Make: formOf(v, v.base()+"/new-budget", nil), CSV: csvOf(v, "budgets", "archived"),
	}
	data.Running, data.MoreRunning = v.runningOut()
	v.show(v.environmentPage("budgets", "Budgets", "Budgets", "", data))
}

// runningOut are the limits of the environment that are used up or nearly, the fullest of all, and
// how many others are.
func (v *visit) runningOut() (list []spend.Running, more int) {
	keys, count := v.console.config.Machine.BudgetsRunningOut(v.env, spend.NearlyOut,
		maxRunning, v.console.config.Now().UnixMilli())
	budgets := make([]api.Budget, len(keys))
	for i, key := range keys {
		budgets[i] = need[api.Budget](v, v.admin, v.adminCall("showBudget", key))
	}
	list = spend.RunsOut(budgets)
	list = list[:min(len(list), maxRunning)]
	return list, max(count-len(list), 0)
}

type budgetData struct {
	Base, Customers string
	Manage          bool
	Budget          *budgetNode
	ParentURL       string
	BoundURL        string
	ClosedURL       string
	ReservationsURL string // of those at it or below it
	Past            []*page.Chart
	Fields          url.Values
	Change          budgetForm
}

// showBudget is one budget: its limits, the budgets below it, and what past windows used.
func showBudget(v *visit) {
	key := string(v.x.Param(2))
	shown := need[api.Budget](v, v.admin, v.adminCall("showBudget", key))
	windows := windowsOf(v, key)
	if v.fails() {
		return
	}
	data := budgetData{
		Base: v.budgetURL(key), Customers: v.customersURL(), Budget: v.node(&shown), Fields: v.fields,
		Manage: v.manage && shown.Status != "ARCHIVED", ParentURL: v.budgetURL(shown.Parent),
	}
	if data.Budget.Bound != nil {
		data.BoundURL = v.budgetURL(data.Budget.Bound.Budget)
	}
	if shown.ClosedBy != nil {
		data.ClosedURL = v.budgetURL(shown.ClosedBy.Budget)
	}
	data.ReservationsURL = v.base() + "/reservations?" + url.Values{"budget": {key}}.Encode()
	data.Change = formOf(v, data.Base+"/change", &shown)
	data.Budget.Keys = boundKeys(v)[key]
	data.Budget.Below, data.Budget.More = v.forest(key)
	for i, l := range data.Budget.Limits {
		if i < len(windows.Windows) && len(windows.Windows[i]) > 0 {
			data.Past = append(data.Past, spend.Past(l, windows.Windows[i]))
		}
	}
	p := v.environmentPage("budget", "Budgets", shown.Name, "", data)
	v.show(v.below(p, "Budgets", v.base()+"/budgets"))
}

// budgetAct is what a form does to a budget.
type budgetAct struct {
	path, operation, done string
	ask                   func(v *visit, b *api.Budget) question
}

var budgetActs = []budgetAct{
	{"freeze", "freezeBudget", "frozen", func(_ *visit, b *api.Budget) question {
		return question{
			Title: "Freeze " + b.Name + "?", Button: "Freeze the budget", Danger: true,
			Notes: []string{"No usage and no reservation is taken at this budget or below it until it is " +
				"unfrozen: programs get 402. What reservations hold already can still be settled."},
		}
	}},
	{"unfreeze", "unfreezeBudget", "unfrozen", func(_ *visit, b *api.Budget) question {
		return question{
			Title: "Unfreeze " + b.Name + "?", Button: "Unfreeze the budget",
			Notes: []string{"Usage and reservations are taken again at this budget and below it, up to " +
				"its limits."},
		}
	}},
	{"archive", "archiveBudget", "archived", func(_ *visit, b *api.Budget) question {
		return question{
			Title: "Archive " + b.Name + "?", Button: "Archive for good", Danger: true,
			Notes: []string{"This budget and all below it end. Usage that names one of them is refused. " +
				"What reservations hold already can still be settled. It cannot be undone."},
		}
	}},
	{"move", "moveBudget", "moved", askMove},
}

// carryOut asks about an act, and carries it out once that is confirmed.
func (a *budgetAct) carryOut(v *visit) {
	key := string(v.x.Param(2))
	if !v.sure() {
		b := need[api.Budget](v, v.admin, v.adminCall("showBudget", key))
		if v.fails() {
			return
		}
		q := a.ask(v, &b)
		if v.wrongs != nil {
			showBudget(v)
			return
		}
		q.Facts, q.Back = append(budgetFacts(&b), q.Facts...), v.budgetURL(key)
		v.ask(q)
		return
	}
	call := server.Call{Operation: a.operation, Path: []string{key}, OnceKey: page.OnceKey(v.fields)}
	if a.operation == "moveBudget" {
		call.Body = []byte("{}")
		if parent := v.typed("parent"); parent != "" {
			call.Body = body(map[string]any{"parent": parent})
		}
	}
	v.finish(v.client(call).Fault, showBudget, v.budgetURL(key), a.done)
}

// budgetFacts are what a question about a budget says of it.
func budgetFacts(b *api.Budget) (facts []fact) {
	facts = []fact{{"Budget", b.Budget}, {"Child budgets", page.Amount(b.Children)}}
	for _, l := range spend.LimitsOf(b) {
		text := l.Amount(l.Used) + " used"
		if l.Holds() {
			text += ", " + l.Amount(l.Held) + " held"
		}
		facts = append(facts, fact{l.What, text + ", of " + l.Amount(l.Limit)})
	}
	return facts
}

// askMove says what binds the budget where it goes.
func askMove(v *visit, b *api.Budget) question {
	to := v.typed("parent")
	q := question{
		Title: "Move " + b.Name + "?", Button: "Move the budget",
		Facts: []fact{{"From below", cmp.Or(b.Parent, "none")}, {"To below", cmp.Or(to, "none")}},
		Notes: []string{"From now on it counts at the budgets above its new place. What was counted " +
			"stays where it was counted; what reservations hold moves with it."},
	}
	if to == "" {
		return q
	}
	above, fault := dataOf[api.Budget](v, v.admin(v.adminCall("showBudget", to)))
	if fault != nil {
		v.wrong("parent", strings.TrimSuffix(fault.Message, "."))
		return q
	}
	for _, l := range spend.LimitsOf(&above) {
		q.Facts = append(q.Facts, fact{"Left there, " + l.What, l.Amount(l.Remaining)})
	}
	return q
}
