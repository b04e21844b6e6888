package workspaceapi

import (
	"cmp"
	"context"
	"errors"
	"time"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/inspect"
	inspection "tollgate/server/inspect/document"
	"tollgate/server/inspect/journey"
	"tollgate/server/inspect/suggest"
	"tollgate/server/provider/fetch"
)

// inspectionPlaces are those of requests that inspect products, those that wait for their turn
// included.
var inspectionPlaces = slotLimits{all: 24, strangers: 12, one: 3}

// storing is how long the parts of a document are brought into the log, again and again while
// there is no leader: the work that made it is not to be lost with a leader.
const storing = 20 * time.Second

// examination is a request for an inspection or an evaluation.
type examination struct {
	kind      workspace.RunKind
	url, task string
	flow      [16]byte
	key, body [16]byte
}

// inspectionRequest names what is to be read: an address, or that of a flow.
//
//schema:described workspaceapi InspectionRequest
type inspectionRequest struct {
	URL    string `json:"url" rule:"min=1"`
	FlowID string `json:"flowId" rule:"min=1"`
}

// evaluationRequest names a task, and the product that it is to be done in; a flow has both.
//
//schema:described workspaceapi EvaluationRequest
type evaluationRequest struct {
	URL    string `json:"url" rule:"min=1"`
	Task   string `json:"task" rule:"min=1,max=2000"`
	FlowID string `json:"flowId" rule:"min=1"`
}

// examine is the handler of requests for an inspection or an evaluation.
func (s *Runs) examine(kind workspace.RunKind) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		e, refused := s.examinationOf(x, kind)
		if refused != nil {
			return refused
		}
		if !s.fresh() {
			return no("workspace_busy")
		}
		if refused = s.complete(x, e); refused != nil {
			return refused
		}
		switch made, outcome := s.machine.Replay(e.key, e.body); outcome {
		case engine.OutcomeDone:
			return s.answerRun(x, made, 200)
		case engine.OutcomeRequestKeyReused:
			return no("idempotency_conflict")
		}
		return s.carryOut(x, e)
	}
}

// examinationOf reads the body, and the key where there is one.
func (s *Runs) examinationOf(x *server.Exchange, kind workspace.RunKind) (
	*examination, *server.Fault,
) {
	e, b := &examination{kind: kind}, open(x, false)
	b.noSecrets("")
	flow := ""
	if b.has("flowId") {
		var ok bool
		flow = b.text("flowId", 1, 64)
		if e.flow, ok = parseID(markFlow, flow); !ok && b.wrong == nil {
			b.fail(badField("invalid_id", "flowId"))
		}
	}
	if flow == "" || b.has("url") {
		e.url = b.address(s.base, "url", 0, true)
	}
	if kind == workspace.RunAssessment && (flow == "" || b.has("task")) {
		e.task = b.stated("task")
	}
	if refused := b.close(); refused != nil {
		return nil, refused
	}
	if len(x.Ctx.Request.Header.Peek("Idempotency-Key")) > 0 {
		var refused *server.Fault
		if e.key, refused = requestKey(x); refused != nil {
			return nil, refused
		}
	}
	e.body = hashOf(kind.String(), e.url, e.task, flow)
	return e, nil
}

// complete takes from the flow what the body leaves out.
func (s *Runs) complete(x *server.Exchange, e *examination) *server.Fault {
	if e.flow == ([16]byte{}) {
		return nil
	}
	v, known := s.machine.Flow(tenant(x).Workspace, e.flow)
	switch {
	case !known:
		return no("not_found")
	case e.url != "" && e.url != v.URL:
		return no("flow_url_mismatch")
	}
	e.url, e.task = v.URL, cmp.Or(e.task, v.Task)
	return nil
}

