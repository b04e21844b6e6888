package admin

import (
	"math"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"github.com/valyala/fasthttp"
	"github.com/valyala/fasthttp/fasthttpadaptor"

	"tollgate/engine/billing"
	"tollgate/server"
)

// Metrics is the node's registry. Make one before the APIs, so that they can observe into it.
type Metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	// verified are invoices that were recomputed from the journal, differences what was found to
	// differ, unverified the requests for it that failed.
	verified, differences, unverified prometheus.Counter
}

// NewMetrics makes a registry of its own, with the Go runtime and the process in it.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "tollgate_http_requests_total", Help: "Answered requests.",
		}, []string{"api", "operation", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "tollgate_http_request_seconds", Help: "Time from the request's arrival to its answer.",
			Buckets: prometheus.ExponentialBuckets(0.000_05, 2, 18),
		}, []string{"api", "operation"}),
		verified: counted("verified_invoices_total",
			"Invoices that this node recomputed from the journal."),
		differences: counted("verification_differences_total",
			"Invoices and pools that differed from the journal when this node recomputed them."),
		unverified: counted("verifications_failed_total",
			"Requests to verify invoices that this node could not carry out."),
	}
	m.registry.MustRegister(m.requests, m.latency, m.verified, m.differences, m.unverified,
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

func counted(name, help string) prometheus.Counter {
	return prometheus.NewCounter(prometheus.CounterOpts{Name: "tollgate_" + name, Help: help})
}

// Registry takes further collectors.
func (m *Metrics) Registry() *prometheus.Registry { return m.registry }

func (m *Metrics) handler() fasthttp.RequestHandler {
	return fasthttpadaptor.NewFastHTTPHandler(promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
}

// Served is how an API's requests were answered since the node began: their number, and how many
// took up to each of bounds, in seconds.
func (m *Metrics) Served(api string) (requests uint64, bounds []float64, buckets []uint64) {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		m.latency.Collect(all)
	}()
	for metric := range all {
		var read dto.Metric
		if err := metric.Write(&read); err != nil || labelOf(&read, "api") != api {
			continue
		}
		h := read.GetHistogram()
		requests += h.GetSampleCount()
		for i, bucket := range h.GetBucket() {
			if i == len(buckets) {
				bounds, buckets = append(bounds, bucket.GetUpperBound()), append(buckets, 0)
			}
			buckets[i] += bucket.GetCumulativeCount()
		}
	}
	return requests, bounds, buckets
}

func labelOf(m *dto.Metric, name string) string {
	for _, label := range m.GetLabel() {
		if label.GetName() == name {
			return label.GetValue()
		}
	}
	return ""
}

// maxStatus is above every HTTP status.
const maxStatus = 600

// routeMetrics is one route's metrics, with their labels resolved.
type routeMetrics struct {
	operation string
	latency   prometheus.Observer
	statuses  [maxStatus]atomic.Pointer[prometheus.Counter]
}

// routeSlots are the metrics of a table's routes, by their numbers from 1; 0 is of what is none.
// They grow with the table: a route beyond a bound would be counted as another.
type routeSlots struct {
	metrics *Metrics
	api     string
	slots   atomic.Pointer[[]atomic.Pointer[routeMetrics]]
	mu      sync.Mutex // of who resolves
}

// of finds the metrics of a route; nil is none.
func (r *routeSlots) of(route *server.Route) *routeMetrics {
	slot := 0
	if route != nil {
		slot = route.Number() + 1
	}
	if slots := *r.slots.Load(); slot < len(slots) {
		if known := slots[slot].Load(); known != nil {
			return known
		}
	}
	return r.resolve(slot, route)
}

func (r *routeSlots) resolve(slot int, route *server.Route) *routeMetrics {
	r.mu.Lock()
	defer r.mu.Unlock()
	slots := *r.slots.Load()
	if slot >= len(slots) {
		grown := make([]atomic.Pointer[routeMetrics], max(2*len(slots), slot+1))
		for i := range slots {
			grown[i].Store(slots[i].Load())
		}
		slots = grown
		r.slots.Store(&grown)
	}
	if known := slots[slot].Load(); known != nil {
		return known
	}
	operation := "none"
	if route != nil {
		operation = route.Operation
	}
	made := &routeMetrics{
		operation: operation, latency: r.metrics.latency.WithLabelValues(r.api, operation),
	}
	slots[slot].Store(made)
	return made
}

// Observer returns what an API's route table calls after every answer. Labels are resolved the
// first time that a route, or a status of it, is seen.
func (m *Metrics) Observer(
	api string,
) func(route *server.Route, status int, took time.Duration) {
	routes := &routeSlots{metrics: m, api: api}
	routes.slots.Store(new([]atomic.Pointer[routeMetrics]))
	return func(route *server.Route, status int, took time.Duration) {
		known := routes.of(route)
		if status < 0 || status >= maxStatus {
			status = 0
		}
		counter := known.statuses[status].Load()
		if counter == nil {
			c := m.requests.WithLabelValues(api, known.operation, strconv.Itoa(status))
			counter = &c
			known.statuses[status].Store(counter)
		}
		(*counter).Inc()
		known.latency.Observe(took.Seconds())
	}
}

// stateCollector reads the machine, the outbox and the audit recorder at each scrape.
type stateCollector struct {
	config *Config
	mu     sync.Mutex
	// keys and at are of the earlier scrape that the rate of new keys is measured from.
	keys uint64
	at   time.Time
}

func newStateCollector(c *Config) *stateCollector { return &stateCollector{config: c} }

// Describe announces nothing: the parts of the state are named by the state.
func (s *stateCollector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the present values.
func (s *stateCollector) Collect(out chan<- prometheus.Metric) {
	number := numbersTo(out)
	stats := s.config.Machine.Stats()
	s.collectState(number, stats)
	collectJournal(number, stats)
	s.collectWebhooks(number)
	s.collectAudits(number)
}

// number sends a metric: a gauge, or a counter when its name says so (_total). labels are names and
// values in turn.
type number func(name, help string, value float64, labels ...string)

func numbersTo(out chan<- prometheus.Metric) number {
	return func(name, help string, value float64, labels ...string) {
		kind := prometheus.GaugeValue
		if strings.HasSuffix(name, "_total") {
			kind = prometheus.CounterValue
		}
		names := make([]string, 0, 1)
		values := make([]string, 0, 1)
		for i := 0; i+1 < len(labels); i += 2 {
			names, values = append(names, labels[i]), append(values, labels[i+1])
		}
		out <- prometheus.MustNewConstMetric(
			prometheus.NewDesc("tollgate_"+name, help, names, nil), kind, value, values...)
	}
}

// collectState is what the state holds.
func (s *stateCollector) collectState(number number, stats billing.Stats) {
	records := func(kind string, count uint64) {
		number("records", "Records that the state holds.", float64(count), "kind", kind)
	}
	records("account", stats.Accounts)
	records("api_key", stats.APIKeys)
	records("customer", stats.Customers)
	records("subscription", stats.Subscriptions)
	records("counter", stats.Counters)
	records("invoice", stats.Invoices)
	for _, status := range []billing.InvoiceStatus{
		billing.InvoiceDue, billing.InvoicePastDue, billing.InvoicePaid, billing.InvoiceVoid,
	} {
		number("invoices", "Invoices that were issued, by status.", float64(stats.Issued[status]),
			"status", strings.ToLower(status.String()))
	}
	events := func(kind string, count uint64) {
		number("events_recorded_total", "Events recorded since the beginning of the log.",
			float64(count), "kind", kind)
	}
	events("usage", stats.UsageEvents)
	events("audit", stats.AuditEvents)
	number("reservation_overruns_total", "Usage events, applied since the node started, that settled "+
		"more of a reservation than it held and than fitted.", float64(stats.Overruns))
	for _, part := range stats.Bytes {
		number("state_bytes", "Memory of each part of the state.", float64(part.Bytes),
			"part", part.Part)
	}
	limits := s.config.Machine.Limits()
	number("reservations", "Reservations kept: open ones, and closed ones as long as idempotency "+
		"keys.", float64(stats.Reservations))
	number("reservations_limit", "Reservations that may be kept.", float64(limits.Reservations()))
	number("audit_retention_seconds", "How long audit events are kept.",
		float64(limits.AuditRetentionMS)/1000)
	number("idempotency_keys", "Idempotency keys held.", float64(stats.IdempotencyKeys))
	number("idempotency_keys_on_disk", "Of them, those that have left memory.",
		float64(stats.KeysOnDisk))
	number("idempotency_keys_memory_limit", "How many of them may be in memory, while files are "+
		"behind: beyond that events are refused.", float64(limits.MaxKeysBehind()))
	number("idempotency_keys_limit", "Idempotency keys that may be held, in memory and on disk.",
		float64(limits.MaxKeys))
	number("idempotency_keys_days_left", "Days until the budget is spent at the present rate; "+
		"+Inf while their number does not grow.", s.daysLeft(stats.IdempotencyKeys, limits.MaxKeys))
}

// collectJournal is what the journal keeps, its open tail included.
func collectJournal(number number, stats billing.Stats) {
	for _, part := range stats.Journal {
		number("journal_segments", "Sealed segments of each part of the journal.",
			float64(part.Segments), "part", part.Part)
		number("journal_bytes", "Bytes of each part of the journal, the open tail included.",
			float64(part.Bytes), "part", part.Part)
		number("journal_oldest_timestamp_seconds", "Time of the oldest record of each part, in Unix "+
			"seconds; of audit events the time of their recording; 0 when there is none.",
			float64(part.OldestAt)/1000, "part", part.Part)
	}
}

// collectWebhooks is what waits to be delivered, and what this process delivered.
func (s *stateCollector) collectWebhooks(number number) {
	hooks := s.config.Machine.Outbox()
	number("webhook_endpoints", "Webhook endpoints.", float64(hooks.Endpoints))
	number("webhook_endpoints_disabled", "Webhook endpoints that are disabled.",
		float64(hooks.Disabled))
	number("webhook_messages_pending", "Webhook messages that wait.", float64(hooks.Pending))
	number("webhook_messages_skipped", "Webhook messages that a full queue did not take, of the "+
		"endpoints that exist.", float64(hooks.Skipped))
	if s.config.Outbox == nil {
		return
	}
	s.config.Outbox.Attempts(func(outcome string, count uint64) {
		number("webhook_attempts_total", "Attempts that this process made to deliver webhooks.",
			float64(count), "outcome", outcome)
	})
}

// collectAudits is how the audit events of this node's checks get into the log.
func (s *stateCollector) collectAudits(number number) {
	if s.config.Audits == nil {
		return
	}
	a := s.config.Audits()
	number("audit_checks_recorded_total", "Checks handed to the audit recorder.",
		float64(a.Recorded))
	for i, count := range a.Denied {
		if reason := billing.Reason(i); i > int(billing.ReasonAllowed) && reason.Names()[i] != "" {
			number("checks_denied_total", "Checks that this node denied.", float64(count), "reason",
				reason.String())
		}
	}
	number("audit_checks_open", "Checks in the block that is collecting.", float64(a.Open))
	number("audit_waits_total", "Checks that waited for room.", float64(a.Waits))
	number("audit_spool_bytes", "Audit blocks waiting in the local spool.", float64(a.SpoolBytes))
	number("audit_spool_blocks", "Audit blocks waiting in the local spool.", float64(a.SpoolBlocks))
}

// rateSpan is the least time over which the rate of new keys is measured.
const rateSpan = 30 * time.Second

func (s *stateCollector) daysLeft(keys, limit uint64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	before, at := s.keys, s.at
	if at.IsZero() || now.Sub(at) >= rateSpan {
		s.keys, s.at = keys, now
	}
	if at.IsZero() || keys <= before {
		return math.Inf(1)
	}
	perDay := float64(keys-before) / now.Sub(at).Hours() * 24
	return float64(limit-min(keys, limit)) / perDay
}
