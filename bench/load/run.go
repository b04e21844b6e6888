// Package load puts load on a cluster over HTTP, as its users would, and checks afterwards that
// the cluster counted what it acknowledged. It imports nothing of the program that it measures.
package load

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Scenario names what every connection does over and over.
type Scenario string

// Scenarios.
const (
	// ScenarioCheck asks for entitlement decisions.
	ScenarioCheck Scenario = "check"
	// ScenarioIngest records usage events one by one.
	ScenarioIngest Scenario = "ingest"
	// ScenarioBatch records usage events in batches.
	ScenarioBatch Scenario = "ingest-batch"
)

// writes reports whether the scenario records events.
func (s Scenario) writes() bool { return s != ScenarioCheck && s != ScenarioSimulate }

// batches reports whether the scenario's requests are batches.
func (s Scenario) batches() bool { return s == ScenarioBatch || s == ScenarioSnapshot }

var scenarios = []Scenario{
	ScenarioCheck, ScenarioSimulate, ScenarioIngest, ScenarioBatch, ScenarioMixed, ScenarioHot,
	ScenarioLimit, ScenarioRepeats, ScenarioClose, ScenarioFailover, ScenarioRecover,
	ScenarioSnapshot, ScenarioScale, ScenarioMemory, ScenarioPairs,
}

// Config says what to measure.
type Config struct {
	Target
	// Plan is the key of the plan that customers subscribe to, Feature a feature of it.
	Plan, Feature string
	Scenario      Scenario
	// Connections work at the same time, each sending its next request when the last was answered.
	Connections int
	// Customers are created anew for the run, and drawn at random.
	Customers int
	// Batch is the number of events in a request of ScenarioBatch.
	Batch int
	// Limit is how many units of Feature the Plan lets a customer use; of ScenarioLimit.
	Limit int
	// Events are recorded before ScenarioRecover, ScenarioSnapshot and ScenarioScale measure, and
	// are what ScenarioMemory measures.
	Events int
	// Kills is how often ScenarioFailover ends the leader.
	Kills int
	// Rate makes the loop an open one: so many requests a second are due, whatever becomes of them,
	// and latency counts from then. 0 is a closed loop: each connection sends its next request when
	// the last was answered. Of ScenarioClose half are checks, half single events.
	Rate int
	// Memory is how long nodes remember an entry that took long: that long ScenarioClose waits
	// before it measures; 0 is ten seconds.
	Memory time.Duration
	// Warmup is not measured; Duration is.
	Warmup, Duration time.Duration
	// Least makes it last until so many requests were answered, a minute more at most.
	Least int
	// AuditSample bounds for how many customers the audit events are counted.
	AuditSample int
	// AuditPatience bounds how long audit events may take to appear in the journal, and how long a
	// node may lag with what it makes durable.
	AuditPatience time.Duration
	// Touch is how many bytes of free memory are touched before anything is measured.
	Touch uint64
	// Seed is of the draw of customers.
	Seed uint64
	// MaxGenerator is the share of the machine's cores that the generator may use; 0 is 0.7.
	MaxGenerator float64
	// MaxLate is how late the generator of an open loop may be, of 99 in 100 requests; 0 is 10 ms.
	MaxLate time.Duration
}

// occurredLayout is the form of an event's instant.
const occurredLayout = "2006-01-02T15:04:05.000Z"

// Run is one measurement.
type Run struct {
	Config
	name string // begins the names of everything that this run creates
	// occurredAt is when events occurred: after their customers were created. Those of before
	// would be looked for among closed periods.
	occurredAt string
	measuring  atomic.Bool
	// Per customer: units that the cluster acknowledged, units whose fate is unknown, and checks.
	acknowledged, unknown, checks []atomic.Uint32
	refused                       atomic.Uint64
	claimed                       claims        // of ScenarioRepeats
	turn                          atomic.Uint64 // of ScenarioLimit: events so far
	denied                        []atomic.Bool // of ScenarioLimit: customers who were refused
	answered                      atomic.Int64  // counts up to Least
	persistent                    *failing      // of ScenarioFailover
	made                          bool          // customers are those of a run before
	firstKey                      int           // number of the first worker, in its keys
	errors                        messages
	// Progress is told what happens in a run that takes long.
	Progress Progress `json:"-"`
}

