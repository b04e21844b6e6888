package billing

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/decimal"
)

// Names of payment providers, as settings and records write them.
const (
	ProviderNone    = "none"
	ProviderSandbox = "sandbox"
	ProviderStripe  = "stripe"
)

// SetPaymentProvider replaces an environment's payment settings. The secrets are sealed by the
// server before they enter the log: the state never holds them in the clear. The sandbox provider
// moves no money, and is refused in live with OutcomeProviderRefused.
type SetPaymentProvider struct {
	Env           uint32 `wire:"1"`
	Provider      string `wire:"2"`
	BaseURL       string `wire:"3"`
	SecretKey     []byte `wire:"4"`
	WebhookSecret []byte `wire:"5"` // sealed
	Actor         string `wire:"6"`
	// ForgetPrevious drops what the settings replace, and all that was replaced before, at once: a
	// secret of theirs became known to somebody.
	ForgetPrevious bool `wire:"7"`
}

func (c *SetPaymentProvider) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if c.Provider == ProviderSandbox && e.kind != EnvironmentSandbox {
		return engine.OutcomeProviderRefused
	}

	before := e.paymentSettings()
	same := before.Provider == c.Provider && before.BaseURL == c.BaseURL &&
		bytes.Equal(before.SecretKey, c.SecretKey) &&
		bytes.Equal(before.WebhookSecret, c.WebhookSecret)
	if same && !(c.ForgetPrevious && len(before.Previous) > 0) {
		return engine.OutcomeDone // sent again: sealed anew, the same secrets would differ
	}

	next := before
	if !same {
		next = PaymentSettings{
			Provider: c.Provider, BaseURL: c.BaseURL,
			SecretKey: append([]byte(nil), c.SecretKey...), Revision: before.Revision + 1,
			WebhookSecret: append([]byte(nil), c.WebhookSecret...),
		}
		next.Previous = before.replaced(&next, t.Stamp)
	}
	forgotten := FieldChange{"previous", "", ""}
	if c.ForgetPrevious {
		next.Previous, forgotten.After = nil, "forgotten"
	}
	e.payment.Store(&next)
	secrets := FieldChange{"secrets", "", "set"}
	if len(before.SecretKey) > 0 {
		secrets = FieldChange{"secrets", "set", "replaced"}
	}
	switch {
	case c.Provider == ProviderNone:
		secrets.After = ""
	case same:
		secrets.After = "set"
	}
	t.note(change{Env: c.Env, Actor: c.Actor, Action: "payment-provider.set", Values: []FieldChange{
		{"provider", before.Provider, c.Provider},
		{"baseUrl", before.BaseURL, c.BaseURL},
		secrets,
		forgotten,
	}})
	return engine.OutcomeDone
}

// CheckoutPatienceMS is how long a checkout may wait for its money, in log time: four weeks. A SEPA
// debit takes up to 14 business days to succeed or to fail, which Stripe documents as its slowest
// (https://docs.stripe.com/payments/sepa-debit); holidays come on top. Settings that were replaced
// are kept as long, for the checkouts that were made with them.
const CheckoutPatienceMS = 28 * dayMS

// WebhookSecretPatienceMS is how long a webhook secret counts after another one took its place with
// the same key of the same account, in log time: what was signed with it is delivered within a day,
// and the account's checkouts are polled with the settings in force.
const WebhookSecretPatienceMS = dayMS

// MaxPreviousSettings is how many replaced settings an environment keeps, the newest.
const MaxPreviousSettings = 8

