package console

import (
	"cmp"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server/console/page"
	"tollgate/server/console/spend"
)

func (s *Console) overviewRows() []row {
	const environment = "/accounts/{account}/{environment}"
	return []row{
		look(environment+"/overview", "overview", showOverview),
		live(look(environment+"/overview/live", "overview live", func(v *visit) {
			v.fragment("overview", "latest", latestOf(v))
		})),
		look(environment+"/usage", "usage explorer", exploreUsage),
		look(environment+"/margin", "margin", showMargin),
		look(environment+"/denied", "denied checks", showDenials),
		look(environment+"/search", "search", showSearch),
	}
}

// series is a series of a chart with a value for each bucket.
type series struct {
	page.Series
	at map[int64]int
}

func (s *series) set(start time.Time, amount json.Number) {
	if i, known := s.at[start.UnixMilli()]; known {
		s.Values[i], s.Texts[i] = drawnAs(amount), string(amount)
	}
}

// buckets are the labels of a range, and a way to make its series: every bucket has a value, since
// answers leave out those without.
func buckets(by string, from, to time.Time) (labels []string, with func(name string) *series) {
	named := map[string]func(time.Time) string{
		"hour": page.When, "day": page.Day,
		"month": func(at time.Time) string { return at.UTC().Format("Jan 2006") },
	}[by]
	length := map[string]billing.By{
		"hour": billing.ByHour, "day": billing.ByDay, "month": billing.ByMonth,
	}[by]
	at := map[int64]int{}
	end := to.UnixMilli()
	for t := from.UnixMilli(); t < end && len(labels) < billing.MaxBuckets; t = length.Next(t) {
		at[t] = len(labels)
		labels = append(labels, named(time.UnixMilli(t)))
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

// usageChart draws what was used: the features used most, and what all others add up to.
func usageChart(t *api.UsageTotals) *page.Chart {
	c := &page.Chart{Title: "Usage by feature", Unit: "units"}
	labels, with := buckets(t.By, t.From, t.To)
	c.Labels = labels
	largest, others := mostUsed(t.Series, page.MaxSeries)
	for _, u := range largest {
		s := with(featureName(&u))
		for _, p := range u.Points {
			s.set(p.Start, p.UsageUnits)
		}
		c.Series = append(c.Series, s.Series)
	}
	if len(others) == 0 {
		return c
	}
	rest, sums := with(othersName), map[int64]decimal.Decimal{}
	for _, u := range others {
		for _, p := range u.Points {
			units, err := decimal.Parse(string(p.UsageUnits))
			sum, fits := sums[p.Start.UnixMilli()].Add(units)
			if err != nil || !fits {
				continue // no count of units comes near the largest number
			}
			sums[p.Start.UnixMilli()] = sum
		}
	}
	for at, sum := range sums {
		rest.set(time.UnixMilli(at), json.Number(sum.String()))
	}
	c.Series = append(c.Series, rest.Series)
	return c
}

// mostUsed puts the series with the most units in front, so many that one more has room for the
// others.
func mostUsed(all []api.UsageSeries, room int) (largest, others []api.UsageSeries) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b api.UsageSeries) int {
		return cmp.Compare(drawnAs(b.UsageUnits), drawnAs(a.UsageUnits))
	})
	if len(all) > room {
		return all[:room-1], all[room-1:]
	}
	return all, nil
}

// drawnAs is a number as a picture shows it.
func drawnAs(n json.Number) float64 {
	v, err := n.Float64()
	if err != nil {
		return 0
	}
	return v
}

func featureName(u *api.UsageSeries) string {
	if u.Features > 0 {
		return "(" + strconv.Itoa(u.Features) + " other features)"
	}
	return cmp.Or(u.FeatureKey, "(matches no feature)")
}

// clockOf is the environment's clock.
func clockOf(v *visit) time.Time {
	return time.UnixMilli(v.console.config.Machine.EnvironmentNow(
		v.env, v.console.config.Now().UnixMilli())).UTC()
}

// overviewData is what an environment's first page shows.
type overviewData struct {
	Base        string
	EventsToday int
	Events      page.Plot
	// MaxEvents and MaxDenied are those of the day that had most.
	MaxEvents, MaxDenied, DeniedToday int
	Denied                            int
	// DeniedSince says since when checks are counted; "" where that is the whole range.
	DeniedSince string
	DeniedBy    []api.ChecksSeries
	Checks      page.Plot
	Revenue     []shownRevenue
	Recurring   []shownRevenue // of the currencies in which somebody is subscribed
	Chart       *page.Chart
	Unmatched   []api.UnmatchedName
	Failing     []api.WebhookEndpoint
	PastDue     int
	// LateIn is the first currency in which invoices are past due.
	LateIn    string
	Suspended int
	// Yesterday leads to who used most yesterday.
	Yesterday string
	Latest    latest
	Trouble   billing.PoolTrouble
	// Budgets are how many limits of budgets are used up, or nearly.
	Budgets       int
	NothingIsLate bool
	overviewGaps
}

// latest are the newest records of each kind, which the overview renews while it is open.
type latest struct {
	Base          string
	Customers     []listedCustomer
	Subscriptions []billing.NewSubscription
	Invoices      []invoice
}

