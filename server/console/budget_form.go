package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"tollgate/engine"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

const newBudgetPath = "/accounts/{account}/{environment}/new-budget"

// budgetForm is the form that makes a budget, or changes one.
type budgetForm struct {
	Manage         bool
	Action         string
	New, Open      bool
	Name, Customer string
	Rows           []spend.Row
	Choices        limitChoices
	// Features, Parents and Customers are what fields offer: the first ones, as others can be typed.
	Features, Parents, Customers []string
}

// offered is how many of what there is a field offers.
const offered = 50

// offer reads what the fields offer to choose from.
func (f *budgetForm) offer(v *visit) {
	if !f.Manage {
		return
	}
	f.Features = v.console.config.Machine.CatalogFeatures(v.env)
	f.Features = f.Features[:min(len(f.Features), offered)]
	call := v.adminCall("listCustomers")
	call.Query = url.Values{"limit": {strconv.Itoa(offered)}}
	for _, c := range need[customerList](v, v.admin, call).Customers {
		f.Customers = append(f.Customers, c.ExternalClientCustomerID)
	}
	if !f.New {
		return
	}
	call = v.adminCall("listBudgets")
	call.Query = url.Values{"limit": {strconv.Itoa(offered)}}
	for _, b := range need[api.BudgetPage](v, v.admin, call).Budgets {
		if b.Status != "ARCHIVED" {
			f.Parents = append(f.Parents, b.Budget)
		}
	}
}

// limitChoices are what the fields of a limit choose from.
type limitChoices struct{ Measures, Windows, Modes [][2]string }

// Shows reports whether the form shows a row at once: a limit, or the first empty row.
func (f budgetForm) Shows(i int) bool {
	return i == 0 || f.Rows[i].Limit != "" || f.Rows[i-1].Limit != ""
}

// Hides reports whether there are other rows.
func (f budgetForm) Hides() bool { return !f.Shows(len(f.Rows) - 1) }

// Number is a row's, from 1.
func (budgetForm) Number(i int) int { return i + 1 }

// formOf is the form with what was typed into it, else with a budget as it is; nil makes one.
func formOf(v *visit, action string, b *api.Budget) budgetForm {
	f := budgetForm{
		Manage: v.manage, Action: action, New: b == nil, Name: v.typed("name"),
		Customer: v.typed("customer"),
		Choices:  limitChoices{spend.Measures, spend.Windows, spend.Modes},
	}
	rows := spend.TypedRows(v.fields)
	if f.Open = v.fields.Has("name"); !f.Open && b != nil {
		f.Name, f.Customer, rows = b.Name, b.CustomerReferenceID, spend.RowsOf(b)
	}
	f.Rows = spend.WithEmpty(rows)
	f.offer(v)
	return f
}

// makeBudget makes the budget of a form, and changeBudget replaces what one is, once that is
// confirmed.
func makeBudget(v *visit) {
	key := v.typed("key")
	if v.sure() {
		putBudget(v, key, "none", "budget", showBudgets)
		return
	}
	rows := spend.TypedRows(v.fields)
	if key == "" {
		v.wrong("key", "Enter a key, such as research")
		showBudgets(v)
		return
	}
	_, fault := dataOf[api.Budget](v, v.admin(v.adminCall("showBudget", key)))
	switch {
	case fault == nil:
		v.wrong("key", "Another budget has this key")
	case fault.Code != server.FaultOf(engine.OutcomeBudgetUnknown).Code:
		v.fault = fault
	}
	q := question{
		Title: "Create the budget " + key + "?", Button: "Create the budget", Back: v.base() + "/budgets",
		Facts: []fact{
			{"Key", key},
			{"Name", v.typed("name")},
			{"Below", cmp.Or(v.typed("parent"), "none")},
			{"Customer", cmp.Or(v.typed("customer"), "none")},
		},
	}
	askLimits(v, q, nil, rows, showBudgets)
}

