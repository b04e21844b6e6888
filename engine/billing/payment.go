package billing

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/decimal"
)

// SetPaymentProvider replaces an environment's payment settings. The server seals the secrets
// before they enter the log, so the state never holds them in plaintext. The sandbox provider moves
// no money, and is refused in live with OutcomeProviderRefused.
type SetPaymentProvider struct {
	Env           uint32 `wire:"1"`
	Provider      string `wire:"2"`
	BaseURL       string `wire:"3"`
	SecretKey     []byte `wire:"4"`
	WebhookSecret []byte `wire:"5"` // sealed
	Actor         string `wire:"6"`
	// ForgetPrevious also drops the replaced settings, and earlier ones, at once: use it when a
	// secret leaked.
	ForgetPrevious bool `wire:"7"`
}

func (c *SetPaymentProvider) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if c.Provider == accounts.ProviderSandbox && e.Kind != accounts.EnvironmentSandbox {
		return engine.OutcomeProviderRefused
	}

	before := e.PaymentSettings()
	same := before.Provider == c.Provider && before.BaseURL == c.BaseURL &&
		bytes.Equal(before.SecretKey, c.SecretKey) &&
		bytes.Equal(before.WebhookSecret, c.WebhookSecret)
	if same && !(c.ForgetPrevious && len(before.Previous) > 0) {
		return engine.OutcomeDone // sent again: the same secrets, sealed anew, would differ
	}

	next := before
	if !same {
		next = accounts.PaymentSettings{
			Provider: c.Provider, BaseURL: c.BaseURL,
			SecretKey: append([]byte(nil), c.SecretKey...), Revision: before.Revision + 1,
			WebhookSecret: append([]byte(nil), c.WebhookSecret...),
		}
		next.Previous = before.Replaced(&next, t.Stamp)
	}
	forgotten := accounts.FieldChange{Name: "previous", After: ""}
	if c.ForgetPrevious {
		next.Previous, forgotten.After = nil, "forgotten"
	}
	e.Payment.Store(&next)
	secrets := accounts.FieldChange{Name: "secrets", After: "set"}
	if len(before.SecretKey) > 0 {
		secrets = accounts.FieldChange{Name: "secrets", Before: "set", After: "replaced"}
	}
	switch {
	case c.Provider == accounts.ProviderNone:
		secrets.After = ""
	case same:
		secrets.After = "set"
	}
	t.NoteChange(c.Env, c.Actor, "payment-provider.set", "",
		accounts.Changed("provider", before.Provider, c.Provider),
		accounts.Changed("baseUrl", before.BaseURL, c.BaseURL), secrets, forgotten)
	return engine.OutcomeDone
}

// PaymentSettings returns an environment's payment settings; empty if none were set.
func (m *accountReader) PaymentSettings(env uint32) accounts.PaymentSettings {
	e := m.state.Load().Environment(env)
	if e == nil {
		return accounts.PaymentSettings{Provider: accounts.ProviderNone}
	}
	return e.PaymentSettings()
}

// OpenCheckout announces a hosted page for an invoice. The provider is asked afterwards, with the
// checkout's id and time, so that asking again is the same request. Repeating the ID is the same
// success.
type OpenCheckout struct {
	Env       uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	InvoiceID [16]byte `wire:"3"`
}

func (c *OpenCheckout) receipt() (first, second [16]byte) { return c.ID, second }

