package workspace

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
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
	NounWorkspace    Noun = markWorkspace
	NounFlow         Noun = markFlow
	NounRun          Noun = markRun
	NounPurchase     Noun = markPurchase
	NounIssue        Noun = markIssue
	NounNotification Noun = markNotification
	NounAct          Noun = markAct
	NounKey          Noun = "key_"
	NounLink         Noun = markLink
)

// Text is an id as callers see it.
func (n Noun) Text(id [16]byte) string { return idText(string(n), id) }

// Parse reads what Text wrote, and nothing else.
func (n Noun) Parse(text string) (id [16]byte, ok bool) { return parseID(string(n), text) }

// Document is the document of a run of a workspace that is completed, as JSON, with what it was
// compared with; false where there is none.
func (a *API) Document(workspace uint32, run [16]byte) (v state.InspectionView, document []byte,
	ok bool,
) {
	if v, ok = a.machine.Inspection(workspace, run); !ok {
		return v, nil, false
	}
	k, err := unpack(v.Document)
	if err != nil {
		a.config.Log.Error("a kept document cannot be read", "run", idText(markRun, run), "error", err)
	}
	return v, k.document, err == nil
}

// Decision is what a person decides on a page of ours. Whoever calls has made sure who they are.
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
func (d *Decision) flow() fair.Flow { return server.TenantFlow(d.Workspace, d.Person) }

// key is the Idempotency-Key of what the form decides.
func (d *Decision) key() [16]byte { return hashOf("owner", string(d.Session[:]), d.Once) }

// decided is the workspace that this form has decided something about before; 0 is none.
func (a *API) decided(d *Decision) uint32 {
	if d.Once == "" {
		return 0
	}
	return a.machine.ActedOn(d.key())
}

// Decided reports whether this form was sent before, and carried out then.
func (a *API) Decided(d *Decision) bool { return a.decided(d) != 0 }

// Decide carries a decision out once, and keeps who took it. nil is done.
func (a *API) Decide(d *Decision, kind engine.Kind, c wire.Fielder) *server.Fault {
	return a.decideAs(d, kind, c, string(wire.Encode(nil, c)))
}

// decideAs is Decide for a command that differs each time, such as by a new secret: same is what
// the form asks for, so that the same form again is the same decision. What else is to happen comes
// behind it in the same entry.
func (a *API) decideAs(d *Decision, kind engine.Kind, c wire.Fielder, same string,
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
	return a.Order(d.flow(), state.KindAct, made, also...)
}

// Order brings a command of a flow into the log, and waits until this node's memory has it. nil is
// done.
func (a *API) Order(flow fair.Flow, kind engine.Kind, c wire.Fielder, also ...engine.Record,
) *server.Fault {
	return a.heard(a.propose(flow, kind, c, also...).Outcome)
}

// heard is what to say of an outcome; nil where it is done, and this node's memory has it.
func (a *API) heard(o engine.Outcome) *server.Fault {
	code, known := outcomeCodes[o]
	switch {
	case o == engine.OutcomeDone && a.fresh():
		return nil
	case o == engine.OutcomeDone || !known:
		code = "outcome_unknown"
	}
	return new(no(code)).fault()
}

// Agents are what can run flows, the default one first.
func (a *API) Agents() []Agent { return slices.Clone(a.config.Agents) }

// Ask carries out a row of the API for whoever decides, in the workspace that it is about, as the
// person's own session may: with an Idempotency-Key made of the form's key.
func (a *API) Ask(d *Decision, c server.Call) server.Reply {
	c.Tenant = a.principal(d)
	if d.Once != "" {
		key := d.key()
		c.OnceKey = hex.EncodeToString(key[:])
	}
	return a.table.Call(c)
}

func (a *API) principal(d *Decision) state.Principal {
	account, _ := a.machine.Account(d.Workspace, a.now())
	return state.Principal{
		Workspace: d.Workspace, ID: account.ID, Scopes: state.ScopesAll, Claimed: account.Claimed,
		Person: d.Person,
	}
}

// NewFlow is the id of a flow that a form is to make.
func NewFlow() [16]byte { return mint() }

