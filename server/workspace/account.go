package workspace

import (
	state "tollgate/engine/workspace"
	"tollgate/server"
)

func (m *Members) getAccount(x *server.Exchange) *server.Fault {
	return m.read(x, func() *server.Fault {
		v, ok := m.machine.Account(tenant(x).Workspace, m.now())
		if !ok {
			return no("not_found")
		}
		return x.BareObject(200, func(j *server.JSON) {
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
			writeAll(j, "transactions", v.Transactions, writeTransaction)
			m.purchases.writeBilling(j, &v)
		})
	})
}

func (m *Members) getExecution(x *server.Exchange) *server.Fault {
	return m.read(x, func() *server.Fault {
		policy := m.machine.Policy()
		return x.BareObject(200, func(j *server.JSON) {
			j.Object("execution")
			j.Bool("available", len(m.agents) > 0)
			writeAll(j, "agents", m.agents, writeAgent)
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
		})
	})
}

func (m *Members) listIssues(x *server.Exchange) *server.Fault {
	return list(m.base, x, "issues", markIssue, m.machine.Issues, writeIssue,
		func(v *state.IssueView) [16]byte { return v.ID })
}

func (m *Members) changeIssue(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	if b.text("status", 1, 40) != "fix_ready" && (b.wrong == nil || b.wrong.Code == "invalid_field") {
		b.wrong = badField("invalid_status", "status")
	}
	b.used["note"] = true
	note, _ := b.fields["note"].(string)
	b.refuse(!plain(note, 1, maxNote) || !Visible(note), "invalid_note", "note")
	fault := b.close()
	if fault == nil {
		fault = m.do(x, state.KindMarkIssueReady,
			&state.MarkIssueReady{Workspace: tenant(x).Workspace, ID: id, Note: note})
	}
	if fault != nil {
		return fault
	}
	return one(m.base, x, "issue", 200, func() (state.IssueView, bool) {
		return m.machine.Issue(tenant(x).Workspace, id)
	}, writeIssue)
}

func (m *Members) listNotifications(x *server.Exchange) *server.Fault {
	return list(m.base, x, "notifications", markNotification, m.machine.Notifications,
		writeNotification, func(v *state.NotificationView) [16]byte { return v.ID })
}

func (m *Members) readNotification(x *server.Exchange, id [16]byte) *server.Fault {
	c := &state.ReadNotification{Workspace: tenant(x).Workspace, ID: id}
	if fault := m.do(x, state.KindReadNotification, c); fault != nil {
		return fault
	}
	return one(m.base, x, "notification", 200, func() (state.NotificationView, bool) {
		return m.machine.Notification(tenant(x).Workspace, id)
	}, writeNotification)
}
