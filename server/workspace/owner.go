package workspace

import (
	"encoding/hex"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// Noun is what an id is of.
type Noun string

// The nouns of ids.
const (
	NounWorkspace Noun = markWorkspace
	NounFlow      Noun = markFlow
	NounRun       Noun = markRun
	NounPurchase  Noun = markPurchase
	NounIssue     Noun = markIssue
	NounAct       Noun = markAct
	NounKey       Noun = "key_"
	NounLink      Noun = markLink
)

// Text is an id as callers see it.
func (n Noun) Text(id [16]byte) string { return idText(string(n), id) }

// Parse reads what Text wrote, and nothing else.
func (n Noun) Parse(text string) (id [16]byte, ok bool) { return parseID(string(n), text) }

// Decision is what a person decides on one of our pages. The caller has made sure who they are.
type Decision struct {
	// Person is the row of who decides, Name what their workspaces are said to be owned by.
	Person uint32
	Name   string
	// Session is the SHA-256 of their session's token.
	Session [32]byte
	// Workspace is the row that it is about.
	Workspace uint32
	// Once is the key of the form: sent again, it is carried out once.
	Once string
}

// flow is the workspace's that it is about, or the person's who decides.
func (d *Decision) flow() fair.Flow { return FlowOf(d.Workspace, d.Person) }

// key is the Idempotency-Key of what the form decides.
func (d *Decision) key() [16]byte { return hashOf("owner", string(d.Session[:]), d.Once) }

// decided is the workspace that this form has decided something about before; 0 is none.
func (b *base) decided(d *Decision) uint32 {
	if d.Once == "" {
		return 0
	}
	return b.machine.ActedOn(d.key())
}

// Decided reports whether this form was sent before, and carried out then.
func (b *base) Decided(d *Decision) bool { return b.decided(d) != 0 }

// Decide carries a decision out once, and keeps who took it. nil is done.
func (b *base) Decide(d *Decision, kind engine.Kind, c wire.Fielder) *server.Fault {
	return b.decideAs(d, kind, c, string(wire.Encode(nil, c)))
}

// decideAs is Decide for a command that differs each time, such as by a new secret: same is what
// the form asks for, so that the same form again is the same decision. What else is to happen comes
// behind it in the same entry.
func (b *base) decideAs(d *Decision, kind engine.Kind, c wire.Fielder, same string,
	also ...engine.Record,
) *server.Fault {
	made := &state.Act{
		Workspace: d.Workspace, ID: mint(), Actor: "owner", Person: d.Person, Kind: kind,
		Payload: wire.Encode(nil, c),
	}
	if d.Once != "" {
		made.Key = d.key()
		made.Body = hashOf("owner", strconv.Itoa(int(kind)), same)
	}
	return b.Order(d.flow(), state.KindAct, made, also...)
}

// Order brings a command of a flow into the log, and waits until this node's memory has it. nil is
// done.
func (b *base) Order(flow fair.Flow, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) *server.Fault {
	return b.heard(b.propose(flow, kind, c, also...).Outcome)
}

// heard is what to say of an outcome; nil where it is done, and this node's memory has it.
func (b *base) heard(o engine.Outcome) *server.Fault {
	if o == engine.OutcomeDone && b.fresh() {
		return nil
	}
	return refusalOf(o)
}

// Ask carries out a row of the API for the person who decides, in the workspace that it is about,
// as the person's own session may: with an Idempotency-Key made of the form's key.
func (a *API) Ask(d *Decision, c server.Call) server.Reply {
	c.Caller = a.caller(d)
	if d.Once != "" {
		key := d.key()
		c.OnceKey = hex.EncodeToString(key[:])
	}
	return a.table.Call(c)
}

func (b *base) caller(d *Decision) *Caller {
	account, _ := b.machine.Account(d.Workspace, b.now())
	return &Caller{
		Workspace: d.Workspace, ID: account.ID, Scopes: state.ScopesAll, Claimed: account.Claimed,
		Person: d.Person,
	}
}
