package workspaceapi

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
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
	routes := append(o.reads(), o.tools()...)
	named := server.Param{Schema: server.TextSchema(1, 254)}
	server.DescribePaths(routes, map[string]server.Param{
		"id": named, "purchase": named, "flow": named,
	})
	_, err := server.Illustrate(routes, operatorGuide, operatorExamples)
	if err = errors.Join(err, operatorRefusals.Declare(routes)); err != nil {
		panic(err) // a mistake in the program's own files
	}
	return routes
}

// operatorRefusals are the codes of the operators' tools: what the admin API answers, and the codes
// that the workspace API has for the same command.
var operatorRefusals = server.Refusals{
	Shared: func(r *server.Route) string {
		codes := "validation_failed invalid_key overloaded unavailable internal_error"
		if r.Path != operatorTools {
			codes += " account_not_found"
		}
		if r.Method == http.MethodGet {
			return codes
		}
		return codes + " not_found body_too_large malformed_encoding unsupported_media_type " +
			"idempotency_conflict workspace_busy outcome_unknown"
	},
	Own: map[string]string{
		"removeWorkspace":       "workspace_claimed",
		"approvePurchase":       "purchase_closed",
		"denyPurchase":          "purchase_closed",
		"grantWorkspaceCredits": "invalid_field",
		"setFlowAlerts": "alerts_claim_required alerts_off workspace_full " +
			"hosting_not_configured",
		"rotateFlowAlertSecret": "alerts_claim_required alerts_off workspace_full",
		"testFlowAlert":         "alerts_claim_required alerts_off alert_test_limit",
	},
	Faults: slices.Collect(maps.Values(errorTable)),
}

func (o *Operator) reads() []server.Route {
	paged := server.Asks(
		server.Param{In: "query", Name: "limit", Schema: server.IntSchema(1, 100), About: "100"},
		server.InQuery("cursor", server.TextSchema(1, 64), "nextCursor of the page before"))
	return []server.Route{
		server.Row("GET", operatorTools, "listWorkspaces", "All workspaces, newest first",
			server.AccessOperator, o.listTenants, server.Asks(server.InQuery("unclaimed",
				server.BoolSchema,
				"true: the unclaimed ones, with what all of them hold together"),
				server.InQuery("find", server.TextSchema(1, 64),
					"the one with this id, or that has the run, flow, purchase or issue with it")),
			paged, server.Gives(200, "OK", server.AnswerSchema[tenantsAnswer]())),
		server.Row("GET", operatorPrefix, "showWorkspace",
			"A workspace's account and its newest 100 purchases", server.AccessOperator, o.showTenant,
			server.Gives(200, "OK", server.AnswerSchema[tenantAnswer]())),
		server.Row("GET", operatorPrefix+"/acts", "listWorkspaceActs",
			"What operators did for the workspace's owner, newest first", server.AccessOperator,
			o.listActs, paged, server.Gives(200, "OK", server.AnswerSchema[actsAnswer]())),
	}
}

// tool makes the route of a tool.
func tool(path, operation, about string, handle func(*server.Exchange) *server.Fault,
	body *server.Schema, answer *server.Schema,
) server.Route {
	r := server.Row("POST", operatorPrefix+path, operation, about, server.AccessOperator, handle,
		server.Takes(body), server.Gives(200, "Done", answer), server.Asks(server.Param{
			In: "header", Name: "Idempotency-Key", Schema: server.TextSchema(1, 255),
			About: "the same key and request within 30 days: nothing is done again",
		}))
	r.Limit = bodyLimit
	r.BodyOptional = len(body.Properties) == 0 || !body.Properties[0].Required
	return r
}

