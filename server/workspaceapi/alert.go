package workspaceapi

import (
	"bytes"

	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/form"
	"tollgate/server/provider/mail"
)

// getAlerts is GET /v1/flows/{flow_id}/alerts. Where alerts go is shown to the owner alone.
func (a *Alerts) getAlerts(x *server.Exchange, flow [16]byte) *server.Fault {
	return a.read(x, func() *server.Fault {
		made, known := a.alertsOf(tenant(x).Workspace, flow, nil, "")
		if !known {
			return no("not_found")
		}
		if !person(x) {
			made.Settings = nil
		}
		writeAlerts(x.BeginBare(), &made)
		return x.EndBare(200)
	})
}

// alertsAnswer is an answer about a flow's alerts.
//
//schema:answer workspaceapi Alerts
type alertsAnswer struct {
	// Secret is what webhooks are signed with, where it was just made: it is shown this once.
	Secret string `json:"secret,omitzero" rule:"min=1"`
	// State is off where the owner has turned alerts off.
	State string `json:"watch.state" rule:"oneof=passing|failing|unknown|off"`
	Since int64  `json:"watch.since" as:"time"`
	// Settings are shown to the owner alone.
	Settings   *workspace.AlertsView    `json:"settings,omitzero"`
	Deliveries []workspace.DeliveryView `json:"deliveries"`
}

// alertsOf is what to answer about a flow's alerts; shown is the secret that sealed was made of.
func (b *base) alertsOf(ws uint32, flow [16]byte, sealed []byte, shown string) (
	made alertsAnswer, known bool,
) {
	f, v, set, known := b.machine.Alerts(ws, flow)
	made = alertsAnswer{
		State: f.Watch.String(), Since: f.WatchAt, Settings: &v, Deliveries: v.Deliveries,
	}
	if set && !v.On {
		made.State = "off"
	}
	if shown != "" && bytes.Equal(v.Secret, sealed) {
		made.Secret = shown
	}
	return made, known
}

// forOwner is the handler of what changes a flow's alerts. It refuses who may not: an unclaimed
// workspace has none, and of a claimed one only its owner decides.
func (a *Alerts) forOwner(
	change func(x *server.Exchange, flow [16]byte) *server.Fault,
) func(*server.Exchange) *server.Fault {
	return of(markFlow, func(x *server.Exchange, flow [16]byte) *server.Fault {
		if !a.fresh() {
			return no("workspace_busy")
		}
		account, _ := a.machine.Account(tenant(x).Workspace, a.now())
		_, known := a.machine.Flow(tenant(x).Workspace, flow)
		switch {
		case !known:
			return no("not_found")
		case !account.Claimed:
			return no("alerts_claim_required")
		case !person(x):
			return no("person_required")
		}
		return change(x, flow)
	})
}

// alertSettings reads what is to be set: on, and where to; null and an empty text are nowhere.
// shown is the secret that webhooks are signed with from now on if there is none yet.
func (a *Alerts) alertSettings(b *body, ws uint32, flow [16]byte) (
	c *workspace.SetAlerts, shown string,
) {
	c = &workspace.SetAlerts{Workspace: ws, Flow: flow, HasOn: true, On: b.truth("on")}
	if nowhere(b, "email") {
		c.HasEmail = true
	} else if b.has("email") {
		c.HasEmail, c.Email = true, b.text("email", 1, workspace.MaxAlertEmail)
		if !mail.Valid(c.Email) {
			b.mistake("email", form.NotEmail)
		}
	}
	if nowhere(b, "webhookUrl") {
		c.HasURL = true
	} else if b.has("webhookUrl") {
		c.HasURL, c.URL = true, b.address(a.base, "webhookUrl", 0, false)
		c.Secret, shown = a.mintAlertSecret(flow)
	}
	return c, shown
}

// nowhere reports whether a field takes away where alerts went.
func nowhere(b *body, name string) bool { return b.taken(name) || b.fields[name] == "" }

// cannotSend refuses settings by which this deployment cannot reach anybody.
func (a *Alerts) cannotSend(c *workspace.SetAlerts) *server.Fault {
	switch {
	case c.Email != "" && a.mail == nil:
		return no("hosting_not_configured").Saying("This deployment sends no mail: its operator has " +
			"configured no mail server. Nothing was changed. A webhookUrl works.")
	case c.URL != "" && a.hooks == nil:
		return no("hosting_not_configured").
			Saying("This deployment sends no webhooks. Nothing was changed.")
	}
	return nil
}

func (a *Alerts) changeAlerts(x *server.Exchange, id [16]byte) *server.Fault {
	b := open(x, false)
	c, shown := a.alertSettings(b, tenant(x).Workspace, id)
	fault := b.close()
	if fault == nil {
		fault = a.cannotSend(c)
	}
	if fault == nil {
		same := *c
		same.Secret = nil // which is another each time
		fault = a.actOnce(x, c.Workspace, workspace.KindSetAlerts, c,
			string(wire.Encode(nil, &same)))
	}
	if fault != nil {
		return fault
	}
	_, v, _, _ := a.machine.Alerts(c.Workspace, id)
	if v.Unconfirmed && c.Email != "" && !x.Called() { // a page calls askAddress
		if fault := a.askAddress(x, id, 0); fault != nil {
			a.log.Info("no link asks for an address", "code", fault.Code)
		}
	}
	return a.answerAlerts(x, id, c.Secret, shown)
}

// answerAlerts shows a flow's alerts to who has changed them, and a secret that was made by that:
// this once.
func (a *Alerts) answerAlerts(
	x *server.Exchange, flow [16]byte, sealed []byte, shown string,
) *server.Fault {
	made, _ := a.alertsOf(tenant(x).Workspace, flow, sealed, shown)
	writeAlerts(x.BeginBare(), &made)
	return x.EndBare(200)
}

func (a *Alerts) rotateAlertSecret(x *server.Exchange, id [16]byte) *server.Fault {
	if fault := fieldless(x); fault != nil {
		return fault
	}
	sealed, shown := a.mintAlertSecret(id)
	c := &workspace.RotateAlertSecret{Workspace: tenant(x).Workspace, Flow: id, Secret: sealed}
	fault := a.actOnce(x, c.Workspace, workspace.KindRotateAlertSecret, c, string(id[:]))
	if fault != nil {
		return fault
	}
	return a.answerAlerts(x, id, sealed, shown)
}

func (a *Alerts) testAlert(x *server.Exchange, id [16]byte) *server.Fault {
	fault := fieldless(x)
	if fault == nil {
		fault = a.actAsOwner(x, tenant(x).Workspace, workspace.KindSendTestAlert,
			&workspace.SendTestAlert{
				Workspace: tenant(x).Workspace, Flow: id,
			})
	}
	if fault != nil {
		return fault
	}
	return a.answerAlerts(x, id, nil, "")
}

// alertsForm is the body by which alerts are set.
func alertsForm() *server.Schema {
	return server.Object(
		server.Must("on", server.BoolSchema),
		server.May("email", server.TextSchema(0, workspace.MaxAlertEmail)),
		server.May("webhookUrl", server.TextSchema(0, workspace.MaxAlertURL)),
	)
}

// alertsProperties are the members of an answer about alerts, to the owner and to others.
func alertsProperties(owner bool) []server.Property {
	p := server.AnswerSchema[alertsAnswer]().Properties[1:]
	p[1].Required = owner
	return p
}

// secretly are those of an answer to the owner in which a secret may be shown.
func secretly() []server.Property {
	return append([]server.Property{server.May("secret", text)}, alertsProperties(true)...)
}
