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

// Routes are the operator's tools, for the operations listener: claim, approve, deny, cap,
// pause, alerts, credits, remove. Their answers have the admin API's envelope; each use is kept
// with what it changed, and with an Idempotency-Key it is carried out once.
func (o *Operator) Routes() []server.Route {
	return append(o.reads(), o.tools()...)
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

func (o *Operator) reads() []server.Route {
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
		read(operatorTools, "listWorkspaces", "All workspaces, newest first",
			server.AnswerSchema[tenantsAnswer](), o.listTenants,
			append([]server.Param{strangers}, paged...)...),
		read(operatorPrefix, "showWorkspace", "A workspace's account and its newest 100 purchases",
			server.AnswerSchema[tenantAnswer](), o.showTenant, named("id")...),
		read(operatorPrefix+"/acts", "listWorkspaceActs",
			"What operators did for the workspace's owner, newest first",
			server.AnswerSchema[actsAnswer](), o.listActs,
			append(named("id"), paged...)...),
	}
}

// operatorTool makes the route of a tool.
type operatorTool func(path, operation, about string, handle func(*server.Exchange),
	params []server.Param, body *server.Schema) server.Route

func (o *Operator) tools() []server.Route {
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
			Responses: []server.Response{{
				Status: 200, About: "Done", Data: server.AnswerSchema[tenantAnswer](),
			}},
		}
	}
	owner := server.TextSchema(1, maxOwner)
	remove := tool("", "removeWorkspace",
		"Remove a workspace that nobody has claimed: its keys work no more, what it holds is gone",
		o.remove, nil, server.Object())
	remove.Method, remove.Responses[0].Data = "DELETE", removedSchema()
	return append(o.alertTools(tool), []server.Route{
		remove,
		tool("/claim", "claimForOwner", "Give an unclaimed workspace to its owner", o.claim,
			nil, server.Object(server.Must("owner", owner))),
		tool("/purchases/{purchase}/approve", "approvePurchase",
			"Approve a purchase for the owner; an unclaimed workspace needs one, and becomes theirs",
			o.approve, named("purchase"), server.Object(server.May("owner", owner))),
		tool("/purchases/{purchase}/deny", "denyPurchase", "Deny a purchase for the owner",
			o.deny, named("purchase"), server.Object()),
		tool("/purchases/{purchase}/refund", "retryRefund",
			"Ask the payment provider again for what it refused to send back", o.refund,
			named("purchase"), server.Object()),
		tool("/flows/{flow}/confirm-signup", "confirmFlowSignup",
			"Confirm for the owner that an agent may sign up at the flow's product",
			o.confirm, named("flow"), server.Object()),
		tool("/billing/cap", "setSpendingCap", "Set the monthly spending cap for the owner",
			o.cap, nil, server.Object(server.Must("capCents", server.IntSchema(0, 1<<31-1)))),
		tool("/billing/pause", "setPurchasePause", "Pause or unpause purchases for the owner",
			o.pause, nil, server.Object(server.Must("paused", server.BoolSchema))),
		tool("/credits", "grantWorkspaceCredits",
			"Grant credits; id may be the e-mail of an owner, whose newest workspace gets them",
			o.grant, nil, server.Object(
				server.Must("amount", server.IntSchema(1, state.MaxCredits)),
				server.May("note", server.TextSchema(0, 200)))),
	}...)
}

// maxOwner is the length of an owner's name, an e-mail address, in characters.
const maxOwner = 254

// tenant finds the workspace that the path names: by its id, or by its owner's e-mail.
func (o *Operator) tenant(x *server.Exchange) (row uint32, ok bool) {
	row, ok = o.anyTenant(x)
	if ok && o.machine.GoneAt(row) != 0 {
		x.Refuse(server.NewFault(404, "account_not_found", "This workspace was removed. Its acts say "+
			"whether an operator did it."))
		return 0, false
	}
	return row, ok
}

