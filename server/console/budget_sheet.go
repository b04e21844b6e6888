package console

import (
	"net/url"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

// maxBudgetReads bounds how many pages of budgets are read for a file: one for each that has others
// below it, and one more for each hundred of those.
const maxBudgetReads = 2 * page.MaxSheetRows

// downloadBudgets has a row for each limit of a budget, or one: each budget before those below it.
func downloadBudgets(v *visit) {
	s := page.NewSheet("budget", "name", "below", "customer", "state", "closed by", "created",
		"counts", "feature", "currency", "window", "time zone", "over the limit", "limit", "used", "held", "left",
		"window start", "window end")
	archived, reads := v.query("archived") != "", 0
	var below func(parent string)
	below = func(parent string) {
		call := v.adminCall("listBudgets")
		call.Query = url.Values{}
		if parent != "" {
			call.Query.Set("parent", parent)
		}
		for {
			if reads++; reads > maxBudgetReads {
				s.Short = true
				return
			}
			found := need[api.BudgetPage](v, v.admin, call)
			for i := range found.Budgets {
				b := &found.Budgets[i]
				if b.Status == "ARCHIVED" && !archived {
					continue
				}
				addBudget(s, b)
				if b.Children > 0 && !s.More { // of a full sheet, to know whether rows are missing
					below(b.Budget)
				}
			}
			if found.NextCursor == "" || s.Full() || v.fault != nil {
				s.More = s.More || found.NextCursor != ""
				return
			}
			call.Query.Set("cursor", found.NextCursor)
		}
	}
	below("")
	download(v, "budgets", s)
}

func addBudget(s *page.Sheet, b *api.Budget) {
	closed := ""
	if b.ClosedBy != nil {
		closed = b.ClosedBy.Budget
	}
	row := []any{b.Budget, b.Name, b.Parent, b.CustomerReferenceID, b.Status, closed, b.CreatedAt}
	for _, l := range b.Limits {
		s.Add(append(row[:len(row):len(row)], l.Of, l.FeatureKey, l.Currency, l.Window, l.TimeZone,
			l.Mode, l.Limit, l.Used, l.Held, l.Remaining, l.WindowStart, l.WindowEnd)...)
	}
	if len(b.Limits) == 0 {
		s.Add(append(row, "", "", "", "", "", "", "", "", "", "", "", "")...)
	}
}

// budgetWindows are the past windows of a budget's limits, in the order of the limits.
type budgetWindows struct {
	Windows [][]api.BudgetWindow `json:"windows"`
}

func windowsOf(v *visit, key string) budgetWindows {
	return need[budgetWindows](v, v.client, server.Call{
		Operation: "listBudgetWindows", Path: []string{key},
	})
}

// downloadWindows are the past windows of a budget's limits.
func downloadWindows(v *visit) {
	key := string(v.x.Param(2))
	shown := need[api.Budget](v, v.admin, v.adminCall("showBudget", key))
	windows := windowsOf(v, key).Windows
	s := page.NewSheet("counts", "window start", "window end", "used", "limit", "over the limit")
	for i, l := range spend.LimitsOf(&shown) {
		if i < len(windows) {
			for _, w := range windows[i] {
				s.Add(l.What, w.WindowStart, w.WindowEnd, w.Used, w.Limit, w.Overrun)
			}
		}
	}
	download(v, "windows", s)
}
