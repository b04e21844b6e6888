package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// UsagePages measures pages of usage: of a customer who used three features in each hour of a year,
// and of an environment in which all of many customers used something.
type UsagePages struct {
	// Config says how many customers there are; its Target is the cluster, whose admin key signs in.
	Config
	// Looks is how often each page is opened, after a first time that is not measured.
	Looks int
}

// UsageReport is what came of UsagePages.
type UsageReport struct {
	Customers int
	// Year are pages about the customer, Environment those about the environment.
	Year, Environment []PageTime
}

// PageTime is how long a page took, from the request to the last byte.
type PageTime struct {
	Page             string
	Median, Slowest9 time.Duration // Slowest9: 9 of 10 took no longer
}

// The year that is looked at, in steps of the sandbox's clock.
const (
	yearWeeks    = 52
	hoursOfWeek  = 7 * 24
	yearAccount  = "year"
	yearFeatures = 3
)

// Measure makes the usage, and then opens the pages.
func (u *UsagePages) Measure(ctx context.Context) (report UsageReport, err error) {
	if u.Looks < 1 || len(u.Admin.Nodes) == 0 {
		return report, errors.New("usage: want a cluster to look at, once at least")
	}
	report.Customers = u.Customers
	all, err := New(u.Config)
	if err != nil {
		return report, err
	}
	if err = all.createCustomers(ctx); err == nil {
		err = all.fill(ctx, u.Customers)
	}
	if err != nil {
		return report, err
	}
	year, from, to, err := u.year(ctx)
	if err != nil {
		return report, fmt.Errorf("a year of usage: %w", err)
	}
	looker, err := openViewer(ctx, u.Admin.Nodes[0], u.Admin.Key)
	if err != nil {
		return report, err
	}
	defer looker.http.CloseIdleConnections()
	at := "/console/accounts/" + yearAccount + "/sandbox/"
	asked := url.Values{
		"customer": {year}, "by": {"day"},
		"from": {from.Format(time.DateOnly)}, "to": {to.Format(time.DateOnly)},
	}
	report.Year, err = u.open(ctx, looker, at+"usage?"+asked.Encode(), at+"customers/"+year)
	if err != nil {
		return report, err
	}
	at = "/console/accounts/" + url.PathEscape(u.Admin.Account) + "/sandbox/"
	report.Environment, err = u.open(ctx, looker,
		at+"overview", at+"usage", at+"denied", at+"customers")
	return report, err
}

// open measures pages.
func (u *UsagePages) open(
	ctx context.Context, v *viewer, paths ...string,
) (all []PageTime, err error) {
	for _, path := range paths {
		times := make([]time.Duration, 0, u.Looks)
		for i := range u.Looks + 1 {
			began := time.Now()
			status, err := v.ask(ctx, "GET", path, nil)
			if err == nil && status != 200 {
				err = fmt.Errorf("%s: %d", path, status)
			}
			if err != nil {
				return nil, err
			}
			if i > 0 {
				times = append(times, time.Since(began))
			}
		}
		slices.Sort(times)
		name, _, _ := strings.Cut(path[strings.LastIndexByte(path, '/')+1:], "?")
		if strings.Contains(path, "/customers/") {
			name = "customer"
		}
		all = append(all, PageTime{name, times[len(times)/2], times[len(times)*9/10]})
	}
	return all, nil
}

// year makes an account with a customer who uses three features in each hour of a year, for which
// its sandbox's clock is moved. It returns the customer and the year's first and last day.
func (u *UsagePages) year(ctx context.Context) (customer string, from, to time.Time, err error) {
	features := []string{u.Feature}
	for i := 1; i < yearFeatures; i++ {
		features = append(features, fmt.Sprintf("%s-%d", u.Feature, i))
	}
	h := Hosted{Checks: u.Config} // its call is all that is used of it
	config := u.Config
	config.Customers, config.Admin.Account = 1, yearAccount
	if config.Key, err = h.account(ctx, yearAccount, u.Plan, features...); err != nil {
		return "", from, to, err
	}
	run, err := New(config)
	if err == nil {
		err = run.createCustomers(ctx)
	}
	if err != nil {
		return "", from, to, err
	}
	conn := newConnection(run.Nodes[0])
	defer func() { err = errors.Join(err, conn.close()) }()
	if from, err = run.clock(ctx); err != nil {
		return "", from, to, err
	}
	to = from
	for range yearWeeks {
		week := to
		to = to.AddDate(0, 0, 7)
		if err = run.advance(ctx, to); err != nil {
			return "", from, to, err
		}
		batch, err := run.weekOf(week, features)
		if err == nil {
			err = run.insist(conn, batch, hoursOfWeek*len(features))
		}
		if err != nil {
			return "", from, to, err
		}
	}
	return run.customer(0), from, to, nil
}

// weekOf is a batch with an event of each feature in each hour of a week.
func (r *Run) weekOf(begin time.Time, features []string) ([]byte, error) {
	var events []map[string]any
	for hour := range hoursOfWeek {
		// Half an hour within: the clock has gone on by the time that the batch comes.
		at := begin.Add(time.Duration(hour)*time.Hour + 30*time.Minute)
		for _, feature := range features {
			events = append(events, map[string]any{
				"eventIdempotencyKey": r.name + "-" + feature + "-" + at.Format(occurredLayout),
				"eventName":           feature, "customerReferenceId": r.customer(0), "usageUnits": 7,
				"occurredAt": at.UTC().Format(occurredLayout),
			})
		}
	}
	body, err := json.Marshal(events)
	if err != nil {
		return nil, err
	}
	return r.request("POST", "/api/v1/client/events/batch", body), nil
}

// slowest is the page that took longest, and what all took.
func slowest(pages []PageTime) (most time.Duration, text string) {
	var parts []string
	for _, p := range pages {
		most = max(most, p.Median)
		parts = append(parts, fmt.Sprintf("%s %.1f (%.1f) ms", p.Page, milliseconds(p.Median),
			milliseconds(p.Slowest9)))
	}
	return most, strings.Join(parts, ", ")
}

// The limits of pages.
const (
	goalYear        = 10 * time.Millisecond
	goalEnvironment = 100 * time.Millisecond
)

func yearPages(f *Figures) (string, Verdict) {
	if f.Usage == nil {
		return "", VerdictUnknown
	}
	most, text := slowest(f.Usage.Year)
	return text + ": median (9 of 10)", verdict(most <= goalYear)
}

func environmentPages(f *Figures) (string, Verdict) {
	if f.Usage == nil {
		return "", VerdictUnknown
	}
	most, text := slowest(f.Usage.Environment)
	return fmt.Sprintf("%s: median (9 of 10), %d customers", text, f.Usage.Customers),
		sized(most <= goalEnvironment, f.Usage.Customers >= goalCustomers)
}

// counted is the processor time of a single event by that with its counts by hour, which each node
// makes by itself.
func counted(f *Figures) (string, Verdict) {
	count := f.Benchmarks["BenchmarkCountSegment"]["ns/event"]
	ours, _ := f.versus(ScenarioIngest)
	if ours == nil || count == 0 || ours.Cost == 0 {
		return "", VerdictUnknown
	}
	part := countingNodes * count / 1e9
	ratio := 1 - part/ours.Cost
	return fmt.Sprintf("%.3f (%.1f µs an event on all nodes, of them %.2f to count it)", ratio,
		1e6*ours.Cost, 1e6*part), verdict(ratio >= 0.98)
}

// countingNodes are those of the cluster that is measured.
const countingNodes = 3
