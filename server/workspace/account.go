package workspace

import (
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// getAccount is GET /v1/account.
func (m *Members) getAccount(x *server.Exchange) {
	m.read(x, func() *server.Fault {
		v, ok := m.machine.Account(tenant(x).Workspace, m.now())
		if !ok {
			return no("not_found")
		}
		j := x.BeginBare()
		j.Open('{')
		j.Object("workspace")
		j.Text("id", idText(markWorkspace, v.ID))
		j.Text("label", v.Label)
		j.Bool("claimed", v.Claimed)
		j.Time("createdAt", v.CreatedAt)
		j.Close('}')
		j.Object("credits")
		j.Uint("balance", v.Credits)
		j.Uint("reserved", v.Reserved)
		j.Close('}')
		j.Array("transactions")
		for i := range v.Transactions {
			writeTransaction(j, &v.Transactions[i])
		}
		j.Close(']')
		m.purchases.writeBilling(j, &v)
		j.Close('}')
		x.EndBare(200)
		return nil
	})
}

// getExecution is GET /v1/execution.
func (m *Members) getExecution(x *server.Exchange) {
	m.read(x, func() *server.Fault {
		m.writeExecution(x)
		return nil
	})
}

func (m *Members) writeExecution(x *server.Exchange) {
	policy := m.machine.Policy()
	j := x.BeginBare()
	j.Open('{')
	j.Object("execution")
	j.Bool("available", len(m.agents) > 0)
	j.Array("agents")
	for i := range m.agents {
		writeAgent(j, &m.agents[i])
	}
	j.Close(']')
	j.Array("testAccess")
	for _, v := range m.machine.TestAccesses(tenant(x).Workspace) {
		j.String(v.Host)
	}
	j.Close(']')
	j.Uint("priceCents", uint64(policy.RunCents))
	j.Object("credits")
	j.Uint("inspection", uint64(policy.CreditsInspection))
	j.Uint("evaluation", uint64(policy.CreditsEvaluation))
	j.Uint("run", uint64(policy.CreditsRun))
	j.Close('}')
	j.Close('}')
	j.Close('}')
	x.EndBare(200)
}

// listIssues is GET /v1/issues.
func (m *Members) listIssues(x *server.Exchange) {
	list(m.base, x, "issues", markIssue, m.machine.Issues, writeIssue,
		func(v *state.IssueView) [16]byte { return v.ID })
}

// changeIssue is PATCH /v1/issues/{id}.
func (m *Members) changeIssue(x *server.Exchange) {
	id, ok := m.id(x, markIssue)
	if !ok {
		return
	}
	b := open(x, false)
	if b.text("status", 1, 40) != "fix_ready" {
		r := badField("invalid_status", "status")
		if b.wrong == nil || b.wrong.Code == "invalid_field" {
			b.wrong = r
		}
	}
	b.used["note"] = true
	note, _ := b.fields["note"].(string)
	if !plain(note, 1, maxNote) || !Visible(note) {
		b.fail(badField("invalid_note", "note"))
	}
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	c := &state.MarkIssueReady{Workspace: tenant(x).Workspace, ID: id, Note: note}
	if _, ok := m.do(x, state.KindMarkIssueReady, c); !ok {
		return
	}
	one(m.base, x, "issue", 200, func() (state.IssueView, bool) {
		return m.machine.Issue(tenant(x).Workspace, id)
	}, writeIssue)
}

// listNotifications is GET /v1/notifications.
func (m *Members) listNotifications(x *server.Exchange) {
	list(m.base, x, "notifications", markNotification, m.machine.Notifications, writeNotification,
		func(v *state.NotificationView) [16]byte { return v.ID })
}

// readNotification is POST /v1/notifications/{id}/read.
func (m *Members) readNotification(x *server.Exchange) {
	id, ok := m.idAlone(x, markNotification)
	if !ok {
		return
	}
	c := &state.ReadNotification{Workspace: tenant(x).Workspace, ID: id}
	if _, ok := m.do(x, state.KindReadNotification, c); !ok {
		return
	}
	one(m.base, x, "notification", 200, func() (state.NotificationView, bool) {
		return m.machine.Notification(tenant(x).Workspace, id)
	}, writeNotification)
}
