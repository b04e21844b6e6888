package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

// PurchaseStatus is how far a purchase has come.
//
//schema:enum
type PurchaseStatus uint8

// The statuses. PurchaseApproval waits for its owner, PurchaseCheckout is approved and waits for
// the payer on the payment page, PurchaseProcessing charges the saved card.
const (
	PurchaseApproval   PurchaseStatus = 1 // requires_approval
	PurchaseCheckout   PurchaseStatus = 2 // checkout
	PurchaseProcessing PurchaseStatus = 3 // processing
	PurchaseSucceeded  PurchaseStatus = 4 // succeeded
	PurchaseFailed     PurchaseStatus = 5 // failed
	PurchaseCancelled  PurchaseStatus = 6 // cancelled
	PurchaseDenied     PurchaseStatus = 7 // denied
	PurchaseExpired    PurchaseStatus = 8 // expired
)

// ApprovalReason is why a purchase needs its owner.
//
//schema:enum
type ApprovalReason uint8

// The reasons.
const (
	ReasonNone         ApprovalReason = 0
	ReasonNoCard       ApprovalReason = 1 // no_card
	ReasonOverCap      ApprovalReason = 2 // over_cap
	ReasonPaused       ApprovalReason = 3 // paused
	ReasonAgentSession ApprovalReason = 4 // agent_session
	ReasonDeclined     ApprovalReason = 5 // card_declined
)

// How long a purchase waits for its owner, and its payment page for the payer, in log time.
const (
	ApprovalMS = 7 * dayMS
	CheckoutMS = dayMS
)

// Limits of what keys may do about purchases.
const (
	MaxPurchaseRuns  = 10
	MaxLinks         = 5  // new approval links of one purchase
	MaxCancelsPerDay = 10 // of one workspace and UTC day
)

// purchase is an order of runs.
type purchase struct {
	ID        [16]byte `wire:"1"`
	Workspace uint32   `wire:"2"`
	Before    uint32   `wire:"3"`
	// Flow is the flow whose start asked for it; 0 is none.
	Flow      uint32         `wire:"4"`
	Runs      uint32         `wire:"5"`
	Cents     uint32         `wire:"6"`
	Status    PurchaseStatus `wire:"7"`
	Reason    ApprovalReason `wire:"8"`
	Links     uint32         `wire:"9"`  // new links so far
	Link      [32]byte       `wire:"10"` // SHA-256 of the token of the one link that works
	Checkout  string         `wire:"11"` // the provider's id of the payment page
	URL       string         `wire:"12"` // where the page is
	CreatedAt int64          `wire:"13"`
	ChangedAt int64          `wire:"14"`
	Due       int64          `wire:"15"` // when approval or page expire
	// PaidMonth is the month whose cap it counts against.
	PaidMonth uint32 `wire:"16"`
	// Refund reports whether it was paid after it had ended: the money is to be given back.
	Refund bool `wire:"17"`
	// Payment is the provider's id of what was paid; RefundID and RefundedAt say that it was sent
	// back, RefundRefused why its provider does not.
	Payment       string `wire:"18"`
	RefundID      string `wire:"19"`
	RefundedAt    int64  `wire:"20"`
	RefundRefused string `wire:"25"`
	// PageOpen reports whether the payment page may still be paid, as far as is known.
	PageOpen bool `wire:"21"`
	// FlowVersion is the version of Flow that its owner is shown, and confirms.
	FlowVersion uint32 `wire:"22"`
	// Key and Body are of the request that asked for it; they are used up when it is paid.
	Key  [16]byte `wire:"23"`
	Body [16]byte `wire:"24"`
	// Surplus are payments beside Payment, all to be sent back, in the order in which they came.
	Surplus []Return `wire:"26"`
}

// waits reports whether the owner may still approve it, or the payer pay it.
func (p *purchase) waits() bool {
	return p.Status == PurchaseApproval || p.Status == PurchaseCheckout
}

// PurchaseAction is what a request for a purchase came to.
type PurchaseAction uint8

// The actions.
const (
	// ActionCharging: the saved card is being charged for this purchase.
	ActionCharging PurchaseAction = 1
	// ActionWait: another purchase is being charged.
	ActionWait PurchaseAction = 2
	// ActionApprove: the owner is to approve this new purchase.
	ActionApprove PurchaseAction = 3
	// ActionApproveEarlier: one waits for the owner already; its link works.
	ActionApproveEarlier PurchaseAction = 4
	// ActionPurchase: the saved card could pay; nothing was made.
	ActionPurchase PurchaseAction = 5
)

// RequestPurchase buys runs: it charges the saved card where that is allowed, and else leaves a
// purchase that waits for the owner. One waits or is charged at a time. Only one that is charged,
// or paid after its owner approved it, uses up the key. The reply is a PurchaseReply.
//
//schema:request workspace PurchaseRequest
type RequestPurchase struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Runs      uint32   `wire:"3" json:"runs" rule:"required,min=1,max=10"`
	Key       [16]byte `wire:"4"`
	Body      [16]byte `wire:"5"`
	Link      [32]byte `wire:"6"` // SHA-256 of the approval link's token
	// Flow is the flow whose start asks; zero where runs are bought ahead.
	Flow [16]byte `wire:"7"`
	// Ask leaves the card alone: a start that found no run left says what to do, and does not pay.
	Ask bool `wire:"8"`
	// AgentSession never charges a card.
	AgentSession bool `wire:"9"`
}

