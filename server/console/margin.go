package console

import (
	"cmp"
	"net/url"
	"slices"
	"time"

	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// marginData is what was earned and what it cost, in a range of days.
type marginData struct {
	Base, Environment string
	By, From, To      string
	Rows              []shownMargin
	// Refused reports whether there is no report.
	Refused bool
	More    int
}

type shownMargin struct {
	api.MarginRow
	// Share is the margin in percents of the revenue; empty where there is none.
	Share string
}

// maxMargins is how many rows the page lists, those with the most revenue.
const maxMargins = 200

// showMargin is the page …/margin. Without a range it is of the last 7 days.
func showMargin(v *visit) {
	now := time.UnixMilli(v.console.config.Machine.EnvironmentNow(
		v.env, v.console.config.Now().UnixMilli())).UTC()
	data := marginData{
		Base: v.base() + "/margin", Environment: v.base(),
		By:   cmp.Or(v.query("by"), "customer"),
		From: cmp.Or(v.query("from"), now.AddDate(0, 0, -6).Format(time.DateOnly)),
		To:   cmp.Or(v.query("to"), now.Format(time.DateOnly)),
	}
	call := v.adminCall("showMargin")
	call.Query = url.Values{
		"by": {data.By}, "from": {instantOf(data.From, 0)}, "to": {instantOf(data.To, 1)},
	}
	type report struct {
		Rows []api.MarginRow `json:"rows"`
	}
	list, fault := dataOf[report](v, v.admin(call))
	if fault != nil {
		v.problem(fault)
		data.Refused = true
	}
	slices.SortStableFunc(list.Rows, func(a, b api.MarginRow) int {
		return cmp.Compare(drawnAs(b.Revenue), drawnAs(a.Revenue))
	})
	for _, r := range list.Rows[:min(len(list.Rows), maxMargins)] {
		data.Rows = append(data.Rows, shownMargin{r, shareOf(&r)})
	}
	data.More = len(list.Rows) - len(data.Rows)
	v.show(v.environmentPage("margin", "Margin", "Margin", "", data))
}

// instantOf is the beginning of a day, days after it, as the API has it; other text stays.
func instantOf(text string, days int) string {
	day, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return text
	}
	return day.AddDate(0, 0, days).Format(time.RFC3339)
}

// shareOf is the margin in percents of the revenue, with one decimal.
func shareOf(r *api.MarginRow) string {
	revenue, err := decimal.Parse(string(r.Revenue))
	if err != nil || revenue.Sign() <= 0 {
		return ""
	}
	return page.Percent(drawnAs(r.Margin) / drawnAs(r.Revenue))
}
