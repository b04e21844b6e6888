package workspaceapi

import (
	"context"
	"crypto/sha256"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
)

// What a person decides about a purchase.
const (
	actionApprove = "approve"
	actionDeny    = "deny"
)

// approvalRows are the rows of an approval link, for programs; for browsers it is a page of
// server/console/owner. GET shows, POST acts.
func (p *Purchases) approvalRows() []server.Route {
	shown := []server.Property{
		server.Must("workspace", text), server.Must("claimed", server.BoolSchema),
		server.Must("purchase", server.RefTo("Purchase")), server.May("flow", askingSchema()),
		server.May("checkout_url", text), server.Must("capCents", server.IntegerSchema),
		server.Must("setsCap", server.BoolSchema),
	}
	return []server.Route{
		row("GET", "/approve/{token}", "showApproval", "What an approval link asks its owner for", 0,
			p.showApproval, gives(200, "The purchase that waits for its owner, or its payer", shown...)),
		row("POST", "/approve/{token}", "decideApproval",
			"Approve or deny what the link asks for: a person who is signed in", anyScope, p.decideApproval,
			anywhere, takes(server.Must("action", server.EnumSchema(actionApprove, actionDeny))),
			gives(200, "Decided; checkout_url is where an approved one is paid", shown...)),
	}
}

// secretLink sets the headers of an answer whose address is a secret.
func secretLink(x *server.Exchange) {
	x.Ctx.Response.Header.Set("Referrer-Policy", "no-referrer")
}

// showApproval is GET /approve/{token}: what the owner is asked for, and once it is approved, where
// it is paid. It changes nothing.
func (p *Purchases) showApproval(x *server.Exchange) *server.Fault {
	secretLink(x)
	hash := sha256.Sum256(x.Param(0))
	return p.read(x, func() *server.Fault {
		v, ok := p.machine.PurchaseByLink(hash)
		if !ok {
			return no("not_found")
		}
		return p.answerApproval(x, &v)
	})
}

// answerApproval says what is approved: the monthly cap with it, which the first approval sets.
func (p *Purchases) answerApproval(x *server.Exchange, v *workspace.PurchaseView) *server.Fault {
	account, _ := p.machine.Account(v.Workspace, p.now())
	return x.BareObject(200, func(j *server.JSON) {
		j.Text("workspace", account.Label)
		j.Bool("claimed", account.Claimed)
		j.Name("purchase")
		p.writePurchase(j, v)
		j.TextIf("checkout_url", v.URL)
		j.Uint("capCents", uint64(account.CapCents))
		j.Bool("setsCap", !account.CapApproved)
		if flow, ok := p.machine.Flow(v.Workspace, v.Flow); ok {
			writeAsking(j, v, &flow)
		}
	})
}

// decideApproval is POST /approve/{token}. The link is not a key: of a workspace that somebody
// owns, they alone decide; an unclaimed one becomes the approver's.
func (p *Purchases) decideApproval(x *server.Exchange) *server.Fault {
	secretLink(x)
	if !p.fresh() {
		return no("workspace_busy")
	}
	v, known := p.machine.PurchaseByLink(sha256.Sum256(x.Param(0)))
	if !known {
		return no("not_found").Saying("This link does not work: a newer one has replaced it, or the " +
			"purchase was decided, paid or forgotten. Nothing was changed.")
	}
	b := open(x, false)
	action := b.action()
	if refused := b.close(); refused != nil {
		return refused
	}
	account, _ := p.machine.Account(v.Workspace, p.now())
	if account.Claimed && !p.machine.Owns(v.Workspace, tenant(x).Person) {
		return no("person_required").Saying("Only the owner of this workspace can decide. " +
			"Nothing was changed.")
	}
	if fault := p.decideLink(x, &v, action); fault != nil {
		return fault
	}
	v, _ = p.machine.Purchase(v.Workspace, v.ID)
	return p.answerApproval(x, &v)
}

// action reads what a person decides.
func (b *body) action() string {
	action := b.text("action", 1, 20)
	if action != actionApprove && action != actionDeny {
		b.mistake("action", form.NotAllowed(actionApprove, actionDeny))
	}
	return action
}

// decideLink carries out what was decided. Who approves works in the purchase's workspace from then
// on.
func (p *Purchases) decideLink(
	x *server.Exchange, v *workspace.PurchaseView, action string,
) *server.Fault {
	if fault := p.decide(x, v.Workspace, v.ID, action); fault != nil || action == actionDeny {
		return fault
	}
	account, _ := p.machine.Account(v.Workspace, p.now())
	c := &workspace.ChooseWorkspace{Session: asker(x).Session, ID: account.ID}
	if fault := p.do(x, workspace.KindChooseWorkspace, c); fault != nil {
		// It is approved all the same.
		p.log.Warn("a session does not work in what its person has approved",
			"request_id", string(x.RequestID()), "code", fault.Code)
	}
	return nil
}

// decidePurchase is what the page of a purchase calls, which needs no link.
func (p *Purchases) decidePurchase(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	action := b.action()
	if refused := b.close(); refused != nil {
		return refused
	}
	if !p.fresh() {
		return no("workspace_busy")
	}
	if _, known := p.machine.Purchase(tenant(x).Workspace, id); !known {
		return no("not_found")
	}
	if fault := p.decide(x, tenant(x).Workspace, id, action); fault != nil {
		return fault
	}
	return p.answerPurchase(x, id, 200)
}

// writeAsking writes the flow whose start asked for a purchase, and whether approving confirms that
// an agent may sign up there: not when the flow was changed since.
func writeAsking(j *server.JSON, v *workspace.PurchaseView, flow *workspace.FlowView) {
	j.Object("flow")
	j.Text("id", idText(markFlow, flow.ID))
	j.Text("name", flow.Name)
	j.Text("url", flow.URL)
	j.Text("task", flow.Task)
	j.Uint("version", uint64(flow.Version))
	j.Bool("confirmsSignup", v.FlowShown && flow.Credential != "")
	j.Close('}')
}

// decide denies a purchase, or approves it: an unclaimed workspace becomes the person's, and the
// payment page is made. If the provider does not answer, that is made as soon as it does.
func (p *Purchases) decide(x *server.Exchange, ws uint32, id [16]byte, action string,
) *server.Fault {
	if action == actionDeny {
		return p.actAsOwner(x, ws, workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: id})
	}
	fault := p.actAsOwner(x, ws, workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: id, Owner: p.ownerName(x), Person: tenant(x).Person,
	})
	if fault != nil {
		return fault
	}
	v, known := p.machine.Purchase(ws, id)
	if !known || !p.payments.open() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
	defer cancel()
	if err := p.payments.openCheckout(ctx, &v); err != nil {
		p.log.Warn("a payment page is not made yet", "purchase", paymentName(&v), "error", err)
	}
	if !p.fresh() {
		return no("outcome_unknown")
	}
	return nil
}
