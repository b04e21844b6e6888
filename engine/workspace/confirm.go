package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// Bounds of asking the owner of an e-mail address whether alerts may go there.
const (
	// AddressLinkMS is how long a link works that was sent to ask.
	AddressLinkMS = dayMS
	// MaxAddressAsks is how many of them a workspace sends in a UTC day.
	MaxAddressAsks = 5
)

// AskAddress keeps the link that asks whether alerts of a flow may go to the e-mail address that is
// set; the link before stops working. It is carried out once for the link that it replaces: where
// that is another one, nothing is changed, and no ask is counted.
type AskAddress struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	Link      [32]byte `wire:"3"` // the SHA-256 of its secret
	// Replaces is until when the link works that it replaces, 1 where there is none; 0 is any.
	Replaces int64 `wire:"4"`
}

func (c *AskAddress) apply(x *notices, t *machine.Turn) engine.Outcome {
	_, at, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	switch {
	case c.Link == [32]byte{}:
		return engine.OutcomeAlertsInvalid
	case at == 0 || !x.alerts.Read(at).Unconfirmed:
		return engine.OutcomeAddressConfirmed
	case c.Replaces != 0 && c.Replaces != max(1, x.alerts.Read(at).LinkUntil):
		return engine.OutcomeDone
	}
	w, _ := x.workspace(c.Workspace)
	if w.Ledger.roll(t.Stamp); w.Ledger.AddressAsks >= MaxAddressAsks {
		t.Answer(&RetryReply{Limit: MaxAddressAsks, ResetsAt: DayEnd(t.Stamp)})
		return engine.OutcomeAddressAskLimit
	}
	w.Ledger.AddressAsks++
	*x.workspaces.Write(c.Workspace) = w
	x.alertWrite(t, at, func(a *alert) { a.Link, a.LinkUntil = c.Link, t.Stamp+AddressLinkMS })
	return engine.OutcomeDone
}

// ConfirmAddress agrees to alerts. Only the owner of the address has received the link, which works
// once.
type ConfirmAddress struct {
	Flow [16]byte `wire:"1"`
	Link [32]byte `wire:"2"`
}

func (c *ConfirmAddress) apply(x *notices, t *machine.Turn) engine.Outcome {
	at := x.askedBy(&c.Flow, &c.Link, t.Stamp)
	if at == 0 {
		return engine.OutcomeRecordUnknown
	}
	x.alertWrite(t, at, func(a *alert) { a.Unconfirmed, a.Link, a.LinkUntil = false, [32]byte{}, 0 })
	return engine.OutcomeDone
}

// askedBy finds the alerts whose address a link asks for; 0 where it works no more.
func (x *notices) askedBy(flow *[16]byte, link *[32]byte, now int64) uint32 {
	row := x.flows.find(*flow)
	if row == 0 || x.flows.Read(row).ArchivedAt != 0 || x.flows.Read(row).Alert == 0 {
		return 0
	}
	at := x.flows.Read(row).Alert
	if a := x.alerts.Read(at); *link == ([32]byte{}) || a.Link != *link || now >= a.LinkUntil {
		return 0
	}
	return at
}