func (o *Operator) tools() []server.Route {
	owner, done := server.TextSchema(1, maxOwner), server.AnswerSchema[tenantAnswer]()
	remove := tool("", "removeWorkspace",
		"Remove an unclaimed workspace: its keys stop working, its data is deleted",
		o.remove, server.Object(), removedSchema())
	remove.Method = "DELETE"
	return append(o.alertTools(), []server.Route{
		remove,
		tool("/claim", "claimForOwner", "Give an unclaimed workspace to its owner", o.claim(),
			server.Object(server.Must("owner", owner)), done),
		tool("/purchases/{purchase}/approve", "approvePurchase",
			"Approve a purchase for the owner; an unclaimed workspace needs one, and becomes theirs",
			o.approve, server.Object(server.May("owner", owner)), done),
		tool("/purchases/{purchase}/deny", "denyPurchase", "Deny a purchase for the owner",
			o.deny(), server.Object(), done),
		tool("/purchases/{purchase}/refund", "retryRefund",
			"Ask the payment provider again for what it refused to send back", o.refund(),
			server.Object(), done),
		tool("/flows/{flow}/confirm-signup", "confirmFlowSignup",
			"Confirm for the owner that an agent may sign up at the flow's product", o.confirm(),
			server.Object(), done),
		tool("/billing/cap", "setSpendingCap", "Set the monthly spending cap for the owner", o.cap(),
			server.Object(server.Must("capCents", server.IntSchema(0, 1<<31-1))), done),
		tool("/billing/pause", "setPurchasePause", "Pause or unpause purchases for the owner",
			o.pause(), server.Object(server.Must("paused", server.BoolSchema)), done),
		tool("/credits", "grantWorkspaceCredits",
			"Grant credits; id may be the e-mail of an owner, whose newest workspace gets them", o.grant(),
			server.Object(server.Must("amount", server.IntSchema(1, workspace.MaxCredits)),
				server.May("note", server.TextSchema(0, 200))), done),
	}...)
}

// maxOwner is the length of an owner's name, an e-mail address, in characters.
const maxOwner = 254

// tenant finds the workspace that the path names: by its id, or by its owner's e-mail.
func (o *Operator) tenant(x *server.Exchange) (row uint32, fault *server.Fault) {
	row, fault = o.anyTenant(x)
	if fault == nil && o.machine.GoneAt(row) != 0 {
		fault = server.NewFault(404, "account_not_found",
			"This workspace was removed. Its acts say whether an operator did it.")
	}
	return row, fault
}

// anyTenant finds it also where it was removed.
func (o *Operator) anyTenant(x *server.Exchange) (row uint32, fault *server.Fault) {
	if !server.OwnMemory(x) && !o.fresh() {
		return 0, server.FaultConsistency
	}
	name := string(x.Param(0))
	if id, known := parseID(markWorkspace, name); known {
		row = o.machine.WorkspaceRow(id)
	} else if strings.Contains(name, "@") {
		row = o.machine.OwnedBy(name)
	}
	if row == 0 {
		fault = server.NewFault(404, "account_not_found",
			"No workspace has this id, or no owner has this e-mail address")
	}
	return row, fault
}

// act carries an operator's command out, once for an Idempotency-Key, and keeps that it did.
func (o *Operator) act(
	x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder,
) *server.Fault {
	outcome, fault := o.commit(x, row, kind, c)
	if fault != nil {
		return fault
	}
	return o.refused(outcome)
}

// commit brings an act into the log.
func (o *Operator) commit(x *server.Exchange, row uint32, kind engine.Kind, c wire.Fielder) (
	engine.Outcome, *server.Fault,
) {
	key, fault := server.OnceKey(x)
	if fault != nil {
		return engine.OutcomeNone, fault
	}
	made := workspace.Act{
		Workspace: row, ID: mint(), Actor: x.By(), Kind: kind,
		Payload: wire.Encode(nil, c),
	}
	if len(key) > 0 {
		path := string(x.Ctx.Path())
		made.Key = hashOf("operator", path, string(key))
		made.Body = hashOf("operator", path, string(x.Body))
	}
	r := o.propose(x.Flow(), workspace.KindAct, &made)
	o.log.Info("operator acts for a workspace", "operation", x.Route.Operation,
		"workspace", loggedName(string(x.Param(0))), "request_id", string(x.RequestID()),
		"outcome", r.Outcome)
	return r.Outcome, nil
}

