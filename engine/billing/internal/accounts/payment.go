package accounts

import "bytes"

// Names of payment providers, as settings and records write them.
const (
	ProviderNone    = "none"
	ProviderSandbox = "sandbox"
	ProviderStripe  = "stripe"
)

// CheckoutPatienceMS is how long a checkout may wait for its money, in log time: four weeks. A SEPA
// debit, Stripe's slowest method, takes up to 14 business days to succeed or fail
// (https://docs.stripe.com/payments/sepa-debit), and holidays add to that. Replaced settings are
// kept as long, for their checkouts.
const CheckoutPatienceMS = 28 * DayMS

// WebhookSecretPatienceMS is how long a webhook secret stays valid after another one replaced it
// under the same key of the same account, in log time. Messages signed with it are delivered within
// a day, and the account's checkouts are polled with the present settings.
const WebhookSecretPatienceMS = DayMS

// MaxPreviousSettings bounds the replaced settings that an environment keeps, the newest.
const MaxPreviousSettings = 8

// PaymentSettings are an environment's payment provider and its sealed secrets.
type PaymentSettings struct {
	Provider      string `wire:"1"`
	BaseURL       string `wire:"2"`
	SecretKey     []byte `wire:"3"`
	WebhookSecret []byte `wire:"4"`
	// Revision counts the changes. Caches of things made from the settings compare it, and
	// checkouts name the settings that made them.
	Revision uint32 `wire:"5"`
	// ReplacedAt is when others replaced them, in log time; 0 while they are in force.
	ReplacedAt int64 `wire:"6"`
	// Previous are the settings before these, newest first, at most MaxPreviousSettings. See Kept.
	Previous []PaymentSettings `wire:"7"`
	// Until is when replaced settings expire, in log time, if that is earlier than
	// CheckoutPatienceMS after ReplacedAt; else 0. See TrustedUntil.
	Until int64 `wire:"8"`
}

// TrustedUntil returns when replaced settings expire, in log time.
func (p *PaymentSettings) TrustedUntil() int64 {
	if p.Until != 0 {
		return p.Until
	}
	return p.ReplacedAt + CheckoutPatienceMS
}

// Kept returns those of Previous that are valid at a log time, newest first.
func (p *PaymentSettings) Kept(now int64) (kept []PaymentSettings) {
	for i := range p.Previous {
		if p.Previous[i].TrustedUntil() > now {
			kept = append(kept, p.Previous[i])
		}
	}
	return kept
}

// Replaced returns Previous for the settings next, which replace these. If next is of the same
// account, only webhook secrets are replaced.
func (p *PaymentSettings) Replaced(next *PaymentSettings, now int64) []PaymentSettings {
	kept := p.Kept(now)
	if p.Provider != ProviderNone {
		last := *p
		last.Previous, last.ReplacedAt = nil, now
		kept = append([]PaymentSettings{last}, kept...)
	}
	for i := range kept {
		if k := &kept[i]; k.sameAccount(next) {
			k.Until = min(k.TrustedUntil(), now+WebhookSecretPatienceMS)
		}
	}
	return kept[:min(len(kept), MaxPreviousSettings)]
}

// sameAccount reports whether settings use the same account with the same key. Keys are compared
// sealed: the server does not seal a key again that it knows.
func (p *PaymentSettings) sameAccount(other *PaymentSettings) bool {
	return p.Provider == other.Provider && p.BaseURL == other.BaseURL &&
		bytes.Equal(p.SecretKey, other.SecretKey)
}

// PaymentSettings are those of SetPaymentProvider.
func (e *Environment) PaymentSettings() PaymentSettings {
	if p := e.Payment.Load(); p != nil {
		return *p
	}
	return PaymentSettings{Provider: ProviderNone}
}
