package workspace

import (
	"bytes"

	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/mail"
	"tollgate/server/vault"
)

func newAlerts(b *base, c *Config) (*Alerts, error) {
	sealing, err := vault.New(c.QuoteKey, alertsPurpose)
	return &Alerts{base: b, vault: sealing, mail: c.Mail, hooks: c.Hooks, console: c.Console}, err
}

// getAlerts is GET /v1/flows/{flow_id}/alerts. Where alerts go is shown to the owner alone.
func (a *Alerts) getAlerts(x *server.Exchange) {
	id, ok := a.id(x, markFlow)
	if !ok {
		return
	}
	a.read(x, func() *server.Fault {
		f, v, set, known := a.machine.Alerts(tenant(x).Workspace, id)
		if !known {
			return no("not_found")
		}
		j := x.BeginBare()
		j.Open('{')
		writeAlerts(j, &f, &v, set, person(x))
		j.Close('}')
		x.EndBare(200)
		return nil
	})
}

// writeAlerts writes the members of an answer about a flow's alerts. off is the state of a watch
// whose owner has turned alerts off.
func writeAlerts(j *server.JSON, f *state.FlowView, v *state.AlertsView, set, settings bool) {
	j.Object("watch")
	watch := f.Watch.String()
	if set && !v.On {
		watch = "off"
	}
	j.Text("state", watch)
	j.Time("since", f.WatchAt)
	j.Close('}')
	if settings {
		writeAlertSettings(j, v)
	}
	j.Array("deliveries")
	for i := range v.Deliveries {
		writeDelivery(j, &v.Deliveries[i], v.Held(&v.Deliveries[i]))
	}
	j.Close(']')
}

func writeAlertSettings(j *server.JSON, v *state.AlertsView) {
	j.Object("settings")
	j.Bool("on", v.On)
	j.TextIf("email", v.Email)
	if v.Email != "" {
		j.Bool("emailConfirmed", !v.Unconfirmed)
	}
	j.TextIf("webhookUrl", v.URL)
	if v.GoneAt != 0 {
		j.Time("webhookGoneAt", v.GoneAt)
	}
	if v.RotatedAt != 0 {
		j.Time("secretRotatedAt", v.RotatedAt)
		j.Time("previousSecretUntil", v.PreviousUntil)
	}
	j.Close('}')
}

// writeDelivery writes a delivery; held reports whether it waits for its address to be confirmed.
func writeDelivery(j *server.JSON, d *state.DeliveryView, held bool) {
	j.Open('{')
	j.Text("id", idText(markAlert, d.ID))
	j.Text("kind", d.Kind.String())
	j.Text("channel", d.Channel.String())
	status := d.Status.String()
	if held {
		status = "unconfirmed"
	}
	j.Text("status", status)
	j.Uint("attempts", uint64(d.Attempts))
	if d.Answer != 0 {
		j.Uint("answer", uint64(d.Answer))
	}
	j.TextIf("reason", d.Reason)
	if d.Run != ([16]byte{}) {
		j.Text("runId", idText(markRun, d.Run))
	}
	j.Time("createdAt", d.CreatedAt)
	if d.NextAt != 0 && d.Attempts > 0 && d.BegunAt == 0 {
		j.Time("nextAttemptAt", d.NextAt)
	}
	if d.EndedAt != 0 {
		j.Time("finishedAt", d.EndedAt)
	}
	j.Close('}')
}

// alertFlow finds the flow whose alerts a request changes, and refuses who may not: an unclaimed
// workspace has none, and of a claimed one only its owner decides.
func (a *Alerts) alertFlow(x *server.Exchange) (id [16]byte, ok bool) {
	if id, ok = a.id(x, markFlow); !ok {
		return id, false
	}
	if !a.fresh() {
		x.Refuse(no("workspace_busy"))
		return id, false
	}
	account, _ := a.machine.Account(tenant(x).Workspace, a.now())
	_, known := a.machine.Flow(tenant(x).Workspace, id)
	switch {
	case !known:
		x.Refuse(no("not_found"))
	case !account.Claimed:
		x.Refuse(no("alerts_claim_required"))
	case !person(x):
		x.Refuse(no("person_required"))
	default:
		return id, true
	}
	return id, false
}

// alertSettings reads what is to be set: on, and where to; null and an empty text are nowhere.
// shown is the secret that webhooks are signed with from now on where there is none yet.
func (a *Alerts) alertSettings(b *body, workspace uint32, flow [16]byte) (
	c *state.SetAlerts, shown string, err error,
) {
	c = &state.SetAlerts{Workspace: workspace, Flow: flow, HasOn: true, On: b.truth("on")}
	if nowhere(b, "email") {
		c.HasEmail = true
	} else if b.has("email") {
		c.HasEmail, c.Email = true, b.text("email", 1, state.MaxAlertEmail)
		if !mail.Valid(c.Email) {
			b.wants("email", "one e-mail address, such as ada@acme.example")
		}
	}
	if nowhere(b, "webhookUrl") {
		c.HasURL = true
	} else if b.has("webhookUrl") {
		c.HasURL, c.URL = true, b.address(a.base, "webhookUrl", 0, false)
		c.Secret, shown, err = a.mintAlertSecret(flow)
	}
	return c, shown, err
}

