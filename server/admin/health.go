package admin

import (
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp/pprofhandler"

	"tollgate/server"
)

func (n *nodeTools) cluster(x *server.Exchange) *server.Fault {
	return n.answer(x, n.state.Status())
}

func (n *nodeTools) node(x *server.Exchange) *server.Fault {
	if n.vitals == nil {
		return server.FaultConsistency.With("This node does not say how it is.")
	}
	return n.answer(x, n.vitals())
}

// answer answers with what the node knows.
func (n *nodeTools) answer(x *server.Exchange, known any) *server.Fault {
	text, err := json.Marshal(known, json.Deterministic(true))
	if err != nil {
		n.log.Error("what this node knows cannot be written", "error", err)
		return server.FaultInternal
	}
	data := x.Begin()
	*data = append(*data, text...)
	return x.End(200)
}

// healthy is GET /healthz: the process answers.
func (n *nodeTools) healthy(x *server.Exchange) {
	x.Bare(200, "application/json", []byte(`{"status":"ok"}`))
}

// ready is GET /readyz: this node serves; if not, why.
func (n *nodeTools) ready(x *server.Exchange) { n.probe(x, "ready", nil) }

// leader is GET /leader: this node serves, and leads the billing group, so it need not forward
// usage events.
func (n *nodeTools) leader(x *server.Exchange) {
	var more []Reason
	if !n.state.Leads() {
		more = []Reason{{"not_leader", "billing", "this node does not lead"}}
	}
	n.probe(x, "leader", more)
}

// probe answers 200 and what the node is, or 503 and why it is not: the reasons why it is not
// ready, and more. ?exclude= names causes that are not to count, with commas between them, for
// callers who want an answer all the same.
func (n *nodeTools) probe(x *server.Exchange, what string, more []Reason) {
	var excluded []string
	if text := string(x.Ctx.QueryArgs().Peek("exclude")); text != "" {
		excluded = strings.Split(text, ",")
	}
	for _, name := range excluded {
		if !slices.Contains(n.state.Causes(), name) {
			x.Refuse(server.FaultFields.Saying("exclude: there is no cause " +
				strconv.Quote(name[:min(len(name), 64)]) + "; there are: " +
				strings.Join(n.state.Causes(), ", ")))
			return
		}
	}
	reasons := slices.DeleteFunc(n.state.NotReady(), func(r Reason) bool {
		return slices.Contains(excluded, r.Cause)
	})
	reasons = append(reasons, more...)
	var j server.JSON
	j.Open('{')
	status := 200
	if len(reasons) == 0 {
		j.Text("status", what)
	} else {
		status = 503
		x.Ctx.Response.Header.Set("Retry-After", "1")
		if len(more) == 0 {
			what = "ready"
		}
		j.Text("status", "not "+what)
	}
	j.Array("reasons")
	for _, reason := range reasons {
		j.Open('{')
		j.Text("cause", reason.Cause)
		j.TextIf("group", reason.Group)
		j.Text("text", reason.Text)
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	x.Bare(status, "application/json", j)
}

func (n *nodeTools) measure(x *server.Exchange) {
	n.metrics(x.Ctx)
	x.Status(x.Ctx.Response.StatusCode())
}

func (n *nodeTools) profile(x *server.Exchange) {
	pprofhandler.PprofHandler(x.Ctx)
	x.Status(x.Ctx.Response.StatusCode())
}