// SaveFlow makes the flow of this id, or changes the one that is there: fields is a body of POST or
// PATCH /v1/flows. Sent again it is the same flow. Refused, field is the one that is wrong, where
// it is one.
func (a *API) SaveFlow(d *Decision, id [16]byte, fields []byte) (field string, f *server.Fault) {
	if !a.fresh() {
		return "", new(no("workspace_busy")).fault()
	}
	x := &server.Exchange{Tenant: a.principal(d), Body: fields}
	before, known := a.machine.Flow(d.Workspace, id)
	if !known {
		before.Access = "public"
	}
	doc, schedule, refused := a.flowBody(x, &before, known)
	if refused != nil {
		return refused.field, refused.fault()
	}
	if schedule.given {
		return "", a.Decide(d, state.KindScheduleFlow, &state.ScheduleFlow{
			Workspace: d.Workspace, Flow: id, EveryHours: schedule.hours, Save: true, Replace: known,
			Document: doc,
		})
	}
	return "", a.Order(d.flow(), state.KindSaveFlow, &state.SaveFlow{
		Workspace: d.Workspace, ID: id, Replace: known, Document: doc,
	})
}

// Approve approves a purchase for whoever decides, whose an unclaimed workspace becomes, and makes
// its payment page. Where the provider does not answer, the page is made as soon as it does.
func (a *API) Approve(d *Decision, id [16]byte) *server.Fault {
	fault := a.Decide(d, state.KindApprovePurchase, &state.ApprovePurchase{
		ID: id, Owner: d.Name, Person: d.Person,
	})
	if fault != nil {
		return fault
	}
	v, known := a.machine.Purchase(d.Workspace, id)
	if !known || a.cards == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
	defer cancel()
	if err := a.openCheckout(ctx, &v); err != nil {
		a.config.Log.Warn("a payment page is not made yet", "purchase", paymentName(&v), "error", err)
	}
	if !a.fresh() {
		return new(no("outcome_unknown")).fault()
	}
	return nil
}

// CancelPurchase cancels a purchase of the decision's workspace. One that is paid stays paid:
// checkout_completed.
func (a *API) CancelPurchase(d *Decision, id [16]byte) *server.Fault {
	v, _ := a.machine.Purchase(d.Workspace, id)
	closed, refused := a.closeNow(&v)
	if refused != nil {
		return refused.fault()
	}
	c := &state.CancelPurchase{Workspace: d.Workspace, ID: id, Person: true}
	return a.decideAs(d, state.KindCancelPurchase, c, string(wire.Encode(nil, c)), closed...)
}

// RotateKeys revokes all keys of the decision's workspace and returns the one that works from now
// on; it is shown once. Where the form was sent before, its key is gone, and the text is empty.
func (a *API) RotateKeys(d *Decision) (string, *server.Fault) {
	key, err := server.MintKey(server.KeyPrefixWorkspace)
	if err != nil {
		return "", &server.FaultInternal
	}
	c := &state.RotateKeys{
		Workspace: d.Workspace, KeyID: mint(), KeyHash: sha256.Sum256([]byte(key)),
	}
	if fault := a.decideAs(d, state.KindRotateKeys, c, ""); fault != nil {
		return "", fault
	}
	if _, works := a.machine.Authenticate(c.KeyHash); !works {
		return "", nil
	}
	return key, nil
}

// Claim gives the workspace of a claim code to whoever decides, and lets their session work there.
// A code works once: the same form again is told of what it did.
func (a *API) Claim(d *Decision, code string) *server.Fault {
	hash := sha256.Sum256([]byte(code))
	number := a.machine.ClaimRow(hash)
	if was := a.decided(d); number == 0 && a.machine.Owns(was, d.Person) {
		return a.choose(d, was)
	}
	if _, known := a.machine.Account(number, a.now()); number == 0 || !known {
		return &server.Fault{
			Status: 404, Code: "not_found", Message: "No workspace has this claim code",
			Detail: "Nothing was changed. A code works once; look for a missing or a wrong character.",
		}
	}
	claim := *d
	claim.Workspace = number
	fault := a.Decide(&claim, state.KindClaimWorkspace, &state.ClaimWorkspace{
		Code: hash, Owner: d.Name, Person: d.Person,
	})
	// Sent twice at once, the code was used by the other one when this one came into the log.
	if fault != nil && (!a.fresh() || !a.machine.Owns(a.decided(d), d.Person)) {
		return fault
	}
	return a.choose(d, number)
}

// choose lets the session of whoever decides work in a workspace.
func (a *API) choose(d *Decision, number uint32) *server.Fault {
	account, _ := a.machine.Account(number, a.now())
	return a.Order(d.flow(), state.KindChooseWorkspace, &state.ChooseWorkspace{
		Session: d.Session, ID: account.ID,
	})
}