// refused is the answer to an act that was refused; nil where it is done, and in the memory that is
// answered from.
func (o *Operator) refused(outcome engine.Outcome) *server.Fault {
	switch f := server.WorkspaceFault(outcome); {
	case outcome == engine.OutcomeDone && o.fresh():
		return nil
	case outcome == engine.OutcomeDone:
		return server.FaultConsistency.With("It is done. Repeat the request to see it.")
	case f != nil && outcome.Refused():
		return waiting(f)
	}
	return server.FaultOf(outcome)
}

// loggedName is how a log names a workspace: by its id, never by its owner's e-mail.
func loggedName(name string) string {
	if _, known := parseID(markWorkspace, name); !known {
		return "(its owner's e-mail)"
	}
	return name
}

// closed refuses an operator's body as its API does.
func closed(b *body) *server.Fault {
	refused := b.close()
	if refused == nil {
		return nil
	}
	code := server.FieldFormat
	if refused.Code == "unexpected_field" {
		code = server.FieldUnknown
	}
	return server.FieldsFault([]server.FieldError{{
		Field: cmp.Or(fieldOf(refused), "body"), Code: code, Message: refused.Message,
	}})
}

// does is the handler that answers with the workspace that the path names, once an operator's
// command about it is carried out. make reads the body, which may be empty where its fields are
// optional.
func (o *Operator) does(kind engine.Kind,
	make func(x *server.Exchange, row uint32, b *body) wire.Fielder,
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		row, fault := o.tenant(x)
		if fault != nil {
			return fault
		}
		b := open(x, x.Route.BodyOptional)
		c := make(x, row, b)
		if fault = cmp.Or(b.unknown, closed(b)); fault == nil {
			fault = o.act(x, row, kind, c)
		}
		if fault != nil {
			return fault
		}
		return o.answerTenant(x, row)
	}
}

func (o *Operator) claim() func(*server.Exchange) *server.Fault {
	return o.does(workspace.KindClaimWorkspace,
		func(x *server.Exchange, _ uint32, b *body) wire.Fielder {
			id, _ := parseID(markWorkspace, string(x.Param(0)))
			return &workspace.ClaimWorkspace{ID: id, Owner: b.text("owner", 1, maxOwner)}
		})
}

// remove is DELETE /api/v1/admin/workspaces/{id}. Again it is the same answer again.
func (o *Operator) remove(x *server.Exchange) *server.Fault {
	row, fault := o.anyTenant(x)
	if fault == nil {
		fault = closed(open(x, true))
	}
	if fault == nil && o.machine.GoneAt(row) == 0 {
		var outcome engine.Outcome
		outcome, fault = o.commit(x, row, workspace.KindRemoveWorkspace,
			&workspace.RemoveWorkspace{Workspace: row})
		// Another request, or time, may have removed it meanwhile.
		gone := outcome == engine.OutcomeRecordUnknown && o.fresh() && o.machine.GoneAt(row) != 0
		if fault == nil && !gone {
			fault = o.refused(outcome)
		}
	}
	if fault != nil {
		return fault
	}
	return x.Object(200, func(j *server.JSON) {
		j.Text("id", string(x.Param(0)))
		j.Time("removedAt", o.machine.GoneAt(row))
	})
}

// ordered finds the purchase that the path names, of the workspace that it names.
func (o *Operator) ordered(x *server.Exchange, row uint32) (
	v workspace.PurchaseView, fault *server.Fault,
) {
	id, ok := parseID(markPurchase, string(x.Param(1)))
	v, known := o.machine.Purchase(row, id)
	if !ok || !known {
		fault = server.NewFault(404, "not_found", "No such purchase")
	}
	return v, fault
}

