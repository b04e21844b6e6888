package workspace

import (
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// What operators see of workspaces. The admin API's document is OpenAPI 3.0: what is not there is
// left out.

func (o *Operator) showTenant(x *server.Exchange) {
	row, ok := o.tenant(x)
	if ok {
		o.answerTenant(x, row)
	}
}

// answerTenant writes a workspace's account and its newest purchases.
func (o *Operator) answerTenant(x *server.Exchange, row uint32) {
	v, _ := o.machine.Account(row, o.now())
	purchases, _ := o.machine.Purchases(row, state.Page{Limit: 100})
	j := x.Begin()
	j.Open('{')
	j.Text("id", idText(markWorkspace, v.ID))
	j.Text("label", v.Label)
	j.TextIf("owner", v.Owner)
	j.Uint("credits", v.Credits)
	j.Uint("runsLeft", uint64(v.RunsLeft))
	j.Uint("spentCents", uint64(v.SpentCents))
	j.Uint("chargingCents", uint64(v.ChargingCents))
	j.Uint("capCents", uint64(v.CapCents))
	j.Bool("capApproved", v.CapApproved)
	j.Bool("paused", v.Paused)
	j.Array("purchases")
	for i := range purchases {
		writeOrder(j, &purchases[i])
	}
	j.Close(']')
	j.Close('}')
	x.End(200)
}

// writeOrder writes a purchase as an operator sees it: with its payment page, and with what is to
// be given back.
func writeOrder(j *server.JSON, p *state.PurchaseView) {
	j.Open('{')
	j.Text("id", idText(markPurchase, p.ID))
	j.Text("status", p.Status.String())
	j.Uint("runs", uint64(p.Runs))
	j.Uint("cents", uint64(p.Cents))
	j.TextIf("reason", p.Reason.String())
	if p.Status == state.PurchaseCheckout {
		j.TextIf("url", p.URL)
	}
	j.TextIf("payment", p.Payment)
	due, last := false, int64(0)
	for _, r := range p.Returns {
		due, last = due || r.At == 0, max(last, r.At)
	}
	j.Bool("refundDue", due)
	if last != 0 && !due {
		j.Time("refundedAt", last)
	}
	if len(p.Returns) > 0 {
		writeReturns(j, p.Returns)
	}
	j.Time("createdAt", p.CreatedAt)
	j.Close('}')
}

// writeReturns writes the payments that are to be sent back, or were.
func writeReturns(j *server.JSON, returns []state.Return) {
	j.Array("returns")
	for _, r := range returns {
		j.Open('{')
		j.TextIf("payment", r.Payment)
		j.TextIf("refund", r.Refund)
		j.TextIf("refused", r.Refused)
		if r.At != 0 {
			j.Time("at", r.At)
		}
		j.Close('}')
	}
	j.Close(']')
}

var number = server.IntegerSchema

func tenantSchema() *server.Schema {
	return server.Object(server.Must("id", text), server.Must("label", text),
		server.May("owner", text), server.Must("credits", number), server.Must("runsLeft", number),
		server.Must("spentCents", number), server.Must("chargingCents", number),
		server.Must("capCents", number), server.Must("capApproved", server.BoolSchema),
		server.Must("paused", server.BoolSchema),
		server.Must("purchases", server.ArrayOf(server.Object(
			server.Must("id", text), server.Must("status", text), server.Must("runs", number),
			server.Must("cents", number), server.May("reason", text), server.May("url", text),
			server.May("payment", text), server.Must("refundDue", server.BoolSchema),
			server.May("refundedAt", server.TimeSchema),
			server.May("returns", server.ArrayOf(server.Object(server.May("payment", text),
				server.May("refund", text), server.May("refused", text),
				server.May("at", server.TimeSchema)))),
			server.Must("createdAt", server.TimeSchema)))))
}

// leaf reads ?limit= and &cursor= of an operator's list.
func (o *Operator) leaf(x *server.Exchange, mark string) (p state.Page, ok bool) {
	p, wrong := pageOf(x, mark)
	if wrong != nil {
		x.Refuse(server.FieldFault(fieldOf(wrong), server.FieldFormat,
			"is wrong: limit is 1 to 100, cursor a nextCursor"))
	}
	return p, wrong == nil
}

// listTenants is GET /api/v1/admin/workspaces.
func (o *Operator) listTenants(x *server.Exchange) {
	p, ok := o.leaf(x, markWorkspace)
	if !ok {
		return
	}
	if !o.fresh() {
		x.Refuse(server.FaultConsistency)
		return
	}
	unclaimed := string(x.Ctx.QueryArgs().Peek("unclaimed"))
	if unclaimed != "" && unclaimed != "true" && unclaimed != "false" {
		x.Refuse(server.FieldFault("unclaimed", server.FieldNotAllowed, "must be true or false"))
		return
	}
	views, more := o.machine.Tenants(p, unclaimed == "true")
	j := x.Begin()
	j.Open('{')
	j.Array("workspaces")
	for i := range views {
		v := &views[i]
		j.Open('{')
		j.Text("id", idText(markWorkspace, v.ID))
		j.Text("label", v.Label)
		j.TextIf("owner", v.Owner)
		j.Uint("runsLeft", uint64(v.RunsLeft))
		if v.Waiting != ([16]byte{}) {
			j.Text("purchase", idText(markPurchase, v.Waiting))
		}
		j.Time("createdAt", v.CreatedAt)
		j.TextIf("network", networkText(v.Network))
		j.Uint("bytes", v.Bytes)
		if v.UsedAt != 0 {
			j.Time("usedAt", v.UsedAt)
		}
		if v.EndsAt != 0 {
			j.Time("endsAt", v.EndsAt)
		}
		j.Close('}')
	}
	j.Close(']')
	if more {
		j.Text("nextCursor", idText(markWorkspace, views[len(views)-1].ID))
	}
	if unclaimed == "true" {
		held := o.machine.Strangers()
		j.Object("held")
		j.Uint("bytes", held.Bytes)
		j.Uint("limitBytes", held.MaxBytes)
		j.Uint("removedBytes", held.Gone)
		j.Uint("removedLimitBytes", held.MaxGone)
		j.Close('}')
	}
	j.Close('}')
	x.End(200)
}

func tenantsSchema() *server.Schema {
	return server.Object(server.Must("workspaces", server.ArrayOf(server.Object(
		server.Must("id", text), server.Must("label", text), server.May("owner", text),
		server.Must("runsLeft", number), server.May("purchase", text),
		server.Must("createdAt", server.TimeSchema), server.May("network", text),
		server.Must("bytes", number), server.May("usedAt", server.TimeSchema),
		server.May("endsAt", server.TimeSchema)))), server.May("nextCursor", text),
		server.May("held", server.Object(server.Must("bytes", number),
			server.Must("limitBytes", number), server.Must("removedBytes", number),
			server.Must("removedLimitBytes", number))))
}

func removedSchema() *server.Schema {
	return server.Object(server.Must("id", text), server.Must("removedAt", server.TimeSchema))
}

// markAct begins the ids of operators' acts.
const markAct = "act_"

// listActs is GET /api/v1/admin/workspaces/{id}/acts.
func (o *Operator) listActs(x *server.Exchange) {
	row, ok := o.anyTenant(x)
	if !ok {
		return
	}
	p, ok := o.leaf(x, markAct)
	if !ok {
		return
	}
	views, more := o.machine.Acts(row, p)
	j := x.Begin()
	j.Open('{')
	j.Array("acts")
	for i := range views {
		writeAct(j, &views[i])
	}
	j.Close(']')
	if more {
		j.Text("nextCursor", idText(markAct, views[len(views)-1].ID))
	}
	j.Close('}')
	x.End(200)
}

func writeAct(j *server.JSON, v *state.ActView) {
	j.Open('{')
	j.Text("id", idText(markAct, v.ID))
	j.Time("at", v.At)
	j.Text("actor", v.Actor)
	j.Text("action", v.Action)
	j.TextIf("subject", actSubject(v))
	j.TextIf("note", v.Note)
	j.Array("changes")
	for _, c := range v.Changes {
		j.Open('{')
		j.Text("name", c.Name)
		j.Text("before", c.Before)
		j.Text("after", c.After)
		j.Close('}')
	}
	j.Close(']')
	j.Close('}')
}

func actsSchema() *server.Schema {
	free := server.TextSchema(0, 0)
	return server.Object(server.Must("acts", server.ArrayOf(server.Object(
		server.Must("id", text), server.Must("at", server.TimeSchema), server.Must("actor", text),
		server.Must("action", text), server.May("subject", text), server.May("note", text),
		server.Must("changes", server.ArrayOf(server.Object(server.Must("name", text),
			server.Must("before", free), server.Must("after", free))))))),
		server.May("nextCursor", text))
}
