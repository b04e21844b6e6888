package workspace

import (
	"crypto/sha256"
	"log/slog"
	"time"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/identity"
)

// base is what the handlers of all subjects use: who asks, reads and commands, refusals.
type base struct {
	machine   *state.Machine
	proposer  server.Proposer
	reader    server.Reader
	publicURL string
	contact   string
	agents    []Agent
	check     func(url string, port uint16) error // nil takes all addresses that are well-formed
	signIn    *identity.Service                   // nil where nobody can sign in
	clock     func() time.Time
	log       *slog.Logger

	writeTimeout, readTimeout time.Duration

	// used are workspaces, by row, and sessions whose use is being noted.
	used     server.Notes[uint32]
	sessions server.Notes[[32]byte]
}

func newBase(c *Config) *base {
	return &base{
		machine: c.Machine, proposer: c.Proposer, reader: c.Reader, publicURL: c.PublicURL,
		contact: c.Contact, agents: c.Agents, check: c.Check, signIn: c.SignIn, clock: c.Now,
		log: c.Log, writeTimeout: c.WriteTimeout, readTimeout: c.ReadTimeout,
	}
}

// read answers from memory that holds every acknowledged write, or from the node's own where the
// request asks for that. answer may run more than once; it returns a refusal, or has written the
// answer.
func (b *base) read(x *server.Exchange, answer func() *server.Fault) {
	stale, known := server.Consistency(x)
	switch {
	case !x.Ctx.IsGet(): // what was written is to be seen
	case !known:
		x.Refuse(badField("invalid_field", "X-Read-Consistency"))
		return
	case stale:
		server.NoteStaleness(x, b.reader)
		if refused := answer(); refused != nil {
			x.Refuse(refused)
		}
		return
	}
	deadline := time.Now().Add(b.readTimeout)
	for time.Now().Before(deadline) {
		ticket, outcome := b.reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		var refused *server.Fault
		if b.current(x) {
			refused = answer()
		} else {
			refused = no("invalid_key")
			if tenant(x).Person != 0 {
				refused = no("sign_in_required")
			}
		}
		if !b.reader.ReadStands(ticket) {
			continue
		}
		if refused != nil {
			x.Refuse(refused)
		}
		return
	}
	x.Refuse(no("workspace_busy"))
}

// fresh waits until this node's memory holds what was acknowledged anywhere.
func (b *base) fresh() bool {
	return server.Fresh(b.reader, time.Now().Add(b.readTimeout))
}

// propose brings a command of a flow into the log, and others behind it in the same entry; what it
// answers is the first one's result.
func (b *base) propose(flow fair.Flow, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) engine.Result {
	records := append([]engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}, also...)
	for i := range records {
		records[i].Flow = flow
	}
	results := make([]engine.Result, len(records))
	b.proposer.Propose(time.Now().Add(b.writeTimeout), records, results)
	return results[0]
}

// do proposes as propose does, and refuses what was not carried out; ok reports whether it was.
func (b *base) do(x *server.Exchange, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) (r engine.Result, ok bool) {
	if r = b.propose(x.Flow(), kind, c, also...); r.Outcome != engine.OutcomeDone {
		b.refuseOutcome(x, r)
		return r, false
	}
	// The command is applied where it was proposed; a follower answers from its own memory.
	if !b.fresh() {
		x.Refuse(no("outcome_unknown"))
		return r, false
	}
	return r, true
}

func (b *base) now() int64 { return b.machine.Clock(b.clock().UnixMilli()) }

// agentNamed finds a configured agent; the empty name is the default one.
func (b *base) agentNamed(name string) (Agent, bool) {
	for _, agent := range b.agents {
		if name == "" || agent.Name == name {
			return agent, true
		}
	}
	return Agent{}, false
}

// actAsOwner carries out what a person decides about a workspace, and keeps that they did; what
// else is to happen comes behind it in the same entry.
func (b *base) actAsOwner(x *server.Exchange, number uint32, kind engine.Kind, c wire.Fielder,
	also ...engine.Record,
) (engine.Result, bool) {
	return b.do(x, state.KindAct, &state.Act{
		Workspace: number, ID: mint(), Actor: "owner", Person: tenant(x).Person, Kind: kind,
		Payload: wire.Encode(nil, c),
	}, also...)
}

// id reads the path's id.
func (b *base) id(x *server.Exchange, mark string) (id [16]byte, ok bool) {
	if id, ok = parseID(mark, string(x.Param(0))); !ok {
		x.Refuse(no("invalid_id"))
	}
	return id, ok
}

