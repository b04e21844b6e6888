package workspaceapi

import (
	"net/netip"

	"tollgate/server/inspect"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/payment"
	"tollgate/server/provider/verify"
	"tollgate/server/provider/webhook"
	"tollgate/server/vault"
)

// Flows are saved tests: what they say, what a run of one costs, and what its product answers.
type Flows struct {
	*base
	verifier *verify.Verifier // nil leaves quotes without a preflight
	quoteKey [32]byte
	calling  preflights
	access   *vault.Vault // seals what runs sign in with at products
}

// Runs are what agents did, or are to do, and what inspections found.
type Runs struct {
	*base
	flows     *Flows
	purchases *Purchases
	inspector *inspect.Inspector
	answers   *vault.Vault // seals what people answer agents
	examining places       // of the requests that inspect products
}

// Purchases are what workspaces buy: runs, and who lets them pay.
type Purchases struct {
	*base
	payments *Payments
}

// Payments are how purchases are paid: what providers are asked about them, and what they report.
type Payments struct {
	*base
	// cards is the payment provider; nil where purchases cannot be paid. sandbox is the same where
	// it is the built-in one.
	cards   payment.CardProvider
	sandbox *payment.Sandbox
}

// Alerts are what the owners of flows hear of them, by mail and webhook.
type Alerts struct {
	*base
	vault   *vault.Vault    // seals what webhooks are signed with
	mail    mail.Sender     // nil where no mail is sent
	hooks   *webhook.Sender // nil where no webhook is sent
	console string          // where the owner's pages are; empty if there are none
}

// Members are who may work in workspaces: agents that sign up, people, and their keys, sessions and
// accounts.
type Members struct {
	*base
	purchases *Purchases
	// proxies are the networks of proxies in front, whose word about a caller's address counts.
	proxies []netip.Prefix
}

// Operator are the tools for workspaces on the operations listener.
type Operator struct {
	*base
	alerts   *Alerts
	payments *Payments
}