// carryOut inspects, keeps what came of it, and answers it. Nothing is in the log before the
// document is whole on this node: what is refused until then, or ends with the node, has saved and
// charged nothing.
func (s *Runs) carryOut(x *server.Exchange, e *examination) *server.Fault {
	account, _ := s.machine.Account(tenant(x).Workspace, s.now())
	if r := s.machine.Inspectable(tenant(x).Workspace, e.kind, s.now()); !outcomeDone(r) {
		return s.refusal(r)
	}
	leave := s.examining.take(inspectionPlaces, tenant(x).Workspace, account.Claimed)
	if leave == nil {
		return noTurn()
	}
	defer leave()
	c := &workspace.SaveInspection{
		Workspace: tenant(x).Workspace, ID: mint(), Kind: e.kind, Key: e.key, Body: e.body,
		Flow: e.flow, Host: fetch.HostOf(e.url), BeganAt: s.now(),
	}
	task := ""
	if e.kind == workspace.RunAssessment {
		task = e.task
	}
	found, err := s.inspector.Inspect(context.Background(), e.url, task, idText(markRun, c.ID))
	var payload []byte
	if err == nil {
		payload, err = pack(found)
	}
	if err != nil {
		return s.uninspected(c.ID, err)
	}
	c.Findings = findingsOf(found.Document)
	c.Size, c.Part = uint32(len(payload)), payload[:min(len(payload), workspace.MaxPartBytes)]
	made, r := s.keep(c, payload)
	switch {
	case !outcomeDone(r):
		return s.refusal(r)
	case !s.fresh():
		return no("outcome_unknown")
	}
	return s.answerRun(x, made, 200)
}

func noTurn() *server.Fault {
	return no("runner_busy").Saying(
		"The limit of concurrent inspections is reached. Nothing was saved or charged. Send the request again.")
}

// uninspected says why there is no document.
func (s *Runs) uninspected(id [16]byte, err error) *server.Fault {
	switch {
	case errors.Is(err, inspect.ErrForbidden):
		return badField("invalid_url", "url")
	case errors.Is(err, inspect.ErrUnreachable):
		return no("target_unreachable")
	case errors.Is(err, inspect.ErrBusy):
		return noTurn()
	}
	s.log.Error("an inspection was not kept", "run", idText(markRun, id), "error", err)
	return server.FaultInternal
}

// keep brings a document into the log, part by part. A part whose fate is unknown is brought again:
// each takes effect once. made is the run of the request, which may have been made by another one
// under the same key meanwhile.
func (s *Runs) keep(c *workspace.SaveInspection, payload []byte) (made [16]byte, r engine.Result) {
	deadline := time.Now().Add(storing)
	flow := FlowOf(c.Workspace, 0)
	r = s.insist(deadline, flow, workspace.KindSaveInspection, c)
	var reply workspace.RunReply
	if !outcomeDone(r) || !decoded(r.Value, &reply) || reply.ID != c.ID {
		return reply.ID, r
	}
	for from := len(c.Part); from < len(payload) && outcomeDone(r); {
		part := payload[from:min(len(payload), from+workspace.MaxPartBytes)]
		r = s.insist(deadline, flow, workspace.KindAddInspectionPart, &workspace.AddInspectionPart{
			Run: c.ID, From: uint32(from), Part: part,
		})
		from += len(part)
	}
	return reply.ID, r
}

func findingsOf(d *inspection.Document) []workspace.Finding {
	found := d.Findings()
	made := make([]workspace.Finding, 0, len(found))
	for _, f := range found {
		made = append(made, workspace.Finding{
			Field: f.Field, Verdict: f.Verdict, Rule: f.Rule,
			Quote: cut(f.Quote, workspace.MaxQuoteBytes),
		})
	}
	return made
}

// inspected reports whether a run has a document when it is completed.
func inspected(kind workspace.RunKind) bool {
	return kind == workspace.RunInspection || kind == workspace.RunAssessment
}

