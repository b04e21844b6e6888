package workspaceapi

import (
	"tollgate/engine/billing"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/form"
)

// What operators see of workspaces. The admin API's document is OpenAPI 3.0: what is not there is
// left out.

func (o *Operator) showTenant(x *server.Exchange) *server.Fault {
	row, fault := o.tenant(x)
	if fault != nil {
		return fault
	}
	return o.answerTenant(x, row)
}

// tenantAnswer is a workspace's account and its newest purchases.
//
//schema:answer workspaceapi Tenant
type tenantAnswer struct {
	workspace.AccountView
	Purchases []orderAnswer `json:"purchases"`
}

// orderAnswer is a purchase as an operator sees it: with its payment page, and with what is to be
// given back.
//
//schema:answer workspaceapi Order
type orderAnswer struct {
	ID         [16]byte                 `json:"id" id:"markPurchase"`
	Status     workspace.PurchaseStatus `json:"status" as:"text"`
	Runs       uint32                   `json:"runs"`
	Cents      uint32                   `json:"cents"`
	Reason     workspace.ApprovalReason `json:"reason,omitzero" as:"text"`
	URL        string                   `json:"url,omitzero" rule:"min=1"`
	Payment    string                   `json:"payment,omitzero" rule:"min=1"`
	RefundDue  bool                     `json:"refundDue"`
	RefundedAt int64                    `json:"refundedAt,omitzero" as:"time"`
	// Returns are the payments that are to be sent back, or were.
	Returns   []workspace.Return `json:"returns,omitzero"`
	CreatedAt int64              `json:"createdAt" as:"time"`
}

func (o *Operator) answerTenant(x *server.Exchange, row uint32) *server.Fault {
	v, _ := o.machine.Account(row, o.now())
	purchases, _ := o.machine.Purchases(row, workspace.Page{Limit: 100})
	made := tenantAnswer{v, make([]orderAnswer, len(purchases))}
	for i := range purchases {
		made.Purchases[i] = orderOf(&purchases[i])
	}
	return server.One(x, 200, &made, writeTenant)
}

func orderOf(p *workspace.PurchaseView) orderAnswer {
	made := orderAnswer{
		ID: p.ID, Status: p.Status, Runs: p.Runs, Cents: p.Cents, Reason: p.Reason,
		Payment: p.Payment, Returns: p.Returns, CreatedAt: p.CreatedAt,
	}
	if p.Status == workspace.PurchaseCheckout {
		made.URL = p.URL
	}
	for _, r := range p.Returns {
		made.RefundDue = made.RefundDue || r.At == 0
		made.RefundedAt = max(made.RefundedAt, r.At)
	}
	if made.RefundDue {
		made.RefundedAt = 0
	}
	return made
}

// leaf reads ?limit= and &cursor= of an operator's list.
func leaf(x *server.Exchange, mark string) (p workspace.Page, fault *server.Fault) {
	p, wrong := pageOf(x, mark)
	if wrong != nil {
		fault = server.FieldsFault(wrong.Fields)
	}
	return p, fault
}

// anyID reads the id of a workspace, or of a record that one has.
func anyID(text string) (id [16]byte, ok bool) {
	for _, mark := range []string{markWorkspace, markRun, markFlow, markPurchase, markIssue} {
		if id, ok = parseID(mark, text); ok {
			return id, true
		}
	}
	return id, false
}

func (o *Operator) listTenants(x *server.Exchange) *server.Fault {
	p, fault := leaf(x, markWorkspace)
	if fault != nil {
		return fault
	}
	if !server.OwnMemory(x) && !o.fresh() {
		return server.FaultConsistency
	}
	unclaimed := string(x.Ctx.QueryArgs().Peek("unclaimed"))
	if unclaimed != "" && unclaimed != "true" && unclaimed != "false" {
		return form.NotAllowed("true", "false").Fault("unclaimed")
	}
	find := string(x.Ctx.QueryArgs().Peek("find"))
	views, more := []workspace.TenantView{}, false
	if find == "" {
		views, more = o.machine.Tenants(p, unclaimed == "true")
	} else if id, ok := anyID(find); ok {
		if v, known := o.machine.TenantWith(id); known {
			views = append(views, v)
		}
	}
	made := tenantsAnswer{Workspaces: views}
	for i := range views {
		views[i].From = networkText(views[i].Network)
	}
	if more {
		made.Next = idText(markWorkspace, views[len(views)-1].ID)
	}
	if unclaimed == "true" {
		made.Held = new(o.machine.Strangers())
	}
	return server.One(x, 200, &made, writeTenants)
}

// tenantsAnswer is a page of workspaces.
//
//schema:answer workspaceapi Tenants
type tenantsAnswer struct {
	Workspaces []workspace.TenantView `json:"workspaces"`
	Next       string                 `json:"nextCursor,omitzero" rule:"min=1"`
	// Held is what unclaimed workspaces hold together.
	Held *workspace.StrangersView `json:"held,omitzero"`
}

func removedSchema() *server.Schema {
	return server.Object(server.Must("id", text), server.Must("removedAt", server.TimeSchema))
}

// markAct begins the ids of operators' acts.
const markAct = "act_"

func (o *Operator) listActs(x *server.Exchange) *server.Fault {
	row, fault := o.anyTenant(x)
	if fault != nil {
		return fault
	}
	p, fault := leaf(x, markAct)
	if fault != nil {
		return fault
	}
	views, more := o.machine.Acts(row, p)
	made := actsAnswer{Acts: views}
	for i := range views {
		views[i].About = actSubject(&views[i])
	}
	if more {
		made.Next = idText(markAct, views[len(views)-1].ID)
	}
	return server.One(x, 200, &made, writeActs)
}

// actsAnswer is a page of what operators did.
//
//schema:answer workspaceapi Acts
type actsAnswer struct {
	Acts []workspace.ActView `json:"acts"`
	Next string              `json:"nextCursor,omitzero" rule:"min=1"`
}

// Acts lists what operators did for owners, for the record of changes; see admin.Config.
func (o *Operator) Acts(before uint32, limit, scan int, stale bool) (
	list []audit.Act, next uint32, ok bool,
) {
	if !stale && !o.fresh() {
		return nil, 0, false
	}
	views, next := o.machine.OperatorActs(before, limit, scan)
	for i := range views {
		v := &views[i]
		act := audit.Act{
			Workspace: idText(markWorkspace, v.Workspace),
			Change: billing.ChangeView{
				Number: uint64(v.Number), At: v.At, Actor: v.Actor, Action: "workspace." + v.Action,
				Subject: actSubject(&v.ActView),
			},
		}
		for _, c := range v.Changes {
			act.Change.Values = append(act.Change.Values, billing.FieldChange(c))
		}
		if v.Note != "" {
			act.Change.Values = append(act.Change.Values,
				billing.FieldChange{Name: "note", After: v.Note})
		}
		list = append(list, act)
	}
	return list, next, true
}

// actSubject is the id of the purchase or flow that an act is about; empty where it is about the
// workspace.
func actSubject(v *workspace.ActView) string {
	if v.Subject == ([16]byte{}) {
		return ""
	}
	switch v.Action {
	case "confirm_signup", "set_alerts", "rotate_alert_secret", "test_alert", "schedule_flow":
		return idText(markFlow, v.Subject)
	}
	return idText(markPurchase, v.Subject)
}
