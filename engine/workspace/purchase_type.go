package workspace

import "slices"

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
	purchaseFacts
	Before uint32 `wire:"3"`
	// Flow is the flow whose start asked for it; 0 is none.
	Flow  uint32   `wire:"4"`
	Links uint32   `wire:"9"`  // new links so far
	Link  [32]byte `wire:"10"` // SHA-256 of the token of the one link that works
	// PaidMonth is the month whose cap it counts against.
	PaidMonth uint32 `wire:"16"`
	// RefundID and RefundedAt say that Payment was sent back, RefundRefused why its provider does
	// not.
	RefundID      string `wire:"19"`
	RefundedAt    int64  `wire:"20"`
	RefundRefused string `wire:"25"`
	// FlowVersion is the version of Flow that its owner is shown, and confirms.
	FlowVersion uint32 `wire:"22"`
	asked
	// Surplus are payments other than Payment, all to be sent back, in the order in which they came.
	Surplus []Return `wire:"26"`
}

// purchaseFacts are the fields that the row of a purchase and its view have in common.
//
//schema:part
type purchaseFacts struct {
	ID        [16]byte       `wire:"1" json:"id" id:"markPurchase"`
	Workspace uint32         `wire:"2"`
	Status    PurchaseStatus `wire:"7" json:"status"`
	Runs      uint32         `wire:"5" json:"runs"`
	Cents     uint32         `wire:"6" json:"cents"`
	Reason    ApprovalReason `wire:"8" json:"reason" rule:"null" as:"text"`
	CreatedAt int64          `wire:"13" json:"createdAt" as:"time"`
	ChangedAt int64          `wire:"14" json:"updatedAt" as:"time"`
	// ExpiresAt is when approval or page expire; 0 when the purchase has ended.
	ExpiresAt int64 `wire:"15" json:"expiresAt" rule:"null" as:"time"`
	// Checkout is the provider's id of the payment page, URL its address.
	Checkout string `wire:"11"`
	URL      string `wire:"12"`
	// PageOpen reports whether the payment page may still be paid, as far as is known.
	PageOpen bool `wire:"21"`
	// Payment is the provider's id of what was paid. Refund reports whether it was paid after the
	// purchase had ended: the money is to be given back.
	Payment string `wire:"18"`
	Refund  bool   `wire:"17"`
}

// asked is the request that asked for a purchase; its key is used up when it is paid.
//
//schema:part
type asked struct {
	Key  [16]byte `wire:"23"`
	Body [16]byte `wire:"24"`
}

// waits reports whether the owner may still approve it, or the payer pay it.
func (p *purchase) waits() bool {
	return p.Status == PurchaseApproval || p.Status == PurchaseCheckout
}

// shown reports whether its owner is shown this flow as it is now.
func (p *purchase) shown(row uint32, f *flow) bool {
	return p.Flow == row && p.FlowVersion == f.Version && f.ArchivedAt == 0
}

// bytes is what a purchase takes, in addition to what its workspace keeps for the first one.
func (p *purchase) bytes() int {
	if p.Before == 0 {
		return 0
	}
	return purchaseRowBytes
}

// Return is a payment that is to be sent back, or was.
//
//schema:answer workspaceapi Return
type Return struct {
	// Payment and Refund are the provider's ids; Refund is empty until it was sent back, at At.
	Payment string `wire:"1" json:"payment,omitzero" rule:"min=1"`
	Refund  string `wire:"2" json:"refund,omitzero" rule:"min=1"`
	At      int64  `wire:"3" json:"at,omitzero" as:"time"`
	// Refused is the provider's reason for not sending it back. It is asked again only when an
	// operator says so.
	Refused string `wire:"4" json:"refused,omitzero" in:"after=refund" rule:"min=1"`
}

// Due reports whether the provider is to be asked to send it back.
func (r *Return) Due() bool { return r.At == 0 && r.Refused == "" }

// MaxSurplus is how many payments a purchase keeps in addition to its own. Each needs a page or a
// charge of its own, so that there are two at most where the provider keeps its word.
const MaxSurplus = 8

// MaxRefused is the length of a provider's word for not sending money back, in bytes.
const MaxRefused = 100

// returns are the payments of a purchase that are to be sent back, or were.
func (p *purchase) returns() (all []Return) {
	if p.Refund {
		all = append(all, Return{p.Payment, p.RefundID, p.RefundedAt, p.RefundRefused})
	}
	return append(all, p.Surplus...)
}