func latestOf(v *visit) latest {
	newest, issued := v.adminCall("listCustomers"), v.adminCall("searchInvoices")
	newest.Query, issued.Query = url.Values{"limit": {"5"}}, url.Values{"limit": {"5"}}
	return latest{
		Base:          v.base(),
		Customers:     need[customerList](v, v.admin, newest).Customers,
		Invoices:      need[foundInvoices](v, v.admin, issued).Invoices,
		Subscriptions: v.console.config.Machine.NewestSubscriptions(v.env, maxNewest, maxLooked),
	}
}

// overviewGaps is what the overview says instead of figures.
type overviewGaps struct {
	// Uncounted says why those of usage are missing, and Unbilled why those of revenue are.
	Uncounted, Unbilled string
	// First is the request for a first event, where there is none yet.
	First string
}

// shownRevenue is the month's, and how it compares with the month before.
type shownRevenue struct {
	api.RevenueSeries
	Month, Before json.Number
	Change        string
}

const (
	// maxNewest is how many records of a kind the overview lists, maxLooked how many of all
	// environments are looked at for them.
	maxNewest = 5
	maxLooked = 20_000
)

// showOverview is the page …/overview. It is shown also while usage or revenue cannot be.
func showOverview(v *visit) {
	months := v.adminCall("showUsage")
	months.Query = url.Values{"by": {"month"}}
	m := v.console.config.Machine
	data := overviewData{
		Base: v.base(), Chart: &page.Chart{}, Unmatched: v.unmatched(), Latest: latestOf(v),
		Trouble: m.PoolsInTrouble(v.env, maxNewest, maxLooked),
	}
	explorer := exploreData{Base: data.Base + "/usage", keep: url.Values{}}
	if len(m.Currencies(v.env)) > 0 {
		explorer.keep.Set("sort", "price")
	}
	data.Yesterday = explorer.dayOf(v, "", -1).URL + "#customers"
	_, data.Budgets = m.BudgetsRunningOut(
		v.env, spend.NearlyOut, 1, v.console.config.Now().UnixMilli())
	for _, e := range need[[]api.WebhookEndpoint](v, v.admin, v.adminCall("listWebhookEndpoints")) {
		if !e.FailingSince.IsZero() || e.DisabledReason != "" {
			data.Failing = append(data.Failing, e)
		}
	}
	if v.fails() { // each further read would wait as long
		return
	}
	days, fault := dataOf[api.UsageTotals](v, v.admin(v.adminCall("showUsage")))
	if fault == nil {
		data.use(&days)
	} else {
		data.Uncounted = fault.Detail
	}
	year, fault := dataOf[api.UsageTotals](v, v.admin(months))
	if fault == nil {
		data.earn(&year)
	} else {
		data.Unbilled = fault.Detail
	}
	data.NothingIsLate = data.Unbilled == "" && data.Trouble.Depleted+data.Trouble.Failed == 0 &&
		len(data.Unmatched)+len(data.Failing)+data.PastDue+data.Suspended+data.Budgets == 0
	if len(data.Chart.Series) == 0 && data.Uncounted == "" {
		data.First = firstEvent(v, "")
	}
	v.show(v.environmentPage("overview", "Overview", "Overview", "", data))
}

// use takes the figures of the last 30 days.
func (d *overviewData) use(t *api.UsageTotals) {
	d.Chart = usageChart(t)
	labels, with := buckets(t.By, t.From, t.To)
	events, denied := with(""), with("")
	for _, s := range t.Series {
		for _, p := range s.Points {
			if i, known := events.at[p.Start.UnixMilli()]; known {
				events.Values[i] += float64(p.Events)
				d.MaxEvents = max(d.MaxEvents, int(events.Values[i]))
				if i == len(labels)-1 {
					d.EventsToday += p.Events
				}
			}
		}
	}
	for _, c := range t.Checks {
		if c.Reason == billing.ReasonAllowed.String() {
			continue
		}
		d.Denied, d.DeniedBy = d.Denied+c.Checks, append(d.DeniedBy, c)
		for _, p := range c.Points {
			if i, known := denied.at[p.Start.UnixMilli()]; known {
				denied.Values[i] += float64(p.Checks)
				d.MaxDenied = max(d.MaxDenied, int(denied.Values[i]))
				if i == len(labels)-1 {
					d.DeniedToday += p.Checks
				}
			}
		}
	}
	switch {
	case t.ChecksFrom.IsZero():
	case t.ChecksFrom.Before(t.To):
		d.DeniedSince = "Counted since " + page.Day(t.ChecksFrom) + "."
	default:
		d.DeniedSince = "Checks are still being counted."
	}
	d.Events = page.Plot{
		Title: "Events of each of the last 30 days", Points: events.Values, Labels: labels,
	}
	d.Checks = page.Plot{
		Title: "Denied checks of each of the last 30 days", Points: denied.Values, Labels: labels,
	}
}

// earn takes the figures of the last 12 months.
func (d *overviewData) earn(t *api.UsageTotals) {
	d.Suspended = t.SuspendedSubscriptions
	for _, r := range t.Revenue {
		if d.PastDue += r.PastDueInvoices; r.PastDueInvoices > 0 {
			d.LateIn = cmp.Or(d.LateIn, r.Currency)
		}
		shown := revenueOf(r, t.To)
		if r.Subscriptions > 0 {
			d.Recurring = append(d.Recurring, shown)
		}
		d.Revenue = append(d.Revenue, shown)
	}
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
