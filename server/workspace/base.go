package workspace

import (
	"crypto/sha256"
	"time"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// read answers from memory that holds every acknowledged write, or from the node's own where the
// request asks for that. answer may run more than once; it returns a refusal, or has written the
// answer.
func (a *API) read(x *server.Exchange, answer func() *refusal) {
	stale, known := server.Consistency(x)
	switch {
	case !x.Ctx.IsGet(): // what was written is to be seen
	case !known:
		a.refuse(x, *badField("invalid_field", "X-Read-Consistency"))
		return
	case stale:
		server.NoteStaleness(x, a.config.Reader)
		if refused := answer(); refused != nil {
			a.refuse(x, *refused)
		}
		return
	}
	deadline := time.Now().Add(a.config.ReadTimeout)
	for time.Now().Before(deadline) {
		ticket, outcome := a.config.Reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		var refused *refusal
		if a.current(x) {
			refused = answer()
		} else {
			revoked := no("invalid_key")
			if x.Tenant.Person != 0 {
				revoked = no("sign_in_required")
			}
			refused = &revoked
		}
		if !a.config.Reader.ReadStands(ticket) {
			continue
		}
		if refused != nil {
			a.refuse(x, *refused)
		}
		return
	}
	a.refuse(x, no("workspace_busy"))
}

// fresh waits until this node's memory holds what was acknowledged anywhere.
func (a *API) fresh() bool {
	return server.Fresh(a.config.Reader, time.Now().Add(a.config.ReadTimeout))
}

// propose brings a command of a flow into the log, and others behind it in the same entry; what it
// answers is the first one's result.
func (a *API) propose(flow fair.Flow, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) engine.Result {
	records := append([]engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}, also...)
	for i := range records {
		records[i].Flow = flow
	}
	results := make([]engine.Result, len(records))
	a.config.Proposer.Propose(time.Now().Add(a.config.WriteTimeout), records, results)
	return results[0]
}

// do proposes as propose does, and refuses what was not carried out; ok reports whether it was.
func (a *API) do(x *server.Exchange, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) (r engine.Result, ok bool) {
	if r = a.propose(x.Flow(), kind, c, also...); r.Outcome != engine.OutcomeDone {
		a.refuseOutcome(x, r)
		return r, false
	}
	// The command is applied where it was proposed; a follower answers from its own memory.
	if !a.fresh() {
		a.refuse(x, no("outcome_unknown"))
		return r, false
	}
	return r, true
}

func (a *API) now() int64 { return a.machine.Clock(a.config.Now().UnixMilli()) }

// agentNamed finds a configured agent; the empty name is the default one.
func (a *API) agentNamed(name string) (Agent, bool) {
	for _, agent := range a.config.Agents {
		if name == "" || agent.Name == name {
			return agent, true
		}
	}
	return Agent{}, false
}

// actAsOwner carries out what a person decides about a workspace, and keeps that they did; what
// else is to happen comes behind it in the same entry.
func (a *API) actAsOwner(x *server.Exchange, number uint32, kind engine.Kind, c wire.Fielder,
	also ...engine.Record,
) (engine.Result, bool) {
	return a.do(x, state.KindAct, &state.Act{
		Workspace: number, ID: mint(), Actor: "owner", Person: x.Tenant.Person, Kind: kind,
		Payload: wire.Encode(nil, c),
	}, also...)
}

// id reads the path's id.
func (a *API) id(x *server.Exchange, mark string) (id [16]byte, ok bool) {
	if id, ok = parseID(mark, string(x.Param(0))); !ok {
		a.refuse(x, no("invalid_id"))
	}
	return id, ok
}

// insist proposes until there is an answer, or the time is over.
func (a *API) insist(deadline time.Time, flow fair.Flow, kind engine.Kind, c wire.Fielder,
) engine.Result {
	for {
		r := a.propose(flow, kind, c)
		switch r.Outcome {
		case engine.OutcomeUnknown, engine.OutcomeUnavailable, engine.OutcomeOverloaded,
			engine.OutcomeShareFull:
		default:
			return r
		}
		if time.Until(deadline) < idle {
			return r
		}
		<-time.After(idle)
	}
}

