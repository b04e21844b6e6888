package workspace

import (
	"crypto/sha256"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/ascii"
	"tollgate/server/vault"
)

// answersPurpose derives the key under which people's answers to agents are sealed.
const answersPurpose = "tollgate answers to agents"

func newRuns(b *base, flows *Flows, purchases *Purchases, c *Config) (*Runs, error) {
	sealing, err := vault.New(c.QuoteKey, answersPurpose)
	return &Runs{
		base: b, flows: flows, purchases: purchases, inspector: c.Inspector, answers: sealing,
	}, err
}

// startRun is POST /v1/flows/{flow_id}/run.
func (s *Runs) startRun(x *server.Exchange) {
	id, ok := s.id(x, markFlow)
	if !ok {
		return
	}
	if !s.fresh() {
		x.Refuse(no("workspace_busy"))
		return
	}
	v, known := s.machine.Flow(tenant(x).Workspace, id)
	if !known {
		x.Refuse(no("not_found"))
		return
	}
	text, key, refused := s.startBody(x)
	if refused != nil {
		x.Refuse(refused)
		return
	}
	policy := s.machine.Policy()
	agent, hasAgent := s.agentNamed(v.Agent)
	cents, credits := policy.Price(agent)
	c := &state.StartRun{
		Workspace: tenant(x).Workspace, Flow: id, ID: mint(), Key: key,
		Body:        hashOf("start", idText(markFlow, id), text),
		FlowVersion: v.Version, Cents: cents, Credits: credits,
	}
	if hasAgent {
		c.Agent = agent.String()
	}
	if !s.flows.quoted(text, &v, agent, &policy) {
		// The same request again gets its run, however its quote has aged.
		switch made, outcome := s.machine.Replay(c.Key, c.Body); outcome {
		case engine.OutcomeDone:
			s.answerRun(x, made, 202)
		case engine.OutcomeRequestKeyReused:
			x.Refuse(no("idempotency_conflict"))
		default:
			x.Refuse(no("quote_changed"))
		}
		return
	}
	s.proposeStart(x, c)
}

// startBody reads the fingerprint and the key, in the documented order of refusals.
func (s *Runs) startBody(x *server.Exchange) (text string, key [16]byte, refused *server.Fault) {
	b := open(x, true)
	b.noSecrets("fingerprint")
	text, _ = b.fields["fingerprint"].(string)
	b.used["fingerprint"] = true
	if refused = b.close(); refused != nil {
		return text, key, refused
	}
	if key, refused = requestKey(x); refused != nil {
		return text, key, refused
	}
	if _, ok := wellFormedQuote(text); !ok {
		return text, key, no("invalid_quote")
	}
	return text, key, nil
}

func (s *Runs) proposeStart(x *server.Exchange, c *state.StartRun) {
	result := s.propose(x.Flow(), state.KindStartRun, c)
	switch result.Outcome {
	case engine.OutcomeDone:
		var reply state.RunReply
		if !decoded(result.Value, &reply) || !s.fresh() {
			x.Refuse(no("outcome_unknown"))
			return
		}
		s.answerRun(x, reply.ID, 202)
	case engine.OutcomePaymentRequired:
		s.purchases.askForPayment(x, c.Flow)
	default:
		s.refuseOutcome(x, result)
	}
}

// requestKey reads Idempotency-Key: 8 to 128 visible ASCII characters. Its scope is the workspace
// and the route's pattern.
func requestKey(x *server.Exchange) (key [16]byte, refused *server.Fault) {
	text, one := server.SoleHeader(x.Ctx, "Idempotency-Key")
	if !one || len(text) < 8 || !ascii.Visible(text, 128) {
		return key, no("invalid_request_key")
	}
	return hashOf("request", string(tenant(x).ID[:]), x.Route.Method, x.Route.Path, string(text)), nil
}

// hashOf is 128 bits of SHA-256 over parts whose borders cannot be moved.
func hashOf(parts ...string) [16]byte {
	h := sha256.New()
	for _, part := range parts {
		sum := sha256.Sum256([]byte(part))
		h.Write(sum[:])
	}
	return [16]byte(h.Sum(nil)[:16])
}

