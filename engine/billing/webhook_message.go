package billing

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// WebhookEvent is what a webhook message tells. Numbers are never reused.
type WebhookEvent uint8

const (
	// WebhookInvoiceCreated and WebhookInvoiceDue: an invoice was issued, and awaits payment.
	WebhookInvoiceCreated WebhookEvent = 1
	WebhookInvoiceDue     WebhookEvent = 2
	WebhookInvoicePaid    WebhookEvent = 3
	WebhookInvoicePastDue WebhookEvent = 4
	WebhookInvoiceVoided  WebhookEvent = 5
	// WebhookInvoiceOverpaid: a provider reported a payment that did not fit its invoice: it was PAID
	// already, takes no payment, or is of another amount or currency. Somebody has the money.
	WebhookInvoiceOverpaid WebhookEvent = 6

	WebhookSubscriptionCreated WebhookEvent = 7
	// WebhookSubscriptionActivated: what was suspended gives access again.
	WebhookSubscriptionActivated WebhookEvent = 8
	WebhookSubscriptionSuspended WebhookEvent = 9
	// WebhookSubscriptionCancelled: it has ended. A cancellation that is only scheduled is a change.
	WebhookSubscriptionCancelled WebhookEvent = 10
	// WebhookSubscriptionChanged: its plan changed, or what is scheduled for it.
	WebhookSubscriptionChanged WebhookEvent = 11

	// WebhookCreditsDepleted: a pool with a hard limit has nothing left.
	WebhookCreditsDepleted WebhookEvent = 12
	// WebhookLimitReached: the usage of a feature has reached its limit.
	WebhookLimitReached WebhookEvent = 13
)

// webhookEvents are the names that payloads and the admin API use.
var webhookEvents = [...]string{
	WebhookInvoiceCreated:        "invoice.created",
	WebhookInvoiceDue:            "invoice.due",
	WebhookInvoicePaid:           "invoice.paid",
	WebhookInvoicePastDue:        "invoice.past_due",
	WebhookInvoiceVoided:         "invoice.voided",
	WebhookInvoiceOverpaid:       "invoice.overpaid",
	WebhookSubscriptionCreated:   "subscription.created",
	WebhookSubscriptionActivated: "subscription.activated",
	WebhookSubscriptionSuspended: "subscription.suspended",
	WebhookSubscriptionCancelled: "subscription.cancelled",
	WebhookSubscriptionChanged:   "subscription.changed",
	WebhookCreditsDepleted:       "credits.depleted",
	WebhookLimitReached:          "usage.limit_reached",
}

// String is the event's name.
func (w WebhookEvent) String() string {
	if int(w) < len(webhookEvents) {
		return webhookEvents[w]
	}
	return ""
}

// WebhookEventNames lists every name that an endpoint may ask for.
func WebhookEventNames() []string { return append([]string(nil), webhookEvents[1:]...) }

// WebhookEvents is a set of events, one bit for each; the empty set asks for all.
type WebhookEvents uint32

// allWebhookEvents is every event that there is.
const allWebhookEvents = WebhookEvents(1<<len(webhookEvents) - 2)

// WebhookEventsOf makes the set of names; false when one is none.
func WebhookEventsOf(names []string) (set WebhookEvents, ok bool) {
	for _, name := range names {
		found := false
		for i := 1; i < len(webhookEvents); i++ {
			if webhookEvents[i] == name {
				set, found = set|1<<i, true
			}
		}
		if !found {
			return 0, false
		}
	}
	return set, true
}

// Names lists the events of the set; none when it asks for all.
func (s WebhookEvents) Names() []string {
	names := []string{}
	for i := 1; i < len(webhookEvents); i++ {
		if s&(1<<i) != 0 {
			names = append(names, webhookEvents[i])
		}
	}
	return names
}

// wants says whether an event is meant.
func (s WebhookEvents) wants(w WebhookEvent) bool { return s == 0 || s&(1<<w) != 0 }

// WebhookMessage is what an endpoint is told of one event: the facts as they were then. It holds no
// personal data. Times are milliseconds on the environment's clock.
type WebhookMessage struct {
	Type           WebhookEvent
	At             int64
	Customer       string // the ExternalID
	SubscriptionID [16]byte

	// Of an invoice; Paid…, of a payment that did not fit it, with its provider and event.
	InvoiceID                [16]byte
	Number                   uint64
	InvoiceType              InvoiceType
	Status                   InvoiceStatus
	Amount                   decimal.Decimal
	Currency                 string
	CreatedAt, DueAt, PaidAt int64
	PeriodStart, PeriodEnd   int64 // of a subscription, too
	Paid                     decimal.Decimal
	PaidCurrency, Provider   string
	ProviderEvent            string
	PaidResult               PaymentResult

	// Of a subscription. ScheduledPlan and ScheduledAt are of a pending plan change.
	PlanID                            [16]byte
	PlanKey                           string
	PlanVersion                       uint32
	Active                            bool
	SuspendedAt, CancelledAt, EndedAt int64
	CancelMode                        CancelMode
	ScheduledPlan                     string
	ScheduledAt                       int64

	// Of a pool of credits.
	PoolID   [16]byte
	PoolName string
	Balance  decimal.Decimal

	// Of a feature's limit.
	FeatureKey  string
	Used, Limit decimal.Decimal
	HardLimit   bool
}

// Fields states the message's fields.
func (m *WebhookMessage) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &m.Type)
	w.Int(2, &m.At)
	w.String(3, &m.Customer)
	w.ID(4, &m.SubscriptionID)
	w.ID(10, &m.InvoiceID)
	wire.Uint(w, 11, &m.Number)
	wire.Uint(w, 12, &m.InvoiceType)
	wire.Uint(w, 13, &m.Status)
	w.Decimal(14, &m.Amount)
	w.String(15, &m.Currency)
	w.Int(16, &m.CreatedAt)
	w.Int(17, &m.DueAt)
	w.Int(18, &m.PaidAt)
	w.Int(19, &m.PeriodStart)
	w.Int(20, &m.PeriodEnd)
	w.Decimal(21, &m.Paid)
	w.String(22, &m.PaidCurrency)
	w.String(23, &m.Provider)
	w.String(24, &m.ProviderEvent)
	wire.Uint(w, 25, &m.PaidResult)
	w.ID(30, &m.PlanID)
	w.String(31, &m.PlanKey)
	wire.Uint(w, 32, &m.PlanVersion)
	w.Bool(33, &m.Active)
	w.Int(34, &m.SuspendedAt)
	w.Int(35, &m.CancelledAt)
	w.Int(36, &m.EndedAt)
	wire.Uint(w, 37, &m.CancelMode)
	w.String(38, &m.ScheduledPlan)
	w.Int(39, &m.ScheduledAt)
	w.ID(40, &m.PoolID)
	w.String(41, &m.PoolName)
	w.Decimal(42, &m.Balance)
	w.String(50, &m.FeatureKey)
	w.Decimal(51, &m.Used)
	w.Decimal(52, &m.Limit)
	w.Bool(53, &m.HardLimit)
}

// messageID names the n-th message of a record of the log: the same on every replica, and in every
// attempt to deliver it.
func messageID(index uint64, position, n uint32) (id [16]byte) {
	b := binary.LittleEndian.AppendUint64([]byte("webhook message"), index)
	b = binary.LittleEndian.AppendUint32(b, position)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(b, n))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
