package billing

import (
	"crypto/sha256"
	"encoding/binary"

	"tollgate/engine/decimal"
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
	// WebhookInvoiceOverpaid: a provider reported a payment that did not fit its invoice: it was
	// PAID already, takes no payment, or is of another amount or currency. Somebody has the money.
	WebhookInvoiceOverpaid WebhookEvent = 6

	WebhookSubscriptionCreated WebhookEvent = 7
	// WebhookSubscriptionActivated: what was suspended gives access again.
	WebhookSubscriptionActivated WebhookEvent = 8
	WebhookSubscriptionSuspended WebhookEvent = 9
	// WebhookSubscriptionCancelled: it has ended. A cancellation that is only scheduled is a
	// change.
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

// wants reports whether an event is meant.
func (s WebhookEvents) wants(w WebhookEvent) bool { return s == 0 || s&(1<<w) != 0 }

// WebhookMessage is what an endpoint is told of one event: the facts as they were then. It holds no
// personal data. Times are milliseconds on the environment's clock.
type WebhookMessage struct {
	Type           WebhookEvent `wire:"1"`
	At             int64        `wire:"2"`
	Customer       string       `wire:"3"` // the ExternalID
	SubscriptionID [16]byte     `wire:"4"`

	// Of an invoice; Paid…, of a payment that did not fit it, with its provider and event.
	InvoiceID     [16]byte        `wire:"10"`
	Number        uint64          `wire:"11"`
	InvoiceType   InvoiceType     `wire:"12"`
	Status        InvoiceStatus   `wire:"13"`
	Amount        decimal.Decimal `wire:"14"`
	Currency      string          `wire:"15"`
	CreatedAt     int64           `wire:"16"`
	DueAt         int64           `wire:"17"`
	PaidAt        int64           `wire:"18"`
	PeriodStart   int64           `wire:"19"`
	PeriodEnd     int64           `wire:"20"` // of a subscription, too
	Paid          decimal.Decimal `wire:"21"`
	PaidCurrency  string          `wire:"22"`
	Provider      string          `wire:"23"`
	ProviderEvent string          `wire:"24"`
	PaidResult    PaymentResult   `wire:"25"`

	// Of a subscription. ScheduledPlan and ScheduledAt are of a pending plan change.
	PlanID        [16]byte   `wire:"30"`
	PlanKey       string     `wire:"31"`
	PlanVersion   uint32     `wire:"32"`
	Active        bool       `wire:"33"`
	SuspendedAt   int64      `wire:"34"`
	CancelledAt   int64      `wire:"35"`
	EndedAt       int64      `wire:"36"`
	CancelMode    CancelMode `wire:"37"`
	ScheduledPlan string     `wire:"38"`
	ScheduledAt   int64      `wire:"39"`

	// Of a pool of credits.
	PoolID   [16]byte        `wire:"40"`
	PoolName string          `wire:"41"`
	Balance  decimal.Decimal `wire:"42"`

	// Of a feature's limit.
	FeatureKey string          `wire:"50"`
	Used       decimal.Decimal `wire:"51"`
	Limit      decimal.Decimal `wire:"52"`
	HardLimit  bool            `wire:"53"`
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