// Progress is told what happens; nil: not told.
type Progress func(string)

func (p Progress) say(format string, args ...any) {
	if p != nil {
		p(fmt.Sprintf(format, args...))
	}
}

// maxEvents bounds Config.Events.
const maxEvents = 100_000_000

// messages counts what went wrong, by message.
type messages struct {
	mu    sync.Mutex
	count map[string]uint64
}

// maxMessages bounds the kinds of messages that are told apart.
const maxMessages = 200

// New returns a run; Do carries it out.
func New(c Config) (*Run, error) {
	limit := uint64(1)
	for range customerDigits {
		limit *= 10
	}
	switch {
	case len(c.Nodes) == 0:
		return nil, errors.New("no node to measure")
	case c.Connections < 1 || c.Connections > 10_000:
		return nil, fmt.Errorf("%d connections: want 1 to 10000", c.Connections)
	case c.Customers < 1 || uint64(c.Customers) > limit:
		return nil, fmt.Errorf("%d customers: want 1 to %d", c.Customers, limit)
	case c.Batch < 1 || c.Batch > 10_000:
		return nil, fmt.Errorf("batches of %d: want 1 to 10000", c.Batch)
	case c.Rate < 0 || c.Rate > 1_000_000:
		return nil, fmt.Errorf("%d requests a second: want at most a million", c.Rate)
	case c.Scenario == ScenarioClose && (c.Rate < 1 || c.Rate > 100_000 || c.Connections < 2):
		return nil, fmt.Errorf("%d requests a second over %d connections", c.Rate, c.Connections)
	case c.Scenario == ScenarioLimit && (c.Limit < 1 || c.Limit > maxLimit):
		return nil, fmt.Errorf("a limit of %d: want 1 to %d", c.Limit, maxLimit)
	case c.Events < 0 || c.Events > maxEvents:
		return nil, fmt.Errorf("%d events before the measurement: want 0 to %d", c.Events, maxEvents)
	case c.Scenario == ScenarioFailover && (c.Kills < 1 || c.Kills > maxKills):
		return nil, fmt.Errorf("%d kills: want 1 to %d", c.Kills, maxKills)
	case !slices.Contains(scenarios, c.Scenario):
		return nil, fmt.Errorf("scenario %q: want one of %q", c.Scenario, scenarios)
	}
	now := time.Now().UTC()
	var claimed claims
	if c.Scenario == ScenarioRepeats {
		claimed = make(claims, maxRepeated/64)
	}
	return &Run{
		claimed:      claimed,
		Config:       c,
		name:         "b" + strconv.FormatInt(now.UnixMilli(), 36),
		occurredAt:   now.Format(occurredLayout),
		acknowledged: make([]atomic.Uint32, c.Customers),
		unknown:      make([]atomic.Uint32, c.Customers),
		checks:       make([]atomic.Uint32, c.Customers),
		denied:       make([]atomic.Bool, c.Customers),
	}, nil
}

// worker is one connection and what it noted.
type worker struct {
	*Run
	*connection
	random    *rand.Rand
	latency   *hdrhistogram.Histogram
	requests  uint64
	units     uint64
	begun     *atomic.Int64 // when the measurement began, in nanoseconds since 1970
	samples   []sample
	customers []uint32 // of the request under way
}

// Do creates the customers, puts the load on, and verifies. The error is a *Refusal when the load
// was put on, and what was measured is worth nothing.
func (r *Run) Do(ctx context.Context) (Report, error) {
	report, _, err := r.carryOut(ctx, r.hold)
	return report, err
}

