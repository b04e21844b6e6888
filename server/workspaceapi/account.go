package workspaceapi

import (
	"tollgate/engine/workspace"
	"tollgate/server"
)

func (m *Members) getAccount(x *server.Exchange) *server.Fault {
	return m.read(x, func() *server.Fault {
		v, ok := m.machine.Account(tenant(x).Workspace, m.now())
		if !ok {
			return no("not_found")
		}
		writeWorkspaceAccount(x.BeginBare(), &accountAnswer{
			ID: v.ID, Label: v.Label, Claimed: v.Claimed, CreatedAt: v.CreatedAt, Balance: v.Credits,
			Reserved: v.Reserved, Transactions: v.Transactions, Billing: m.purchases.billing(&v),
		})
		return x.EndBare(200)
	})
}

// accountAnswer is what a workspace has and has used.
//
//schema:answer workspaceapi WorkspaceAccount
type accountAnswer struct {
	ID           [16]byte                    `json:"workspace.id" id:"markWorkspace"`
	Label        string                      `json:"workspace.label"`
	Claimed      bool                        `json:"workspace.claimed"`
	CreatedAt    int64                       `json:"workspace.createdAt" as:"time"`
	Balance      uint64                      `json:"credits.balance"`
	Reserved     uint64                      `json:"credits.reserved"`
	Transactions []workspace.TransactionView `json:"transactions"` // the newest first
	Billing      billingAnswer               `json:"billing" ref:"Billing"`
}

// execution is what can run flows, and what that costs.
//
//schema:answer workspaceapi Execution
type execution struct {
	Available bool    `json:"available"`
	Agents    []Agent `json:"agents" ref:"Agent"`
	// TestAccess are the hosts for which test credentials are stored.
	TestAccess []string `json:"testAccess"`
	PriceCents uint32   `json:"priceCents"`
	Inspection uint32   `json:"credits.inspection"`
	Evaluation uint32   `json:"credits.evaluation"`
	Run        uint32   `json:"credits.run"`
}

func (m *Members) getExecution(x *server.Exchange) *server.Fault {
	return m.read(x, func() *server.Fault {
		policy := m.machine.Policy()
		e := execution{
			Available: len(m.agents) > 0, Agents: m.agents, PriceCents: policy.RunCents,
			Inspection: policy.CreditsInspection, Evaluation: policy.CreditsEvaluation,
			Run: policy.CreditsRun,
		}
		for _, v := range m.machine.TestAccesses(tenant(x).Workspace) {
			e.TestAccess = append(e.TestAccess, v.Host)
		}
		return x.BareObject(200, func(j *server.JSON) {
			j.Name("execution")
			writeExecution(j, &e)
		})
	})
}

func (m *Members) listIssues(x *server.Exchange) *server.Fault {
	return list(m.base, x, "issues", markIssue, m.machine.Issues, writeIssue,
		func(v *workspace.IssueView) [16]byte { return v.ID })
}

func (m *Members) changeIssue(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	if b.text("status", 1, 40) != "fix_ready" && (b.wrong == nil || b.wrong.Code == "invalid_field") {
		b.wrong = badField("invalid_status", "status")
	}
	b.used["note"] = true
	note, _ := b.fields["note"].(string)
	_, ok := checkVisible(note, 1, maxNote)
	b.refuse(!ok, "invalid_note", "note")
	fault := b.close()
	if fault == nil {
		fault = m.do(x, workspace.KindMarkIssueReady,
			&workspace.MarkIssueReady{Workspace: tenant(x).Workspace, ID: id, Note: note})
	}
	if fault != nil {
		return fault
	}
	return one(m.base, x, "issue", 200, func() (workspace.IssueView, bool) {
		return m.machine.Issue(tenant(x).Workspace, id)
	}, writeIssue)
}

func (m *Members) listNotifications(x *server.Exchange) *server.Fault {
	return list(m.base, x, "notifications", markNotification, m.machine.Notifications,
		writeNotification, func(v *workspace.NotificationView) [16]byte { return v.ID })
}

func (m *Members) readNotification(x *server.Exchange, id [16]byte) *server.Fault {
	c := &workspace.ReadNotification{Workspace: tenant(x).Workspace, ID: id}
	if fault := m.do(x, workspace.KindReadNotification, c); fault != nil {
		return fault
	}
	return one(m.base, x, "notification", 200, func() (workspace.NotificationView, bool) {
		return m.machine.Notification(tenant(x).Workspace, id)
	}, writeNotification)
}
