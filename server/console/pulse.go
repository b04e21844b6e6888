package console

import (
	"strconv"
	"sync"
	"time"

	"tollgate/server/console/page"
)

// Load is what a node has answered since it began; all of it only grows.
type Load struct {
	// Requests are the client API's answers, Events the usage events that the cluster recorded.
	Requests, Events uint64
	// Buckets counts the requests that took up to Bounds seconds, each, and those before.
	Bounds  []float64
	Buckets []uint64
}

// The plots show the last ten minutes.
const (
	pulseEvery = 5 * time.Second
	pulseKept  = 121
)

// pulse samples the node's load, so that a page shows the time before it was opened. Safe for
// concurrent use.
type pulse struct {
	load  func() Load
	now   func() time.Time
	stop  chan struct{}
	ended chan struct{}

	mu      sync.Mutex
	samples []sample // oldest first
}

type sample struct {
	at   time.Time
	load Load
}

func newPulse(load func() Load, now func() time.Time) *pulse {
	p := &pulse{load: load, now: now, stop: make(chan struct{}), ended: make(chan struct{})}
	p.sample()
	go p.run()
	return p
}

// run samples until close.
func (p *pulse) run() {
	defer close(p.ended)
	tick := time.NewTicker(pulseEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-tick.C:
			p.sample()
		}
	}
}

func (p *pulse) close() {
	close(p.stop)
	<-p.ended
}

func (p *pulse) sample() {
	taken := sample{p.now(), p.load()}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.samples) == pulseKept {
		p.samples = append(p.samples[:0], p.samples[1:]...)
	}
	p.samples = append(p.samples, taken)
}

// loadData is what the cluster's page shows of it.
type loadData struct {
	Known                  bool
	Requests, Events, Slow page.Plot
	RequestsNow, EventsNow string
	SlowNow                string
	// Since is how long the plots reach back, CSV where their samples are a file.
	Since, CSV                string
	TotalRequests, TotalEvent uint64
}

// rates are those of the time before a sample: of a second, and in milliseconds.
type rates struct {
	at                     time.Time
	requests, events, slow float64
}

// each calls take with the rates between the samples, oldest first. p.mu is held.
func (p *pulse) each(take func(rates)) {
	for i := 1; i < len(p.samples); i++ {
		before, after := &p.samples[i-1], &p.samples[i]
		seconds := after.at.Sub(before.at).Seconds()
		if seconds <= 0 {
			continue
		}
		take(rates{
			at:       after.at,
			requests: float64(after.load.Requests-min(before.load.Requests, after.load.Requests)) / seconds,
			events:   float64(after.load.Events-min(before.load.Events, after.load.Events)) / seconds,
			slow:     quantile(&before.load, &after.load, 0.99) * 1000,
		})
	}
}

// downloadLoad is every sample of the plots.
func downloadLoad(v *visit) {
	s := page.NewSheet("at", "requests per second", "events per second", "milliseconds of 99 %")
	if p := v.console.pulse; p != nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.each(func(r rates) {
			row := []any{r.at}
			for _, v := range [...]float64{r.requests, r.events, r.slow} {
				row = append(row, strconv.FormatFloat(v, 'f', 2, 64))
			}
			s.Add(row...)
		})
	}
	download(v, "load", s)
}

// shown are the rates between the samples.
func (p *pulse) shown() (d loadData) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Known = true
	d.Requests.Max, d.Events.Max, d.Slow.Max = 10, 10, 1
	var labels []string
	p.each(func(r rates) {
		d.Requests.Points = append(d.Requests.Points, r.requests)
		d.Events.Points = append(d.Events.Points, r.events)
		d.Slow.Points = append(d.Slow.Points, r.slow)
		labels = append(labels, r.at.UTC().Format(time.TimeOnly))
	})
	d.Requests.Labels, d.Events.Labels, d.Slow.Labels = labels, labels, labels
	newest := &p.samples[len(p.samples)-1]
	d.TotalRequests, d.TotalEvent = newest.load.Requests, newest.load.Events
	d.Since, d.CSV = "last minute", Root+"/load.csv"
	if minutes := newest.at.Sub(p.samples[0].at).Round(time.Minute) / time.Minute; minutes > 1 {
		d.Since = "last " + strconv.Itoa(int(minutes)) + " min"
	}
	d.RequestsNow = lastOf(&d.Requests)
	d.EventsNow = lastOf(&d.Events)
	d.SlowNow = lastOf(&d.Slow)
	d.Requests.Title = "Requests per second over the last minutes, now " + d.RequestsNow
	d.Events.Title = "Usage events per second over the last minutes, now " + d.EventsNow
	d.Slow.Title = "Milliseconds within which 99 % of requests were answered, now " + d.SlowNow
	return d
}

// quantile is the bound of the bucket within which a share of the requests between two samples was
// answered, in seconds; 0 when there were none.
func quantile(before, after *Load, share float64) float64 {
	if after.Requests <= before.Requests || len(before.Buckets) != len(after.Buckets) {
		return 0
	}
	wanted := share * float64(after.Requests-before.Requests)
	for i, bound := range after.Bounds {
		if float64(after.Buckets[i]-before.Buckets[i]) >= wanted {
			return bound
		}
	}
	if n := len(after.Bounds); n > 0 {
		return after.Bounds[n-1]
	}
	return 0
}

// figure writes a rate with its significant digits.
func figure(v float64) string {
	switch {
	case v >= 100:
		return page.Amount(strconv.FormatFloat(v, 'f', 0, 64))
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

func lastOf(p *page.Plot) string {
	if len(p.Points) == 0 {
		return "–"
	}
	return figure(p.Points[len(p.Points)-1])
}
