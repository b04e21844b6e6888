package daemon

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"tollgate/cmd/tollgate/measure"
	"tollgate/server"
	"tollgate/server/tracing"
)

// openTracing makes what sends traces, if they go anywhere.
func (n *node) openTracing(registry *prometheus.Registry) {
	t := &n.settings.Tracing
	counts := func() tracing.Counts { return tracing.Counts{} }
	if t.URL != "" {
		n.tracing = tracing.New(tracing.Config{
			URL: t.URL, Ratio: t.Ratio, Authorization: t.Authorization,
			Node: n.settings.Node, Version: Version(), Log: n.log,
			// The operator names the collector, which is where no stranger chooses; it leads nowhere else.
			Client: &http.Client{
				Transport: &http.Transport{Proxy: nil},
				CheckRedirect: func(*http.Request, []*http.Request) error {
					return http.ErrUseLastResponse
				},
			},
		})
		counts = n.tracing.Counts
	}
	measure.Spans(registry, counts)
}

// tracer is the tracer of an API; nil where nothing is traced.
func (n *node) tracer(api string) server.Tracer {
	if n.tracing == nil {
		return nil
	}
	return n.tracing.Of(api)
}
