package bench

import (
	"context"
	"encoding/json"
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
	// Events and Checks are how many single events and checks the quiet account, which Measure
	// creates, sends each second.
	Events, Checks int
	// Progress is told what happens.
	Progress func(string) `json:"-"`
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
	// GeneratorCores is how many cores the generator used, OtherCores how many everything else on
	// the machine that does not belong to the run.
	GeneratorCores, OtherCores float64
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
	flood, err := New(f.Batches)
	if err != nil {
		return report, err
	}
	events, checks, err := f.quiet(ctx)
	if err != nil {
		return report, fmt.Errorf("prepare the quiet account: %w", err)
	}
	runs := []*Run{flood, events, checks}
	for i, r := range runs {
		r.name += string(rune('a' + i)) // they may begin in the same millisecond
		if err = r.createCustomers(ctx); err != nil {
			return report, fmt.Errorf("create customers: %w", err)
		}
	}
	before, err := f.Batches.Admin.term(ctx)
	if err != nil {
		return report, err
	}
	reports, err := f.beside(ctx, runs)
	if err != nil {
		return report, err
	}
	report = FloodReport{
		Connections: flood.Connections, Batch: flood.Batch, Elapsed: reports[1].Elapsed,
		Events: sideDue(reports[1]), Checks: sideDue(reports[2]), Flooded: reports[0].UnitRate,
		Errors: reports[1].Errors, FloodErrors: reports[0].Errors,
		GeneratorCores: reports[0].GeneratorCores, OtherCores: reports[0].OtherCores,
	}
	if report.Errors == nil {
		report.Errors = map[string]uint64{}
	}
	for message, n := range reports[2].Errors {
		report.Errors[message] += n
	}
	for message, n := range report.FloodErrors {
		if strings.Contains(message, " 429 ") {
			report.Limited += n
		}
	}
	after, err := f.Batches.Admin.term(ctx)
	if err != nil {
		return report, err
	}
	report.Terms = after - before
	return report, f.verify(ctx, runs)
}

func sideDue(r Report) FloodSide {
	return FloodSide{
		Due: uint64(float64(r.Rate) * r.Elapsed.Seconds()), Accepted: r.Requests,
		P50: r.Latency["p50"], P99: r.Latency["p99"],
	}
}

// beside puts all of the loads on at once and measures the flood for as long as the others.
func (f *Flood) beside(ctx context.Context, runs []*Run) ([]Report, error) {
	reports, errs := make([]Report, len(runs)), make([]error, len(runs))
	var all, quiet sync.WaitGroup
	quiet.Add(len(runs) - 1)
	ended := make(chan struct{})
	for i, r := range runs {
		during := r.hold
		if i == 0 {
			during = func(ctx context.Context, _ time.Time) error {
				select {
				case <-ended:
				case <-ctx.Done():
				}
				return ctx.Err()
			}
		}
		all.Go(func() {
			if i > 0 {
				defer quiet.Done()
			}
			reports[i].Config = r.Config
			workers, err := r.load(ctx, &reports[i], during)
			if errs[i] = err; err == nil {
				r.collect(workers, &reports[i])
				r.problems(&reports[i])
			}
		})
	}
	quiet.Wait()
	close(ended)
	all.Wait()
	return reports, errors.Join(errs...)
}

// verify reads the counters of all customers, when the flood is over.
func (f *Flood) verify(ctx context.Context, runs []*Run) error {
	pause(ctx, 2*time.Second)
	for _, r := range runs {
		if v, err := r.verify(ctx); err != nil {
			return &Refusal{[]string{fmt.Sprintf("%v: lost %d, doubled %d", err, v.Lost, v.Doubled)}}
		}
	}
	return ctx.Err()
}

// quiet creates the second account, and what it does.
func (f *Flood) quiet(ctx context.Context) (events, checks *Run, err error) {
	h := Hosted{Checks: f.Batches} // its call is all that is used of it
	admin := "/api/v1/admin/accounts"
	create := call{path: admin, admin: true, body: `{"name":"` + quietAccount + `"}`}
	err = h.call(ctx, create, 201, nil)
	if err != nil {
		return nil, nil, err
	}
	environment := admin + "/" + quietAccount + "/environments/sandbox"
	catalog, err := json.Marshal(map[string]any{
		"features": []any{map[string]any{"key": f.Batches.Feature, "name": "Requests"}},
		"plans": []any{map[string]any{
			"key": f.Batches.Plan, "name": "Quiet", "priceAmount": "1.00", "currency": "USD",
			"intervalMonths": 1, "features": []any{map[string]any{
				"key": f.Batches.Feature, "pricingType": "included", "pricing": map[string]any{},
			}},
		}},
	})
	if err != nil {
		return nil, nil, err
	}
	put := call{method: "PUT", path: environment + "/catalog", admin: true, body: string(catalog)}
	if err = h.call(ctx, put, 200, nil); err != nil {
		return nil, nil, err
	}
	var made struct{ Data struct{ Key string } }
	err = h.call(ctx, call{
		path: environment + "/keys", admin: true, body: `{"scope":"full","label":"bench"}`,
	}, 201, &made)
	if err != nil {
		return nil, nil, err
	}
	config := f.Batches
	config.Key, config.Connections, config.Customers = made.Data.Key, quietConnections, quietCustomers
	config.Scenario, config.Rate = ScenarioIngest, f.Events
	if events, err = New(config); err != nil {
		return nil, nil, err
	}
	config.Scenario, config.Rate = ScenarioCheck, f.Checks
	checks, err = New(config)
	return events, checks, err
}