func (c *RequestPurchase) bounds(w *wire.Codec) {
	if w.Decoding() && (c.Runs < 1 || c.Runs > MaxPurchaseRuns) {
		w.Fail("a purchase of %d runs", c.Runs)
	}
}

// PurchaseReply says what became of a request for a purchase.
type PurchaseReply struct {
	ID       [16]byte       `wire:"1"`
	Action   PurchaseAction `wire:"2"`
	Repeated bool           `wire:"3"`
}

func (c *RequestPurchase) apply(x *money, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	made, outcome := x.replay(c.Key, c.Body)
	if outcome == engine.OutcomeNone {
		made, outcome = x.replayPaid(t, &w, c)
	}
	if outcome != engine.OutcomeNone {
		t.Answer(&PurchaseReply{ID: made, Action: ActionCharging, Repeated: true})
		return outcome
	}
	w.Ledger.roll(t.Stamp)
	if open := w.Ledger.Open; open != 0 {
		p := x.purchases.Read(open)
		reply := PurchaseReply{ID: p.ID, Action: ActionApproveEarlier, Repeated: p.ID == c.ID}
		if p.Status == PurchaseProcessing {
			reply.Action = ActionWait
		}
		t.Answer(&reply)
		return engine.OutcomeDone
	}
	if x.purchaseOf(c.ID) != 0 {
		return engine.OutcomeIDsContradict
	}
	cents := c.Runs * x.policy.RunCents
	reason := w.chargeable(cents, c.AgentSession)
	if reason == ReasonNone && c.Ask {
		t.Answer(&PurchaseReply{Action: ActionPurchase})
		return engine.OutcomeDone
	}
	if reason == ReasonNone && x.requests.Full() {
		return engine.OutcomeKeysFull
	}
	p := purchase{
		ID: c.ID, Workspace: c.Workspace, Before: w.Purchases,
		Flow: x.flowRow(c.Workspace, c.Flow), Runs: c.Runs,
		Cents: cents, Status: PurchaseApproval, Reason: reason, Link: c.Link, CreatedAt: t.Stamp,
		ChangedAt: t.Stamp, Due: t.Stamp + ApprovalMS, Key: c.Key, Body: c.Body,
	}
	if p.Before != 0 { // the first one can always be asked for
		if full := x.another(t, c.Workspace, p.bytes()); full != engine.OutcomeDone {
			return full
		}
	}

	if p.Flow != 0 {
		p.FlowVersion = x.flows.Read(p.Flow).Version
	}
	action := ActionApprove
	if reason == ReasonNone {
		p.Status, p.Due, p.PaidMonth, action = PurchaseProcessing, 0, monthOf(t.Stamp), ActionCharging
		w.Ledger.ChargingCents += cents
	}
	if row := x.addPurchase(t, &w, p); reason == ReasonNone {
		x.keepRequest(t, c.Key, c.Body, madePurchase, row)
	}
	*x.workspaces.Write(c.Workspace) = w
	t.Answer(&PurchaseReply{ID: c.ID, Action: action})
	return engine.OutcomeDone
}

// maxPurchasesSeen bounds the walk over a workspace's newest purchases.
const maxPurchasesSeen = 100

// replayPaid says what replay would, of a purchase that was paid while no room was left for its
// key: the purchase keeps the key as well.
func (x *money) replayPaid(t *machine.Turn, w *workspace, c *RequestPurchase) (made [16]byte, o engine.Outcome) {
	if c.Key == ([16]byte{}) {
		return made, engine.OutcomeNone
	}
	next := w.Purchases
	for n := 0; next != 0 && n < maxPurchasesSeen; n++ {
		p := x.purchases.Read(next)
		next = p.Before
		switch {
		case p.Key != c.Key || p.Status != PurchaseSucceeded,
			p.ChangedAt <= t.Stamp-RequestRetentionMS:
		case p.Body != c.Body:
			return made, engine.OutcomeRequestKeyReused
		default:
			return p.ID, engine.OutcomeDone
		}
	}
	return made, engine.OutcomeNone
}

// confirms reports whether approving the purchase that a start of a flow now leads to would confirm
// its signup: the one that waits for this version of the flow, or a new one that its owner would be
// asked for. The ledger has been rolled.
func (x *money) confirms(w *workspace, flow uint32) bool {
	open := w.Ledger.Open
	if open == 0 {
		return w.chargeable(x.policy.RunCents, false) != ReasonNone
	}
	p := x.purchases.Read(open)
	return p.Status == PurchaseApproval && p.shown(flow, x.flows.Read(flow))
}

