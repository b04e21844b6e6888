package workspaceapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// purchaseWait is how long a purchase that is being charged is waited for.
const purchaseWait = 10 * time.Second

// nextActions are what a 402 tells to do.
const (
	nextApprove  = "approve"
	nextPurchase = "purchase"
	nextWait     = "wait"
)

// askForPayment answers a start that found no run left: what there is to do, with a purchase that
// waits for the owner where one is needed.
func (p *Purchases) askForPayment(x *server.Exchange, flow [16]byte) *server.Fault {
	if !p.payments.open() {
		return no("hosting_not_configured")
	}
	token := mintToken()
	c := &workspace.RequestPurchase{
		Workspace: tenant(x).Workspace, ID: mint(), Runs: 1, Flow: flow, Ask: true,
		Link: sha256.Sum256([]byte(token)), AgentSession: tenant(x).Agent,
	}
	reply, fault := p.requestPurchase(x, c)
	if fault != nil {
		return fault
	}
	switch reply.Action {
	case workspace.ActionApprove:
		return p.paymentRequired(x, nextApprove, reply.ID, p.approvalURL(token))
	case workspace.ActionApproveEarlier:
		return p.paymentRequired(x, nextApprove, reply.ID, "")
	case workspace.ActionWait:
		return p.paymentRequired(x, nextWait, reply.ID, "")
	}
	return p.paymentRequired(x, nextPurchase, [16]byte{}, "")
}

func (p *Purchases) approvalURL(token string) string { return p.publicURL + "/approve/" + token }

func (p *Purchases) requestPurchase(x *server.Exchange, c *workspace.RequestPurchase,
) (reply workspace.PurchaseReply, fault *server.Fault) {
	result, fault := p.ask(x, workspace.KindRequestPurchase, c)
	if fault == nil && !decoded(result.Value, &reply) {
		fault = no("outcome_unknown")
	}
	return reply, fault
}

// paymentRequired is the 402: next_action, approval_url, poll_url, reason, purchase.
func (p *Purchases) paymentRequired(
	x *server.Exchange, next string, id [16]byte, approval string,
) *server.Fault {
	v, known := p.machine.Purchase(tenant(x).Workspace, id)
	r := no("payment_required")
	r.More = func(j *server.JSON) {
		j.Text("next_action", next)
		textOrNull(j, "approval_url", approval)
		if !known {
			null(j, "poll_url")
			null(j, "purchase")
			return
		}
		j.Text("poll_url", p.pollURL(id))
		j.TextIf("reason", v.Reason.String())
		j.Name("purchase")
		p.writePurchase(j, &v)
	}
	return r
}

func (p *Purchases) pollURL(id [16]byte) string {
	return p.publicURL + "/v1/purchases/" + idText(markPurchase, id)
}

func (p *Purchases) buy(x *server.Exchange) *server.Fault {
	shown := asker(x).Shown
	c := workspace.RequestPurchase{
		Workspace: tenant(x).Workspace, ID: mint(), AgentSession: tenant(x).Agent,
		Shown: shown.Cents, Asked: shown.Approval,
	}
	refused := readBody(x, &c, readPurchaseRequest)
	key, badKey := requestKey(x)
	if refused = cmp.Or(refused, badKey); refused != nil {
		return refused
	}
	if !p.payments.open() {
		return no("hosting_not_configured")
	}
	token := mintToken()
	c.Key, c.Body = key, hashOf("purchase", strconv.FormatUint(uint64(c.Runs), 10))
	c.Link = sha256.Sum256([]byte(token))
	reply, fault := p.requestPurchase(x, &c)
	if fault != nil {
		return fault
	}
	switch reply.Action {
	case workspace.ActionApprove:
		return p.paymentRequired(x, nextApprove, reply.ID, p.approvalURL(token))
	case workspace.ActionApproveEarlier:
		return p.paymentRequired(x, nextApprove, reply.ID, "")
	case workspace.ActionWait:
		return p.answerCharging(x, reply.ID)
	}
	link := ""
	if !reply.Repeated {
		link = p.approvalURL(token)
	}
	return p.awaitCharge(x, reply.ID, link)
}

