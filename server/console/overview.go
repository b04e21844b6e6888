package console

import (
	"encoding/json"
	"net/url"
	"strconv"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

func (s *Console) overviewRows() []row {
	const environment = "/accounts/{account}/{environment}"
	return []row{
		look(environment+"/overview", "overview", showOverview),
		look(environment+"/usage", "usage explorer", exploreUsage),
		live(look(environment+"/usage.csv", "usage as csv", downloadUsage)),
	}
}

// series is a series of a chart with a value for each bucket.
type series struct {
	page.Series
	at map[int64]int
}

func (s *series) set(start time.Time, amount json.Number) {
	if i, known := s.at[start.UnixMilli()]; known {
		s.Values[i], _ = strconv.ParseFloat(string(amount), 64) // only drawn; Texts is exact
		s.Texts[i] = string(amount)
	}
}

// buckets are the labels of a range, and a way to make its series: every bucket has a value, since
// answers leave out those without.
func buckets(by string, from, to time.Time) (labels []string, with func(name string) *series) {
	layout := map[string]string{"hour": "2006-01-02 15:04", "day": time.DateOnly, "month": "2006-01"}
	length := map[string]billing.By{
		"hour": billing.ByHour, "day": billing.ByDay, "month": billing.ByMonth,
	}[by]
	at := map[int64]int{}
	end := to.UnixMilli()
	for t := from.UnixMilli(); t < end && len(labels) < billing.MaxBuckets; t = length.Next(t) {
		at[t] = len(labels)
		labels = append(labels, time.UnixMilli(t).UTC().Format(layout[by]))
	}
	return labels, func(name string) *series {
		s := &series{page.Series{
			Name: name, Values: make([]float64, len(labels)), Texts: make([]string, len(labels)),
		}, at}
		for i := range s.Texts {
			s.Texts[i] = "0"
		}
		return s
	}
}

// usageChart draws what was used.
func usageChart(t *api.UsageTotals) *page.Chart {
	c := &page.Chart{Title: "Usage by feature", Unit: "units"}
	labels, with := buckets(t.By, t.From, t.To)
	c.Labels = labels
	for _, u := range t.Series {
		s := with(u.FeatureKey)
		if u.FeatureKey == "" {
			s.Name = "(matches no feature)"
		}
		for _, p := range u.Points {
			s.set(p.Start, p.UsageUnits)
		}
		c.Series = append(c.Series, s.Series)
	}
	return c
}

// exploreData is what the usage explorer shows.
type exploreData struct {
	Base                            string
	Features                        []string
	Feature, Customer, By, From, To string
	Chart                           *page.Chart
	Totals                          []api.UsageSeries
	CSV                             string
}

// usageCall asks for what the page's address names. Days are whole ones: to is the last.
func (v *visit) usageCall() (server.Call, url.Values) {
	call, keep := v.adminCall("showUsage"), url.Values{}
	call.Query = url.Values{}
	for _, name := range []string{"feature", "customer", "by", "from", "to"} {
		text := v.query(name)
		if text == "" {
			continue
		}
		keep.Set(name, text)
		if day, err := time.Parse(time.DateOnly, text); err == nil && (name == "from" || name == "to") {
			if name == "to" {
				day = day.AddDate(0, 0, 1)
			}
			text = day.Format(time.RFC3339)
		}
		call.Query.Set(name, text)
	}
	return call, keep
}

// exploreUsage is the page …/usage.
func exploreUsage(v *visit) {
	call, keep := v.usageCall()
	data := exploreData{
		Base: v.base() + "/usage", Chart: &page.Chart{},
		Feature: keep.Get("feature"), Customer: keep.Get("customer"),
		By: keep.Get("by"), From: keep.Get("from"), To: keep.Get("to"),
	}
	data.Features = v.console.config.Machine.CatalogFeatures(v.env)
	totals, fault := dataOf[api.UsageTotals](v, v.admin(call))
	if fault != nil {
		v.problem(fault)
	} else {
		data.By = totals.By
		data.Chart, data.Totals = usageChart(&totals), totals.Series
		data.CSV = data.Base + ".csv?" + keep.Encode()
	}
	v.show(v.environmentPage("usage", "Usage", "Usage", "", data))
}

// downloadUsage is the same figures as CSV.
func downloadUsage(v *visit) {
	call, _ := v.usageCall()
	totals := need[api.UsageTotals](v, v.admin, call)
	if v.fails() {
		return
	}
	chart := usageChart(&totals)
	text, err := chart.CSV()
	if err != nil {
		v.x.Refuse(server.FaultInternal)
		return
	}
	v.x.Ctx.Response.Header.Set("Content-Disposition", `attachment; filename="usage.csv"`)
	v.x.Bare(200, "text/csv; charset=utf-8", text)
}

// overviewData is what an environment's first page shows.
type overviewData struct {
	Base          string
	EventsToday   int
	Events        page.Plot
	Denied        int
	DeniedBy      []api.ChecksSeries
	Checks        page.Plot
	Revenue       []shownRevenue
	Chart         *page.Chart
	Unmatched     []api.UnmatchedName
	Failing       []api.WebhookEndpoint
	PastDue       int
	Suspended     int
	Customers     []api.Customer
	NothingIsLate bool
}

// shownRevenue is the month's, and how it compares with the month before.
type shownRevenue struct {
	api.RevenueSeries
	Month, Before json.Number
	Change        string
}

// showOverview is the page …/overview.
func showOverview(v *visit) {
	days := need[api.UsageTotals](v, v.admin, v.adminCall("showUsage"))
	months := v.adminCall("showUsage")
	months.Query = url.Values{"by": {"month"}}
	year := need[api.UsageTotals](v, v.admin, months)
	type customers struct {
		Customers []api.Customer `json:"customers"`
	}
	newest := v.adminCall("listCustomers")
	newest.Query = url.Values{"limit": {"5"}}
	data := overviewData{
		Base: v.base(), Chart: usageChart(&days), Suspended: days.SuspendedSubscriptions,
		Unmatched: v.unmatched(),
		Customers: need[customers](v, v.admin, newest).Customers,
	}
	for _, e := range need[[]api.WebhookEndpoint](v, v.admin, v.adminCall("listWebhookEndpoints")) {
		if !e.FailingSince.IsZero() || e.DisabledReason != "" {
			data.Failing = append(data.Failing, e)
		}
	}
	labels, with := buckets(days.By, days.From, days.To)
	events, denied := with(""), with("")
	for _, s := range days.Series {
		for _, p := range s.Points {
			if i, known := events.at[p.Start.UnixMilli()]; known {
				events.Values[i] += float64(p.Events)
				if i == len(labels)-1 {
					data.EventsToday += p.Events
				}
			}
		}
	}
	for _, c := range days.Checks {
		if c.Reason == billing.ReasonAllowed.String() {
			continue
		}
		data.Denied, data.DeniedBy = data.Denied+c.Checks, append(data.DeniedBy, c)
		for _, p := range c.Points {
			if i, known := denied.at[p.Start.UnixMilli()]; known {
				denied.Values[i] += float64(p.Checks)
			}
		}
	}
	data.Events = page.Plot{Title: "Events of each of the last 30 days", Points: events.Values}
	data.Checks = page.Plot{Title: "Denied checks of each of the last 30 days", Points: denied.Values}
	for _, r := range year.Revenue {
		data.PastDue += r.PastDueInvoices
		data.Revenue = append(data.Revenue, revenueOf(r, year.To))
	}
	data.NothingIsLate = len(data.Unmatched)+len(data.Failing)+data.PastDue+data.Suspended == 0
	v.show(v.environmentPage("overview", "Overview", "Overview", "", data))
}

// revenueOf compares the newest month, which ends at an instant, with the one before.
func revenueOf(r api.RevenueSeries, end time.Time) (s shownRevenue) {
	s = shownRevenue{RevenueSeries: r, Month: "0", Before: "0"}
	for _, p := range r.Points {
		switch p.Start.UTC() {
		case end.UTC().AddDate(0, -1, 0):
			s.Month = p.Billed
		case end.UTC().AddDate(0, -2, 0):
			s.Before = p.Billed
		}
	}
	now, err := s.Month.Float64()
	before, err2 := s.Before.Float64()
	if err == nil && err2 == nil && before > 0 {
		s.Change = strconv.FormatFloat(100*(now-before)/before, 'f', 0, 64) + " %"
		if now >= before {
			s.Change = "+" + s.Change
		}
	}
	return s
}