// owes reports whether money of the purchase is to be sent back.
func (p *purchase) owes() bool {
	return p.Refund && p.RefundedAt == 0 && p.RefundRefused == "" ||
		slices.ContainsFunc(p.Surplus, func(r Return) bool { return r.Due() })
}

// owed reports whether a payment is to be sent back, or was.
func (p *purchase) owed(payment string) bool {
	return payment != "" &&
		slices.ContainsFunc(p.returns(), func(r Return) bool { return r.Payment == payment })
}

// setAside keeps what was paid while the purchase did not wait for it apart from the payment that
// is to come: it stays the first of those to be sent back.
func (p *purchase) setAside() {
	if p.Refund {
		p.Surplus = p.returns()
		p.Refund, p.Payment, p.RefundID, p.RefundedAt, p.RefundRefused = false, "", "", 0, ""
	}
}

// change replaces one of the returns, by its place among them.
func (p *purchase) change(at int, to Return) {
	if p.Refund {
		if at == 0 {
			p.RefundID, p.RefundedAt, p.RefundRefused = to.Refund, to.At, to.Refused
			return
		}
		at--
	}
	p.Surplus = slices.Clone(p.Surplus) // a snapshot may hold the row as it was
	p.Surplus[at] = to
}

// refund is how the returns of a purchase stand, in one word, for the record of an operator's act.
func (p *purchase) refund() string {
	for _, r := range p.returns() {
		if r.Refused != "" {
			return "refused"
		}
	}
	if p.owes() {
		return "due"
	}
	return ""
}

// PaymentTask is the next request to a payment provider about a purchase. It follows from the
// purchase alone, so every leader knows what is left to do.
type PaymentTask uint8

// The tasks. A purchase has at most one at a time.
const (
	TaskNone PaymentTask = 0
	// TaskCharge: the saved card is to be charged.
	TaskCharge PaymentTask = 1
	// TaskPage: the owner approved it, and there is no payment page yet.
	TaskPage PaymentTask = 2
	// TaskPoll: the payment page waits for its payer, and its webhook may be lost.
	TaskPoll PaymentTask = 3
	// TaskClose: it has ended unpaid, and its payment page may still be open.
	TaskClose PaymentTask = 4
	// TaskRefund: it was paid twice, or after it had ended, and the money was neither sent back
	// nor its return refused.
	TaskRefund PaymentTask = 5
	// TaskEnd: its payment page closed unpaid. The purchase is to be cancelled, so that its
	// workspace can make another. No provider is asked.
	TaskEnd PaymentTask = 6

	paymentTaskKinds = 7
)

// task is what is left to do about a purchase.
func (p *purchase) task() PaymentTask {
	switch {
	case p.owes():
		return TaskRefund
	case p.Status == PurchaseProcessing:
		return TaskCharge
	case p.Status == PurchaseCheckout && p.Checkout == "":
		return TaskPage
	case p.Status == PurchaseCheckout && p.PageOpen:
		return TaskPoll
	case p.Status == PurchaseCheckout:
		return TaskEnd
	case p.PageOpen && p.Status > PurchaseSucceeded:
		return TaskClose
	}
	return TaskNone
}

// paymentTasks lists the purchases that have each task. It is not state: it follows from the table
// of purchases.
type paymentTasks [paymentTaskKinds]waiting

// move gives a purchase another task. Most rows are added at the end; inserting or removing one
// moves four bytes for each row after it.
func (e *paymentTasks) move(row uint32, from, to PaymentTask) {
	if from != to {
		e[from].note(row, false)
		e[to].note(row, to != TaskNone)
	}
}

// TransactionKind is how credits moved.
//
//schema:enum
type TransactionKind uint8

const (
	transactionGrant   TransactionKind = 1 // grant
	transactionReserve TransactionKind = 2 // reserve
	transactionCommit  TransactionKind = 3 // commit
	transactionRelease TransactionKind = 4 // release
)

// TransactionView is one movement of credits.
//
//schema:answer workspaceapi Transaction
//schema:part
type TransactionView struct {
	ID     [16]byte        `wire:"1" json:"id" id:"markTransaction"`
	Kind   TransactionKind `wire:"3" json:"kind"`
	Amount uint64          `wire:"4" json:"amount"`
	Run    [16]byte        `wire:"5" json:"runId" rule:"null" id:"markRun"`
	At     int64           `wire:"6" json:"createdAt" as:"time"`
	Note   string          `wire:"7"`
}

// transaction is the row of a movement of credits.
type transaction struct {
	TransactionView
	Before uint32 `wire:"2"`
}