// awaitCharge waits for the saved card: 201 when it paid, 402 with the approval link when it needs
// the owner, else 202.
func (p *Purchases) awaitCharge(x *server.Exchange, id [16]byte, link string) *server.Fault {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(purchaseWait); time.Now().Before(end); <-tick.C {
		v, ok := p.machine.Purchase(tenant(x).Workspace, id)
		if ok && v.Status == workspace.PurchaseProcessing {
			continue
		}
		switch v.Status {
		case workspace.PurchaseSucceeded:
			return p.answerPurchase(x, id, 201)
		case workspace.PurchaseApproval:
			return p.paymentRequired(x, nextApprove, id, link)
		case workspace.PurchaseCheckout:
			return p.paymentRequired(x, nextApprove, id, "")
		}
		return p.answerPurchase(x, id, 200)
	}
	return p.answerCharging(x, id)
}

func (p *Purchases) answerCharging(x *server.Exchange, id [16]byte) *server.Fault {
	v, _ := p.machine.Purchase(tenant(x).Workspace, id)
	return x.BareObject(202, func(j *server.JSON) {
		j.Name("purchase")
		p.writePurchase(j, &v)
		j.Bool("charging", true)
	})
}

func (p *Purchases) answerPurchase(x *server.Exchange, id [16]byte, status int) *server.Fault {
	return one(p.base, x, "purchase", status, func() (workspace.PurchaseView, bool) {
		return p.machine.Purchase(tenant(x).Workspace, id)
	}, p.writePurchase)
}

func (p *Purchases) listPurchases(x *server.Exchange) *server.Fault {
	return list(p.base, x, "purchases", markPurchase, p.machine.Purchases, p.writePurchase,
		func(v *workspace.PurchaseView) [16]byte { return v.ID })
}

func (p *Purchases) getPurchase(x *server.Exchange, id [16]byte) *server.Fault {
	return p.answerPurchase(x, id, 200)
}

func (p *Purchases) renewLink(x *server.Exchange, id [16]byte) *server.Fault {
	token := mintToken()
	if fault := p.do(x, workspace.KindRenewLink, &workspace.RenewLink{
		Workspace: tenant(x).Workspace, ID: id, Link: sha256.Sum256([]byte(token)), Person: person(x),
	}); fault != nil {
		return fault
	}
	v, _ := p.machine.Purchase(tenant(x).Workspace, id)
	return x.BareObject(200, func(j *server.JSON) {
		j.Text("approval_url", p.approvalURL(token))
		j.Text("poll_url", p.pollURL(id))
		j.Name("purchase")
		p.writePurchase(j, &v)
	})
}

func (p *Purchases) cancelPurchase(x *server.Exchange, id [16]byte) *server.Fault {
	closed, fault := p.closeBefore(x, id)
	if fault != nil {
		return fault
	}
	c := &workspace.CancelPurchase{Workspace: tenant(x).Workspace, ID: id, Person: person(x)}
	if c.Person {
		fault = p.actAsOwner(x, c.Workspace, workspace.KindCancelPurchase, c, closed...)
	} else {
		fault = p.do(x, workspace.KindCancelPurchase, c, closed...)
	}
	if fault != nil {
		return fault
	}
	return p.answerPurchase(x, id, 200)
}

// closeBefore closes the payment page of a purchase that is to be cancelled, and returns the record
// that notes it in the entry that cancels. A page whose payer was faster stays paid. Where the
// provider cannot say, the purchase is cancelled all the same: the leader closes the page, and
// sends back what was paid on it.
func (p *Purchases) closeBefore(x *server.Exchange, id [16]byte) (
	closed []engine.Record, r *server.Fault,
) {
	if !p.fresh() {
		return nil, no("workspace_busy")
	}
	v, _ := p.machine.Purchase(tenant(x).Workspace, id)
	account, _ := p.machine.Account(tenant(x).Workspace, p.now())
	if account.CancelsToday >= workspace.MaxCancelsPerDay && !person(x) {
		return nil, nil // it stays open since this will be refused
	}
	return p.closeNow(&v)
}

