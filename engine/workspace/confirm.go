package workspace

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// Bounds of asking whoever has an e-mail address whether alerts may go there.
const (
	// AddressLinkMS is how long a link works that was sent to ask.
	AddressLinkMS = dayMS
	// MaxAddressAsks is how many of them a workspace sends in a UTC day.
	MaxAddressAsks = 5
)

// held reports whether a delivery waits for its address to be confirmed.
func (a *alert) held(d *delivery) bool {
	return a.Unconfirmed && d.Channel == ChannelEmail && d.Status == DeliveryWaiting
}

// mailTo sets where mails go. An address that is confirmed stays so, and so does one whose owner is
// still asked; another one is asked first, unless somebody vouches for it.
func (a *alert) mailTo(email string, vouched bool) {
	if vouched = vouched || email == ""; email != a.Email || vouched {
		a.Unconfirmed, a.Link, a.LinkUntil = !vouched, [32]byte{}, 0
	}
	a.Email = email
}

// AskAddress keeps the link that asks whether alerts of a flow may go to the e-mail address that is
// set; the link before stops working.
type AskAddress struct {
	Workspace uint32   `wire:"1"`
	Flow      [16]byte `wire:"2"`
	Link      [32]byte `wire:"3"` // the SHA-256 of its secret
}

func (c *AskAddress) apply(x *notices, t *machine.Turn) engine.Outcome {
	row, refused := x.alertable(c.Workspace, c.Flow)
	if refused != engine.OutcomeDone {
		return refused
	}
	at := x.flows.Read(row).Alert
	switch {
	case c.Link == [32]byte{}:
		return engine.OutcomeAlertsInvalid
	case at == 0 || !x.alerts.Read(at).Unconfirmed:
		return engine.OutcomeAddressConfirmed
	}
	w, _ := x.workspace(c.Workspace)
	if w.Ledger.roll(t.Stamp); w.Ledger.AddressAsks >= MaxAddressAsks {
		t.Answer(&RetryReply{Limit: MaxAddressAsks, ResetsAt: nextDay(t.Stamp)})
		return engine.OutcomeAddressAskLimit
	}
	w.Ledger.AddressAsks++
	*x.workspaces.Write(c.Workspace) = w
	x.alertWrite(t, at, func(a *alert) { a.Link, a.LinkUntil = c.Link, t.Stamp+AddressLinkMS })
	return engine.OutcomeDone
}

// ConfirmAddress is the yes of whoever has got the link, and so has the address. It works once.
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
	row := x.flowBy.Find(x.idHash(flow), func(row uint32) bool {
		return x.flows.Read(row).ID == *flow
	})
	if row == 0 || x.flows.Read(row).ArchivedAt != 0 || x.flows.Read(row).Alert == 0 {
		return 0
	}
	at := x.flows.Read(row).Alert
	if a := x.alerts.Read(at); *link == ([32]byte{}) || a.Link != *link || now >= a.LinkUntil {
		return 0
	}
	return at
}

// AddressView is what a link asks.
type AddressView struct{ Email, Flow, Label string }

// AddressByLink finds what the link of a flow's alerts asks; false where it works no more.
func (m *Machine) AddressByLink(flow [16]byte, link [32]byte, now int64) (AddressView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	at := s.askedBy(&flow, &link, now)
	if at == 0 {
		return AddressView{}, false
	}
	a := s.alerts.Read(at)
	return AddressView{
		Email: a.Email, Flow: s.flowView(a.Flow).Name, Label: s.workspaces.Read(a.Workspace).Label,
	}, true
}

// Held reports whether a delivery waits for its address to be confirmed.
func (v *AlertsView) Held(d *DeliveryView) bool {
	return v.Unconfirmed && d.Channel == ChannelEmail && d.Status == DeliveryWaiting
}

// sendable reports whether something can be sent now, or later by itself.
func (a *alert) sendable() bool {
	return slices.ContainsFunc(a.Deliveries, func(d delivery) bool {
		return d.Status == DeliveryWaiting && !a.held(&d)
	})
}
