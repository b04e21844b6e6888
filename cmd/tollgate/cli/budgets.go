package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

type budgetsCommand struct {
	List     call[budgetsList, budgets]     `cmd:"" call:"GET /budgets" help:"List the budgets below one, or those at the top."`
	Show     call[budgetFlags, budget]      `cmd:"" call:"GET /budgets/{Budget}" help:"Show a budget with what its limits have used and have left."`
	Put      call[budgetsPut, budget]       `cmd:"" call:"PUT /budgets/{Budget}" help:"Create a budget, or replace its name, customer and limits."`
	Move     call[budgetsMove, budget]      `cmd:"" call:"POST /budgets/{Budget}/move" help:"Move a budget, with all below it, under another one."`
	Freeze   call[budgetFlags, budget]      `cmd:"" call:"POST /budgets/{Budget}/freeze" help:"Stop usage and reservations in a budget and below it."`
	Unfreeze call[budgetFlags, budget]      `cmd:"" call:"POST /budgets/{Budget}/unfreeze" help:"Accept usage and reservations again."`
	Archive  call[budgetFlags, budget]      `cmd:"" call:"DELETE /budgets/{Budget}" help:"Archive a budget and all below it, for good."`
	Windows  call[budgetFlags, pastWindows] `cmd:"" call:"GET /budgets/{Budget}/windows" help:"List the past windows of a budget's limits."`
}

type budgetsList struct {
	inClient `embed:""`
	Parent   string `query:"parent,omitempty" help:"The budget above. Default: none."`
	Customer string `query:"customerReferenceId,omitempty" help:"Only the customer's own budget: its externalClientCustomerId."`
	Cursor   string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

type budgetFlags struct {
	inClient `embed:""`
	Budget   string `arg:"" help:"The budget's key."`
}

type budgetsPut struct {
	budgetFlags `embed:""`
	Name        string        `json:"name" required:"" help:"Its name for people."`
	Parent      string        `json:"parent,omitempty" help:"The budget above a new one."`
	Customer    string        `json:"customerReferenceId,omitempty" help:"The customer whose own budget it is: its externalClientCustomerId."`
	Limit       []budgetLimit `json:"limits,omitempty" sep:"none" placeholder:"LIMIT" help:"A limit, such as \"price USD 40 day\", \"units FEATURE 100 month\" or \"cost 9 lifetime\", with feature=KEY, zone=Europe/Berlin, at=50,90 (percents at which a webhook is sent) and soft behind it; repeatable."`
}

// Help says what becomes of limits.
func (*budgetsPut) Help() string {
	return "A limit that the budget had before (the same amount counted, feature, currency, window " +
		"and time zone) goes on counting; others begin at 0."
}

type budgetsMove struct {
	budgetFlags `embed:""`
	Parent      string `arg:"" optional:"" json:"parent,omitempty" help:"The budget above. Default: none."`
}

// budgetLimit is a limit that is given in words.
type budgetLimit struct{ api.BudgetLimitRequest }

// UnmarshalText reads the words.
func (l *budgetLimit) UnmarshalText(text []byte) (err error) {
	l.BudgetLimitRequest, err = limitOf(string(text))
	return err
}

func limitOf(text string) (r api.BudgetLimitRequest, err error) {
	words := strings.Fields(text)
	take := func() (word string) {
		if len(words) > 0 {
			word, words = words[0], words[1:]
		}
		return word
	}
	switch r.Of = take(); r.Of {
	case "units":
		r.FeatureKey = take()
	case "price":
		r.Currency = take()
	case "cost":
	default:
		return r, fmt.Errorf("%q begins with none of units, price and cost", text)
	}
	limit := number(take())
	if r.Window = take(); limit == "" || r.Window == "" || limit.Validate() != nil {
		return r, fmt.Errorf("%q is not a limit such as \"price USD 40 day\"", text)
	}
	r.Limit = json.Number(limit)
	for len(words) > 0 {
		name, value, _ := strings.Cut(take(), "=")
		switch name {
		case "soft":
			r.Mode = "soft"
		case "feature":
			r.FeatureKey = value
		case "zone":
			r.TimeZone = value
		case "at":
			for word := range strings.SplitSeq(value, ",") {
				percent, err := strconv.Atoi(word)
				if err != nil {
					return r, fmt.Errorf("%q: %q is not a percent", text, word)
				}
				r.Thresholds = append(r.Thresholds, percent)
			}
		default:
			return r, fmt.Errorf("%q: a limit has no %q", text, name)
		}
	}
	return r, nil
}

type budgets struct{ api.BudgetPage }

func (l *budgets) print(out io.Writer) error {
	t := NewTable(out, "BUDGET", "NAME", "CUSTOMER", "STATUS", "BELOW", "LEFT", "BOUND BY")
	for i := range l.Budgets {
		b := &l.Budgets[i]
		left, by := "–", "–"
		if b.Binding != nil {
			left, by = amountLeft(&b.Binding.BudgetLimit), b.Binding.Budget
		}
		t.Row(b.Budget, b.Name, either(b.CustomerReferenceID, "–"), budgetStatus(b),
			strconv.Itoa(b.Children), left, by)
	}
	if err := t.End(); err != nil || l.NextCursor == "" {
		return err
	}
	return Say(out, "There are more: --cursor %s", l.NextCursor)
}

// budgetStatus is a budget's own, and which one above it refuses at it, too.
func budgetStatus(b *api.Budget) string {
	if b.ClosedBy == nil {
		return b.Status
	}
	return b.Status + ", " + b.ClosedBy.Status + " by " + b.ClosedBy.Budget
}

func amountLeft(l *api.BudgetLimit) string {
	return strings.TrimSpace(quantity(l.Remaining) + " of " + quantity(l.Limit) + " " + l.Currency)
}

type budget struct{ api.Budget }

func (b *budget) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Budget", b.Budget.Budget)
	t.Row("Name", b.Name)
	t.Row("Status", budgetStatus(&b.Budget))
	t.Row("Below", either(b.Parent, "none"))
	t.Row("Customer", either(b.CustomerReferenceID, "none"))
	if b.Binding != nil {
		t.Row("Bound by", b.Binding.Budget+": "+amountLeft(&b.Binding.BudgetLimit)+" left")
	}
	if err := t.End(); err != nil || len(b.Limits) == 0 {
		return err
	}
	if err := Say(out, ""); err != nil {
		return err
	}
	t = NewTable(out, "LIMIT", "USED", "HELD", "LEFT", "OF", "MODE", "SINCE", "UNTIL")
	for i := range b.Limits {
		l := &b.Limits[i]
		of := l.Of
		if l.FeatureKey != "" {
			of += " of " + l.FeatureKey
		}
		t.Row(of+", "+l.Window, quantity(l.Used), quantity(l.Held), quantity(l.Remaining),
			strings.TrimSpace(quantity(l.Limit)+" "+l.Currency), l.Mode, moment(l.WindowStart),
			moment(l.WindowEnd))
	}
	return t.End()
}

type pastWindows struct {
	Windows [][]api.BudgetWindow `json:"windows"`
}

func (p *pastWindows) print(out io.Writer) error {
	t := NewTable(out, "LIMIT", "SINCE", "UNTIL", "USED", "OF")
	for i, windows := range p.Windows {
		for _, w := range windows {
			t.Row(strconv.Itoa(i+1), moment(w.WindowStart), moment(w.WindowEnd), quantity(w.Used),
				quantity(w.Limit))
		}
	}
	return t.End()
}