// closeNow closes the payment page of a purchase, where there is one.
func (p *Purchases) closeNow(v *workspace.PurchaseView) (closed []engine.Record, r *server.Fault) {
	if !v.PageOpen || v.Status != workspace.PurchaseCheckout || !p.payments.open() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.writeTimeout)
	defer cancel()
	paid, err := p.payments.closePage(ctx, v)
	if err != nil {
		p.log.Warn("a payment page is not closed yet", "purchase", paymentName(v),
			"error", err)
		return nil, nil
	}
	if paid {
		return nil, no("checkout_completed")
	}
	return []engine.Record{{
		Kind:    workspace.KindNoteCheckout,
		Payload: wire.Encode(nil, &workspace.NoteCheckout{ID: v.ID, Closed: true}),
	}}, nil
}

// writePurchase writes a purchase, never with an approval link.
func (p *Purchases) writePurchase(j *server.JSON, v *workspace.PurchaseView) {
	v.PollURL = p.pollURL(v.ID)
	writePurchase(j, v)
}

func (p *Purchases) pause(x *server.Exchange) *server.Fault {
	b := open(x, false)
	return p.setBilling(x, b, &workspace.SetBilling{HasPaused: true, Paused: b.truth("paused")})
}

func (p *Purchases) setCap(x *server.Exchange) *server.Fault {
	b := open(x, false)
	limit := b.number("capCents", 0, int64(p.machine.Policy().MaxCapCents))
	return p.setBilling(x, b, &workspace.SetBilling{HasCap: true, CapCents: uint32(limit)})
}

// setBilling sets what a body says, of the workspace that it is about.
func (p *Purchases) setBilling(x *server.Exchange, b *body, c *workspace.SetBilling) *server.Fault {
	c.Workspace, c.Person = p.chosen(x, b), person(x)
	fault := b.close()
	switch {
	case fault != nil:
	case c.Person:
		fault = p.actAsOwner(x, c.Workspace, workspace.KindSetBilling, c)
	default:
		if r := p.propose(x.Flow(), workspace.KindSetBilling, c); r.Outcome != engine.OutcomeDone {
			fault = p.refusal(r)
		}
	}
	if fault != nil {
		return fault
	}
	return p.read(x, func() *server.Fault {
		account, _ := p.machine.Account(c.Workspace, p.now())
		return x.BareObject(200, func(j *server.JSON) {
			j.Name("billing")
			writeBilling(j, new(p.billing(&account)))
		})
	})
}

// billing is a workspace's billing; its usage only where payments are on.
func (p *Purchases) billing(v *workspace.AccountView) billingAnswer {
	b := billingAnswer{Paused: v.Paused, CapCents: v.CapCents}
	if !p.payments.open() {
		return b
	}
	b.Usage = &monthUsage{
		RunsUsed: v.FreeUsed + v.PaidUsed + v.Returned, FreeRunsUsed: v.FreeUsed,
		PaidRunsUsed: v.PaidUsed, RunsReturned: v.Returned, RunsLeft: v.RunsLeft,
		SpentCents: v.SpentCents, CapCents: v.CapCents,
		RemainingCents: v.CapCents - min(v.CapCents, v.SpentCents+v.ChargingCents),
		ResetsAt:       v.MonthEnd,
	}
	for i := range v.RecentRuns {
		r := &v.RecentRuns[i]
		b.Usage.RecentRuns = append(b.Usage.RecentRuns,
			recentRun{r.ID, r.Status, r.Outcome, r.RunCharge, r.CreatedAt})
	}
	return b
}