// PaymentSettings are an environment's payment provider and its sealed secrets.
type PaymentSettings struct {
	Provider      string `wire:"1"`
	BaseURL       string `wire:"2"`
	SecretKey     []byte `wire:"3"`
	WebhookSecret []byte `wire:"4"`
	// Revision counts the changes: whoever keeps something made of the settings compares it, and
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

// replaced is Previous of the settings next, which take the place of these. Of the account that
// next is of, only webhook secrets are replaced.
func (p *PaymentSettings) replaced(next *PaymentSettings, now int64) []PaymentSettings {
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

// paymentSettings are those of SetPaymentProvider.
func (e *environment) paymentSettings() PaymentSettings {
	if p := e.payment.Load(); p != nil {
		return *p
	}
	return PaymentSettings{Provider: ProviderNone}
}

// PaymentSettings returns an environment's payment provider; none when none was set.
func (m *Machine) PaymentSettings(env uint32) PaymentSettings {
	e := m.state.Load().environment(env)
	if e == nil {
		return PaymentSettings{Provider: ProviderNone}
	}
	return e.paymentSettings()
}

// OpenCheckout notes that a hosted page is about to be made for an invoice. The provider is asked
// afterwards, with the checkout's id and time, so that asking again is the same request. A checkout
// of this ID is the same success again.
type OpenCheckout struct {
	Env       uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	InvoiceID [16]byte `wire:"3"`
}

func (c *OpenCheckout) receipt() (first, second [16]byte) { return c.ID, second }

func (c *OpenCheckout) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if _, _, outcome := t.unpaid(c.Env, &c.InvoiceID); outcome != engine.OutcomeDone {
		return outcome
	}
	settings := e.paymentSettings()
	if settings.Provider == ProviderNone {
		return engine.OutcomeNoProvider
	}
	if t.checkouts.find(c.ID) != 0 {
		return engine.OutcomeDone
	}

	t.checkouts.open(&Checkout{
		ID: c.ID, Env: c.Env, InvoiceID: c.InvoiceID, RequestedAt: t.Stamp,
		Provider: settings.Provider, Revision: settings.Revision,
	})
	t.Fold(t.checkouts.count)
	return engine.OutcomeDone
}

// NoteCheckout keeps what the provider calls a checkout, or that it is closed and need not be
// polled any more.
type NoteCheckout struct {
	ID         [16]byte `wire:"1"`
	ProviderID string   `wire:"2"` // ≤ 255 bytes; empty leaves it as it is
	Closed     bool     `wire:"3"`
	// Provider and Revision are those of the settings that ProviderID was made with, where they are
	// others than the checkout was opened with; zero leaves them.
	Provider string `wire:"4"`
	Revision uint32 `wire:"5"`
}

func (c *NoteCheckout) apply(t *turn) engine.Outcome {
	row := t.checkouts.find(c.ID)
	if row == 0 {
		return engine.OutcomeCheckoutUnknown
	}

	kept := t.checkouts.read(row)
	if c.ProviderID != "" {
		kept.ProviderID = c.ProviderID
	}
	if c.Revision != 0 {
		kept.Provider, kept.Revision = c.Provider, c.Revision
	}
	kept.Closed = kept.Closed || c.Closed
	t.checkouts.write(row, &kept)
	return engine.OutcomeDone
}

// RecordPayment records what a payment provider reports as paid. A checkout is paid once, whatever
// reports it and however often: a repetition is the same success again. A payment of an invoice
// that is due makes it PAID when the amount is the invoice's; of one that is PAID already, void or
// of another amount it is kept and told by invoice.overpaid, and changes nothing else. The reply is
// an encoded PaymentReply.
type RecordPayment struct {
	Env        uint32          `wire:"1"`
	Provider   string          `wire:"2"`
	EventID    string          `wire:"3"` // the provider's, ≤ 255 bytes
	CheckoutID string          `wire:"4"` // the provider's, ≤ 255 bytes; may be empty
	InvoiceID  [16]byte        `wire:"5"`
	Amount     decimal.Decimal `wire:"6"`
	Currency   string          `wire:"7"`
	// Other is what the provider calls it where it reports something else than a payment: a
	// decline, a refund, a dispute; ≤ 64 bytes. It is kept for people to read, and changes nothing.
	Other string `wire:"8"`
}

// PaymentResult says what a payment did.
type PaymentResult uint8

const (
	// PaymentApplied: it made its invoice PAID.
	PaymentApplied PaymentResult = 1
	// PaymentOver: the invoice was PAID already.
	PaymentOver PaymentResult = 2
	// PaymentMismatch: amount or currency are not the invoice's.
	PaymentMismatch PaymentResult = 3
	// PaymentUnexpected: the invoice takes no payment: void or pending.
	PaymentUnexpected PaymentResult = 4
	// PaymentIgnored: what was reported is not a payment.
	PaymentIgnored PaymentResult = 5
)

// MaxReports is how many reports that are not payments are kept of one invoice; later ones are the
// same success, and forgotten.
const MaxReports = 100

// String is the result's name in the admin API.
func (r PaymentResult) String() string {
	names := [...]string{"none", "applied", "overpaid", "mismatch", "unexpected", "ignored"}
	if int(r) < len(names) {
		return names[r]
	}
	return names[0]
}

// PaymentReply says what RecordPayment did.
type PaymentReply struct {
	Repeated bool          `wire:"1"`
	Result   PaymentResult `wire:"2"`
}

func (c *RecordPayment) apply(t *turn) engine.Outcome {
	e := t.environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if t.invoiceIn(c.Env, &c.InvoiceID) == 0 && t.pendingWith(c.Env, &c.InvoiceID) == 0 {
		return engine.OutcomeInvoiceUnknown
	}
	for _, key := range c.keys() {
		if known := t.payments.byKey[key]; known != 0 {
			first := t.payments.read(known)
			t.Answer(&PaymentReply{Repeated: true, Result: first.Result})
			return engine.OutcomeDone
		}
	}

	result := PaymentIgnored
	if c.Other == "" {
		if result = c.pay(t, e); result == 0 {
			return engine.OutcomeDeferred
		}
	}
	if result != PaymentIgnored || t.payments.reports(&c.InvoiceID) < MaxReports {
		t.payments.keep(c.keys(), &Payment{
			Env: c.Env, Provider: c.Provider, EventID: c.EventID, CheckoutID: c.CheckoutID,
			InvoiceID: c.InvoiceID, Amount: c.Amount, Currency: c.Currency, At: t.Stamp,
			Result: result, Other: c.Other,
		})
	}
	if result != PaymentApplied && result != PaymentIgnored {
		t.tellOverpaid(e, c, result)
	}
	t.Answer(&PaymentReply{Result: result})
	t.Fold(uint64(t.payments.table.Len())<<8 | uint64(result))
	return engine.OutcomeDone
}

// pay applies the payment to its invoice where it fits; 0 is for later: see advance.
func (c *RecordPayment) pay(t *turn, e *environment) PaymentResult {
	l, at, outcome := t.unpaid(c.Env, &c.InvoiceID)
	switch outcome {
	case engine.OutcomeDone:
	case engine.OutcomeDeferred:
		return 0
	case engine.OutcomeInvoicePaid:
		return PaymentOver
	default:
		return PaymentUnexpected
	}
	v := &l.unpaid[at]
	if c.Amount != v.amount || c.Currency != e.catalog.Load().version(v.version).currency {
		return PaymentMismatch
	}
	l.pay(at, e.now(t.Stamp))
	t.commit(l)
	return PaymentApplied
}

// keys are the hashes under which a payment is known: its event's, and its checkout's, where it has
// one. A report that is not a payment is known by its event alone: its checkout may be paid yet.
func (c *RecordPayment) keys() [][16]byte {
	keys := [][16]byte{paymentKey(c.Env, "event", c.Provider, c.EventID)}
	if c.CheckoutID != "" && c.Other == "" {
		keys = append(keys, paymentKey(c.Env, "checkout", c.Provider, c.CheckoutID))
	}
	return keys
}

func paymentKey(env uint32, parts ...string) [16]byte {
	text := binary.BigEndian.AppendUint32(nil, env)
	for _, part := range parts {
		text = append(binary.BigEndian.AppendUint32(text, uint32(len(part))), part...)
	}
	sum := sha256.Sum256(text)
	return [16]byte(sum[:16])
}
