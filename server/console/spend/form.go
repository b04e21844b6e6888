package spend

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	api "tollgate/sdk/go"
)

// A form of a budget has a row of fields for each limit. They are named after the API's, with the
// number of the row: limits0_of, limits0_featureKey.

// rowFields are the fields of a row.
var rowFields = [...]string{
	"of", "featureKey", "currency", "limit", "window", "timeZone", "mode", "thresholds",
}

// Row is a limit in a form. A form's row without an amount is none.
type Row struct {
	N                                                int
	Of, Feature, Currency, Limit, Window, Zone, Mode string
	// Thresholds are percents with commas between them.
	Thresholds string
}

// field is the name of a field of a row.
func field(n int, name string) string { return "limits" + strconv.Itoa(n) + "_" + name }

// Field is the name of one of the row's fields.
func (r Row) Field(name string) string { return field(r.N, name) }

// FieldOf is the form's name of what the API's errors call limits[0].of; other names stay.
func FieldOf(name string) string {
	list, rest, found := strings.Cut(name, "[")
	n, below, closed := strings.Cut(rest, "]")
	if !found || !closed || list != "limits" {
		return name
	}
	below, _, _ = strings.Cut(strings.TrimPrefix(below, "."), "[")
	return list + n + "_" + below
}

// values are the row's, in the order of rowFields.
func (r *Row) values() []*string {
	return []*string{
		&r.Of, &r.Feature, &r.Currency, &r.Limit, &r.Window, &r.Zone, &r.Mode, &r.Thresholds,
	}
}

// TypedRows are the limits that a form has. It numbers their fields anew, without the rows between
// that have no amount, so that the API's errors name them.
func TypedRows(form url.Values) (list []Row) {
	for n := range billing.MaxLimits {
		var r Row
		for i, value := range r.values() {
			name := field(n, rowFields[i])
			*value = strings.TrimSpace(form.Get(name))
			form.Del(name)
		}
		if r.Limit != "" {
			r.N = len(list)
			list = append(list, r)
		}
	}
	for _, r := range list {
		for i, value := range r.values() {
			form.Set(r.Field(rowFields[i]), *value)
		}
	}
	return list
}

// RowsOf are those of a budget.
func RowsOf(b *api.Budget) (list []Row) {
	for i := range b.Limits {
		l := &b.Limits[i]
		r := Row{
			N: i, Of: l.Of, Feature: l.FeatureKey, Currency: l.Currency, Limit: string(l.Limit),
			Window: l.Window, Zone: l.TimeZone, Mode: l.Mode,
		}
		for j, percent := range l.Thresholds {
			if j > 0 {
				r.Thresholds += ", "
			}
			r.Thresholds += strconv.Itoa(percent)
		}
		list = append(list, r)
	}
	return list
}

// emptyRows is how many rows a form has for further limits.
const emptyRows = 3

// WithEmpty adds empty rows, for no more limits than a budget may have.
func WithEmpty(list []Row) []Row {
	most := min(len(list)+emptyRows, billing.MaxLimits)
	for n := len(list); n < most; n++ {
		list = append(list, Row{N: n})
	}
	return list
}

// Wrong is what is wrong with a row, and with which of its fields, before the API is asked; empty
// where nothing is.
func (r Row) Wrong() (name, text string) {
	amount, err := decimal.Parse(r.Limit)
	switch {
	case err != nil || amount.Sign() < 0:
		return r.Field("limit"), "Enter a number, such as 40"
	case r.Of == "units" && r.Feature == "":
		return r.Field("featureKey"), "Enter the feature whose units count"
	}
	if _, err = r.percents(); err != nil {
		return r.Field("thresholds"), "Enter percents, such as 80, 100"
	}
	return "", ""
}

