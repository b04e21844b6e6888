package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

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
		return "", server.NewFault(errorTable[refused.Code].Status, refused.Code, refused.Message)
	}
	if c.URL != "" {
		c.Secret, secret = a.mintAlertSecret(flow)
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

// RotateAlertSecret replaces the secret that a flow's webhooks are signed with; the previous
// one also signs for a day. A form that is sent again gets an empty text.
func (a *Alerts) RotateAlertSecret(d *Decision, flow [16]byte) (
	secret string, fault *server.Fault,
) {
	sealed, secret := a.mintAlertSecret(flow)
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

// ConfirmPath is the page, below the owner's, that asks the owner of an e-mail address whether
// alerts may go there: a flow's id and the link's secret follow.
const ConfirmPath = "/confirm/"

// AskAddress mails the link that asks for a flow's e-mail address. It is sent once: who gets none
// asks again, at most state.MaxAddressAsks times a day.
func (a *Alerts) AskAddress(workspace uint32, flow [16]byte) *server.Fault {
	if a.mail == nil || a.console == "" {
		return server.NewFault(503, "hosting_not_configured", "This deployment sends no mail").With(
			"No link was sent. A webhook works without one.")
	}
	token := mintToken()
	asked := a.propose(FlowOf(workspace, 0), state.KindAskAddress, &state.AskAddress{
		Workspace: workspace, Flow: flow, Link: sha256.Sum256([]byte(token)),
	})
	if fault := server.PageFault(asked.Outcome); fault != nil {
		return fault
	}
	if fault := a.heard(asked.Outcome); fault != nil {
		return fault
	}
	f, v, _, _ := a.machine.Alerts(workspace, flow)
	account, _ := a.machine.Account(workspace, a.now())
	ctx, cancel := context.WithTimeout(context.Background(), providerTimeout)
	defer cancel()
	id := idText(markAlert, mint())
	sent := a.mail.Send(ctx, &mail.Message{
		ID: id, To: v.Email, Subject: "May alerts be sent to this address?",
		Text: askingText(said(account.Label), said(f.Name),
			a.console+ConfirmPath+idText(markFlow, flow)+"/"+token),
		At: a.clock(),
	})
	if sent.Outcome == mail.Delivered {
		return nil
	}
	a.log.Warn("a link that asks for an address was not sent", "mail", id,
		"reason", sent.Reason)
	return server.NewFault(503, "mail_not_sent", "The mail with the link was not sent").With(
		"The settings are kept, and nothing is mailed there yet. The mail server did not take it (" +
			sent.Reason + "): look at the address, and send the link again.")
}

func askingText(label, flow, link string) string {
	return strings.Join([]string{
		"Somebody who owns the workspace below has set this address for alerts of a saved test. It gets",
		"one mail when the test stops passing, and one when it passes again.", "",
		"Test: " + flow, "Workspace: " + label, "",
		"If you want them, open this page and say so. It works once, for 24 hours:", "", link, "",
		"If you do not, do nothing: no alert is sent here.", "",
	}, "\n")
}

// ConfirmAddress is the yes of the person who has opened the link.
func (a *Alerts) ConfirmAddress(flow [16]byte, token string) *server.Fault {
	return a.Order(server.AnonymousFlow, state.KindConfirmAddress, &state.ConfirmAddress{
		Flow: flow, Link: sha256.Sum256([]byte(token)),
	})
}