// seenField has when the budget was changed last that a question shows.
const seenField = "seen"

func changeBudget(v *visit) {
	key := string(v.x.Param(2))
	if v.sure() {
		putBudget(v, key, v.typed(seenField), "limits", showBudget)
		return
	}
	rows := spend.TypedRows(v.fields)
	now := need[api.Budget](v, v.admin, v.adminCall("showBudget", key))
	if !v.fields.Has(seenField) { // going back to the question confirms what it showed
		v.fields.Set(seenField, written(now.ModifiedAt))
	}
	q := question{
		Title: "Change " + now.Name + "?", Button: "Change the budget", Back: v.budgetURL(key),
		Facts: []fact{
			{"Key", key},
			{"Name", fromTo(now.Name, v.typed("name"))},
			{"Customer", fromTo(cmp.Or(now.CustomerReferenceID, "none"),
				cmp.Or(v.typed("customer"), "none"))},
		},
	}
	askLimits(v, q, now.Limits, rows, showBudget)
}

func fromTo(from, to string) string {
	if from == to {
		return to
	}
	return from + " → " + to
}

// askLimits asks about a budget with what becomes of its limits, or shows the form's mistake.
func askLimits(
	v *visit, q question, before []api.BudgetLimit, rows []spend.Row, again func(*visit),
) {
	wrongBudget(v, rows)
	if v.wrongs != nil {
		again(v)
		return
	}
	changes, full := spend.Changes(before, rows)
	for _, c := range changes {
		q.Facts = append(q.Facts, fact{c[0], c[1]})
	}
	q.Notes = append(q.Notes, "Usage and reservations that a hard limit has no room for get 402, "+
		"from now on. What reservations hold already can still be settled.")
	if full {
		q.Danger = true
		q.Notes = append(q.Notes, "A limit is not above what is used already: nothing more is taken at "+
			"this budget or below it until its window ends.")
	}
	v.ask(q)
}

// wrongBudget notes what is wrong with a form that can be told before it is sent.
func wrongBudget(v *visit, rows []spend.Row) {
	if v.fault != nil || v.wrongs != nil {
		return
	}
	if v.typed("name") == "" {
		v.wrong("name", "Enter a name")
		return
	}
	features := v.console.config.Machine.CatalogFeatures(v.env)
	for _, r := range rows {
		if name, text := r.Wrong(); name != "" {
			v.wrong(name, text)
			return
		}
		if r.Feature != "" && !slices.Contains(features, r.Feature) {
			v.wrong(r.Field("featureKey"), "The catalog has no feature "+strconv.Quote(r.Feature))
			return
		}
	}
	if parent := v.typed("parent"); parent != "" {
		if _, fault := dataOf[api.Budget](v, v.admin(v.adminCall("showBudget", parent))); fault != nil {
			v.wrong("parent", strings.TrimSuffix(fault.Message, "."))
			return
		}
	}
	customer := v.typed("customer")
	if customer == "" {
		return
	}
	_, fault := dataOf[api.Customer](v, v.client(server.Call{
		Operation: "getCustomer", Path: []string{customer},
	}))
	if fault != nil {
		v.wrong("customer", strings.TrimSuffix(fault.Message, "."))
	}
}

// putBudget carries the form out where the budget is as expected: none, or the one that the
// question has shown.
func putBudget(v *visit, key, expects, done string, again func(*visit)) {
	call := server.Call{
		Operation: "putBudget", Path: []string{key}, OnceKey: page.OnceKey(v.fields),
		Body: body(map[string]any{
			"name": v.typed("name"), "customerReferenceId": v.typed("customer"),
			"parent": v.typed("parent"), "expects": expects,
			"limits": jsontext.Value(spend.Limits(spend.TypedRows(v.fields))),
		}),
	}
	v.finish(v.client(call).Fault, again, v.budgetURL(key), done)
}