// carryOut is Do; it measures while during runs, and also returns what the workers noted.
func (r *Run) carryOut(ctx context.Context, during func(ctx context.Context, begin time.Time) error,
) (Report, []*worker, error) {
	begin := time.Now()
	report := Report{Config: r.Config, Name: r.name}
	if !r.Blank && !r.made {
		if err := r.createCustomers(ctx); err != nil {
			return report, nil, fmt.Errorf("create customers: %w", err)
		}
		if err := r.fill(ctx, r.Events); err != nil {
			return report, nil, fmt.Errorf("record events: %w", err)
		}
	}
	report.Setup = time.Since(begin)
	if err := TouchMemory(ctx, r.Touch); err != nil {
		return report, nil, err
	}
	before, err := r.witness(ctx)
	if err != nil {
		return report, nil, err
	}
	if r.persistent != nil {
		before.syncs = nil // processes count their fsyncs since they began, which they do anew
	}
	workers, err := r.load(ctx, &report, during)
	if err != nil {
		return report, nil, err
	}
	r.collect(workers, &report)
	after, err := r.settled(ctx, before)
	if err != nil {
		return report, nil, err
	}
	begin = time.Now()
	var verified error
	if !r.Blank {
		report.Verified, verified = r.verify(ctx)
	}
	report.Verification = time.Since(begin)
	r.problems(&report)
	return report, workers, r.judge(&report, before, after, verified)
}

// patience bounds how much longer than Duration a measurement lasts for Least.
const patience = time.Minute

// hold waits for as long as is measured.
func (r *Run) hold(ctx context.Context, begin time.Time) error {
	pause(ctx, r.Duration)
	for most := begin.Add(r.Duration + patience); int(r.answered.Load()) < r.Least &&
		ctx.Err() == nil && time.Now().Before(most); {
		pause(ctx, time.Millisecond)
	}
	return ctx.Err()
}

// load runs the workers, measures while during runs, which is told when that began, and fills in
// how long the measured part took.
func (r *Run) load(ctx context.Context, report *Report,
	during func(ctx context.Context, begin time.Time) error,
) ([]*worker, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	workers := make([]*worker, r.Connections)
	var group sync.WaitGroup
	var stop atomic.Bool
	var begun atomic.Int64
	var open *arrivals
	if r.Rate > 0 {
		open = newArrivals()
		// Its thread sleeps in the kernel, and takes a scheduler's slot when it wakes up: with one more
		// than there are cores it does not queue for one behind the connections.
		slots := runtime.GOMAXPROCS(0)
		runtime.GOMAXPROCS(slots + 1)
		defer runtime.GOMAXPROCS(slots)
		group.Go(func() { open.run(r.Rate, &stop) })
	}
	for i := range workers {
		w := &worker{
			Run: r, connection: newConnection(r.Nodes[i%len(r.Nodes)]),
			random:  rand.New(rand.NewPCG(r.Seed, uint64(i))),
			latency: newHistogram(), begun: &begun,
		}
		workers[i] = w
		group.Go(func() { w.loop(r.firstKey+i, open, &stop) })
	}
	pause(ctx, r.Warmup)
	used := Read(r.Processes)
	begin := time.Now()
	begun.Store(begin.UnixNano())
	watching, enough := context.WithCancel(ctx)
	defer enough()
	var saw seen
	var watcher sync.WaitGroup
	if len(r.Admin.Nodes) > 0 {
		watcher.Go(func() { saw = r.watch(watching, begin) })
	}
	r.measuring.Store(true)
	err := during(ctx, begin)
	r.measuring.Store(false)
	report.Elapsed = time.Since(begin)
	report.use(used, Read(r.Processes))
	stop.Store(true)
	enough()
	group.Wait()
	watcher.Wait()
	report.note(saw)
	if open != nil {
		report.Late = time.Duration(open.late.ValueAtQuantile(99)) * time.Microsecond
	}
	return workers, err
}

