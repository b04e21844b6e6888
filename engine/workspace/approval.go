package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// ApprovePurchase is an owner's approval. It adopts an unclaimed workspace, confirms the signup at
// the flow that asked unless the flow has changed since, and starts the payment: by the saved card,
// or on a payment page. Repeating it succeeds and changes nothing.
type ApprovePurchase struct {
	ID     [16]byte `wire:"1"`
	Owner  string   `wire:"2"`
	Person uint32   `wire:"3"` // who has signed in; 0 for an operator
}

func (c *ApprovePurchase) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	p := *x.purchases.Read(row)
	switch p.Status {
	case PurchaseApproval:
	case PurchaseCheckout, PurchaseProcessing, PurchaseSucceeded:
		return engine.OutcomeDone
	default:
		return engine.OutcomePurchaseClosed
	}

	w := *x.workspaces.Read(p.Workspace)
	w.Ledger.roll(t.Stamp)
	x.adopt(t, p.Workspace, &w, c.Owner, c.Person)
	w.Ledger.CapApproved = true
	if p.Flow != 0 && p.shown(p.Flow, x.flows.Read(p.Flow)) {
		x.flows.Write(p.Flow).SignupConfirmed = true
	}
	if w.Ledger.Card != "" && p.Reason != ReasonDeclined {
		x.change(t, row, &w, PurchaseProcessing, 0).PaidMonth = w.Ledger.Month
	} else {
		x.change(t, row, &w, PurchaseCheckout, t.Stamp+CheckoutMS)
	}
	*x.workspaces.Write(p.Workspace) = w
	return engine.OutcomeDone
}

// DenyPurchase is an owner's refusal. Repeating it succeeds and changes nothing.
type DenyPurchase struct {
	ID [16]byte `wire:"1"`
}

func (c *DenyPurchase) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	p := x.purchases.Read(row)
	switch {
	case p.Status == PurchaseDenied:
		return engine.OutcomeDone
	case !p.waits():
		return engine.OutcomePurchaseClosed
	}
	x.finishPurchase(t, row, PurchaseDenied)
	return engine.OutcomeDone
}

// RenewLink replaces the approval link of a purchase that waits for its owner.
type RenewLink struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Link      [32]byte `wire:"3"`
	Person    bool     `wire:"4"`
}

func (c *RenewLink) apply(x *money, t *machine.Turn, row uint32) engine.Outcome {
	switch p := x.purchases.Read(row); {
	case p.Status == PurchaseProcessing || p.Status == PurchaseSucceeded:
		return engine.OutcomeCheckoutCompleted
	case p.Status != PurchaseApproval:
		return engine.OutcomePurchaseClosed
	case p.Link == c.Link:
		return engine.OutcomeDone
	case !c.Person && p.Links >= MaxLinks:
		t.Answer(&RetryReply{ResetsAt: p.ExpiresAt, Limit: MaxLinks})
		return engine.OutcomeLinkLimit
	}
	p := x.purchases.Write(row)
	x.linkBy.Remove(secretHash(&p.Link), row)
	p.Link = c.Link
	if !c.Person {
		p.Links++
	}
	x.linkBy.Insert(secretHash(&p.Link), row)
	t.Fold(uint64(row))
	return engine.OutcomeDone
}
