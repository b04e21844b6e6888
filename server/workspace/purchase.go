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
func (a *API) askForPayment(x *server.Exchange, flow [16]byte) {
	if !a.Till.open() {
		a.refuse(x, no("hosting_not_configured"))
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	c := &state.RequestPurchase{
		Workspace: x.Tenant.Workspace, ID: mint(), Runs: 1, Flow: flow, Ask: true,
		Link: sha256.Sum256([]byte(token)), AgentSession: x.Tenant.Agent,
	}
	reply, ok := a.requestPurchase(x, c)
	if !ok {
		return
	}
	switch reply.Action {
	case state.ActionApprove:
		a.paymentRequired(x, nextApprove, reply.ID, a.approvalURL(token))
	case state.ActionApproveEarlier:
		a.paymentRequired(x, nextApprove, reply.ID, "")
	case state.ActionWait:
		a.paymentRequired(x, nextWait, reply.ID, "")
	default:
		a.paymentRequired(x, nextPurchase, [16]byte{}, "")
	}
}

func (a *API) approvalURL(token string) string { return a.publicURL + "/approve/" + token }

func (a *API) requestPurchase(x *server.Exchange, c *state.RequestPurchase,
) (reply state.PurchaseReply, ok bool) {
	result, ok := a.do(x, state.KindRequestPurchase, c)
	if ok && !decoded(result.Value, &reply) {
		a.refuse(x, no("outcome_unknown"))
		return reply, false
	}
	return reply, ok
}

// paymentRequired is the 402: next_action, approval_url, poll_url, reason, purchase.
func (a *API) paymentRequired(x *server.Exchange, next string, id [16]byte, approval string) {
	v, known := a.machine.Purchase(x.Tenant.Workspace, id)
	r := no("payment_required")
	if approval != "" {
	}
	r.members = func(j *server.JSON) {
		j.Text("next_action", next)
		textOrNull(j, "approval_url", approval)
		if !known {
			null(j, "poll_url")
			null(j, "purchase")
			return
		}
		j.Text("poll_url", a.pollURL(id))
		j.TextIf("reason", v.Reason.String())
		j.Name("purchase")
		a.writePurchase(j, &v)
	}
	a.refuse(x, r)
}

func (a *API) pollURL(id [16]byte) string {
	return a.publicURL + "/v1/purchases/" + idText(markPurchase, id)
}

// buy is POST /v1/purchases.
func (a *API) buy(x *server.Exchange) {
	c := state.RequestPurchase{
		Workspace: x.Tenant.Workspace, ID: mint(), AgentSession: x.Tenant.Agent,
	}
	refused := readBody(x, &c, readPurchaseRequest)
	key, badKey := requestKey(x)
	if refused == nil {
		refused = badKey
	}
	if refused == nil && !a.Till.open() {
		r := no("hosting_not_configured")
		refused = &r
	}
	if refused != nil {
		a.refuse(x, *refused)
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	c.Key, c.Body = key, hashOf("purchase", strconv.FormatUint(uint64(c.Runs), 10))
	c.Link = sha256.Sum256([]byte(token))
	reply, ok := a.requestPurchase(x, &c)
	if !ok {
		return
	}
	switch reply.Action {
	case state.ActionApprove:
		a.paymentRequired(x, nextApprove, reply.ID, a.approvalURL(token))
	case state.ActionApproveEarlier:
		a.paymentRequired(x, nextApprove, reply.ID, "")
	case state.ActionWait:
		a.answerCharging(x, reply.ID)
	default:
		link := ""
		if !reply.Repeated {
			link = a.approvalURL(token)
		}
		a.awaitCharge(x, reply.ID, link)
	}
}

// awaitCharge waits for the saved card: 201 when it paid, 402 with the approval link when it needs
// the owner, else 202.
func (a *API) awaitCharge(x *server.Exchange, id [16]byte, link string) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(purchaseWait); time.Now().Before(end); <-tick.C {
		v, ok := a.machine.Purchase(x.Tenant.Workspace, id)
		if ok && v.Status == state.PurchaseProcessing {
			continue
		}
		switch v.Status {
		case state.PurchaseSucceeded:
			a.answerPurchase(x, id, 201)
		case state.PurchaseApproval:
			a.paymentRequired(x, nextApprove, id, link)
		case state.PurchaseCheckout:
			a.paymentRequired(x, nextApprove, id, "")
		default:
			a.answerPurchase(x, id, 200)
		}
		return
	}
	a.answerCharging(x, id)
}

func (a *API) answerCharging(x *server.Exchange, id [16]byte) {
	v, _ := a.machine.Purchase(x.Tenant.Workspace, id)
	j := x.BeginBare()
	j.Open('{')
	j.Name("purchase")
	a.writePurchase(j, &v)
	j.Bool("charging", true)
	j.Close('}')
	x.EndBare(202)
}

func (a *API) answerPurchase(x *server.Exchange, id [16]byte, status int) {
	one(a.base, x, "purchase", status, func() (state.PurchaseView, bool) {
		return a.machine.Purchase(x.Tenant.Workspace, id)
	}, a.writePurchase)
}

// listPurchases is GET /v1/purchases.
func (a *API) listPurchases(x *server.Exchange) {
	list(a.base, x, "purchases", markPurchase, a.machine.Purchases, a.writePurchase,
		func(v *state.PurchaseView) [16]byte { return v.ID })
}

// getPurchase is GET /v1/purchases/{id}.
func (a *API) getPurchase(x *server.Exchange) {
	if id, ok := a.id(x, markPurchase); ok {
		a.answerPurchase(x, id, 200)
	}
}

// renewLink is POST /v1/purchases/{id}/approval-link.
func (a *API) renewLink(x *server.Exchange) {
	id, ok := a.id(x, markPurchase)
	if !ok {
		return
	}
	if refused := open(x, true).close(); refused != nil {
		a.refuse(x, *refused)
		return
	}
	token, err := mintToken()
	if err != nil {
		x.Refuse(server.FaultInternal)
		return
	}
	if _, ok := a.do(x, state.KindRenewLink, &state.RenewLink{
		Workspace: x.Tenant.Workspace, ID: id, Link: sha256.Sum256([]byte(token)), Person: person(x),
	}); !ok {
		return
	}
	v, _ := a.machine.Purchase(x.Tenant.Workspace, id)
	j := x.BeginBare()
	j.Open('{')
	j.Text("approval_url", a.approvalURL(token))
	j.Text("poll_url", a.pollURL(id))
	j.Name("purchase")
	a.writePurchase(j, &v)
	j.Close('}')
	x.EndBare(200)
}

// cancelPurchase is POST /v1/purchases/{id}/cancel.
func (a *API) cancelPurchase(x *server.Exchange) {
	id, ok := a.id(x, markPurchase)
	if !ok {
		return
	}
	if refused := open(x, true).close(); refused != nil {
		a.refuse(x, *refused)
		return
	}
	closed, refused := a.closeBefore(x, id)
	if refused != nil {
		a.refuse(x, *refused)
		return
	}
	c := &state.CancelPurchase{Workspace: x.Tenant.Workspace, ID: id, Person: person(x)}
	var done bool
	if c.Person {
		_, done = a.actAsOwner(x, c.Workspace, state.KindCancelPurchase, c, closed...)
	} else {
		_, done = a.do(x, state.KindCancelPurchase, c, closed...)
	}
	if done {
		a.answerPurchase(x, id, 200)
	}
}

// closeBefore closes the payment page of a purchase that is to be cancelled, and returns the record
// that notes it in the entry that cancels. A page whose payer was faster stays paid. Where the
// provider cannot say, the purchase is cancelled all the same: the cashier closes the page, and
// sends back what was paid on it.
func (a *API) closeBefore(x *server.Exchange, id [16]byte) (closed []engine.Record, r *refusal) {
	if !a.fresh() {
		r := no("workspace_busy")
		return nil, &r
	}
	v, _ := a.machine.Purchase(x.Tenant.Workspace, id)
	account, _ := a.machine.Account(x.Tenant.Workspace, a.now())
	if account.CancelsToday >= state.MaxCancelsPerDay && !person(x) {
		return nil, nil // it stays open since this will be refused
	}
	return a.closeNow(&v)
}

// closeNow closes the payment page of a purchase, where there is one.
func (a *API) closeNow(v *state.PurchaseView) (closed []engine.Record, r *refusal) {
	if !v.PageOpen || v.Status != state.PurchaseCheckout || !a.Till.open() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), a.writeTimeout)
	defer cancel()
	paid, err := a.Till.closePage(ctx, v)
	if err != nil {
		a.log.Warn("a payment page is not closed yet", "purchase", paymentName(v),
			"error", err)
		return nil, nil
	}
	if paid {
		r := no("checkout_completed")
		return nil, &r
	}
	return []engine.Record{{
		Kind:    state.KindNoteCheckout,
		Payload: wire.Encode(nil, &state.NoteCheckout{ID: v.ID, Closed: true}),
	}}, nil
}

