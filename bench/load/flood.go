package load

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

// Flood measures an account with a small, steady load while another account floods the cluster with
// batches: how much of the small load is accepted, and how long it takes.
type Flood struct {
	// Batches is the flood: a closed loop of ScenarioBatch by the Target's own account.
	Batches Config
	// Command is a program, and its arguments, that does ServeFlood on its standard input and output.
	// Without one the flood is of this process; then what the quiet account sends is late, and that
	// counts as the cluster's.
	Command []string
	// Events and Checks are how many single events and checks the quiet account, which Measure
	// creates, sends each second.
	Events, Checks int
}

// FloodReport is what came of Flood.
type FloodReport struct {
	Connections, Batch int
	Elapsed            time.Duration
	// Events and Checks are those of the quiet account.
	Events, Checks FloodSide
	// Flooded is how many of the flooding account's events were accepted each second, Limited how
	// many of its requests were answered 429.
	Flooded float64
	Limited uint64
	// Terms is by how much the billing group's term rose: each election raises it.
	Terms uint64
	// Errors are the answers, other than success, that each account got.
	Errors, FloodErrors map[string]uint64
	// GeneratorCores is how many cores the flood's generator used. Late is how late the quiet
	// account's generator made requests known, of 99 in 100 at most.
	GeneratorCores float64
	Late           time.Duration
}

// FloodSide is what the quiet account got: of Due requests, Accepted were answered with success.
type FloodSide struct {
	Due, Accepted uint64
	P50, P99      time.Duration
}

// Share is which part was accepted.
func (s FloodSide) Share() float64 {
	return min(1, float64(s.Accepted)/float64(max(s.Due, 1)))
}

const (
	quietAccount = "quiet"
	// quietConnections are enough for a request that takes seconds: none is late for want of one.
	quietConnections = 128
	quietCustomers   = 100
)

// Measure carries it out on a cluster of its own: afterwards it has one account more. It is a
// *Refusal when counters of either account are not what was acknowledged.
func (f *Flood) Measure(ctx context.Context) (report FloodReport, err error) {
	if f.Events < 1 || f.Checks < 1 || len(f.Batches.Admin.Nodes) == 0 {
		return report, fmt.Errorf("%d events, %d checks a second: want 1 of each at least, of a cluster",
			f.Events, f.Checks)
	}
	f.Batches.Scenario = ScenarioBatch
	flood, err := f.start(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, flood.stop()) }()
	events, checks, err := f.quiet(ctx)
	if err != nil {
		return report, fmt.Errorf("prepare the quiet account: %w", err)
	}
	runs := []*Run{events, checks}
	for i, r := range runs {
		r.name += string(rune('a' + i)) // they may begin in the same millisecond
		if err = r.createCustomers(ctx); err != nil {
			return report, fmt.Errorf("create customers: %w", err)
		}
	}
	_, before, err := f.Batches.Admin.reign(ctx)
	if err != nil {
		return report, err
	}
	if err = flood.tell(floodBegin); err != nil {
		return report, err
	}
	reports, err := together(ctx, runs)
	if err != nil {
		return report, err
	}
	flooded, err := flood.ask(floodEnd)
	if err != nil {
		return report, err
	}
	report = FloodReport{
		Connections: flooded.Connections, Batch: flooded.Batch, Elapsed: reports[0].Elapsed,
		Events: sideDue(reports[0]), Checks: sideDue(reports[1]), Flooded: flooded.UnitRate,
		Errors: reports[0].Errors, FloodErrors: flooded.Errors,
		GeneratorCores: flooded.GeneratorCores, Late: max(reports[0].Late, reports[1].Late),
	}
	if report.Errors == nil {
		report.Errors = map[string]uint64{}
	}
	for message, n := range reports[1].Errors {
		report.Errors[message] += n
	}
	for message, n := range report.FloodErrors {
		if strings.Contains(message, " 429 ") {
			report.Limited += n
		}
	}
	_, after, err := f.Batches.Admin.reign(ctx)
	if err != nil {
		return report, err
	}
	report.Terms = after - before
	// When the flood is over, the counters of all customers are read.
	pause(ctx, 2*time.Second)
	for _, r := range runs {
		if v, err := r.verify(ctx); err != nil {
			return report, unlike(v, err)
		}
	}
	if _, err = flood.ask(floodVerify); err != nil {
		return report, err
	}
	return report, ctx.Err()
}

