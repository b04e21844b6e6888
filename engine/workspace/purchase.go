package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/wire"
)

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
//schema:request workspaceapi PurchaseRequest
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
	// Shown is the price that the buyer was shown, in US cents, and Asked whether they were told that
	// it has to be approved: where either is not so, nothing is bought. 0: nothing was shown.
	Shown uint32 `wire:"10"`
	Asked bool   `wire:"11"`
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

func (c *RequestPurchase) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	w := *x.workspaces.Read(row)
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
	if x.purchases.find(c.ID) != 0 {
		return engine.OutcomeIDsContradict
	}
	cents := c.Runs * x.policy.RunCents
	reason := w.chargeable(cents, c.AgentSession)
	if c.Shown != 0 && (c.Shown != cents || c.Asked != (reason != ReasonNone)) {
		return engine.OutcomeQuoteChanged
	}
	if reason == ReasonNone && c.Ask {
		t.Answer(&PurchaseReply{Action: ActionPurchase})
		return engine.OutcomeDone
	}
	if reason == ReasonNone && x.requests.Full() {
		return engine.OutcomeKeysFull
	}
	p := purchase{
		purchaseFacts: purchaseFacts{
			ID: c.ID, Workspace: c.Workspace, Runs: c.Runs, Cents: cents, Status: PurchaseApproval,
			Reason: reason, CreatedAt: t.Stamp, ChangedAt: t.Stamp, ExpiresAt: t.Stamp + ApprovalMS,
		},
		Before: w.Purchases, Flow: x.flowRow(c.Workspace, c.Flow), Link: c.Link,
		asked: asked{c.Key, c.Body},
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
		p.Status, p.ExpiresAt, p.PaidMonth = PurchaseProcessing, 0, monthOf(t.Stamp)
		action = ActionCharging
		w.Ledger.ChargingCents += cents
	}
	if row := x.addPurchase(t, &w, p); reason == ReasonNone {
		x.keepRequest(t, c.Key, c.Body, madePurchase, row)
	}
	*x.workspaces.Write(c.Workspace) = w
	t.Answer(&PurchaseReply{ID: c.ID, Action: action})
	return engine.OutcomeDone
}

// purchaseIn finds a purchase of a workspace, and anyPurchase one of any; 0 where there is none.
func (x *money) purchaseIn(workspace uint32, id [16]byte) uint32 {
	return x.purchases.of(workspace, id)
}

func (x *money) anyPurchase(_ uint32, id [16]byte) uint32 { return x.purchases.find(id) }

// CancelPurchase ends a purchase that is not paid, for good. Cancelling a cancelled one is the same
// success again and does not count. The reply of OutcomeCancelLimit is a RetryReply.
type CancelPurchase struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	// Person reports whether its owner cancels, which does not count against the limit.
	Person bool `wire:"3"`
}

func (c *CancelPurchase) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
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
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp), Limit: MaxCancelsPerDay})
		return engine.OutcomeCancelLimit
	}

	if !c.Person {
		w.Ledger.Cancels++
	}
	x.change(t, row, &w, PurchaseCancelled, 0)
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}

// replayPaid says what replay would, of a purchase that was paid while no room was left for its
// key: the purchase keeps the key as well.
func (x *money) replayPaid(t *machine.Turn, w *workspace, c *RequestPurchase) (
	made [16]byte, o engine.Outcome,
) {
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

// maxPurchasesSeen bounds the walk over a workspace's newest purchases.
const maxPurchasesSeen = 100
