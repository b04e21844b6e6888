package admin

import (
	"slices"
	"strconv"
	"strings"

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

// ready is GET /readyz: this node serves; if not, why. ?exclude= names causes that are not to
// count, with commas between them, for whoever would rather have an answer all the same.
func (a *API) ready(x *server.Exchange) {
	var excluded []string
	if text := string(x.Ctx.QueryArgs().Peek("exclude")); text != "" {
		excluded = strings.Split(text, ",")
	}
	for _, name := range excluded {
		if !slices.Contains(a.config.Cluster.Causes(), name) {
			fault := server.FaultFields
			fault.Message = "exclude: there is no cause " + strconv.Quote(name[:min(len(name), 64)]) +
				"; there are: " + strings.Join(a.config.Cluster.Causes(), ", ")
			x.Refuse(fault)
			return
		}
	}
	reasons := slices.DeleteFunc(a.config.Cluster.NotReady(), func(r Reason) bool {
		return slices.Contains(excluded, r.Cause)
	})
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
		j.Open('{')
		j.Text("cause", reason.Cause)
		if reason.Group != "" {
			j.Text("group", reason.Group)
		}
		j.Text("text", reason.Text)
		j.Close('}')
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
