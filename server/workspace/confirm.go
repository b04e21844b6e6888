package workspace

import (
	"context"
	"crypto/sha256"
	"strings"

	"tollgate/engine"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/mail"
)

// ConfirmPath is, below the owner's pages, where whoever has an e-mail address is asked whether
// alerts may go there: a flow's id and the link's secret follow.
const ConfirmPath = "/confirm/"

// AskAddress mails the link that asks for a flow's e-mail address. It is sent once: who gets none
// asks again, at most state.MaxAddressAsks times a day.
func (a *Alerts) AskAddress(workspace uint32, flow [16]byte) *server.Fault {
	if a.mail == nil || a.console == "" {
		return server.NewFault(503, "hosting_not_configured", "This deployment sends no mail").With(
			"No link was sent. A webhook works without one.")
	}
	token, err := mintToken()
	if err != nil {
		return server.FaultInternal
	}
	asked := a.propose(FlowOf(workspace, 0), state.KindAskAddress, &state.AskAddress{
		Workspace: workspace, Flow: flow, Link: sha256.Sum256([]byte(token)),
	})
	switch asked.Outcome {
	case engine.OutcomeAddressConfirmed:
		return server.NewFault(409, "address_confirmed", "There is no address to ask for").With(
			"None is set, or alerts go there already. No link was sent.")
	case engine.OutcomeAddressAskLimit:
		return server.NewFault(429, "address_ask_limit", "The links of this day are used").With(
			"No link was sent. The newest one works for 24 hours; more can be sent after midnight UTC.")
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

// ConfirmAddress is the yes of whoever has opened the link.
func (a *Alerts) ConfirmAddress(flow [16]byte, token string) *server.Fault {
	return a.Order(server.AnonymousFlow, state.KindConfirmAddress, &state.ConfirmAddress{
		Flow: flow, Link: sha256.Sum256([]byte(token)),
	})
}