// unlike is the mistake of a run whose counters are not what was acknowledged.
func unlike(v Verification, err error) *Refusal {
	return refuse("%v: lost %d, doubled %d", err, v.Lost, v.Doubled)
}

func sideDue(r Report) FloodSide {
	return FloodSide{
		Due: uint64(float64(r.Rate) * r.Elapsed.Seconds()), Accepted: r.Requests,
		P50: r.Latency["p50"], P99: r.Latency["p99"],
	}
}

// together puts on loads at once, each for its Duration.
func together(ctx context.Context, runs []*Run) ([]Report, error) {
	reports, errs := make([]Report, len(runs)), make([]error, len(runs))
	var all sync.WaitGroup
	for i, r := range runs {
		all.Go(func() {
			reports[i], errs[i] = r.measure(ctx, r.hold)
		})
	}
	all.Wait()
	return reports, errors.Join(errs...)
}

// measure puts on the load while during runs, and reports it unverified.
func (r *Run) measure(ctx context.Context,
	during func(ctx context.Context, begin time.Time) error,
) (report Report, err error) {
	report.Config = r.Config
	workers, err := r.load(ctx, &report, during)
	if err != nil {
		return report, err
	}
	r.collect(workers, &report)
	r.problems(&report)
	return report, nil
}

// quiet creates the second account, and what it does.
func (f *Flood) quiet(ctx context.Context) (events, checks *Run, err error) {
	h := Hosted{Checks: f.Batches} // its call is all that is used of it
	key, err := h.account(ctx, quietAccount, f.Batches.Plan, f.Batches.Feature)
	if err != nil {
		return nil, nil, err
	}
	config := f.Batches
	config.Key, config.Connections, config.Customers = key, quietConnections, quietCustomers
	config.Scenario, config.Rate = ScenarioIngest, f.Events
	if events, err = New(config); err != nil {
		return nil, nil, err
	}
	config.Scenario, config.Rate = ScenarioCheck, f.Checks
	checks, err = New(config)
	return events, checks, err
}

// account creates an account with a plan that includes features, and returns a key of its sandbox.
func (h *Hosted) account(ctx context.Context, name, plan string, features ...string) (
	key string, err error,
) {
	admin := "/api/v1/admin/accounts"
	err = h.call(ctx, call{path: admin, admin: true, body: map[string]string{"name": name}}, 201, nil)
	if err != nil {
		return "", err
	}
	environment := admin + "/" + name + "/environments/sandbox"
	var known, included []any
	for _, feature := range features {
		known = append(known, map[string]any{"key": feature, "name": feature})
		included = append(included, map[string]any{
			"key": feature, "pricingType": "included", "pricing": map[string]any{},
		})
	}
	catalog := map[string]any{
		"features": known,
		"plans": []any{map[string]any{
			"key": plan, "name": "Bench", "priceAmount": "1.00", "currency": "USD",
			"intervalMonths": 1, "features": included,
		}},
	}
	put := call{method: "PUT", path: environment + "/catalog", admin: true, body: catalog}
	if err = h.call(ctx, put, 200, nil); err != nil {
		return "", err
	}
	var made struct{ Data struct{ Key string } }
	err = h.call(ctx, call{
		path: environment + "/keys", admin: true,
		body: map[string]string{"scope": "full", "label": "bench"},
	}, 201, &made)
	return made.Data.Key, err
}