// insist proposes until there is an answer, or the time is over.
func (b *base) insist(deadline time.Time, flow fair.Flow, kind engine.Kind, c wire.Fielder,
) engine.Result {
	for {
		r := b.propose(flow, kind, c)
		switch r.Outcome {
		case engine.OutcomeUnknown, engine.OutcomeUnavailable, engine.OutcomeOverloaded,
			engine.OutcomeShareFull:
		default:
			return r
		}
		if time.Until(deadline) < queuePoll {
			return r
		}
		<-time.After(queuePoll)
	}
}

// current reports whether the key or session of a request speaks for its workspace in the memory
// that is to be answered from, which is newer than that in which it was found.
func (b *base) current(x *server.Exchange) bool {
	if tenant(x).Workspace == 0 && tenant(x).Person == 0 || x.Called() {
		return true // an open route, or a page of ours, which has found out who asks
	}
	key, ok := server.PresentedKey(x.Ctx)
	if tenant(x).Person != 0 {
		v, known := b.session(sha256.Sum256(key))
		return ok && known && v.Person == tenant(x).Person &&
			v.Principal.Workspace == tenant(x).Workspace
	}
	principal, known := b.machine.Authenticate(sha256.Sum256(key))
	return ok && known && principal.KeyID == tenant(x).KeyID
}

// session finds the session of a token's hash.
func (b *base) session(hash [32]byte) (state.SessionView, bool) {
	return b.machine.Session(hash, state.SurfaceWorkspaces, b.now())
}

// refuseOutcome answers a command that was not carried out, with what its reply says.
func (b *base) refuseOutcome(x *server.Exchange, result engine.Result) {
	code, known := codeOf(result.Outcome)
	if !known {
		code = "outcome_unknown"
	}
	r := no(code)
	switch result.Outcome {
	case engine.OutcomeSignupLimited, engine.OutcomeCancelLimit, engine.OutcomeRunLimit,
		engine.OutcomeActLimit, engine.OutcomeFreeCapacity, engine.OutcomeAlertTestLimit,
		engine.OutcomeLinkLimit:
		r = b.retry(code, result.Value)
	case engine.OutcomeCreditsShort:
		var short state.CreditsReply
		if wire.Decode(result.Value, &short) == nil {
			r.More = func(j *server.JSON) {
				j.Uint("required", short.Required)
				j.Uint("balance", short.Balance)
			}
		}
	case engine.OutcomeWorkspaceFull:
		var reply state.FullReply
		if wire.Decode(result.Value, &reply) == nil {
			full(r, &reply)
		}
	case engine.OutcomeShareFull:
		if len(result.Value) == 1 {
			r.RetryAfter = int(max(1, result.Value[0]))
		}
	case engine.OutcomeUpgrading:
		r.RetryAfter = 5
		r.Message = "Not every node knows this command yet: the cluster is being upgraded. Nothing was " +
			"changed. Repeat it once all nodes run the same version."
	case engine.OutcomeNetworkFull:
		r.RetryAfter = operatorRetry
		r.Message = "The workspaces that were made from this network, and that nobody has claimed, or " +
			"what is left of those that were removed, take as much room as they may. Nothing was made. " +
			"Let a person claim one, or ask the operator."
	case engine.OutcomeFlowOptions:
		r = unverified()
	case engine.OutcomeExecutionUnavailable, engine.OutcomeScheduleUnavailable:
		var unready state.UnreadyReply
		if wire.Decode(result.Value, &unready) == nil {
			r.More = func(j *server.JSON) { j.Text("reason", unready.Reason.String()) }
		}
	}
	x.Refuse(r)
}

// retry is the refusal of a limit that ends by itself.
func (b *base) retry(code string, reply []byte) *server.Fault {
	var limit state.RetryReply
	if wire.Decode(reply, &limit) != nil {
		return no(code)
	}
	r := no(code)
	r.RetryAfter = int(max(1, (limit.ResetsAt-b.now()+999)/1000))
	r.More = func(j *server.JSON) {
		if limit.Limit > 0 {
			j.Uint("limit", uint64(limit.Limit))
		}
		j.Time("resetsAt", limit.ResetsAt)
		if code == "run_limit_reached" {
			j.Text("contact", b.contact)
		}
	}
	return r
}

// refuseOr refuses, or says that something of our own is broken.
func (b *base) refuseOr(x *server.Exchange, refused *server.Fault, err error) {
	if err != nil {
		b.log.Error("a secret cannot be made", "error", err)
		refused = no("workspace_busy")
	}
	x.Refuse(refused)
}
