package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// ScenarioClose closes the billing period of all customers at once, by moving the sandbox's clock,
// while checks and single events go on at a fixed rate.
const ScenarioClose Scenario = "period-close"

// CloseReport is what came of ScenarioClose. Durations are nanoseconds in JSON.
type CloseReport struct {
	Config
	Name  string
	Setup time.Duration
	// Before is the load without anything closing, Closing the time from moving the clock until all
	// that was due had happened.
	Before, Closing Phase
	// Invoices were read of InvoiceCustomers customers, and bill the units that were acknowledged.
	InvoiceCustomers, Invoices int
	Refused                    uint64
	Errors                     map[string]uint64
}

// Phase is a part of the load.
type Phase struct {
	Elapsed        time.Duration
	Checks, Events Pace
	// MaxEntry is, per node, what the longest entry kept the state machine, as the node says.
	MaxEntry map[string]time.Duration
}

// Pace is what came of one kind of request in a phase. Latency counts from when the request was
// meant to be sent: one that waits for the one before it waits, too.
type Pace struct {
	Requests uint64
	Latency  map[string]time.Duration
}

// phases of the load; requests outside of them are not measured.
const (
	phaseNone = iota
	phaseBefore
	phaseClosing
	phases
)

type closing struct {
	*Run
	phase atomic.Int32
	// billed is, per customer, what was acknowledged when the closing began: that much is due.
	billed  []uint32
	longest [phases]map[string]time.Duration
}

// pacer is one connection that sends at fixed instants.
type pacer struct {
	worker
	closing *closing
	checks  bool
	notes   [phases]*hdrhistogram.Histogram
}

// Close carries out ScenarioClose: it creates the customers, each with a subscription and some
// usage, moves the clock to shortly before the end of their periods, puts the load on, and moves
// the clock past it.
func (r *Run) Close(ctx context.Context) (CloseReport, error) {
	report := CloseReport{Config: r.Config, Name: r.name}
	if len(r.Admin.Nodes) == 0 {
		return report, errors.New("period-close needs a cluster of `tollgate dev`")
	}
	c := &closing{Run: r}
	begin := time.Now()
	end, err := c.prepare(ctx)
	if err != nil {
		return report, fmt.Errorf("prepare: %w", err)
	}
	report.Setup = time.Since(begin)
	if err = c.run(ctx, &report, end); err != nil {
		return report, err
	}
	report.Invoices, err = c.verifyInvoices(ctx)
	report.InvoiceCustomers = min(r.AuditSample, r.Customers)
	all := Report{}
	r.problems(&all)
	report.Refused, report.Errors = all.Refused, all.Errors
	return report, err
}

// margin is how far from the ends of the periods the clock stays, on either side.
const margin = time.Hour

// prepare makes the customers, and returns an instant at which all of their periods have ended.
func (c *closing) prepare(ctx context.Context) (end time.Time, err error) {
	first, err := c.clock(ctx)
	if err != nil {
		return end, err
	}
	if err = c.createCustomers(ctx); err != nil {
		return end, fmt.Errorf("create customers: %w", err)
	}
	last, err := c.clock(ctx)
	if err != nil {
		return end, err
	}
	if err = c.advance(ctx, monthAfter(first).Add(-margin)); err != nil {
		return end, err
	}
	now, err := c.clock(ctx)
	if err != nil {
		return end, err
	}
	c.occurredAt = now.Format(time.RFC3339)
	return monthAfter(last).Add(margin), c.fill(ctx, c.Customers)
}

// monthAfter is where the period ends that begins now: the same day of the next month, or its last.
func monthAfter(t time.Time) time.Time {
	year, month, day := t.Date()
	next := time.Date(year, month+1, 1, t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	return next.AddDate(0, 0, min(day, next.AddDate(0, 1, -1).Day())-1)
}

// run puts the load on, and closes the periods in the middle of it.
func (c *closing) run(ctx context.Context, report *CloseReport, end time.Time) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var stop atomic.Bool
	var group sync.WaitGroup
	pacers := make([]*pacer, c.Connections)
	for i := range pacers {
		pacers[i] = c.pacer(i)
		group.Go(func() { pacers[i].loop(&stop) })
	}
	watched := make(chan struct{})
	go func() { defer close(watched); c.watch(ctx) }()

	memory := cmp.Or(c.Memory, maxSpan)
	pause(ctx, max(c.Warmup, memory)) // what the nodes remember of the setup fades
	err := c.measure(phaseBefore, &report.Before.Elapsed, func() error {
		pause(ctx, c.Duration)
		return ctx.Err()
	})
	c.billed = make([]uint32, c.Customers)
	for n := range c.billed {
		c.billed[n] = c.acknowledged[n].Load()
	}
	if err == nil {
		err = c.measure(phaseClosing, &report.Closing.Elapsed, func() error {
			return c.advance(ctx, end)
		})
	}
	stop.Store(true)
	group.Wait()
	cancel()
	<-watched
	for _, p := range []struct {
		number int
		phase  *Phase
	}{{phaseBefore, &report.Before}, {phaseClosing, &report.Closing}} {
		p.phase.MaxEntry = c.longest[p.number]
		p.phase.Checks = pace(pacers, p.number, true)
		p.phase.Events = pace(pacers, p.number, false)
	}
	return err
}