// loop sends one request after the other until stop: at once, or when one is due.
func (w *worker) loop(number int, open *arrivals, stop *atomic.Bool) {
	step := w.step(number)
	for !stop.Load() {
		begin := time.Now()
		if open != nil {
			due, more := <-open.due
			if !more || stop.Load() {
				break
			}
			begin = due
		}
		units, err := step()
		if err != nil {
			w.note(err.Error())
			w.pause()
			continue
		}
		if w.measuring.Load() {
			w.requests++
			if r := w.Run; r.answered.Load() < int64(r.Least) {
				r.answered.Add(1)
			}
			w.units += units
			w.measured(begin)
		}
	}
	if err := w.close(); err != nil {
		w.note(err.Error())
	}
}

// measured notes the latency of a request that began, or was due, at an instant.
func (w *worker) measured(begin time.Time) {
	latency := min(max(1, time.Since(begin).Microseconds()), w.latency.HighestTrackableValue())
	if err := w.latency.RecordValue(latency); err != nil {
		w.note(err.Error())
	}
	if len(w.samples) < maxSamples/w.Connections {
		at := max(0, (begin.UnixNano()-w.begun.Load())/int64(time.Microsecond))
		w.samples = append(w.samples, sample{uint32(at), uint32(latency)})
	}
}

// pause keeps a worker whose node is away from spinning.
func (w *worker) pause() { time.Sleep(20 * time.Millisecond) }

func (r *Run) note(message string) {
	r.errors.mu.Lock()
	defer r.errors.mu.Unlock()
	if r.errors.count == nil {
		r.errors.count = map[string]uint64{}
	}
	if _, known := r.errors.count[message]; !known && len(r.errors.count) >= maxMessages {
		message = "others"
	}
	r.errors.count[message]++
}

// step returns the function that makes one request of the scenario and says how many checks or
// events it got through.
func (w *worker) step(number int) func() (uint64, error) {
	switch w.Scenario {
	case ScenarioCheck, ScenarioSimulate:
		t := w.template(number)
		return func() (uint64, error) { return w.check(t) }
	case ScenarioMixed:
		return w.mixed(number)
	case ScenarioRepeats:
		return w.repeats()
	case ScenarioLimit:
		return w.spend(number)
	case ScenarioFailover:
		return w.persistent.persist(w, number)
	case ScenarioPairs:
		return w.pairs(number)
	}
	return w.events(w.template(number))
}

// events returns the function that records the template's number of events, each with a new key.
func (w *worker) events(t *template) func() (uint64, error) {
	events := len(t.keys)
	w.customers = make([]uint32, events)
	var next uint64
	return func() (uint64, error) {
		for i := range events {
			c := w.random.Uint32N(uint32(w.Run.Customers))
			if w.Scenario == ScenarioHot {
				c = 0
			}
			w.customers[i] = c
			t.setCustomer(i, uint64(c))
			t.setKey(i, next)
			next++
		}
		return w.record(t)
	}
}

// template prepares a request of the scenario.
func (w *worker) template(number int) *template {
	switch w.Scenario {
	case ScenarioCheck:
		return w.checkTemplate()
	case ScenarioSimulate:
		return w.simulateTemplate()
	case ScenarioBatch, ScenarioSnapshot:
		return w.eventTemplate(number, w.Batch, true)
	}
	return w.eventTemplate(number, 1, false)
}

func (w *worker) check(t *template) (uint64, error) {
	c := w.random.IntN(w.Run.Customers)
	t.setCustomer(0, uint64(c))
	status, body, err := w.do(t.bytes)
	if err != nil {
		// It may have been answered, and audited: this customer's audit events prove nothing.
		w.unknown[c].Add(1)
		return 0, err
	}
	if status != 200 {
		w.refused.Add(1)
		return 0, fmt.Errorf("check: %d %.200s", status, body)
	}
	w.Run.checks[c].Add(1)
	return 1, nil
}
