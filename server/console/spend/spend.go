// Package spend tells budgets and reservations as pages show them: what is used, held and left of a
// limit, in words and as a bar, and what runs out first.
package spend

import (
	"cmp"
	"encoding/json"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"time"
	_ "time/tzdata" // for systems that have no database of zones

	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// Limit is a limit of a budget as pages show it.
type Limit struct {
	api.BudgetLimit
	// What is counted, in words: "price of tokens, each day".
	What string
	// Share is how much of the limit is used or held: 1 is all.
	Share float64
}

// LimitsOf are a budget's.
func LimitsOf(b *api.Budget) (list []Limit) {
	for _, l := range b.Limits {
		list = append(list, LimitOf(l))
	}
	return list
}

// LimitOf is a limit with its words.
func LimitOf(l api.BudgetLimit) Limit {
	return Limit{BudgetLimit: l, What: what(&l), Share: share(&l)}
}

func what(l *api.BudgetLimit) string {
	text := l.Of
	if l.FeatureKey != "" {
		text += " of " + l.FeatureKey
	}
	if l.Window == "lifetime" {
		return text + ", lifetime"
	}
	return text + ", each " + l.Window
}

// share is of the limit; one of 0 is full as soon as it is asked for.
func share(l *api.BudgetLimit) float64 {
	limit := number(l.Limit)
	if limit <= 0 {
		return 1
	}
	return (number(l.Used) + number(l.Held)) / limit
}

func number(n json.Number) float64 {
	v, err := n.Float64()
	if err != nil {
		return 0
	}
	return v
}

// Amount writes a number of the limit's, as money where it is.
func (l Limit) Amount(n json.Number) string {
	if l.Currency != "" {
		return page.Money(string(n), l.Currency)
	}
	return page.Amount(string(n))
}

// Holds reports whether reservations hold any of the limit.
func (l Limit) Holds() bool { return number(l.Held) > 0 }

// Bar draws what is used and what is held of the limit.
func (l Limit) Bar() template.HTML {
	title := l.What + ": " + l.Amount(l.Used) + " used"
	if l.Holds() {
		title += ", " + l.Amount(l.Held) + " held"
	}
	return l.meter(title + ", of " + l.Amount(l.Limit))
}

// Gauge is Bar next to words that say all of it: its title says the share alone.
func (l Limit) Gauge() template.HTML { return l.meter(l.Percent()) }

func (l Limit) meter(title string) template.HTML {
	return page.HeldMeter(number(l.Used), number(l.Held), number(l.Limit), title)
}

// Percent is Share in whole percents.
func (l Limit) Percent() string { return strconv.Itoa(int(l.Share*100)) + " %" }

// State is the limit's in one word, which pages colour: what is full refuses if it is hard.
func (l Limit) State() string {
	switch {
	case l.Share >= 1 && l.Mode == "soft":
		return "over"
	case l.Share >= 1:
		return "full"
	case l.Share*100 >= NearlyOut:
		return "nearly_full"
	}
	return ""
}

// NearlyOut is the percent from which a limit is about to run out.
const NearlyOut = 80

// Running is a limit that runs out, and whose it is.
type Running struct {
	Budget, Name string
	Limit
}

// RunsOut are the limits of budgets that are used up or nearly, the fullest first; archived budgets
// have none.
func RunsOut(budgets []api.Budget) (list []Running) {
	for i := range budgets {
		b := &budgets[i]
		if b.Status == "ARCHIVED" {
			continue
		}
		for _, l := range LimitsOf(b) {
			if l.Share*100 >= NearlyOut {
				list = append(list, Running{b.Budget, b.Name, l})
			}
		}
	}
	slices.SortStableFunc(list, func(a, b Running) int { return cmp.Compare(b.Share, a.Share) })
	return list
}

// Fullest are limits in the order in which they run out.
func Fullest(limits []Limit) []Limit {
	limits = slices.Clone(limits)
	slices.SortStableFunc(limits, func(a, b Limit) int { return cmp.Compare(b.Share, a.Share) })
	return limits
}

// Past draws the past windows of a limit, which are newest first, by its own clock.
func Past(l Limit, windows []api.BudgetWindow) *page.Chart {
	c := &page.Chart{Title: "Used, " + l.What, Unit: unit(l)}
	if l.TimeZone != "UTC" && l.TimeZone != "" {
		c.Title += ", in " + l.TimeZone
	}
	s := page.Series{Name: "used"}
	for _, w := range slices.Backward(windows) {
		c.Labels = append(c.Labels, w.WindowStart.In(l.place()).Format(layout(l.Window)))
		s.Values = append(s.Values, number(w.Used))
		s.Texts = append(s.Texts, string(w.Used))
	}
	c.Series = []page.Series{s}
	return c
}

// place is where the limit's windows begin; UTC where this system knows it no more.
func (l Limit) place() *time.Location {
	place, err := time.LoadLocation(l.TimeZone)
	if err != nil {
		return time.UTC
	}
	return place
}

// Until is the end of the limit's window, by its own clock; empty where it has none.
func (l Limit) Until() string {
	if l.WindowEnd.IsZero() {
		return ""
	}
	place := l.place()
	return l.WindowEnd.In(place).Format("2006-01-02 15:04 ") + place.String()
}

func unit(l Limit) string {
	return cmp.Or(l.Currency, map[string]string{"units": "units"}[l.Of], "cost")
}

func layout(window string) string {
	switch window {
	case "hour":
		return "2006-01-02 15:04"
	case "month":
		return "2006-01"
	case "year":
		return "2006"
	}
	return time.DateOnly
}

// Hold is a reservation that is open, as pages show it.
type Hold struct {
	api.Reservation
	// URL is its page; empty where it has none. Release is where who looks may give it up, Extend
	// where they may hold it for longer; empty where they may not.
	URL, Release, Extend string
}

// Holds are what the part "holds" of pages shows. Release adds the column of what may be done.
type Holds struct {
	Holds   []Hold
	Release bool
	// Budgets adds the column of the budgets at which they are held, which are the merchant's.
	Budgets bool
	// More reports whether others are not shown, or may be there.
	More bool
}

// maxPages bounds the pages of a list of reservations that Open looks at: one that has none may be
// followed by one that has.
const maxPages = 10

// Open are the newest open reservations of a customer, so many at most. page lists some of them,
// from a cursor on.
func Open(
	maximum int, page func(limit, cursor string) (list []api.Reservation, next string, ok bool),
) (all []api.Reservation, more, ok bool) {
	next := ""
	for range maxPages {
		var list []api.Reservation
		if list, next, ok = page(strconv.Itoa(maximum-len(all)), next); !ok {
			return nil, false, false
		}
		if all = append(all, list...); next == "" || len(all) >= maximum {
			break
		}
	}
	return all, next != "", true
}

// OpenQuery asks for a page of them.
func OpenQuery(limit, cursor string) url.Values {
	query := url.Values{"state": {"open"}, "limit": {limit}}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	return query
}

// Facts say what a reservation holds.
func Facts(r *api.Reservation) (facts [][2]string) {
	for _, item := range r.Items {
		units := page.Amount(item.HeldUnits) + " units"
		if units == "1 units" {
			units = "1 unit"
		}
		facts = append(facts, [2]string{"Held of " + item.FeatureKey, units})
	}
	return append(facts, [2]string{"Expires", Instant(r.ExpiresAt)})
}

// Instant is when a reservation expires, in words.
func Instant(at time.Time) string { return at.UTC().Format("2 Jan 2006, 15:04:05 UTC") }