// current reports whether the key or session of a request speaks for its workspace in the memory
// that is to be answered from, which is newer than that in which it was found.
func (a *API) current(x *server.Exchange) bool {
	if x.Tenant.Workspace == 0 && x.Tenant.Person == 0 || x.Called() {
		return true // an open route, or a page of ours, which has found out who asks
	}
	key, ok := server.PresentedKey(x.Ctx)
	if x.Tenant.Person != 0 {
		v, known := a.session(sha256.Sum256(key))
		return ok && known && v.Person == x.Tenant.Person &&
			v.Principal.Workspace == x.Tenant.Workspace
	}
	principal, known := a.machine.Authenticate(sha256.Sum256(key))
	return ok && known && principal.KeyID == x.Tenant.KeyID
}

// session finds the session of a token's hash.
func (a *API) session(hash [32]byte) (state.SessionView, bool) {
	return a.machine.Session(hash, state.SurfaceWorkspaces, a.now())
}

// refuse answers an error in the document's shape.
func (a *API) refuse(x *server.Exchange, r refusal) {
	if r.members != nil {
		x.More(r.members)
	}
	x.Refuse(*r.fault())
}

// refuseOutcome answers a command that was not carried out, with what its reply says.
func (a *API) refuseOutcome(x *server.Exchange, result engine.Result) {
	code, known := outcomeCodes[result.Outcome]
	if !known {
		code = "outcome_unknown"
	}
	r := no(code)
	switch result.Outcome {
	case engine.OutcomeSignupLimited, engine.OutcomeCancelLimit, engine.OutcomeRunLimit,
		engine.OutcomeActLimit, engine.OutcomeFreeCapacity, engine.OutcomeAlertTestLimit,
		engine.OutcomeLinkLimit:
		r = a.retry(code, result.Value)
	case engine.OutcomeCreditsShort:
		var short state.CreditsReply
		if wire.Decode(result.Value, &short) == nil {
			r.members = func(j *server.JSON) {
				j.Uint("required", short.Required)
				j.Uint("balance", short.Balance)
			}
		}
	case engine.OutcomeWorkspaceFull:
		var full state.FullReply
		if wire.Decode(result.Value, &full) == nil {
			r.full(&full)
		}
	case engine.OutcomeShareFull:
		if len(result.Value) == 1 {
			r.retryAfter = int(max(1, result.Value[0]))
		}
	case engine.OutcomeUpgrading:
		r.retryAfter = 5
		r.message = "Not every node knows this command yet: the cluster is being upgraded. Nothing was " +
			"changed. Repeat it once all nodes run the same version."
	case engine.OutcomeNetworkFull:
		r.retryAfter = operatorRetry
		r.message = "The workspaces that were made from this network, and that nobody has claimed, or " +
			"what is left of those that were removed, take as much room as they may. Nothing was made. " +
			"Let a person claim one, or ask the operator."
	case engine.OutcomeFlowOptions:
		r = unverified()
	case engine.OutcomeExecutionUnavailable, engine.OutcomeScheduleUnavailable:
		var unready state.UnreadyReply
		if wire.Decode(result.Value, &unready) == nil {
			r.members = func(j *server.JSON) { j.Text("reason", unready.Reason.String()) }
		}
	}
	a.refuse(x, r)
}

// retry is the refusal of a limit that ends by itself.
func (a *API) retry(code string, reply []byte) refusal {
	var limit state.RetryReply
	if wire.Decode(reply, &limit) != nil {
		return no(code)
	}
	r := refusal{code: code, retryAfter: int(max(1, (limit.ResetsAt-a.now()+999)/1000))}
	r.members = func(j *server.JSON) {
		if limit.Limit > 0 {
			j.Uint("limit", uint64(limit.Limit))
		}
		j.Time("resetsAt", limit.ResetsAt)
		if code == "run_limit_reached" {
			j.Text("contact", a.config.Contact)
		}
	}
	return r
}

// refuseOr refuses, or says that something of our own is broken.
func (a *API) refuseOr(x *server.Exchange, refused *refusal, err error) {
	if err != nil {
		a.config.Log.Error("a secret cannot be made", "error", err)
		busy := no("workspace_busy")
		refused = &busy
	}
	a.refuse(x, *refused)
}
