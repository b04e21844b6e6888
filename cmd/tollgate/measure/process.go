package measure

import (
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/tracing"
)

// Build says which program runs.
func Build(registry *prometheus.Registry, version string) {
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tollgate_build_info", Help: "1; the labels say which program runs.",
		ConstLabels: prometheus.Labels{"version": version, "go": runtime.Version()},
	}, func() float64 { return 1 })
}

// Certificate says when the certificate in use expires; for what it is used: peers, http or ops.
func Certificate(registry *prometheus.Registry, use string, notAfter func() time.Time) {
	promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
		Name:        "tollgate_certificate_expiry_timestamp_seconds",
		Help:        "When the certificate in use expires, in Unix seconds.",
		ConstLabels: prometheus.Labels{"use": use},
	}, func() float64 { return float64(notAfter().Unix()) })
}

// Runs says how many hosted runs wait, and how many go on, in the whole cluster.
func Runs(registry *prometheus.Registry, load func() (queued, running uint32)) {
	state := func(name string, value func() uint32) {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tollgate_runs", Help: "Hosted runs that wait for a worker, or go on.",
			ConstLabels: prometheus.Labels{"state": name},
		}, func() float64 { return float64(value()) })
	}
	state("queued", func() uint32 {
		queued, _ := load()
		return queued
	})
	state("running", func() uint32 {
		_, running := load()
		return running
	})
}

// Strangers shows what unclaimed workspaces hold, and what the rows of removed ones take, together
// with their limits.
func Strangers(registry *prometheus.Registry, held func() workspace.StrangersView) {
	type view = workspace.StrangersView
	bytes := func(name, help string, value func(v view) uint64) {
		promauto.With(registry).NewGaugeFunc(prometheus.GaugeOpts{
			Name: "tollgate_workspaces_" + name, Help: help,
		}, func() float64 { return float64(value(held())) })
	}
	bytes("unclaimed_bytes", "Bytes held by unclaimed workspaces.",
		func(v view) uint64 { return v.Bytes })
	bytes("unclaimed_limit_bytes",
		"Most bytes that unclaimed workspaces may hold. Signups are refused above it.",
		func(v view) uint64 { return v.MaxBytes })
	bytes("removed_bytes", "Bytes kept permanently for removed workspaces.",
		func(v view) uint64 { return v.Gone })
	bytes("removed_limit_bytes",
		"Most bytes that may be kept for removed workspaces. Signups are refused above it.",
		func(v view) uint64 { return v.MaxGone })
}

// Spans measures the traces of requests that were sent, and lost.
func Spans(registry *prometheus.Registry, counts func() tracing.Counts) {
	counter := func(name, help string, value func(tracing.Counts) uint64) {
		promauto.With(registry).NewCounterFunc(prometheus.CounterOpts{
			Name: "tollgate_spans_" + name, Help: help,
		}, func() float64 { return float64(value(counts())) })
	}
	counter("sent_total", "Spans of traced requests that the collector took.",
		func(c tracing.Counts) uint64 { return c.Sent })
	counter("lost_total", "Spans that the collector did not take, or that did not fit.",
		func(c tracing.Counts) uint64 { return c.Lost })
}

// Listener is one of a node's two listeners with its bounds.
type Listener struct {
	// Name is http or ops.
	Name string
	// Server is nil as long as the node does not listen.
	Server *server.Server
	Gate   *server.Gate
	// Connections is how many it may have.
	Connections int
}

var listenerReadings = []reading[Listener]{
	onListener("connections", "Open connections.", func(l *Listener) float64 {
		open, _ := l.Server.Connections()
		return float64(open)
	}),
	onListener("connections_limit", "Connections that may be open.",
		func(l *Listener) float64 { return float64(l.Connections) }),
	counter("http_connections_refused_total", "Connections beyond the limits, of all or one address.",
		func(l *Listener) float64 {
			_, refused := l.Server.Connections()
			return float64(refused)
		}, "listener"),
	onListener("requests_under_way", "Requests that are being carried out.",
		requests((*server.Gate).Load)),
	onListener("requests_limit", "Requests that may be carried out at a time.",
		requests((*server.Gate).Max)),
	onListener("body_bytes", "Bodies over 4 KiB of requests under way.", bytes((*server.Gate).Load)),
	onListener("body_limit_bytes", "What these bodies may take together.",
		bytes((*server.Gate).Max)),
}

// requests and bytes are the two numbers that a gate says at a time.
func requests(of func(*server.Gate) (requests, bytes int64)) func(*Listener) float64 {
	return func(l *Listener) float64 {
		requests, _ := of(l.Gate)
		return float64(requests)
	}
}

func bytes(of func(*server.Gate) (requests, bytes int64)) func(*Listener) float64 {
	return func(l *Listener) float64 {
		_, bytes := of(l.Gate)
		return float64(bytes)
	}
}

func onListener(name, help string, value func(*Listener) float64) reading[Listener] {
	return gauge("http_"+name, help, value, "listener")
}

type listenerCollector struct{ listeners []Listener }

// Listeners brings what the listeners hold into a registry.
func Listeners(registry *prometheus.Registry, listeners ...Listener) {
	registry.MustRegister(listenerCollector{listeners})
}

// Describe implements prometheus.Collector.
func (listenerCollector) Describe(out chan<- *prometheus.Desc) {
	for i := range listenerReadings {
		out <- listenerReadings[i].desc
	}
}

// Collect implements prometheus.Collector.
func (c listenerCollector) Collect(out chan<- prometheus.Metric) {
	for k := range c.listeners {
		for i := range listenerReadings {
			listenerReadings[i].send(out, &c.listeners[k], c.listeners[k].Name)
		}
	}
}
