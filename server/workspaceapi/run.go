package workspaceapi

import (
	"crypto/sha256"

	"tollgate/engine"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/ascii"
)

// answersPurpose derives the key under which people's answers to agents are sealed.
const answersPurpose = "tollgate answers to agents"

// startRequest starts a run for what its quote says.
//
//schema:described workspaceapi StartRequest
type startRequest struct {
	Fingerprint string `json:"fingerprint" rule:"required,min=1"`
}

func (s *Runs) startRun(x *server.Exchange, id [16]byte) *server.Fault {
	v, fault := s.flow(x, id)
	if fault != nil {
		return fault
	}
	text, key, fault := s.startBody(x)
	if fault != nil {
		return fault
	}
	policy := s.machine.Policy()
	agent, hasAgent := s.agentNamed(v.Agent)
	cents, credits := policy.Price(agent)
	c := &workspace.StartRun{
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
			return s.answerRun(x, made, 202)
		case engine.OutcomeRequestKeyReused:
			return no("idempotency_conflict")
		}
		return no("quote_changed")
	}
	return s.proposeStart(x, c)
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

func (s *Runs) proposeStart(x *server.Exchange, c *workspace.StartRun) *server.Fault {
	result := s.propose(x.Flow(), workspace.KindStartRun, c)
	var reply workspace.RunReply
	switch {
	case result.Outcome == engine.OutcomePaymentRequired:
		return s.purchases.askForPayment(x, c.Flow)
	case result.Outcome != engine.OutcomeDone:
		return s.refusal(result)
	case !decoded(result.Value, &reply) || !s.fresh():
		return no("outcome_unknown")
	}
	return s.answerRun(x, reply.ID, 202)
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
func (s *Runs) answerRun(x *server.Exchange, id [16]byte, status int) *server.Fault {
	return s.read(x, func() *server.Fault {
		v, ok := s.machine.Run(tenant(x).Workspace, id)
		if !ok {
			return no("not_found")
		}
		return x.BareObject(status, func(j *server.JSON) {
			j.Name("run")
			writeRun(j, &v)
			if inspected(v.Kind) {
				s.writeInspected(x, j, &v)
			}
		})
	})
}

func (s *Runs) listRuns(x *server.Exchange) *server.Fault {
	return list(s.base, x, "runs", markRun, s.machine.Runs, writeRun,
		func(v *workspace.RunView) [16]byte { return v.ID })
}

func (s *Runs) getRun(x *server.Exchange, id [16]byte) *server.Fault {
	return s.answerRun(x, id, 200)
}

func (s *Runs) requestRun(x *server.Exchange) *server.Fault {
	b := open(x, false)
	b.noSecrets("")
	flow, ok := parseID(markFlow, b.text("flowId", 1, 64))
	b.refuse(!ok && b.wrong == nil, "invalid_id", "flowId")
	url := ""
	if b.has("url") {
		url = b.address(s.base, "url", 0, true)
	}
	if refused := b.close(); refused != nil {
		return refused
	}
	if !s.fresh() {
		return no("workspace_busy")
	}
	v, known := s.machine.Flow(tenant(x).Workspace, flow)
	if known && url != "" && url != v.URL {
		return no("flow_url_mismatch")
	}
	c := &workspace.RequestRun{Workspace: tenant(x).Workspace, Flow: flow, ID: mint()}
	if fault := s.do(x, workspace.KindRequestRun, c); fault != nil {
		return fault
	}
	return s.answerRun(x, c.ID, 201)
}

// cancel is the handler that cancels a run of a kind.
func (s *Runs) cancel(kind workspace.RunKind) func(*server.Exchange) *server.Fault {
	return alone(markRun, func(x *server.Exchange, id [16]byte) *server.Fault {
		c := &workspace.CancelRun{Workspace: tenant(x).Workspace, ID: id, Kind: kind}
		if fault := s.do(x, workspace.KindCancelRun, c); fault != nil {
			return fault
		}
		return s.answerRun(x, id, 200)
	})
}

// resumeRequest lets a run go on, with what a person answers its agent.
//
//schema:described workspaceapi ResumeRequest
type resumeRequest struct {
	Answer string `json:"answer" rule:"min=1"`
}

// maxAnswer is the most that a person may answer an agent, in characters.
const maxAnswer = 500

// resumeRun is POST /v1/runs/{run_id}/resume. What a person answered is readable in memory alone:
// it is sealed before it enters the log, for the one worker that goes on with the run.
func (s *Runs) resumeRun(x *server.Exchange, id [16]byte) *server.Fault {
	b, answer := open(x, true), ""
	b.noSecrets("")
	if b.has("answer") {
		answer = b.text("answer", 1, maxAnswer)
	}
	if refused := b.close(); refused != nil {
		return refused
	}
	if !s.fresh() {
		return no("workspace_busy")
	}
	v, known := s.machine.Run(tenant(x).Workspace, id)
	if !known {
		return no("not_found")
	}
	c := &workspace.ResumeRun{Workspace: tenant(x).Workspace, ID: id}
	if answer != "" {
		c.Answer = s.answers.Seal(0, idText(markRun, id), answer)
	}
	if agent, known := s.agentNamed(v.Agent.Name); known {
		c.Agent = agent.String()
	}
	if fault := s.do(x, workspace.KindResumeRun, c); fault != nil {
		return fault
	}
	return s.answerRun(x, id, 202)
}
