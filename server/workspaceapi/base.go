package workspaceapi

import (
	"cmp"
	"crypto/sha256"
	"log/slog"
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/identity"
)

// base is what the handlers of all subjects use: who asks, reads and commands, refusals.
type base struct {
	machine   *workspace.Machine
	proposer  server.Proposer
	reader    server.Reader
	publicURL string
	contact   string
	agents    []Agent
	check     func(url string, port uint16) error // nil takes all addresses that are well-formed
	signIn    *identity.Service                   // nil where signing in is off
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
func (b *base) read(x *server.Exchange, answer func() *server.Fault) *server.Fault {
	stale, known := server.Consistency(x)
	switch {
	case !x.Ctx.IsGet(): // what was written is to be seen
	case !known:
		return badField("invalid_field", "X-Read-Consistency")
	case stale:
		server.NoteStaleness(x, b.reader)
		return answer()
	}
	step := x.Step("read")
	fault, ok := server.ReadFresh(b.reader, time.Now().Add(b.readTimeout), func() *server.Fault {
		switch {
		case b.current(x):
			return answer()
		case tenant(x).Person != 0:
			return no("sign_in_required")
		}
		return no("invalid_key")
	})
	step.End()
	if !ok {
		return no("workspace_busy")
	}
	return fault
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

// ask proposes as propose does, and refuses what was not carried out.
func (b *base) ask(x *server.Exchange, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) (engine.Result, *server.Fault) {
	step := x.Step("log")
	r := b.propose(x.Flow(), kind, c, also...)
	step.End()
	switch {
	case r.Outcome != engine.OutcomeDone:
		return r, b.refusal(r)
	case !b.fresh():
		// The command is applied where it was proposed; a follower answers from its own memory.
		return r, no("outcome_unknown")
	}
	return r, nil
}

// do is ask for a command whose reply says nothing.
func (b *base) do(x *server.Exchange, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) *server.Fault {
	_, fault := b.ask(x, kind, c, also...)
	return fault
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
// else is to happen comes behind it in the same entry. The same form of a page again is the same
// decision.
func (b *base) actAsOwner(x *server.Exchange, number uint32, kind engine.Kind, c wire.Fielder,
	also ...engine.Record,
) *server.Fault {
	return b.actOnce(x, number, kind, c, string(wire.Encode(nil, c)), also...)
}

// actOnce is actAsOwner for a command that differs each time, such as by a new secret: same is what
// the request asks for.
func (b *base) actOnce(x *server.Exchange, number uint32, kind engine.Kind, c wire.Fielder,
	same string, also ...engine.Record,
) *server.Fault {
	made := &workspace.Act{
		Workspace: number, ID: mint(), Actor: "owner", Person: tenant(x).Person, Kind: kind,
		Payload: wire.Encode(nil, c),
	}
	if asker(x).repeatable() {
		made.Key, made.Body = asker(x).Once, hashOf("owner", strconv.Itoa(int(kind)), same)
	}
	return b.do(x, workspace.KindAct, made, also...)
}

// actedOn is the workspace that this form has decided something about before; 0 is none.
func (b *base) actedOn(c *Caller) uint32 {
	if !c.repeatable() {
		return 0
	}
	return b.machine.ActedOn(c.Once)
}

// ownerName is what the workspaces of the person who asks are said to be owned by.
func (b *base) ownerName(x *server.Exchange) string {
	who, _ := b.machine.Person(tenant(x).Person)
	return cmp.Or(who.Email, idText(markPerson, who.ID))
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
func (b *base) session(hash [32]byte) (workspace.SessionView, bool) {
	return b.machine.Session(hash, workspace.SurfaceWorkspaces, b.now())
}

// refusal is the answer to a command that was not carried out, with what its reply says.
func (b *base) refusal(result engine.Result) *server.Fault {
	r := refusalOf(result.Outcome)
	switch result.Outcome {
	case engine.OutcomeSignupLimited, engine.OutcomeCancelLimit, engine.OutcomeRunLimit,
		engine.OutcomeActLimit, engine.OutcomeFreeCapacity, engine.OutcomeAlertTestLimit,
		engine.OutcomeLinkLimit:
		return b.retry(r, result.Value)
	case engine.OutcomeCreditsShort:
		var short workspace.CreditsReply
		if wire.Decode(result.Value, &short) == nil {
			r.More = func(j *server.JSON) {
				j.Uint("required", short.Required)
				j.Uint("balance", short.Balance)
			}
		}
	case engine.OutcomeWorkspaceFull:
		var reply workspace.FullReply
		if wire.Decode(result.Value, &reply) == nil {
			full(r, &reply)
		}
	case engine.OutcomeShareFull:
		if len(result.Value) == 1 {
			r.RetryAfter = int(max(1, result.Value[0]))
		}
	case engine.OutcomeFlowOptions:
		return unverified()
	case engine.OutcomeExecutionUnavailable, engine.OutcomeScheduleUnavailable:
		var unready workspace.UnreadyReply
		if wire.Decode(result.Value, &unready) == nil {
			r.More = func(j *server.JSON) { j.Text("reason", unready.Reason.String()) }
		}
	}
	return r
}

// retry is the refusal of a limit that ends by itself.
func (b *base) retry(r *server.Fault, reply []byte) *server.Fault {
	var limit workspace.RetryReply
	if wire.Decode(reply, &limit) != nil {
		return r
	}
	r.RetryAfter = int(max(1, (limit.ResetsAt-b.now()+999)/1000))
	r.More = func(j *server.JSON) {
		if limit.Limit > 0 {
			j.Uint("limit", uint64(limit.Limit))
		}
		j.Time("resetsAt", limit.ResetsAt)
		if r.Code == "run_limit_reached" {
			j.Text("contact", b.contact)
		}
	}
	return r
}

// unsealed is the refusal of what needs a secret that cannot be made.
func (b *base) unsealed(err error) *server.Fault {
	b.log.Error("a secret cannot be made", "error", err)
	return no("workspace_busy")
}