func (c *OpenCheckout) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if _, _, outcome := t.unpaid(c.Env, &c.InvoiceID); outcome != engine.OutcomeDone {
		return outcome
	}
	settings := e.PaymentSettings()
	if settings.Provider == accounts.ProviderNone {
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

// NoteCheckout stores the provider's name of a checkout, or that it is closed and need not be
// polled any more.
type NoteCheckout struct {
	ID         [16]byte `wire:"1"`
	ProviderID string   `wire:"2"` // ≤ 255 bytes; empty leaves it as it is
	Closed     bool     `wire:"3"`
	// Provider and Revision are those of the settings that made ProviderID, if they differ from
	// those that opened the checkout; zero keeps them.
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

// RecordPayment records a payment that a provider reports. A checkout is paid once, however it is
// reported and however often: a repetition is the same success. A payment of an unpaid invoice
// makes it PAID if the amount matches. A payment of an invoice that is PAID already, void or of
// another amount is kept and announced by invoice.overpaid, and changes nothing else. The reply is
// an encoded PaymentReply.
type RecordPayment struct {
	Env        uint32          `wire:"1"`
	Provider   string          `wire:"2"`
	EventID    string          `wire:"3"` // the provider's, ≤ 255 bytes
	CheckoutID string          `wire:"4"` // the provider's, ≤ 255 bytes; may be empty
	InvoiceID  [16]byte        `wire:"5"`
	Amount     decimal.Decimal `wire:"6"`
	Currency   string          `wire:"7"`
	// Other is the provider's name for a report that is not a payment: a decline, a refund, a
	// dispute; ≤ 64 bytes. It is kept for people to read, and changes nothing.
	Other string `wire:"8"`
}

// MaxReports bounds the kept reports of an invoice that are not payments; later ones are the same
// success, and dropped.
const MaxReports = 100

// PaymentReply is the effect of RecordPayment.
type PaymentReply struct {
	Repeated bool               `wire:"1"`
	Result   book.PaymentResult `wire:"2"`
}

func (c *RecordPayment) apply(t *turn, e *accounts.Environment) engine.Outcome {
	if t.InvoiceIn(c.Env, &c.InvoiceID) == 0 && t.PendingWith(c.Env, &c.InvoiceID) == 0 {
		return engine.OutcomeInvoiceUnknown
	}
	for _, key := range c.keys() {
		if known := t.payments.byKey[key]; known != 0 {
			first := t.payments.read(known)
			t.Answer(&PaymentReply{Repeated: true, Result: first.Result})
			return engine.OutcomeDone
		}
	}

	result := book.PaymentIgnored
	if c.Other == "" {
		if result = c.pay(t, e); result == 0 {
			return engine.OutcomeDeferred
		}
	}
	if result != book.PaymentIgnored || t.payments.reports(&c.InvoiceID) < MaxReports {
		t.payments.keep(c.keys(), &Payment{
			Env: c.Env, Provider: c.Provider, EventID: c.EventID, CheckoutID: c.CheckoutID,
			InvoiceID: c.InvoiceID, Amount: c.Amount, Currency: c.Currency, At: t.Stamp,
			Result: result, Other: c.Other,
		})
	}
	if result != book.PaymentApplied && result != book.PaymentIgnored {
		t.queueOverpaid(e, c, result)
	}
	t.Answer(&PaymentReply{Result: result})
	t.Fold(uint64(t.payments.table.Len())<<8 | uint64(result))
	return engine.OutcomeDone
}

// pay applies the payment to its invoice if it fits; 0 defers it: see advance.
func (c *RecordPayment) pay(t *turn, e *accounts.Environment) book.PaymentResult {
	l, at, outcome := t.unpaid(c.Env, &c.InvoiceID)
	switch outcome {
	case engine.OutcomeDone:
	case engine.OutcomeDeferred:
		return 0
	case engine.OutcomeInvoicePaid:
		return book.PaymentOver
	default:
		return book.PaymentUnexpected
	}
	v := &l.Unpaid[at]
	if c.Amount != v.Amount || c.Currency != e.Catalog.Load().Version(v.Version).Currency {
		return book.PaymentMismatch
	}
	l.Pay(at, e.Now(t.Stamp))
	t.Commit(l)
	return book.PaymentApplied
}

// keys returns the hashes that identify a payment: its event's, and its checkout's, if it has one.
// A report that is not a payment has only its event's, because its checkout may still be paid.
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

// queueOverpaid adds a message about a payment that does not fit its invoice, so that its owner
// returns or books it: result is the reason. A PENDING invoice is shown as it would be issued.
func (t *turn) queueOverpaid(e *accounts.Environment, c *RecordPayment, result book.PaymentResult) {
	if !e.Wants(accounts.WebhookInvoiceOverpaid) {
		return
	}
	m := outbox.WebhookMessage{
		Type: accounts.WebhookInvoiceOverpaid, At: e.Now(t.Stamp),
		ToldPayment: outbox.ToldPayment{
			Paid: c.Amount, PaidCurrency: c.Currency, PaidResult: result,
			Provider: c.Provider, ProviderEvent: c.EventID,
		},
	}
	if row := t.InvoiceIn(c.Env, &c.InvoiceID); row != 0 {
		v := t.Invoices.Read(row)
		m.SubscriptionID = t.Subscriptions.Read(v.Subscription).ID
		m.OfInvoice(&v, e.Catalog.Load().Version(v.Version).Currency)
		t.Emit(e, v.Customer, &m)
		return
	}
	l := t.OpenProjection(t.PendingWith(c.Env, &c.InvoiceID))
	t.Spend(2*l.Weight() + 4)
	for _, v := range t.Upcoming(l) {
		if v.ID == c.InvoiceID {
			m.SubscriptionID, m.InvoiceID = v.SubscriptionID, v.ID
			m.InvoiceType, m.Status = v.Type, v.Status
			m.Amount, m.Currency = v.Amount, v.Currency
			m.PeriodStart, m.PeriodEnd = v.PeriodStart, v.PeriodEnd
			t.Emit(e, l.Sub.Customer, &m)
		}
	}
}
