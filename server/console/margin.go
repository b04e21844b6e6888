package console

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"time"

	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// marginData is what was earned and what it cost, in a range of days.
type marginData struct {
	Base, Environment string
	By, From, To      string
	Rows              []shownMargin
	Columns           []sortedColumn
	CSV               string
	// Refused reports whether there is no report.
	Refused bool
	More    int
}

type shownMargin struct {
	api.MarginRow
	// Share is the margin in percents of the revenue; empty where there is none.
	Share string
}

// maxMargins is how many rows the page lists.
const maxMargins = 200

// sortedColumn is a column that a list is sorted by, or can be.
type sortedColumn struct {
	Name, URL string
	Here      bool
}

// marginOrders are the columns that a report is sorted by, the largest first.
var marginOrders = []struct {
	name, text string
	of         func(*api.MarginRow) float64
}{
	{"", "Revenue", func(r *api.MarginRow) float64 { return drawnAs(r.Revenue) }},
	{"cost", "Cost", func(r *api.MarginRow) float64 { return drawnAs(r.Cost) }},
	{"margin", "Margin", func(r *api.MarginRow) float64 { return drawnAs(r.Margin) }},
	{"share", "Of revenue", func(r *api.MarginRow) float64 {
		if revenue := drawnAs(r.Revenue); revenue > 0 {
			return drawnAs(r.Margin) / revenue
		}
		return math.Inf(-1)
	}},
	{"events", "Events", func(r *api.MarginRow) float64 { return float64(r.Events) }},
	{"overruns", "Overruns", func(r *api.MarginRow) float64 { return float64(r.Overruns) }},
}

// marginOf is what the page's address asks for. Without a range it is of the last 7 days.
func marginOf(v *visit) marginData {
	now := time.UnixMilli(v.console.config.Machine.EnvironmentNow(
		v.env, v.console.config.Now().UnixMilli())).UTC()
	return marginData{
		Base: v.base() + "/margin", Environment: v.base(),
		By:   cmp.Or(v.query("by"), "customer"),
		From: cmp.Or(v.query("from"), now.AddDate(0, 0, -6).Format(time.DateOnly)),
		To:   cmp.Or(v.query("to"), now.Format(time.DateOnly)),
	}
}

// report reads the rows, in the order that the page's address names.
func (d *marginData) report(v *visit) ([]api.MarginRow, *server.Fault) {
	call := v.adminCall("showMargin")
	call.Query = url.Values{
		"by": {d.By}, "from": {instantOf(d.From, 0)}, "to": {instantOf(d.To, 1)},
	}
	type report struct {
		Rows []api.MarginRow `json:"rows"`
	}
	list, fault := dataOf[report](v, v.admin(call))
	for _, order := range marginOrders {
		if order.name == v.query("sort") {
			slices.SortStableFunc(list.Rows, func(a, b api.MarginRow) int {
				return cmp.Compare(order.of(&b), order.of(&a))
			})
		}
	}
	return list.Rows, fault
}

// showMargin is the page …/margin.
func showMargin(v *visit) {
	data := marginOf(v)
	rows, fault := data.report(v)
	if fault != nil {
		v.problem(fault)
		data.Refused = true
	}
	for _, r := range rows[:min(len(rows), maxMargins)] {
		data.Rows = append(data.Rows, shownMargin{r, shareOf(&r)})
	}
	data.More = len(rows) - len(data.Rows)
	keep := url.Values{"by": {data.By}, "from": {data.From}, "to": {data.To}}
	for _, order := range marginOrders {
		data.Columns = append(data.Columns, sortedColumn{
			Name: order.text, Here: order.name == v.query("sort"),
			URL: data.Base + "?" + withParam(keep, "sort", order.name).Encode(),
		})
	}
	data.CSV = data.Base + ".csv?" + withParam(keep, "sort", v.query("sort")).Encode()
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
