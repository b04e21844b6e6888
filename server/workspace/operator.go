package workspace

import (
	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// operatorPrefix is the path of the tools by which an operator acts for the person who owns a
// workspace, on the operations listener.
const operatorPrefix = "/api/v1/admin/workspaces/{id}"

// OperatorRoutes are the operator's tools, for the operations listener: claim, approve, deny, cap,
// pause, credits. Their answers have the admin API's envelope; each use is logged.
func (a *API) OperatorRoutes() []server.Route {
	tool := func(path, operation, about string, handle func(*server.Exchange)) server.Route {
		return server.Route{
			Method: "POST", Path: operatorPrefix + path, Operation: operation, Summary: about,
			Access: server.AccessOperator, Limit: bodyLimit, Handle: handle,
		}
	}
	return []server.Route{
		{
			Method: "GET", Path: operatorPrefix, Operation: "showWorkspace",
			Summary: "A workspace's account and purchases", Access: server.AccessOperator,
			Handle: a.showTenant,
		},
		tool("/claim", "claimForOwner", "Give a workspace to its owner", a.operatorClaim),
		tool("/purchases/{purchase}/approve", "approvePurchase", "Approve for the owner",
			a.operatorApprove),
		tool("/purchases/{purchase}/deny", "denyPurchase", "Deny for the owner", a.operatorDeny),
		tool("/flows/{flow}/confirm-signup", "confirmFlowSignup", "Confirm a signup for the owner",
			a.operatorConfirm),
		tool("/billing/cap", "setCap", "Set the monthly cap", a.operatorCap),
		tool("/billing/pause", "setPause", "Pause or unpause purchases", a.operatorPause),
		tool("/credits", "grantCredits", "Grant credits", a.operatorGrant),
	}
}

// tenant finds the workspace that the path names.
func (a *API) tenant(x *server.Exchange) (row uint32, ok bool) {
	id, ok := parseID(markWorkspace, string(x.Param(0)))
	if !a.fresh() {
		x.Refuse(server.FaultConsistency)
		return 0, false
	}
	if row = a.machine.WorkspaceRow(id); !ok || row == 0 {
		x.Refuse(server.Fault{Status: 404, Code: "account_not_found", Message: "No such workspace"})
		return 0, false
	}
	return row, true
}

// act carries an operator's command out, logs it, and shows the workspace.
func (a *API) act(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder) bool {
	r := a.propose(kind, c)
	a.config.Log.Info("operator acts for a workspace", "operation", x.Route.Operation,
		"workspace", string(x.Param(0)), "request_id", string(x.RequestID()), "outcome", r.Outcome)
	if r.Outcome == engine.OutcomeDone {
		return true
	}
	if code, known := outcomeCodes[r.Outcome]; known {
		e := errorTable[code]
		x.Refuse(server.Fault{Status: e.status, Code: code, Message: e.message})
	} else {
		x.Refuse(server.FaultOf(r.Outcome))
	}
	return false
}

// form reads an operator's body; false when it was refused.
func (a *API) form(x *server.Exchange, b *body) bool {
	if refused := b.close(""); refused != nil {
		fault := server.FaultFields.With(refused.code)
		x.Refuse(fault)
		return false
	}
	return true
}

func (a *API) showTenant(x *server.Exchange) {
	row, ok := a.tenant(x)
	if ok {
		a.answerTenant(x, row)
	}
}

func (a *API) answerTenant(x *server.Exchange, row uint32) {
	v, _ := a.machine.Account(row, a.now())
	purchases, _ := a.machine.Purchases(row, state.Page{Limit: 100})
	j := x.Begin()
	j.Open('{')
	j.Text("id", idText(markWorkspace, v.ID))
	j.Text("label", v.Label)
	textOrNull(j, "owner", v.Owner)
	j.Uint("credits", v.Credits)
	a.writeBilling(j, &v)
	j.Array("purchases")
	for i := range purchases {
		p := &purchases[i]
		j.Open('{')
		j.Text("id", idText(markPurchase, p.ID))
		j.Text("status", p.Status.String())
		j.Uint("runs", uint64(p.Runs))
		j.Uint("cents", uint64(p.Cents))
		textOrNull(j, "url", p.URL)
		j.Bool("refundDue", p.Refund)
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
	x.End(200)
}

func (a *API) operatorClaim(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	b := open(x, false)
	owner := b.text("owner", 1, 254)
	id, _ := parseID(markWorkspace, string(x.Param(0)))
	if a.form(x, b) && a.act(x, row, state.KindClaimWorkspace,
		&state.ClaimWorkspace{ID: id, Owner: owner}) {
		a.answerTenant(x, row)
	}
}

// ordered finds the purchase that the path names, of the workspace that it names.
func (a *API) ordered(x *server.Exchange, row uint32) (id [16]byte, ok bool) {
	id, ok = parseID(markPurchase, string(x.Param(1)))
	if _, known := a.machine.Purchase(row, id); !ok || !known {
		x.Refuse(server.Fault{Status: 404, Code: "not_found", Message: "No such purchase"})
		return id, false
	}
	return id, true
}

func (a *API) operatorApprove(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	id, ok := a.ordered(x, row)
	if !ok {
		return
	}
	b := open(x, true)
	owner := b.text("owner", 0, 254)
	if owner == "" {
		owner = "operator"
	}
	if !a.form(x, b) || !a.act(x, row, state.KindApprovePurchase,
		&state.ApprovePurchase{ID: id, Owner: owner}) {
		return
	}
	if v, known := a.machine.Purchase(row, id); a.fresh() && known && a.sandbox != nil {
		if err := a.openCheckout(&v); err != nil {
			a.config.Log.Error("a payment page was not made", "error", err)
			x.Refuse(server.FaultInternal)
			return
		}
	}
	a.answerTenant(x, row)
}

func (a *API) operatorDeny(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	if id, ok := a.ordered(x, row); ok && a.form(x, open(x, true)) &&
		a.act(x, row, state.KindDenyPurchase, &state.DenyPurchase{ID: id}) {
		a.answerTenant(x, row)
	}
}

func (a *API) operatorConfirm(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	id, _ := parseID(markFlow, string(x.Param(1)))
	if a.form(x, open(x, true)) && a.act(x, row, state.KindConfirmSignup,
		&state.ConfirmSignup{Workspace: row, ID: id}) {
		a.answerTenant(x, row)
	}
}

func (a *API) operatorCap(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	b := open(x, false)
	limit := b.number("capCents", 0, int64(a.machine.Policy().MaxCapCents))
	if a.form(x, b) && a.act(x, row, state.KindSetBilling, &state.SetBilling{
		Workspace: row, HasCap: true, CapCents: uint32(limit), Person: true,
	}) {
		a.answerTenant(x, row)
	}
}

func (a *API) operatorPause(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	b := open(x, false)
	paused := b.truth("paused")
	if a.form(x, b) && a.act(x, row, state.KindSetBilling, &state.SetBilling{
		Workspace: row, HasPaused: true, Paused: paused, Person: true,
	}) {
		a.answerTenant(x, row)
	}
}

func (a *API) operatorGrant(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	b := open(x, false)
	amount, note := b.number("amount", 1, state.MaxCredits), b.text("note", 0, 200)
	if a.form(x, b) && a.act(x, row, state.KindGrantCredits, &state.GrantCredits{
		Workspace: row, ID: mint(), Amount: uint64(amount), Note: note,
	}) {
		a.answerTenant(x, row)
	}
}
