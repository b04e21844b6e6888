package accounts

import "bytes"

// Names of payment providers, as settings and records write them.
const (
	ProviderNone    = "none"
	ProviderSandbox = "sandbox"
	ProviderStripe  = "stripe"
)

// CheckoutPatienceMS is how long a checkout may wait for its money, in log time: four weeks. A SEPA
// debit takes up to 14 business days to succeed or to fail, which Stripe documents as its slowest
// (https://docs.stripe.com/payments/sepa-debit); holidays come on top. Settings that were replaced
// are kept as long, for the checkouts that were made with them.
const CheckoutPatienceMS = 28 * DayMS

// WebhookSecretPatienceMS is how long a webhook secret counts after another one took its place with
// the same key of the same account, in log time: what was signed with it is delivered within a day,
// and the account's checkouts are polled with the settings in force.
const WebhookSecretPatienceMS = DayMS

// MaxPreviousSettings is how many replaced settings an environment keeps, the newest.
const MaxPreviousSettings = 8

// PaymentSettings are an environment's payment provider and its sealed secrets.
type PaymentSettings struct {
	Provider      string `wire:"1"`
	BaseURL       string `wire:"2"`
	SecretKey     []byte `wire:"3"`
	WebhookSecret []byte `wire:"4"`
	// Revision counts the changes: a cache of something made of the settings compares it, and
	// checkouts name those that they were made with.
	Revision uint32 `wire:"5"`
	// ReplacedAt is when others took their place, in log time; 0 of those in force.
	ReplacedAt int64 `wire:"6"`
	// Previous are the settings before these, newest first, at most MaxPreviousSettings. See Kept.
	Previous []PaymentSettings `wire:"7"`
	// Until is when replaced settings end to count, in log time, where that is earlier than
	// CheckoutPatienceMS after ReplacedAt; else 0. See TrustedUntil.
	Until int64 `wire:"8"`
}

// TrustedUntil is when settings that were replaced end to count, in log time.
func (p *PaymentSettings) TrustedUntil() int64 {
	if p.Until != 0 {
		return p.Until
	}
	return p.ReplacedAt + CheckoutPatienceMS
}

// Kept are those of Previous that still count at a log time, newest first.
func (p *PaymentSettings) Kept(now int64) (kept []PaymentSettings) {
	for i := range p.Previous {
		if p.Previous[i].TrustedUntil() > now {
			kept = append(kept, p.Previous[i])
		}
	}
	return kept
}

// Replaced is Previous of the settings next, which take the place of these. Of the account that
// next is of, only webhook secrets are replaced.
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

// sameAccount reports whether settings speak to the same account with the same key. Keys are
// compared as they are sealed: the server seals one that it knows no second time.
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
