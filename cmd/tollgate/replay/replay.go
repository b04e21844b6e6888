// Package replay meters a trace of LLM requests through the public API: it looks the customers and
// their subscriptions up, creates what is absent, sends three usage events for each request, and
// reads every counter back. All of it may be done again: keys, times and bodies are a function of
// the trace and the customers, so a second run is nothing but duplicates.
package replay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tollgate/cmd/tollgate/trace"
	api "tollgate/sdk/go"
)

// Features that a request is metered by, in the order of Usage.Used.
var Features = [3]string{"requests", "input-tokens", "output-tokens"}

// EventsPerRow is the number of usage events that one request becomes.
const EventsPerRow = len(Features)

// Options say what to meter, and how.
type Options struct {
	// Client authenticates with a key of scope full.
	Client *api.Client
	Rows   []trace.Row
	// Prefix begins the names of customers and idempotency keys: row i belongs to the customer
	// <Prefix>-<i mod Customers, three digits>, its keys are <Prefix>-<i>-req, -in and -out.
	Prefix    string
	Customers int
	// Plan is the key of the plan that customers are subscribed to.
	Plan string
	// Batch is the number of events in a request, up to 10,000; 0 sends each alone.
	Batch int
	// Connections is how many requests are under way at a time.
	Connections int
	// Patience bounds how long one request is repeated while no node can serve it.
	Patience time.Duration
	// OnProgress is called several times a second, and once at the end; nil for silence.
	OnProgress func(Progress)
}

// Progress is how far a replay has come.
type Progress struct {
	Done, Total         uint64 // usage events answered, and all of them
	Counted, Duplicates uint64
	Retries             uint64
	Elapsed             time.Duration
	P50, P99            time.Duration // latency of a request
	Finished            bool
}

// Rate is the number of events answered a second.
func (p Progress) Rate() float64 {
	if p.Elapsed <= 0 {
		return 0
	}
	return float64(p.Done) / p.Elapsed.Seconds()
}

// Summary is what a replay came to.
type Summary struct {
	Progress
	Customers []Usage
}

// Usage is what the cluster counted for one customer, read back from entitlement checks.
type Usage struct {
	Customer string
	// Used is the counter of each of Features, Expected what the trace adds up to.
	Used, Expected [EventsPerRow]string
	// LimitReached reports whether a check of output-tokens was denied because its limit is
	// reached.
	LimitReached bool
}

// AsTraced reports whether every counter is what the trace adds up to.
func (u Usage) AsTraced() bool { return u.Used == u.Expected }

type run struct {
	Options
	customers           []customer
	start               time.Time
	latency             latencies
	counted, duplicates atomic.Uint64
}

// Run meters the trace. On an error some of its events may have been counted; running it again
// counts the rest.
func Run(ctx context.Context, o Options) (Summary, error) {
	if err := o.validate(); err != nil {
		return Summary{}, err
	}
	r := &run{Options: o}
	if err := r.prepareCustomers(ctx); err != nil {
		return Summary{}, err
	}
	r.start = time.Now()
	if err := r.sendAll(ctx); err != nil {
		return Summary{}, err
	}
	last := r.progress()
	last.Finished = true
	if o.OnProgress != nil {
		o.OnProgress(last)
	}
	usage, err := r.readBack(ctx)
	return Summary{last, usage}, err
}

func (o Options) validate() error {
	switch {
	case len(o.Rows) == 0:
		return errors.New("nothing to meter")
	case o.Customers < 1 || o.Customers > 100_000:
		return fmt.Errorf("%d customers: want 1 to 100000", o.Customers)
	case o.Batch < 0 || o.Batch > 10_000:
		return fmt.Errorf("batch of %d: want 1 to 10000, or 0 for single events", o.Batch)
	case o.Connections < 1 || o.Connections > 4096:
		return fmt.Errorf("%d connections: want 1 to 4096", o.Connections)
	case o.Prefix == "" || len(o.Prefix) > 64:
		return fmt.Errorf("prefix %q: want 1 to 64 characters", o.Prefix)
	}
	return nil
}

// sendAll shares the events among workers. Events of the trace are numbered row × EventsPerRow +
// feature; a worker takes the next unit of them until none is left.
func (r *run) sendAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	total := len(r.Rows) * EventsPerRow
	unit := max(r.Batch, 1)
	var next atomic.Int64
	var first sync.Once
	var failure error
	var workers sync.WaitGroup
	for range min(r.Connections, (total+unit-1)/unit) {
		workers.Go(func() {
			send := r.sender()
			for ctx.Err() == nil {
				from := int(next.Add(int64(unit))) - unit
				if from >= total {
					return
				}
				if err := send(ctx, from, min(from+unit, total)); err != nil {
					first.Do(func() { failure = err })
					cancel()
				}
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	r.report(finished)
	if failure != nil {
		return failure
	}
	return ctx.Err()
}

// report calls OnProgress until the workers have finished.
func (r *run) report(finished <-chan struct{}) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-finished:
			return
		case <-tick.C:
			if r.OnProgress != nil {
				r.OnProgress(r.progress())
			}
		}
	}
}

func (r *run) progress() Progress {
	p := Progress{
		Counted: r.counted.Load(), Duplicates: r.duplicates.Load(),
		Total:   uint64(len(r.Rows) * EventsPerRow),
		Retries: r.Client.Retries(), Elapsed: time.Since(r.start),
	}
	p.Done = p.Counted + p.Duplicates
	p.P50, p.P99 = r.latency.quantile(0.5), r.latency.quantile(0.99)
	return p
}