func (o *Operator) approve(x *server.Exchange) *server.Fault {
	row, fault := o.tenant(x)
	if fault != nil {
		return fault
	}
	waiting, fault := o.ordered(x, row)
	if fault != nil {
		return fault
	}
	b := open(x, true)
	owner := b.text("owner", 0, maxOwner)
	if fault = closed(b); fault != nil {
		return fault
	}
	account, _ := o.machine.Account(row, o.now())
	if owner == "" && !account.Claimed && waiting.Status == workspace.PurchaseApproval {
		return server.FieldFault("owner", server.FieldRequired, "is required: it names whose the "+
			"workspace becomes, for good. It has not been claimed yet. Nothing was approved")
	}
	fault = o.act(x, row, workspace.KindApprovePurchase,
		&workspace.ApprovePurchase{ID: waiting.ID, Owner: owner})
	if fault != nil {
		return fault
	}
	// Approved through a follower, the purchase is still the one before in its memory.
	if !o.fresh() {
		return server.FaultConsistency
	}
	if v, known := o.machine.Purchase(row, waiting.ID); known && o.payments.open() {
		ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
		defer cancel()
		if err := o.payments.openCheckout(ctx, &v); err != nil {
			// It is approved all the same, and the page is made as soon as the provider answers.
			o.log.Warn("a payment page is not made yet", "purchase", paymentName(&v),
				"error", err)
		}
	}
	if !o.fresh() {
		return server.FaultConsistency.With("It is approved. Repeat the request to see it.")
	}
	return o.answerTenant(x, row)
}

// ofPurchase is does for a command about the purchase that the path names.
func (o *Operator) ofPurchase(
	kind engine.Kind, make func(id [16]byte) wire.Fielder,
) func(*server.Exchange) *server.Fault {
	return o.does(kind, func(x *server.Exchange, row uint32, b *body) wire.Fielder {
		var v workspace.PurchaseView
		v, b.unknown = o.ordered(x, row)
		return make(v.ID)
	})
}

func (o *Operator) deny() func(*server.Exchange) *server.Fault {
	return o.ofPurchase(workspace.KindDenyPurchase,
		func(id [16]byte) wire.Fielder { return &workspace.DenyPurchase{ID: id} })
}

func (o *Operator) refund() func(*server.Exchange) *server.Fault {
	return o.ofPurchase(workspace.KindRetryRefund,
		func(id [16]byte) wire.Fielder { return &workspace.RetryRefund{ID: id} })
}

func (o *Operator) confirm() func(*server.Exchange) *server.Fault {
	return o.does(workspace.KindConfirmSignup,
		func(x *server.Exchange, row uint32, _ *body) wire.Fielder {
			id, _ := parseID(markFlow, string(x.Param(1)))
			return &workspace.ConfirmSignup{Workspace: row, ID: id}
		})
}

func (o *Operator) cap() func(*server.Exchange) *server.Fault {
	return o.does(workspace.KindSetBilling,
		func(_ *server.Exchange, row uint32, b *body) wire.Fielder {
			limit := b.number("capCents", 0, int64(o.machine.Policy().MaxCapCents))
			return &workspace.SetBilling{
				Workspace: row, HasCap: true, CapCents: uint32(limit), Person: true,
			}
		})
}

func (o *Operator) pause() func(*server.Exchange) *server.Fault {
	return o.does(workspace.KindSetBilling,
		func(_ *server.Exchange, row uint32, b *body) wire.Fielder {
			return &workspace.SetBilling{
				Workspace: row, HasPaused: true, Paused: b.truth("paused"), Person: true,
			}
		})
}

func (o *Operator) grant() func(*server.Exchange) *server.Fault {
	return o.does(workspace.KindGrantCredits,
		func(_ *server.Exchange, row uint32, b *body) wire.Fielder {
			amount, note := b.number("amount", 1, workspace.MaxCredits), b.text("note", 0, 200)
			return &workspace.GrantCredits{
				Workspace: row, ID: mint(), Amount: uint64(amount), Note: note,
			}
		})
}
