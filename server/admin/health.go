package admin

import (
	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp/pprofhandler"

	"tollgate/server"
)

// cluster is GET /cluster.
func (a *API) cluster(x *server.Exchange) { a.tell(x, a.config.Cluster.Status()) }

// node is GET /node.
func (a *API) node(x *server.Exchange) {
	if a.config.Vitals == nil {
		x.Refuse(server.FaultConsistency.With("This node does not say how it is."))
		return
	}
	a.tell(x, a.config.Vitals())
}

// tell answers with what the node knows.
func (a *API) tell(x *server.Exchange, known any) {
	text, err := json.Marshal(known, json.Deterministic(true))
	if err != nil {
		a.config.Log.Error("what this node knows cannot be written", "error", err)
		x.Refuse(server.FaultInternal)
		return
	}
	data := x.Begin()
	*data = append(*data, text...)
	x.End(200)
}

// healthy is GET /healthz: the process answers.
func (a *API) healthy(x *server.Exchange) {
	x.Bare(200, "application/json", []byte(`{"status":"ok"}`))
}

// ready is GET /readyz: this node serves; if not, why.
func (a *API) ready(x *server.Exchange) {
	reasons := a.config.Cluster.NotReady()
	var j server.JSON
	j.Open('{')
	status := 200
	if len(reasons) == 0 {
		j.Text("status", "ready")
	} else {
		status = 503
		x.Ctx.Response.Header.Set("Retry-After", "1")
		j.Text("status", "not ready")
	}
	j.Array("reasons")
	for _, reason := range reasons {
		j.String(reason)
	}
	j.Close(']')
	j.Close('}')
	x.Bare(status, "application/json", j)
}

// measure is GET /metrics.
func (a *API) measure(x *server.Exchange) {
	a.metrics(x.Ctx)
	x.Status(x.Ctx.Response.StatusCode())
}

// profile is GET /debug/pprof/….
func (a *API) profile(x *server.Exchange) {
	pprofhandler.PprofHandler(x.Ctx)
	x.Status(x.Ctx.Response.StatusCode())
}