func (c *closing) measure(phase int32, elapsed *time.Duration, do func() error) error {
	begin := time.Now()
	c.phase.Store(phase)
	err := do()
	c.phase.Store(phaseNone)
	*elapsed = time.Since(begin)
	return err
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// pacer makes the i-th connection; every other one checks.
func (c *closing) pacer(i int) *pacer {
	p := &pacer{closing: c, checks: i%2 == 0, worker: worker{
		Run: c.Run, connection: newConnection(c.Nodes[i/2%len(c.Nodes)]),
		random: rand.New(rand.NewPCG(c.Seed, uint64(i))), customers: make([]uint32, 1),
	}}
	p.Run = c.Run
	for phase := range p.notes {
		p.notes[phase] = newHistogram()
	}
	return p
}

// loop sends a request at each instant of its own. What is late is sent at once, and its latency
// counts from when it was due.
func (p *pacer) loop(stop *atomic.Bool) {
	every := time.Duration(p.Connections) * time.Second / time.Duration(p.Rate)
	check, event := p.checkTemplate(), p.eventTemplate(p.random.IntN(1<<30)+1<<20, 1, false)
	due := time.Now().Add(time.Duration(p.random.Int64N(int64(every))))
	for next := uint64(0); !stop.Load(); due = due.Add(every) {
		time.Sleep(time.Until(due))
		phase := p.closing.phase.Load()
		var err error
		if p.checks {
			_, err = p.check(check)
		} else {
			n := p.random.Uint32N(uint32(p.Run.Customers))
			p.customers[0] = n
			event.setCustomer(0, uint64(n))
			event.setKey(0, next)
			next++
			_, err = p.record(event)
		}
		if err != nil {
			p.note(err.Error())
			continue
		}
		if err = p.notes[phase].RecordValue(max(1, time.Since(due).Microseconds())); err != nil {
			p.note(err.Error())
		}
	}
	if err := p.close(); err != nil {
		p.note(err.Error())
	}
}

// pace adds up what the pacers of one kind noted in a phase.
func pace(pacers []*pacer, phase int, checks bool) Pace {
	all := newHistogram()
	for _, p := range pacers {
		if p.checks == checks {
			all.Merge(p.notes[phase])
		}
	}
	return Pace{Requests: uint64(all.TotalCount()), Latency: byPercentile(all)}
}

// verifyInvoices reads the invoices of some customers: each has the initial one and one for the
// period that ended, which bills what was acknowledged before the closing began, and not more than
// was acknowledged in all.
func (c *closing) verifyInvoices(ctx context.Context) (read int, err error) {
	sample := min(c.AuditSample, c.Customers)
	var invoices, wrong atomic.Int64
	err = c.each(ctx, sample, func(conn *connection, i int) error {
		n := i * (c.Customers / max(sample, 1))
		var answer struct {
			Data []struct {
				Type  string `json:"type"`
				Items []struct {
					FeatureKey string `json:"featureKey"`
					Quantity   uint32 `json:"quantity"`
				} `json:"items"`
			} `json:"data"`
		}
		path := "/api/v1/client/billing/invoices/" + c.customer(n)
		if err := c.get(conn, path, &answer); err != nil {
			return err
		}
		regular, quantity := 0, uint32(0)
		for _, invoice := range answer.Data {
			if invoice.Type == "REGULAR" {
				regular++
			}
			for _, item := range invoice.Items {
				if item.FeatureKey == c.Feature {
					quantity += item.Quantity
				}
			}
		}
		invoices.Add(int64(len(answer.Data)))
		most := c.acknowledged[n].Load() + c.unknown[n].Load()
		if regular != 1 || quantity < c.billed[n] || quantity > most {
			wrong.Add(1)
			c.note(fmt.Sprintf("customer %s: %d invoices of the period bill %d units, of %d to %d",
				c.customer(n), regular, quantity, c.billed[n], most))
		}
		return nil
	})
	if err == nil && wrong.Load() > 0 {
		err = fmt.Errorf("the invoices of %d customers are not what was acknowledged", wrong.Load())
	}
	return int(invoices.Load()), err
}

// Print writes the report as a table.
func (r CloseReport) Print(out io.Writer) error {
	table := newSheet(out)
	table.row("scenario\t%s of %d subscriptions, %d requests a second over %d connections",
		r.Scenario, r.Customers, r.Rate, r.Connections)
	for _, p := range []struct {
		name string
		*Phase
	}{{"before", &r.Before}, {"closing", &r.Closing}} {
		table.row(p.name+"\t%s", p.Elapsed.Round(time.Millisecond))
		for _, kind := range []struct {
			name string
			Pace
		}{{"checks", p.Checks}, {"events", p.Events}} {
			l := kind.Latency
			table.row("  "+kind.name+"\t%d, p50 %s  p90 %s  p99 %s  p99.9 %s  max %s",
				kind.Requests, l["p50"], l["p90"], l["p99"], l["p99.9"], l["p100"])
		}
		for _, node := range slices.Sorted(maps.Keys(p.MaxEntry)) {
			table.row("  longest entry\t%s on %s", p.MaxEntry[node].Round(time.Microsecond), node)
		}
	}
	table.row("invoices\t%d of %d customers, as acknowledged", r.Invoices, r.InvoiceCustomers)
	table.row("refused\t%d", r.Refused)
	table.mistakes(r.Errors)
	return table.end()
}