// anyTenant finds it also where it was removed.
func (o *Operator) anyTenant(x *server.Exchange) (row uint32, ok bool) {
	if !o.fresh() {
		x.Refuse(server.FaultConsistency)
		return 0, false
	}
	name := string(x.Param(0))
	if id, known := parseID(markWorkspace, name); known {
		row = o.machine.WorkspaceRow(id)
	} else if strings.Contains(name, "@") {
		row = o.machine.OwnedBy(name)
	}
	if row == 0 {
		x.Refuse(server.NewFault(404, "account_not_found", "There is no such workspace, or nobody of "+
			"this e-mail has claimed one"))
		return 0, false
	}
	return row, true
}

// act carries an operator's command out, once for an Idempotency-Key, and keeps that it did.
func (o *Operator) act(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder) bool {
	return o.acted(x, o.commit(x, row, kind, c))
}

// commit brings an act into the log. OutcomeNone is a request that was refused, and answered.
func (o *Operator) commit(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder,
) engine.Outcome {
	key, fault := server.OnceKey(x)
	if fault != nil {
		x.Refuse(fault)
		return engine.OutcomeNone
	}
	made := state.Act{
		Workspace: row, ID: mint(), Actor: x.By(), Kind: kind,
		Payload: wire.Encode(nil, c),
	}
	if len(key) > 0 {
		path := string(x.Ctx.Path())
		made.Key = hashOf("operator", path, string(key))
		made.Body = hashOf("operator", path, string(x.Body))
	}
	r := o.propose(x.Flow(), state.KindAct, &made)
	o.log.Info("operator acts for a workspace", "operation", x.Route.Operation,
		"workspace", loggedName(string(x.Param(0))), "request_id", string(x.RequestID()),
		"outcome", r.Outcome)
	return r.Outcome
}

