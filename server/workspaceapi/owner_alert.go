package workspaceapi

import (
	"context"
	"crypto/sha256"
	"strings"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/mail"
)

// AlertChannels says which ways this deployment can send alerts.
func (a *Alerts) AlertChannels() (mails, webhooks bool) {
	return a.mail != nil, a.hooks != nil
}

// ConfirmPath is the page, below the owner's, that asks the owner of an e-mail address whether
// alerts may go there: a flow's id and the link's secret follow.
const ConfirmPath = "/confirm/"

// askAgain is what a page calls, which shows why no link was sent. linkUntil is until when the link
// works that the page has shown, 0 where it has shown none: the same form again sends no mail.
func (a *Alerts) askAgain(x *server.Exchange, flow [16]byte) *server.Fault {
	b := open(x, false)
	shown := b.number("linkUntil", 0, 1<<53)
	fault := b.close()
	if fault == nil {
		fault = a.askAddress(x, flow, max(1, shown))
	}
	if fault != nil {
		return fault
	}
	return a.answerAlerts(x, flow, nil, "")
}

// FaultAsked answers a repeated form: the same one sent twice, or one older than another that was
// sent. Whether the mail of that one went out was answered there.
var FaultAsked = server.NewFault(409, "link_asked", "A link was asked for before").With(
	"No other one was sent.")

// askAddress mails the link that asks for a flow's e-mail address. It is sent once: who gets none
// asks again, at most workspace.MaxAddressAsks times a day. replaces is that of
// workspace.AskAddress.
func (a *Alerts) askAddress(x *server.Exchange, flow [16]byte, replaces int64) *server.Fault {
	if a.mail == nil || a.console == "" {
		return server.NewFault(503, "hosting_not_configured", "This deployment sends no mail").With(
			"No link was sent. A webhook works without one.")
	}
	token, ws := mintToken(), tenant(x).Workspace
	asked, fault := a.ask(x, workspace.KindAskAddress, &workspace.AskAddress{
		Workspace: ws, Flow: flow, Link: sha256.Sum256([]byte(token)),
		Replaces: replaces,
	})
	if fault := server.PageFault(asked.Outcome); fault != nil {
		return fault
	}
	if fault != nil {
		return fault
	}
	_, kept := a.machine.AddressByLink(flow, sha256.Sum256([]byte(token)), a.now())
	switch {
	case kept:
	case replaces == 0: // the settings were changed again meanwhile: that change has sent its link
		return nil
	default:
		return FaultAsked
	}
	f, v, _, _ := a.machine.Alerts(ws, flow)
	account, _ := a.machine.Account(ws, a.now())
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

// confirmAddress is the yes of the person who has opened the link.
func (a *Alerts) confirmAddress(x *server.Exchange, flow [16]byte) *server.Fault {
	fault := a.do(x, workspace.KindConfirmAddress, &workspace.ConfirmAddress{
		Flow: flow, Link: sha256.Sum256(x.Param(1)),
	})
	if fault != nil {
		return fault
	}
	return x.BareObject(200, func(j *server.JSON) { j.Bool("confirmed", true) })
}