// writeInspected writes what a run came to next to the run: its document, and of an inspection what
// is another verdict than the time before. Null as long as there is none.
func (s *Runs) writeInspected(x *server.Exchange, j *server.JSON, run *workspace.RunView) {
	v, k, ok := s.document(tenant(x).Workspace, run.ID)
	if !ok {
		k.document = []byte("null")
	}
	if run.Kind == workspace.RunAssessment {
		j.Raw("journey", k.document)
		return
	}
	j.Raw("inspection", k.document)
	if v.Previous == ([16]byte{}) {
		null(j, "comparison")
		return
	}
	j.Name("comparison")
	writeComparison(j, &v)
}

// suggestTest is GET /v1/runs/{run_id}/suggested-test: only an inspection suggests one.
func (s *Runs) suggestTest(x *server.Exchange, id [16]byte) *server.Fault {
	return s.read(x, func() *server.Fault {
		v, known := s.machine.Run(tenant(x).Workspace, id)
		switch {
		case !known:
			return no("not_found")
		case !inspected(v.Kind):
			return no("wrong_run_type")
		}
		_, k, ok := s.document(tenant(x).Workspace, id)
		if !ok {
			k.suggestion = []byte(`{"suggestedTest":null,"reason":"not_completed"}`)
		}
		return x.Bare(200, "application/json", k.suggestion)
	})
}

// Document is the document of a run of a workspace that is completed, as JSON, with what it was
// compared with; false if there is none.
func (s *Runs) Document(ws uint32, run [16]byte) (v workspace.InspectionView, document []byte,
	ok bool,
) {
	v, k, ok := s.document(ws, run)
	return v, k.document, ok
}

func (s *Runs) document(ws uint32, run [16]byte) (v workspace.InspectionView, k kept, ok bool) {
	if v, ok = s.machine.Inspection(ws, run); !ok {
		return v, k, false
	}
	k, err := unpack(v.Document)
	if err != nil {
		s.log.Error("a kept document cannot be read", "run", idText(markRun, run), "error", err)
	}
	return v, k, err == nil
}

// inspectionRoutes are the routes that read what products publish.
func (s *Runs) inspectionRoutes() []server.Route {
	one := server.Must("run", server.RefTo("Run"))
	return []server.Route{
		row("POST", "/v1/interface", "inspectProduct", "Read what a product publishes; no agent runs",
			write, s.examine(workspace.RunInspection), agents, mayBeKeyed,
			reads(server.RequestSchema[inspectionRequest]()),
			gives(200, "The run and its document, which GET /v1/schema describes", one,
				server.Must("inspection", server.OrNull(server.FreeObject())),
				server.Must("comparison", comparisonSchema()))),
		row("POST", "/v1/evaluate", "evaluateTask",
			"Say from what a product publishes how far an agent would come with a task; no agent runs",
			write, s.examine(workspace.RunAssessment), agents, mayBeKeyed,
			reads(server.RequestSchema[evaluationRequest]()), gives(200,
				"The run and its stages", one, server.Must("journey", server.OrNull(journeySchema())))),
		row("GET", "/v1/runs/{run_id}/suggested-test", "suggestTest",
			"A call that would make a verification", read, of(markRun, s.suggestTest), agents,
			gives(200, "The call, or why there is none: no_openapi, no_get_without_parameters, "+
				"no_operation_with_key, no_supported_credential, no_server_of_this_site, not_completed",
				server.AnswerSchema[suggest.Suggestion]().Properties...)),
	}
}

// mayBeKeyed states the header Idempotency-Key where it may be left out.
func mayBeKeyed(r *server.Route) {
	keyed(r)
	r.Params[len(r.Params)-1].Required = false
}

// comparisonSchema is what is another verdict than the time before.
func comparisonSchema() *server.Schema {
	return server.OrNull(server.AnswerSchema[workspace.InspectionView]())
}

// journeySchema is the document svc/journey@1.
func journeySchema() *server.Schema {
	free := server.ArrayOf(server.FreeObject())
	return server.AnswerSchema[journey.Journey](
		server.Must("generator", server.FreeObject()), server.Must("target", server.FreeObject()),
		server.Must("startedAt", server.TimeSchema), server.Must("finishedAt", server.TimeSchema),
		server.Must("observations", free), server.Must("limits", free))
}
