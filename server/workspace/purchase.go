package workspace

import (
	"context"
	"crypto/sha256"
	"strconv"
	"time"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
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
func (p *Purchases) askForPayment(x *server.Exchange, flow [16]byte) {
	if !p.till.open() {
		x.Refuse(no("hosting_not_configured"))
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	c := &state.RequestPurchase{
		Workspace: tenant(x).Workspace, ID: mint(), Runs: 1, Flow: flow, Ask: true,
		Link: sha256.Sum256([]byte(token)), AgentSession: tenant(x).Agent,
	}
	reply, ok := p.requestPurchase(x, c)
	if !ok {
		return
	}
	switch reply.Action {
	case state.ActionApprove:
		p.paymentRequired(x, nextApprove, reply.ID, p.approvalURL(token))
	case state.ActionApproveEarlier:
		p.paymentRequired(x, nextApprove, reply.ID, "")
	case state.ActionWait:
		p.paymentRequired(x, nextWait, reply.ID, "")
	default:
		p.paymentRequired(x, nextPurchase, [16]byte{}, "")
	}
}

func (p *Purchases) approvalURL(token string) string { return p.publicURL + "/approve/" + token }

func (p *Purchases) requestPurchase(x *server.Exchange, c *state.RequestPurchase,
) (reply state.PurchaseReply, ok bool) {
	result, ok := p.do(x, state.KindRequestPurchase, c)
	if ok && !decoded(result.Value, &reply) {
		x.Refuse(no("outcome_unknown"))
		return reply, false
	}
	return reply, ok
}

// paymentRequired is the 402: next_action, approval_url, poll_url, reason, purchase.
func (p *Purchases) paymentRequired(x *server.Exchange, next string, id [16]byte, approval string) {
	v, known := p.machine.Purchase(tenant(x).Workspace, id)
	r := no("payment_required")
	if approval != "" {
	}
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
	x.Refuse(r)
}

func (p *Purchases) pollURL(id [16]byte) string {
	return p.publicURL + "/v1/purchases/" + idText(markPurchase, id)
}

// buy is POST /v1/purchases.
func (p *Purchases) buy(x *server.Exchange) {
	c := state.RequestPurchase{
		Workspace: tenant(x).Workspace, ID: mint(), AgentSession: tenant(x).Agent,
	}
	refused := readBody(x, &c, readPurchaseRequest)
	key, badKey := requestKey(x)
	if refused == nil {
		refused = badKey
	}
	if refused == nil && !p.till.open() {
		refused = no("hosting_not_configured")
	}
	if refused != nil {
		x.Refuse(refused)
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	c.Key, c.Body = key, hashOf("purchase", strconv.FormatUint(uint64(c.Runs), 10))
	c.Link = sha256.Sum256([]byte(token))
	reply, ok := p.requestPurchase(x, &c)
	if !ok {
		return
	}
	switch reply.Action {
	case state.ActionApprove:
		p.paymentRequired(x, nextApprove, reply.ID, p.approvalURL(token))
	case state.ActionApproveEarlier:
		p.paymentRequired(x, nextApprove, reply.ID, "")
	case state.ActionWait:
		p.answerCharging(x, reply.ID)
	default:
		link := ""
		if !reply.Repeated {
			link = p.approvalURL(token)
		}
		p.awaitCharge(x, reply.ID, link)
	}
}

// awaitCharge waits for the saved card: 201 when it paid, 402 with the approval link when it needs
// the owner, else 202.
func (p *Purchases) awaitCharge(x *server.Exchange, id [16]byte, link string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(purchaseWait); time.Now().Before(end); <-tick.C {
		v, ok := p.machine.Purchase(tenant(x).Workspace, id)
		if ok && v.Status == state.PurchaseProcessing {
			continue
		}
		switch v.Status {
		case state.PurchaseSucceeded:
			p.answerPurchase(x, id, 201)
		case state.PurchaseApproval:
			p.paymentRequired(x, nextApprove, id, link)
		case state.PurchaseCheckout:
			p.paymentRequired(x, nextApprove, id, "")
		default:
			p.answerPurchase(x, id, 200)
		}
		return
	}
	p.answerCharging(x, id)
}

func (p *Purchases) answerCharging(x *server.Exchange, id [16]byte) {
	v, _ := p.machine.Purchase(tenant(x).Workspace, id)
	j := x.BeginBare()
	j.Open('{')
	j.Name("purchase")
	p.writePurchase(j, &v)
	j.Bool("charging", true)
	j.Close('}')
	x.EndBare(202)
}

func (p *Purchases) answerPurchase(x *server.Exchange, id [16]byte, status int) {
	one(p.base, x, "purchase", status, func() (state.PurchaseView, bool) {
		return p.machine.Purchase(tenant(x).Workspace, id)
	}, p.writePurchase)
}

// listPurchases is GET /v1/purchases.
func (p *Purchases) listPurchases(x *server.Exchange) {
	list(p.base, x, "purchases", markPurchase, p.machine.Purchases, p.writePurchase,
		func(v *state.PurchaseView) [16]byte { return v.ID })
}

// getPurchase is GET /v1/purchases/{id}.
func (p *Purchases) getPurchase(x *server.Exchange) {
	if id, ok := p.id(x, markPurchase); ok {
		p.answerPurchase(x, id, 200)
	}
}

// renewLink is POST /v1/purchases/{id}/approval-link.
func (p *Purchases) renewLink(x *server.Exchange) {
	id, ok := p.idAlone(x, markPurchase)
	if !ok {
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	if _, ok := p.do(x, state.KindRenewLink, &state.RenewLink{
		Workspace: tenant(x).Workspace, ID: id, Link: sha256.Sum256([]byte(token)), Person: person(x),
	}); !ok {
		return
	}
	v, _ := p.machine.Purchase(tenant(x).Workspace, id)
	j := x.BeginBare()
	j.Open('{')
	j.Text("approval_url", p.approvalURL(token))
	j.Text("poll_url", p.pollURL(id))
	j.Name("purchase")
	p.writePurchase(j, &v)
	j.Close('}')
	x.EndBare(200)
}

// cancelPurchase is POST /v1/purchases/{id}/cancel.
func (p *Purchases) cancelPurchase(x *server.Exchange) {
	id, ok := p.idAlone(x, markPurchase)
	if !ok {
		return
	}
	closed, refused := p.closeBefore(x, id)
	if refused != nil {
		x.Refuse(refused)
		return
	}
	c := &state.CancelPurchase{Workspace: tenant(x).Workspace, ID: id, Person: person(x)}
	var done bool
	if c.Person {
		_, done = p.actAsOwner(x, c.Workspace, state.KindCancelPurchase, c, closed...)
	} else {
		_, done = p.do(x, state.KindCancelPurchase, c, closed...)
	}
	if done {
		p.answerPurchase(x, id, 200)
	}
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
	if account.CancelsToday >= state.MaxCancelsPerDay && !person(x) {
		return nil, nil // it stays open since this will be refused
	}
	return p.closeNow(&v)
}

// closeNow closes the payment page of a purchase, where there is one.
func (p *Purchases) closeNow(v *state.PurchaseView) (closed []engine.Record, r *server.Fault) {
	if !v.PageOpen || v.Status != state.PurchaseCheckout || !p.till.open() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.writeTimeout)
	defer cancel()
	paid, err := p.till.closePage(ctx, v)
	if err != nil {
		p.log.Warn("a payment page is not closed yet", "purchase", paymentName(v),
			"error", err)
		return nil, nil
	}
	if paid {
		return nil, no("checkout_completed")
	}
	return []engine.Record{{
		Kind:    state.KindNoteCheckout,
		Payload: wire.Encode(nil, &state.NoteCheckout{ID: v.ID, Closed: true}),
	}}, nil
}

// writePurchase writes a purchase, never with an approval link.
func (p *Purchases) writePurchase(j *server.JSON, v *state.PurchaseView) {
	v.PollURL = p.pollURL(v.ID)
	writePurchase(j, v)
}

// pause is POST /v1/billing/pause.
func (p *Purchases) pause(x *server.Exchange) {
	b := open(x, false)
	paused := b.truth("paused")
	number := p.chosen(x, b)
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	p.setBilling(x, &state.SetBilling{Workspace: number, HasPaused: true, Paused: paused})
}

// setCap is POST /v1/billing/cap.
func (p *Purchases) setCap(x *server.Exchange) {
	b := open(x, false)
	limit := b.number("capCents", 0, int64(p.machine.Policy().MaxCapCents))
	number := p.chosen(x, b)
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	p.setBilling(x, &state.SetBilling{Workspace: number, HasCap: true, CapCents: uint32(limit)})
}

func (p *Purchases) setBilling(x *server.Exchange, c *state.SetBilling) {
	if c.Person = person(x); c.Person {
		if _, ok := p.actAsOwner(x, c.Workspace, state.KindSetBilling, c); !ok {
			return
		}
	} else if r := p.propose(x.Flow(), state.KindSetBilling, c); r.Outcome != engine.OutcomeDone {
		p.refuseOutcome(x, r)
		return
	}
	p.read(x, func() *server.Fault {
		account, _ := p.machine.Account(c.Workspace, p.now())
		j := x.BeginBare()
		j.Open('{')
		p.writeBilling(j, &account)
		j.Close('}')
		x.EndBare(200)
		return nil
	})
}

// writeBilling writes billing; its usage only where payments are on.
func (p *Purchases) writeBilling(j *server.JSON, v *state.AccountView) {
	j.Object("billing")
	j.Bool("paused", v.Paused)
	j.Uint("capCents", uint64(v.CapCents))
	if p.till.open() {
		used := v.SpentCents + v.ChargingCents
		j.Object("usage")
		j.Uint("runsUsed", uint64(v.FreeUsed+v.PaidUsed+v.Returned))
		j.Uint("freeRunsUsed", uint64(v.FreeUsed))
		j.Uint("paidRunsUsed", uint64(v.PaidUsed))
		j.Uint("runsReturned", uint64(v.Returned))
		j.Uint("runsLeft", uint64(v.RunsLeft))
		j.Uint("spentCents", uint64(v.SpentCents))
		j.Uint("capCents", uint64(v.CapCents))
		j.Uint("remainingCents", uint64(v.CapCents-min(v.CapCents, used)))
		j.Time("resetsAt", v.MonthEnd)
		j.Array("recentRuns")
		for i := range v.RecentRuns {
			r := &v.RecentRuns[i]
			j.Open('{')
			j.Text("id", idText(markRun, r.ID))
			j.Text("status", r.Status.String())
			textOrNull(j, "outcome", r.Outcome.String())
			j.Name("charge")
			writeCharge(j, &r.RunCharge)
			j.Time("createdAt", r.CreatedAt)
			j.Close('}')
		}
		j.Close(']')
		j.Close('}')
	}
	j.Close('}')
}

// CancelPurchase cancels a purchase of the decision's workspace. One that is paid stays paid:
// checkout_completed.
func (p *Purchases) CancelPurchase(d *Decision, id [16]byte) *server.Fault {
	v, _ := p.machine.Purchase(d.Workspace, id)
	closed, refused := p.closeNow(&v)
	if refused != nil {
		return refused
	}
	c := &state.CancelPurchase{Workspace: d.Workspace, ID: id, Person: true}
	return p.decideAs(d, state.KindCancelPurchase, c, string(wire.Encode(nil, c)), closed...)
}