// writePurchase writes a purchase, never with an approval link.
func (a *API) writePurchase(j *server.JSON, v *state.PurchaseView) {
	v.PollURL = a.pollURL(v.ID)
	writePurchase(j, v)
}

// pause is POST /v1/billing/pause.
func (a *API) pause(x *server.Exchange) {
	b := open(x, false)
	paused := b.truth("paused")
	number := a.chosen(x, b)
	if refused := b.close(); refused != nil {
		a.refuse(x, *refused)
		return
	}
	a.setBilling(x, &state.SetBilling{Workspace: number, HasPaused: true, Paused: paused})
}

// setCap is POST /v1/billing/cap.
func (a *API) setCap(x *server.Exchange) {
	b := open(x, false)
	limit := b.number("capCents", 0, int64(a.machine.Policy().MaxCapCents))
	number := a.chosen(x, b)
	if refused := b.close(); refused != nil {
		a.refuse(x, *refused)
		return
	}
	a.setBilling(x, &state.SetBilling{Workspace: number, HasCap: true, CapCents: uint32(limit)})
}

func (a *API) setBilling(x *server.Exchange, c *state.SetBilling) {
	if c.Person = person(x); c.Person {
		if _, ok := a.actAsOwner(x, c.Workspace, state.KindSetBilling, c); !ok {
			return
		}
	} else if r := a.propose(x.Flow(), state.KindSetBilling, c); r.Outcome != engine.OutcomeDone {
		a.refuseOutcome(x, r)
		return
	}
	a.read(x, func() *refusal {
		account, _ := a.machine.Account(c.Workspace, a.now())
		j := x.BeginBare()
		j.Open('{')
		a.writeBilling(j, &account)
		j.Close('}')
		x.EndBare(200)
		return nil
	})
}

// writeBilling writes billing; its usage only where payments are on.
func (a *API) writeBilling(j *server.JSON, v *state.AccountView) {
	j.Object("billing")
	j.Bool("paused", v.Paused)
	j.Uint("capCents", uint64(v.CapCents))
	if a.Till.open() {
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
			writeCharge(j, r)
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
func (a *API) CancelPurchase(d *Decision, id [16]byte) *server.Fault {
	v, _ := a.machine.Purchase(d.Workspace, id)
	closed, refused := a.closeNow(&v)
	if refused != nil {
		return refused.fault()
	}
	c := &state.CancelPurchase{Workspace: d.Workspace, ID: id, Person: true}
	return a.decideAs(d, state.KindCancelPurchase, c, string(wire.Encode(nil, c)), closed...)
}