// acted answers an act that was refused; true where it is done, and in the memory that is answered
// from.
func (o *Operator) acted(x *server.Exchange, outcome engine.Outcome) bool {
	switch code, known := codeOf(outcome); {
	case outcome == engine.OutcomeNone:
	case outcome == engine.OutcomeDone && o.fresh():
		return true
	case outcome == engine.OutcomeDone:
		x.Refuse(server.FaultConsistency.With("It is done. Repeat the request to see it."))
	case known:
		e := errorTable[code]
		x.Refuse(server.NewFault(e.status, code, e.message))
	default:
		x.Refuse(server.FaultOf(outcome))
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
func (o *Operator) form(x *server.Exchange, b *body) bool {
	if refused := b.close(); refused != nil {
		code := server.FieldFormat
		if refused.Code == "unexpected_field" {
			code = server.FieldUnknown
		}
		x.Refuse(server.FieldsFault([]server.FieldError{{
			Field: cmp.Or(fieldOf(refused), "body"), Code: code,
			Message: refused.Message,
		}}))
		return false
	}
	return true
}

// tool answers with the workspace that the path names, once an operator's command about it is
// carried out. make reads the body, which may be empty where its fields are optional.
func (o *Operator) tool(x *server.Exchange, kind engine.Kind,
	make func(row uint32, b *body) wire.Fielder,
) {
	row, ok := o.tenant(x)
	if !ok {
		return
	}
	b := open(x, x.Route.BodyOptional)
	c := make(row, b)
	if !x.Answered() && o.form(x, b) && o.act(x, row, kind, c) {
		o.answerTenant(x, row)
	}
}

func (o *Operator) claim(x *server.Exchange) {
	o.tool(x, state.KindClaimWorkspace, func(_ uint32, b *body) wire.Fielder {
		id, _ := parseID(markWorkspace, string(x.Param(0)))
		return &state.ClaimWorkspace{ID: id, Owner: b.text("owner", 1, maxOwner)}
	})
}

// remove is DELETE /api/v1/admin/workspaces/{id}. Again it is the same answer again.
func (o *Operator) remove(x *server.Exchange) {
	row, ok := o.anyTenant(x)
	if !ok || !o.form(x, open(x, true)) {
		return
	}
	if o.machine.GoneAt(row) == 0 {
		outcome := o.commit(x, row, state.KindRemoveWorkspace, &state.RemoveWorkspace{Workspace: row})
		// Another request, or time, may have removed it meanwhile.
		gone := outcome == engine.OutcomeRecordUnknown && o.fresh() && o.machine.GoneAt(row) != 0
		if !gone && !o.acted(x, outcome) {
			return
		}
	}
	j := x.Begin()
	j.Open('{')
	j.Text("id", string(x.Param(0)))
	j.Time("removedAt", o.machine.GoneAt(row))
	j.Close('}')
	x.End(200)
}

// ordered finds the purchase that the path names, of the workspace that it names.
func (o *Operator) ordered(x *server.Exchange, row uint32) (id [16]byte, ok bool) {
	id, ok = parseID(markPurchase, string(x.Param(1)))
	if _, known := o.machine.Purchase(row, id); !ok || !known {
		x.Refuse(server.NewFault(404, "not_found", "No such purchase"))
		return id, false
	}
	return id, true
}

func (o *Operator) approve(x *server.Exchange) {
	row, ok := o.tenant(x)
	if !ok {
		return
	}
	id, ok := o.ordered(x, row)
	if !ok {
		return
	}
	b := open(x, true)
	owner := b.text("owner", 0, maxOwner)
	if !o.form(x, b) {
		return
	}
	waiting, _ := o.machine.Purchase(row, id)
	account, _ := o.machine.Account(row, o.now())
	if owner == "" && !account.Claimed && waiting.Status == state.PurchaseApproval {
		x.Refuse(server.FieldFault("owner", server.FieldRequired, "is required: it names whose the "+
			"workspace becomes, for good. It has not been claimed yet. Nothing was approved"))
		return
	}
	if !o.act(x, row, state.KindApprovePurchase, &state.ApprovePurchase{ID: id, Owner: owner}) {
		return
	}
	// Approved through a follower, the purchase is still the one before in its memory.
	if !o.fresh() {
		x.Refuse(server.FaultConsistency)
		return
	}
	if v, known := o.machine.Purchase(row, id); known && o.till.open() {
		ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
		defer cancel()
		if err := o.till.openCheckout(ctx, &v); err != nil {
			// It is approved all the same, and the page is made as soon as the provider answers.
			o.log.Warn("a payment page is not made yet", "purchase", paymentName(&v),
				"error", err)
		}
	}
	if !o.fresh() {
		x.Refuse(server.FaultConsistency.With("It is approved. Repeat the request to see it."))
		return
	}
	o.answerTenant(x, row)
}

func (o *Operator) deny(x *server.Exchange) {
	o.tool(x, state.KindDenyPurchase, func(row uint32, _ *body) wire.Fielder {
		id, _ := o.ordered(x, row)
		return &state.DenyPurchase{ID: id}
	})
}

func (o *Operator) refund(x *server.Exchange) {
	o.tool(x, state.KindRetryRefund, func(row uint32, _ *body) wire.Fielder {
		id, _ := o.ordered(x, row)
		return &state.RetryRefund{ID: id}
	})
}

func (o *Operator) confirm(x *server.Exchange) {
	o.tool(x, state.KindConfirmSignup, func(row uint32, _ *body) wire.Fielder {
		id, _ := parseID(markFlow, string(x.Param(1)))
		return &state.ConfirmSignup{Workspace: row, ID: id}
	})
}

func (o *Operator) cap(x *server.Exchange) {
	o.tool(x, state.KindSetBilling, func(row uint32, b *body) wire.Fielder {
		limit := b.number("capCents", 0, int64(o.machine.Policy().MaxCapCents))
		return &state.SetBilling{
			Workspace: row, HasCap: true, CapCents: uint32(limit), Person: true,
		}
	})
}

func (o *Operator) pause(x *server.Exchange) {
	o.tool(x, state.KindSetBilling, func(row uint32, b *body) wire.Fielder {
		return &state.SetBilling{
			Workspace: row, HasPaused: true, Paused: b.truth("paused"), Person: true,
		}
	})
}

func (o *Operator) grant(x *server.Exchange) {
	o.tool(x, state.KindGrantCredits, func(row uint32, b *body) wire.Fielder {
		amount, note := b.number("amount", 1, state.MaxCredits), b.text("note", 0, 200)
		return &state.GrantCredits{Workspace: row, ID: mint(), Amount: uint64(amount), Note: note}
	})
}