func (r Row) percents() (list []int, err error) {
	for word := range strings.FieldsFuncSeq(r.Thresholds, func(c rune) bool {
		return c == ',' || c == ' ' || c == '%'
	}) {
		percent, err := strconv.Atoi(word)
		if err != nil {
			return nil, err
		}
		list = append(list, percent)
	}
	return list, nil
}

// Limits are the rows as the API takes them, in JSON; nil where one has no number.
func Limits(list []Row) []byte {
	requests := []api.BudgetLimitRequest{}
	for _, r := range list {
		amount, err := decimal.Parse(r.Limit)
		if err != nil {
			return nil
		}
		l := api.BudgetLimitRequest{
			Of: r.Of, FeatureKey: r.Feature, Currency: strings.ToUpper(r.Currency),
			Limit: json.Number(amount.String()), Window: r.Window, TimeZone: r.Zone, Mode: r.Mode,
		}
		l.Thresholds, _ = r.percents()
		requests = append(requests, l)
	}
	text, err := json.Marshal(requests)
	if err != nil {
		return nil // texts and numbers only
	}
	return text
}

// identity is by what the engine tells a limit from others.
func identity(of, feature, currency, window, zone string) billing.LimitIdentity {
	d := billing.LimitDocument{Feature: feature, Currency: currency, TimeZone: zone}
	d.Of = billing.Measure(max(slices.Index(d.Of.Names(), of), 0))
	d.Window = billing.Window(max(slices.Index(d.Window.Names(), window), 0))
	return d.Identity()
}

func (r Row) identity() billing.LimitIdentity {
	return identity(r.Of, r.Feature, strings.ToUpper(r.Currency), r.Window, r.Zone)
}

// Changes are what a form's rows make of a budget's limits, each with its name, and whether a hard
// one is below what is used already.
func Changes(before []api.BudgetLimit, rows []Row) (list [][2]string, full bool) {
	kept := map[int]bool{}
	for _, r := range rows {
		is := r.identity()
		now := LimitOf(api.BudgetLimit{
			Of: r.Of, FeatureKey: r.Feature, Currency: is.Currency, Limit: json.Number(r.Limit),
			Window: r.Window,
		})
		text := now.Amount(now.BudgetLimit.Limit)
		if r.Mode == "soft" {
			text += ", soft"
		}
		from := "; counts from 0"
		for i := range before {
			b := &before[i]
			was := identity(b.Of, b.FeatureKey, b.Currency, b.Window, b.TimeZone)
			if l := LimitOf(*b); !kept[i] && is == was {
				kept[i], from = true, "; "+l.Amount(l.Used)+" used"
				if was := l.Amount(l.BudgetLimit.Limit); was != now.Amount(now.BudgetLimit.Limit) {
					from = ", was " + was + from
				}
				full = full || r.Mode != "soft" && below(r.Limit, l.Used)
				break
			}
		}
		list = append(list, [2]string{now.What, text + from})
	}
	for i := range before {
		if l := LimitOf(before[i]); !kept[i] {
			list = append(list, [2]string{l.What, "removed; " + l.Amount(l.Used) + " used of " +
				l.Amount(l.BudgetLimit.Limit)})
		}
	}
	return list, full
}

// below reports whether a limit is not above what is used.
func below(limit string, used json.Number) bool {
	most, err := decimal.Parse(limit)
	if err != nil {
		return false
	}
	is, err := decimal.Parse(string(used))
	return err == nil && !is.Less(most)
}

// Measures, Windows and Modes are what a form chooses from, with what people call them.
var (
	Measures = [][2]string{
		{"price", "price: what usage adds to bills"},
		{"units", "units of a feature"},
		{"cost", "cost: what providers take"},
	}
	Windows = [][2]string{
		{"hour", "hour"},
		{"day", "day"},
		{"week", "week"},
		{"month", "month"},
		{"year", "year"},
		{"lifetime", "lifetime"},
	}
	Modes = [][2]string{{"hard", "refuse"}, {"soft", "notify only"}}
)