// shown reports whether its owner is shown this flow as it is now.
func (p *purchase) shown(row uint32, f *flow) bool {
	return p.Flow == row && p.FlowVersion == f.Version && f.ArchivedAt == 0
}

// chargeable says why the saved card may not be charged without the owner; ReasonNone when it may.
// Cap: spent + charging + this ≤ cap. The ledger has been rolled.
func (w *workspace) chargeable(cents uint32, agent bool) ApprovalReason {
	l := &w.Ledger
	switch {
	case !w.claimed() || l.Card == "":
		return ReasonNoCard
	case agent:
		return ReasonAgentSession
	case l.Paused:
		return ReasonPaused
	case uint64(l.SpentCents)+uint64(l.ChargingCents)+uint64(cents) > uint64(l.CapCents):
		return ReasonOverCap
	}
	return ReasonNone
}

func (x *money) addPurchase(t *machine.Turn, w *workspace, p purchase) uint32 {
	row, next := x.purchases.Append()
	*next, w.Purchases, w.Ledger.Open = p, row, row
	x.rooms.add(p.Workspace, p.bytes())
	x.purchaseBy.Insert(x.idHash(&p.ID), row)
	if p.waits() {
		x.linkBy.Insert(secretHash(&p.Link), row)
	}
	x.errands.move(row, ErrandNone, p.errand())
	x.due.add(p.Due, duePurchase, row)
	t.Fold(uint64(row))
	return row
}

// change moves a purchase to another status: the link works only while it waits, and its workspace
// is free for the next one once it has ended. w is its workspace.
func (x *money) change(t *machine.Turn, row uint32, w *workspace, status PurchaseStatus, due int64) *purchase {
	before := x.purchases.Read(row).waits()
	p := x.purchaseWrite(row, func(p *purchase) {
		if p.Status == PurchaseProcessing {
			w.Ledger.ChargingCents -= p.Cents
		}
		p.Status, p.ChangedAt, p.Due = status, t.Stamp, due
		p.PageOpen = p.PageOpen && status != PurchaseSucceeded
	})
	switch {
	case before && !p.waits():
		x.linkBy.Remove(secretHash(&p.Link), row)
	case !before && p.waits():
		x.linkBy.Insert(secretHash(&p.Link), row)
	}
	if status == PurchaseProcessing {
		w.Ledger.ChargingCents += p.Cents
	}
	if status >= PurchaseSucceeded && w.Ledger.Open == row {
		w.Ledger.Open = 0
	}
	x.due.add(due, duePurchase, row)
	t.Fold(uint64(row)<<8 | uint64(status))
	return p
}

// finishPurchase ends a purchase that brings nothing, and says so.
func (x *money) finishPurchase(t *machine.Turn, row uint32, status PurchaseStatus) {
	number := x.purchases.Read(row).Workspace
	w := *x.workspaces.Read(number)
	w.Ledger.roll(t.Stamp)
	p := x.change(t, row, &w, status, 0)
	x.notify(t, &w, notice{kind: NoticePurchase, purchase: p})
	*x.workspaces.Write(number) = w
}

// purchaseDue ends a purchase that nobody approved or paid in time.
func (x *money) purchaseDue(t *machine.Turn, row uint32) { x.finishPurchase(t, row, PurchaseExpired) }

// CancelPurchase ends a purchase that is not paid, for good. Cancelling a cancelled one is the same
// success again and does not count. The reply of OutcomeCancelLimit is a RetryReply.
type CancelPurchase struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	// Person reports whether its owner cancels, which does not count against the limit.
	Person bool `wire:"3"`
}

func (c *CancelPurchase) apply(x *money, t *machine.Turn) engine.Outcome {
	row := x.purchaseRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	switch p := x.purchases.Read(row); {
	case p.Status == PurchaseCancelled:
		return engine.OutcomeDone
	case p.Status == PurchaseProcessing || p.Status == PurchaseSucceeded:
		return engine.OutcomeCheckoutCompleted
	case !p.waits():
		return engine.OutcomePurchaseClosed
	}
	w := *x.workspaces.Read(c.Workspace)
	w.Ledger.roll(t.Stamp)
	if !c.Person && w.Ledger.Cancels >= MaxCancelsPerDay {
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp), Limit: MaxCancelsPerDay})
		return engine.OutcomeCancelLimit
	}

	if !c.Person {
		w.Ledger.Cancels++
	}
	x.change(t, row, &w, PurchaseCancelled, 0)
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}

// purchaseOf finds a purchase of any workspace; 0 when there is none.
func (x *money) purchaseOf(id [16]byte) uint32 {
	return x.purchaseBy.Find(x.idHash(&id), func(row uint32) bool {
		return x.purchases.Read(row).ID == id
	})
}

// purchaseRow finds a purchase of a workspace; 0 when there is none.
func (x *money) purchaseRow(workspace uint32, id [16]byte) uint32 {
	row := x.purchaseOf(id)
	if row == 0 || x.purchases.Read(row).Workspace != workspace {
		return 0
	}
	return row
}
