package console

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
	"tollgate/server"
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

// exploreData is what the usage explorer shows.
type exploreData struct {
	Base                            string
	Features                        featureField
	Feature, Customer, By, From, To string
	// Split is what the chart has a series for each of: splitCustomer, or features.
	Split  string
	Chart  *page.Chart
	Totals []api.UsageSeries
	CSV    string
	// More is how many features Totals leaves out.
	More int
	// Customers are those who used most, and Others how many more did; none of one customer.
	Customers  []api.CustomerUsage
	Others     int
	RankingCSV string
	// Ranked reports whether they were found: a node refuses to price too many.
	Ranked bool
	// Ranks are the orders of Customers; none where nothing has a price.
	Ranks []page.Link
	// Priced reports whether they are in the order of what their usage adds to bills.
	Priced bool
	// Currency is the one of Priced.
	Currency string
	keep     url.Values
	// Today and Yesterday are those days' usage, on the environment's clock.
	Today, Yesterday page.Link
	// First is the request for a first event, where the environment has no usage.
	First string
}

// maxTotals is how many features the explorer lists.
const maxTotals = 50

// featureField is the field that selects a feature: a choice of all, unless they are many, which
// would make the page heavy.
type featureField struct {
	Keys  []string
	Many  bool
	Value string
}

// featureBytes bounds the keys of a choice together.
const featureBytes = 4 << 10

func featuresOf(v *visit, value string) featureField {
	f := featureField{Value: value, Keys: v.console.config.Machine.CatalogFeatures(v.env)}
	size := 0
	for _, key := range f.Keys {
		size += len(key)
	}
	if size > featureBytes {
		f.Keys, f.Many = nil, true
	}
	return f
}

// usageCall asks for what the page's address names. Days are whole ones: to is the last.
func (v *visit) usageCall() (server.Call, url.Values) {
	call, keep := v.adminCall("showUsage"), url.Values{}
	call.Query = url.Values{}
	for _, name := range []string{
		"feature", "customer", "by", "from", "to", "split", "sort", "currency",
	} {
		text := v.query(name)
		if text == "" {
			continue
		}
		keep.Set(name, text)
		if name == "split" || name == "sort" || name == "currency" {
			continue
		}
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
		By: keep.Get("by"), From: keep.Get("from"), To: keep.Get("to"), Split: keep.Get("split"),
	}
	data.Features, data.keep = featuresOf(v, data.Feature), keep
	data.Today, data.Yesterday = data.dayOf(v, "Today", 0), data.dayOf(v, "Yesterday", -1)
	totals, fault := dataOf[api.UsageTotals](v, v.admin(call))
	if fault != nil {
		v.problem(fault)
	} else {
		data.By = totals.By
		var others []api.UsageSeries
		data.Chart = usageChart(&totals)
		data.Totals, others = mostUsed(totals.Series, maxTotals)
		data.More = len(others)
		data.CSV = data.Base + ".csv?" + keep.Encode()
		if data.Customer == "" {
			data.rank(v)
			found, fault := v.mostUsing(call.Query, keep)
			if fault != nil {
				v.problem(fault)
			} else {
				data.Ranked, data.Customers, data.Others = true, found.Customers, found.Others
				data.RankingCSV = v.base() + "/ranking.csv?" + keep.Encode()
			}
			if data.Ranked && data.Split == splitCustomer && len(totals.Series) > 0 {
				split := byCustomer(v, &totals, data.Customers, data.Others, data.Feature)
				data.Chart = usageChart(split)
				data.Chart.Title = "Usage by customer"
				if data.Feature == "" {
					data.Chart.Unit = "events"
				}
			}
		}
	}
	if len(data.Chart.Series) == 0 {
		data.First = firstEvent(v, data.Customer)
	}
	v.show(v.environmentPage("usage", "Usage", "Usage", "", data))
}

// rank offers the orders of the customers who used most.
func (d *exploreData) rank(v *visit) {
	currencies := v.console.config.Machine.Currencies(v.env)
	if len(currencies) == 0 {
		return
	}
	d.Priced = d.keep.Get("sort") != ""
	d.Currency = cmp.Or(d.keep.Get("currency"), currencies[0])
	amount := "Most events"
	if d.Feature != "" {
		amount = "Most units"
	}
	d.Ranks = []page.Link{{
		Text: amount, Here: !d.Priced,
		URL: d.at(withParam(withParam(d.keep, "sort", ""), "currency", "")),
	}}
	for _, currency := range currencies[:min(len(currencies), sortedCurrencies)] {
		d.Ranks = append(d.Ranks, page.Link{
			Text: "Most added to bills, " + currency,
			Here: d.Priced && d.Currency == currency,
			URL:  d.at(withParam(withParam(d.keep, "sort", "price"), "currency", currency)),
		})
	}
}

// at is the explorer with a query.
func (d exploreData) at(query url.Values) string { return d.Base + "?" + query.Encode() }

// FeatureURL is the page with a feature alone.
func (d exploreData) FeatureURL(key string) string {
	return d.at(withParam(d.keep, "feature", key))
}

// Order is what the address has of the order of customers, which the form keeps.
func (d exploreData) Order() map[string]string {
	order := map[string]string{}
	for _, name := range []string{"sort", "currency"} {
		if value := d.keep.Get(name); value != "" {
			order[name] = value
		}
	}
	return order
}

// dayOf leads to the usage of a day by hour, so many days from today on the environment's clock.
func (d exploreData) dayOf(v *visit, text string, days int) page.Link {
	day := clockOf(v).AddDate(0, 0, days).Format(time.DateOnly)
	query := withParam(withParam(d.keep, "from", day), "to", day)
	return page.Link{
		Text: text, URL: d.at(withParam(query, "by", "hour")), Here: d.From == day && d.To == day,
	}
}

// clockOf is the environment's clock.
func clockOf(v *visit) time.Time {
	return time.UnixMilli(v.console.config.Machine.EnvironmentNow(
		v.env, v.console.config.Now().UnixMilli())).UTC()
}

// mostUsing are the customers who used most in a range, and how many others used something; keep
// has their order.
func (v *visit) mostUsing(query, keep url.Values) (usageRanking, *server.Fault) {
	call := v.adminCall("usageByCustomer")
	call.Query = maps.Clone(query)
	for _, name := range []string{"sort", "currency"} {
		if text := keep.Get(name); text != "" {
			call.Query.Set(name, text)
		}
	}
	return dataOf[usageRanking](v, v.admin(call))
}

// usageRanking are customers by what they used.
type usageRanking struct {
	Customers []api.CustomerUsage `json:"customers"`
	Others    int                 `json:"others"`
}

// CustomerURL is a customer's page.
func (d exploreData) CustomerURL(id string) string {
	return strings.TrimSuffix(d.Base, "/usage") + "/customers/" + url.PathEscape(id)
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
