package console

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

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
	// Rankings are the customers who used most; none of one customer, or where the node refuses to
	// price so many. By what usage adds to bills there is one for each currency.
	Rankings []ranking
	// Ranks are the orders of Rankings; none where nothing has a price.
	Ranks []page.Link
	// Priced reports whether they are in the order of what their usage adds to bills.
	Priced bool
	// OtherRanks are the orders by price in those currencies that have no ranking.
	OtherRanks []page.Link
	keep       url.Values
	// Days are the usage of today and of yesterday, on the environment's clock.
	Days []page.Link
	// First is the request for a first event, where the environment has no usage.
	First string
}

// ranking are the customers who used most, in a currency where they are ranked by price, and how
// many others used something.
type ranking struct {
	usageRanking
	Currency, CSV string
}

const (
	// maxTotals is how many features the explorer lists.
	maxTotals = 50
	// maxRankings is in how many currencies it ranks customers at once: each is a pass over all usage.
	maxRankings = 3
)

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
	data.Days = []page.Link{data.dayOf(v, "Today", 0), data.dayOf(v, "Yesterday", -1)}
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
			data.rank(v, call.Query)
			if data.Split == splitCustomer && len(totals.Series) > 0 && len(data.Rankings) > 0 {
				first := &data.Rankings[0]
				split := byCustomer(v, &totals, first.Customers, first.Others, data.Feature)
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

// rank ranks the customers of a query, in the order that the address has, and offers the others.
func (d *exploreData) rank(v *visit, query url.Values) {
	currencies := v.console.config.Machine.Currencies(v.env)
	asked := d.keep.Get("currency")
	d.Priced = d.keep.Get("sort") != "" && len(currencies) > 0
	in := []string{asked}
	if d.Priced && asked == "" {
		in = currencies[:min(len(currencies), maxRankings)]
		for _, other := range currencies[len(in):] {
			d.OtherRanks = append(d.OtherRanks, d.byPrice(other, other))
		}
	}
	for _, currency := range in {
		keep := withParam(d.keep, "currency", currency)
		found, fault := v.mostUsing(query, keep)
		if fault != nil {
			v.problem(fault)
			break
		}
		d.Rankings = append(d.Rankings, ranking{
			found, currency, v.base() + "/ranking.csv?" + keep.Encode(),
		})
	}
	d.offer(currencies, asked)
}

// offer are the orders of the customers who used most.
func (d *exploreData) offer(currencies []string, asked string) {
	if len(currencies) == 0 {
		return
	}
	amount := "Most events"
	if d.Feature != "" {
		amount = "Most units"
	}
	d.Ranks = []page.Link{{
		Text: amount, Here: !d.Priced,
		URL: d.at(withParam(withParam(d.keep, "sort", ""), "currency", "")) + "#customers",
	}}
	price := func(text, currency string, here bool) {
		link := d.byPrice("Most added to bills, "+text, currency)
		link.Here = d.Priced && here
		d.Ranks = append(d.Ranks, link)
	}
	if len(currencies) == 1 {
		price(currencies[0], "", asked == "" || asked == currencies[0])
		return
	}
	price("each currency", "", asked == "")
	for i, currency := range currencies {
		if i < maxRankings || currency == asked {
			price(currency, currency, asked == currency)
		}
	}
}

// byPrice leads to the customers by what their usage adds to bills in a currency; empty: in each.
func (d *exploreData) byPrice(text, currency string) page.Link {
	query := withParam(withParam(d.keep, "sort", "price"), "currency", currency)
	return page.Link{Text: text, URL: d.at(query) + "#customers"}
}

// Ranked reports whether somebody is in a ranking.
func (d exploreData) Ranked() bool {
	return slices.ContainsFunc(d.Rankings, func(r ranking) bool { return len(r.Customers) > 0 })
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
