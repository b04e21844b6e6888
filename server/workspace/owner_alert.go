package workspace

import (
	"bytes"
	"fmt"

	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/mail"
)

// AlertSettings are all that an owner sets of a flow's alerts on a page. An empty text is nowhere.
type AlertSettings struct {
	On                bool
	Email, WebhookURL string
}

// AlertChannels says which ways this deployment can send alerts.
func (a *Alerts) AlertChannels() (mails, webhooks bool) {
	return a.mail != nil, a.hooks != nil
}

// SetAlerts sets a flow's alerts. secret is what webhooks are signed with, where this decision has
// made it: it is shown once, so a form that is sent again gets an empty text.
func (a *Alerts) SetAlerts(d *Decision, flow [16]byte, s AlertSettings) (
	secret string, fault *server.Fault,
) {
	c := &state.SetAlerts{
		Workspace: d.Workspace, Flow: flow, HasOn: true, On: s.On, HasEmail: true, Email: s.Email,
		HasURL: true, URL: s.WebhookURL,
	}
	if fault = a.wrongAlerts(&s); fault != nil {
		return "", fault
	}
	if refused := a.cannotSend(c); refused != nil {
		return "", server.NewFault(errorTable[refused.Code].status, refused.Code, refused.Message)
	}
	if c.URL != "" {
		var err error
		if c.Secret, secret, err = a.mintAlertSecret(flow); err != nil {
			return "", server.FaultInternal
		}
	}
	fault = a.decideAs(d, state.KindSetAlerts, c,
		fmt.Sprint(s.On, " ", s.Email, " ", s.WebhookURL))
	return a.shownOnce(d, flow, c.Secret, secret, fault)
}

// wrongAlerts says what is wrong with where alerts are to go; nil is nothing.
func (a *Alerts) wrongAlerts(s *AlertSettings) *server.Fault {
	if s.Email != "" && !mail.Valid(s.Email) {
		return server.NewFault(400, "invalid_field", "Invalid e-mail address").With(
			"Nothing was changed. Write one plain address, such as ada@acme.example.")
	}
	if s.WebhookURL != "" &&
		(len(s.WebhookURL) > state.MaxAlertURL || !plain(s.WebhookURL, 1, state.MaxAlertURL) ||
			!a.webAddress(s.WebhookURL, 0, false)) {
		return server.NewFault(400, "invalid_url", "Webhooks cannot be sent to this address").With(
			"Nothing was changed. It must be a public http or https address at the usual port, without a " +
				"user name or a password in it.")
	}
	return nil
}

// RotateAlertSecret replaces the secret that a flow's webhooks are signed with; the one before
// signs beside it for a day. A form that is sent again gets an empty text.
func (a *Alerts) RotateAlertSecret(d *Decision, flow [16]byte) (
	secret string, fault *server.Fault,
) {
	sealed, secret, err := a.mintAlertSecret(flow)
	if err != nil {
		return "", server.FaultInternal
	}
	fault = a.decideAs(d, state.KindRotateAlertSecret, &state.RotateAlertSecret{
		Workspace: d.Workspace, Flow: flow, Secret: sealed,
	}, string(flow[:]))
	return a.shownOnce(d, flow, sealed, secret, fault)
}

// shownOnce hands a secret on where it is the one that counts now: of a form that was sent before,
// or of a flow that had a secret, it is not.
func (a *Alerts) shownOnce(d *Decision, flow [16]byte, sealed []byte, secret string,
	fault *server.Fault,
) (string, *server.Fault) {
	if fault != nil {
		return "", fault
	}
	_, v, _, _ := a.machine.Alerts(d.Workspace, flow)
	if secret == "" || !bytes.Equal(v.Secret, sealed) {
		return "", nil
	}
	return secret, nil
}

// SendTestAlert sends a test to wherever a flow's alerts go.
func (a *Alerts) SendTestAlert(d *Decision, flow [16]byte) *server.Fault {
	return a.Decide(d, state.KindSendTestAlert, &state.SendTestAlert{
		Workspace: d.Workspace, Flow: flow,
	})
}
