package workspace

import (
	"cmp"
	"context"
	"strings"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// operatorTools is the path of all workspaces on the operations listener, operatorPrefix that of
// the tools by which an operator acts for the person who owns one.
const (
	operatorTools  = "/api/v1/admin/workspaces"
	operatorPrefix = operatorTools + "/{id}"
)

// actor is who acts by the admin key, as the record names it.
const actor = "operator"

// OperatorRoutes are the operator's tools, for the operations listener: claim, approve, deny, cap,
// pause, alerts, credits, remove. Their answers have the admin API's envelope; each use is kept
// with what it changed, and with an Idempotency-Key it is carried out once.
func (a *API) OperatorRoutes() []server.Route {
	return append(a.operatorReads(), a.operatorActs()...)
}

// named are the parameters of a path below operatorPrefix.
func named(names ...string) (params []server.Param) {
	for _, name := range names {
		params = append(params, server.Param{
			In: "path", Name: name, Required: true, Schema: server.TextSchema(1, 254),
		})
	}
	return params
}

func (a *API) operatorReads() []server.Route {
	read := func(path, operation, about string, data *server.Schema, handle func(*server.Exchange),
		params ...server.Param,
	) server.Route {
		return server.Route{
			Method: "GET", Path: path, Operation: operation, Summary: about, Params: params,
			Access: server.AccessOperator, Handle: handle,
			Responses: []server.Response{{Status: 200, About: "OK", Data: data}},
		}
	}
	paged := []server.Param{
		{In: "query", Name: "limit", Schema: server.IntSchema(1, 100), About: "100"},
		{
			In: "query", Name: "cursor", Schema: server.TextSchema(1, 64),
			About: "nextCursor of the page before",
		},
	}
	strangers := server.Param{
		In: "query", Name: "unclaimed", Schema: server.BoolSchema,
		About: "true: those that nobody has claimed, with what all of them hold together",
	}
	return []server.Route{
		read(operatorTools, "listWorkspaces", "All workspaces, newest first", tenantsSchema(),
			a.listTenants, append([]server.Param{strangers}, paged...)...),
		read(operatorPrefix, "showWorkspace", "A workspace's account and its newest 100 purchases",
			tenantSchema(), a.showTenant, named("id")...),
		read(operatorPrefix+"/acts", "listWorkspaceActs",
			"What operators did for the workspace's owner, newest first", actsSchema(), a.listActs,
			append(named("id"), paged...)...),
	}
}

// operatorTool makes the route of a tool.
type operatorTool func(path, operation, about string, handle func(*server.Exchange),
	params []server.Param, body *server.Schema) server.Route

func (a *API) operatorActs() []server.Route {
	tool := func(path, operation, about string, handle func(*server.Exchange),
		params []server.Param, body *server.Schema,
	) server.Route {
		return server.Route{
			Method: "POST", Path: operatorPrefix + path, Operation: operation, Summary: about,
			Access: server.AccessOperator, Limit: bodyLimit, Handle: handle,
			Params: append(append(named("id"), params...), server.Param{
				In: "header", Name: "Idempotency-Key", Schema: server.TextSchema(1, 255),
				About: "the same key and request within 30 days: nothing is done again",
			}),
			Body: body, BodyOptional: len(body.Properties) == 0 || !body.Properties[0].Required,
			Responses: []server.Response{{Status: 200, About: "Done", Data: tenantSchema()}},
		}
	}
	owner := server.TextSchema(1, longestOwner)
	remove := tool("", "removeWorkspace",
		"Remove a workspace that nobody has claimed: its keys work no more, what it holds is gone",
		a.operatorRemove, nil, server.Object())
	remove.Method, remove.Responses[0].Data = "DELETE", removedSchema()
	return append(a.operatorAlertTools(tool), []server.Route{
		remove,
		tool("/claim", "claimForOwner", "Give an unclaimed workspace to its owner", a.operatorClaim,
			nil, server.Object(server.Must("owner", owner))),
		tool("/purchases/{purchase}/approve", "approvePurchase",
			"Approve a purchase for the owner; an unclaimed workspace needs one, and becomes theirs",
			a.operatorApprove, named("purchase"), server.Object(server.May("owner", owner))),
		tool("/purchases/{purchase}/deny", "denyPurchase", "Deny a purchase for the owner",
			a.operatorDeny, named("purchase"), server.Object()),
		tool("/purchases/{purchase}/refund", "retryRefund",
			"Ask the payment provider again for what it refused to send back", a.operatorRefund,
			named("purchase"), server.Object()),
		tool("/flows/{flow}/confirm-signup", "confirmFlowSignup",
			"Confirm for the owner that an agent may sign up at the flow's product",
			a.operatorConfirm, named("flow"), server.Object()),
		tool("/billing/cap", "setSpendingCap", "Set the monthly spending cap for the owner",
			a.operatorCap, nil, server.Object(server.Must("capCents", server.IntSchema(0, 1<<31-1)))),
		tool("/billing/pause", "setPurchasePause", "Pause or unpause purchases for the owner",
			a.operatorPause, nil, server.Object(server.Must("paused", server.BoolSchema))),
		tool("/credits", "grantWorkspaceCredits",
			"Grant credits; id may be the e-mail of an owner, whose newest workspace gets them",
			a.operatorGrant, nil, server.Object(
				server.Must("amount", server.IntSchema(1, state.MaxCredits)),
				server.May("note", server.TextSchema(0, 200)))),
	}...)
}

// longestOwner is the length of an owner's name, an e-mail address, in characters.
const longestOwner = 254

// tenant finds the workspace that the path names: by its id, or by its owner's e-mail.
func (a *API) tenant(x *server.Exchange) (row uint32, ok bool) {
	row, ok = a.anyTenant(x)
	if ok && a.machine.GoneAt(row) != 0 {
		x.Refuse(server.Fault{
			Status: 404, Code: "account_not_found",
			Message: "This workspace was removed. Its acts say whether an operator did it.",
		})
		return 0, false
	}
	return row, ok
}

// anyTenant finds it also where it was removed.
func (a *API) anyTenant(x *server.Exchange) (row uint32, ok bool) {
	if !a.fresh() {
		x.Refuse(server.FaultConsistency)
		return 0, false
	}
	name := string(x.Param(0))
	if id, known := parseID(markWorkspace, name); known {
		row = a.machine.WorkspaceRow(id)
	} else if strings.Contains(name, "@") {
		row = a.machine.OwnedBy(name)
	}
	if row == 0 {
		x.Refuse(server.Fault{
			Status: 404, Code: "account_not_found",
			Message: "There is no such workspace, or nobody of this e-mail has claimed one",
		})
		return 0, false
	}
	return row, true
}

// act carries an operator's command out, once for an Idempotency-Key, and keeps that it did.
func (a *API) act(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder) bool {
	return a.acted(x, a.commit(x, row, kind, c))
}

// commit brings an act into the log. OutcomeNone is a request that was refused, and answered.
func (a *API) commit(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder,
) engine.Outcome {
	key, fault := server.OnceKey(x)
	if fault != nil {
		x.Refuse(*fault)
		return engine.OutcomeNone
	}
	made := state.Act{
		Workspace: row, ID: mint(), Actor: cmp.Or(x.Actor, actor), Kind: kind,
		Payload: wire.Encode(nil, c),
	}
	if len(key) > 0 {
		path := string(x.Ctx.Path())
		made.Key = hashOf("operator", path, string(key))
		made.Body = hashOf("operator", path, string(x.Body))
	}
	r := a.propose(x.Flow(), state.KindAct, &made)
	a.log.Info("operator acts for a workspace", "operation", x.Route.Operation,
		"workspace", loggedName(string(x.Param(0))), "request_id", string(x.RequestID()),
		"outcome", r.Outcome)
	return r.Outcome
}

// acted answers an act that was refused; true where it is done, and in the memory that is answered
// from.
func (a *API) acted(x *server.Exchange, o engine.Outcome) bool {
	switch code, known := outcomeCodes[o]; {
	case o == engine.OutcomeNone:
	case o == engine.OutcomeDone && a.fresh():
		return true
	case o == engine.OutcomeDone:
		x.Refuse(server.FaultConsistency.With("It is done. Repeat the request to see it."))
	case known:
		e := errorTable[code]
		x.Refuse(server.Fault{Status: e.status, Code: code, Message: e.message})
	default:
		x.Refuse(server.FaultOf(o))
	}
	return false
}

// loggedName is how a log names a workspace: by its id, never by its owner's e-mail.
func loggedName(name string) string {
	if _, known := parseID(markWorkspace, name); !known {
		return "(its owner's e-mail)"
	}
	return name
}

// form reads an operator's body; false when it was refused.
func (a *API) form(x *server.Exchange, b *body) bool {
	if refused := b.close(); refused != nil {
		code := server.FieldFormat
		if refused.code == "unexpected_field" {
			code = server.FieldUnknown
		}
		x.Refuse(*server.FieldsFault([]server.FieldError{{
			Field: cmp.Or(refused.field, "body"), Code: code,
			Message: cmp.Or(refused.message, refused.code),
		}}))
		return false
	}
	return true
}

func (a *API) operatorClaim(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	b := open(x, false)
	owner := b.text("owner", 1, longestOwner)
	id, _ := parseID(markWorkspace, string(x.Param(0)))
	if a.form(x, b) && a.act(x, row, state.KindClaimWorkspace,
		&state.ClaimWorkspace{ID: id, Owner: owner}) {
		a.answerTenant(x, row)
	}
}

// operatorRemove is DELETE /api/v1/admin/workspaces/{id}. Again it is the same answer again.
func (a *API) operatorRemove(x *server.Exchange) {
	row, ok := a.anyTenant(x)
	if !ok || !a.form(x, open(x, true)) {
		return
	}
	if a.machine.GoneAt(row) == 0 {
		o := a.commit(x, row, state.KindRemoveWorkspace, &state.RemoveWorkspace{Workspace: row})
		// Another request, or time, may have removed it meanwhile.
		gone := o == engine.OutcomeRecordUnknown && a.fresh() && a.machine.GoneAt(row) != 0
		if !gone && !a.acted(x, o) {
			return
		}
	}
	j := x.Begin()
	j.Open('{')
	j.Text("id", string(x.Param(0)))
	j.Time("removedAt", a.machine.GoneAt(row))
	j.Close('}')
	x.End(200)
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
	owner := b.text("owner", 0, longestOwner)
	if !a.form(x, b) {
		return
	}
	waiting, _ := a.machine.Purchase(row, id)
	account, _ := a.machine.Account(row, a.now())
	if owner == "" && !account.Claimed && waiting.Status == state.PurchaseApproval {
		x.Refuse(*server.FieldFault("owner", server.FieldRequired, "is required: it names whose the "+
			"workspace becomes, for good. It has not been claimed yet. Nothing was approved"))
		return
	}
	if !a.act(x, row, state.KindApprovePurchase, &state.ApprovePurchase{ID: id, Owner: owner}) {
		return
	}
	// Approved through a follower, the purchase is still the one before in its memory.
	if !a.fresh() {
		x.Refuse(server.FaultConsistency)
		return
	}
	if v, known := a.machine.Purchase(row, id); known && a.Till.open() {
		ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
		defer cancel()
		if err := a.Till.openCheckout(ctx, &v); err != nil {
			// It is approved all the same, and the page is made as soon as the provider answers.
			a.log.Warn("a payment page is not made yet", "purchase", paymentName(&v),
				"error", err)
		}
	}
	if !a.fresh() {
		x.Refuse(server.FaultConsistency.With("It is approved. Repeat the request to see it."))
		return
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

func (a *API) operatorRefund(x *server.Exchange) {
	row, ok := a.tenant(x)
	if !ok {
		return
	}
	if id, ok := a.ordered(x, row); ok && a.form(x, open(x, true)) &&
		a.act(x, row, state.KindRetryRefund, &state.RetryRefund{ID: id}) {
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