// answerRun writes a run, with the document of one that inspected.
func (s *Runs) answerRun(x *server.Exchange, id [16]byte, status int) {
	s.read(x, func() *server.Fault {
		v, ok := s.machine.Run(tenant(x).Workspace, id)
		if !ok {
			return no("not_found")
		}
		j := x.BeginBare()
		j.Open('{')
		j.Name("run")
		writeRun(j, &v)
		if inspected(v.Kind) {
			s.writeInspected(x, j, &v)
		}
		j.Close('}')
		x.EndBare(status)
		return nil
	})
}

// listRuns is GET /v1/runs.
func (s *Runs) listRuns(x *server.Exchange) {
	list(s.base, x, "runs", markRun, s.machine.Runs, writeRun,
		func(v *state.RunView) [16]byte { return v.ID })
}

// getRun is GET /v1/runs/{run_id}.
func (s *Runs) getRun(x *server.Exchange) {
	if id, ok := s.id(x, markRun); ok {
		s.answerRun(x, id, 200)
	}
}

// requestRun is POST /v1/run-requests.
func (s *Runs) requestRun(x *server.Exchange) {
	b := open(x, false)
	b.noSecrets("")
	flow, ok := parseID(markFlow, b.text("flowId", 1, 64))
	if !ok && b.wrong == nil {
		b.fail(badField("invalid_id", "flowId"))
	}
	url := ""
	if b.has("url") {
		url = b.address(s.base, "url", 0, true)
	}
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	if !s.fresh() {
		x.Refuse(no("workspace_busy"))
		return
	}
	v, known := s.machine.Flow(tenant(x).Workspace, flow)
	if known && url != "" && url != v.URL {
		x.Refuse(no("flow_url_mismatch"))
		return
	}
	c := &state.RequestRun{Workspace: tenant(x).Workspace, Flow: flow, ID: mint()}
	if _, ok := s.do(x, state.KindRequestRun, c); ok {
		s.answerRun(x, c.ID, 201)
	}
}

// cancelRun is POST /v1/runs/{run_id}/cancel.
func (s *Runs) cancelRun(x *server.Exchange) { s.cancel(x, state.RunHosted) }

// cancelRequest is POST /v1/run-requests/{id}/cancel.
func (s *Runs) cancelRequest(x *server.Exchange) { s.cancel(x, state.RunRequest) }

func (s *Runs) cancel(x *server.Exchange, kind state.RunKind) {
	id, ok := s.idAlone(x, markRun)
	if !ok {
		return
	}
	c := &state.CancelRun{Workspace: tenant(x).Workspace, ID: id, Kind: kind}
	if _, ok := s.do(x, state.KindCancelRun, c); ok {
		s.answerRun(x, id, 200)
	}
}

// maxAnswer is the most that a person may answer an agent, in characters.
const maxAnswer = 500

// resumeRun is POST /v1/runs/{run_id}/resume. What a person answered is readable in memory alone:
// it is sealed before it enters the log, for the one worker that goes on with the run.
func (s *Runs) resumeRun(x *server.Exchange) {
	id, ok := s.id(x, markRun)
	if !ok {
		return
	}
	b, answer := open(x, true), ""
	b.noSecrets("")
	if b.has("answer") {
		answer = b.text("answer", 1, maxAnswer)
	}
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	if !s.fresh() {
		x.Refuse(no("workspace_busy"))
		return
	}
	v, known := s.machine.Run(tenant(x).Workspace, id)
	if !known {
		x.Refuse(no("not_found"))
		return
	}
	c := &state.ResumeRun{Workspace: tenant(x).Workspace, ID: id}
	if answer != "" {
		var err error
		if c.Answer, err = s.answers.Seal(0, idText(markRun, id), answer); err != nil {
			x.Refuse(server.FaultInternal)
			return
		}
	}
	if agent, known := s.agentNamed(v.Agent.Name); known {
		c.Agent = agent.String()
	}
	if _, ok := s.do(x, state.KindResumeRun, c); ok {
		s.answerRun(x, id, 202)
	}
}