// nowhere reports whether a field takes away where alerts went.
func nowhere(b *body, name string) bool { return b.taken(name) || b.fields[name] == "" }

// cannotSend refuses settings by which this deployment cannot reach anybody.
func (a *Alerts) cannotSend(c *state.SetAlerts) *server.Fault {
	r := no("hosting_not_configured")
	switch {
	case c.Email != "" && a.mail == nil:
		r.Message = "This deployment sends no mail: its operator has configured no mail server. " +
			"Nothing was changed. A webhookUrl works."
	case c.URL != "" && a.hooks == nil:
		r.Message = "This deployment sends no webhooks. Nothing was changed."
	default:
		return nil
	}
	return r
}

// changeAlerts is PATCH /v1/flows/{flow_id}/alerts.
func (a *Alerts) changeAlerts(x *server.Exchange) {
	id, ok := a.alertFlow(x)
	if !ok {
		return
	}
	b := open(x, false)
	c, shown, err := a.alertSettings(b, tenant(x).Workspace, id)
	if refused := b.close(); refused != nil {
		x.Refuse(refused)
		return
	}
	if refused := a.cannotSend(c); refused != nil || err != nil {
		a.refuseOr(x, refused, err)
		return
	}
	if _, ok := a.actAsOwner(x, c.Workspace, state.KindSetAlerts, c); !ok {
		return
	}
	if _, v, _, _ := a.machine.Alerts(c.Workspace, id); v.Unconfirmed && c.Email != "" {
		if fault := a.AskAddress(c.Workspace, id); fault != nil {
			a.log.Info("no link asks for an address", "code", fault.Code)
		}
	}
	a.answerAlerts(x, id, c.Secret, shown)
}

// answerAlerts shows a flow's alerts to who has changed them, and a secret that was made by that:
// this once.
func (a *Alerts) answerAlerts(x *server.Exchange, flow [16]byte, sealed []byte, shown string) {
	f, v, set, _ := a.machine.Alerts(tenant(x).Workspace, flow)
	j := x.BeginBare()
	j.Open('{')
	if shown != "" && bytes.Equal(v.Secret, sealed) {
		j.Text("secret", shown)
	}
	writeAlerts(j, &f, &v, set, true)
	j.Close('}')
	x.EndBare(200)
}

// rotateAlertSecret is POST /v1/flows/{flow_id}/alerts/secret.
func (a *Alerts) rotateAlertSecret(x *server.Exchange) {
	id, ok := a.alertFlow(x)
	if !ok || !fieldless(x) {
		return
	}
	sealed, shown, err := a.mintAlertSecret(id)
	if err != nil {
		a.refuseOr(x, nil, err)
		return
	}
	c := &state.RotateAlertSecret{Workspace: tenant(x).Workspace, Flow: id, Secret: sealed}
	if _, ok := a.actAsOwner(x, c.Workspace, state.KindRotateAlertSecret, c); ok {
		a.answerAlerts(x, id, sealed, shown)
	}
}

// testAlert is POST /v1/flows/{flow_id}/alerts/test.
func (a *Alerts) testAlert(x *server.Exchange) {
	id, ok := a.alertFlow(x)
	if !ok || !fieldless(x) {
		return
	}
	if _, ok := a.actAsOwner(x, tenant(x).Workspace, state.KindSendTestAlert, &state.SendTestAlert{
		Workspace: tenant(x).Workspace, Flow: id,
	}); ok {
		a.answerAlerts(x, id, nil, "")
	}
}

// alertsForm is the body by which alerts are set.
func alertsForm() *server.Schema {
	return server.Object(
		server.Must("on", server.BoolSchema),
		server.May("email", server.TextSchema(0, state.MaxAlertEmail)),
		server.May("webhookUrl", server.TextSchema(0, state.MaxAlertURL)),
	)
}

// alertsProperties are the members of an answer about alerts.
func alertsProperties(settings bool) []server.Property {
	about := server.Object(
		server.Must("on", server.BoolSchema), server.May("email", text),
		server.May("emailConfirmed", server.BoolSchema), server.May("webhookUrl", text),
		server.May("webhookGoneAt", server.TimeSchema),
		server.May("secretRotatedAt", server.TimeSchema),
		server.May("previousSecretUntil", server.TimeSchema))
	shown := server.May("settings", about) // to the owner alone
	if settings {
		shown = server.Must("settings", about)
	}
	return []server.Property{
		server.Must("watch", server.Object(
			server.Must("state", server.EnumSchema("passing", "failing", "unknown", "off")),
			server.Must("since", server.TimeSchema))),
		shown,
		server.Must("deliveries", server.ArrayOf(server.Object(
			server.Must("id", text),
			server.Must("kind", server.EnumSchema("failing", "recovered", "test")),
			server.Must("channel", server.EnumSchema("email", "webhook")),
			server.Must("status", server.EnumSchema("waiting", "unconfirmed", "delivered", "failed",
				"unknown")),
			server.Must("attempts", server.IntegerSchema), server.May("answer", server.IntegerSchema),
			server.May("reason", text), server.May("runId", text),
			server.Must("createdAt", server.TimeSchema),
			server.May("nextAttemptAt", server.TimeSchema),
			server.May("finishedAt", server.TimeSchema)))),
	}
}
