package outbox

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"strings"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/decimal"
)

// WebhookEventNames lists every name that an endpoint may ask for.
func WebhookEventNames() []string { return slices.Clone(webhookNames[1:]) }

// webhookNames are the names of the events that endpoints ask for, by number.
var webhookNames = accounts.WebhookEvent(0).Names()[:accounts.WebhookTest]

// WebhookEvents is a set of events, one bit for each; the empty set asks for all.
type WebhookEvents uint32

// allWebhookEvents is every event that endpoints ask for.
const allWebhookEvents = WebhookEvents(2<<accounts.WebhookTopUpFailed - 2)

// WebhookEventsOf makes the set of names; false if one is unknown.
func WebhookEventsOf(names []string) (set WebhookEvents, ok bool) {
	for _, name := range names {
		i := slices.Index(webhookNames, name)
		if i < 1 {
			return 0, false
		}
		set |= 1 << i
	}
	return set, true
}

// Names lists the events of the set; none if it asks for all.
func (s WebhookEvents) Names() []string {
	names := []string{}
	for i, name := range webhookNames {
		if s&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}

// String formats the names of the set's events.
func (s WebhookEvents) String() string { return strings.Join(s.Names(), " ") }

// wants reports whether the set has an event.
func (s WebhookEvents) wants(w accounts.WebhookEvent) bool { return s == 0 || s&(1<<w) != 0 }

// WebhookMessage tells an endpoint about one event: the facts at that time. It holds no personal
// data. Times are milliseconds on the environment's clock.
type WebhookMessage struct {
	Type           accounts.WebhookEvent `wire:"1"`
	At             int64                 `wire:"2"` // on the environment's clock
	Customer       string                `wire:"3"` // the caller's identifier
	SubscriptionID [16]byte              `wire:"4"`

	// Of an invoice or a subscription.
	CreatedAt   int64 `wire:"16"`
	PeriodStart int64 `wire:"19"`
	PeriodEnd   int64 `wire:"20"`

	ToldInvoice
	ToldPayment
	ToldSubscription
	ToldPool
	ToldLimit
	ToldBudget
	ToldTopUp
}

// ToldInvoice is a message's part about an invoice.
//
//schema:part
type ToldInvoice struct {
	InvoiceID   [16]byte           `wire:"10"`
	Number      uint64             `wire:"11"`
	InvoiceType book.InvoiceType   `wire:"12"`
	Status      book.InvoiceStatus `wire:"13"`
	Amount      decimal.Decimal    `wire:"14"`
	Currency    string             `wire:"15"`
	DueAt       int64              `wire:"17"`
	PaidAt      int64              `wire:"18"`
}

// ToldPayment is a message's part about a payment that did not fit its invoice.
//
//schema:part
type ToldPayment struct {
	Paid          decimal.Decimal    `wire:"21"`
	PaidCurrency  string             `wire:"22"`
	Provider      string             `wire:"23"`
	ProviderEvent string             `wire:"24"`
	PaidResult    book.PaymentResult `wire:"25"`
}

// ToldSubscription is a message's part about a subscription. ScheduledPlan and ScheduledAt describe
// a pending plan change.
//
//schema:part
type ToldSubscription struct {
	PlanID        [16]byte        `wire:"30"`
	PlanKey       string          `wire:"31"`
	PlanVersion   uint32          `wire:"32"`
	Active        bool            `wire:"33"`
	SuspendedAt   int64           `wire:"34"`
	CancelledAt   int64           `wire:"35"`
	EndedAt       int64           `wire:"36"`
	CancelMode    book.CancelMode `wire:"37"`
	ScheduledPlan string          `wire:"38"`
	ScheduledAt   int64           `wire:"39"`
}

// ToldPool is a message's part about a pool of credits.
//
//schema:part
type ToldPool struct {
	PoolID   [16]byte        `wire:"40"`
	PoolName string          `wire:"41"`
	Balance  decimal.Decimal `wire:"42"`
	// LowBalance is the balance at which it is low.
	LowBalance decimal.Decimal `wire:"43"`
}

// ToldLimit is a message's part about a feature whose limit, or a threshold of it, is reached.
//
//schema:part
type ToldLimit struct {
	FeatureKey string          `wire:"50"`
	Used       decimal.Decimal `wire:"51"`
	Limit      decimal.Decimal `wire:"52"`
	HardLimit  bool            `wire:"53"`
}

// ToldBudget is what a message says of a limit of a budget that has come to a threshold: Used,
// Limit, HardLimit and FeatureKey are those of ToldLimit, PeriodStart and PeriodEnd its window's.
//
//schema:part
type ToldBudget struct {
	BudgetKey  string `wire:"60"`
	BudgetName string `wire:"61"`
	// LimitOf and Window are words of the limit, Percent is the threshold, as it is of a plan's limit.
	LimitOf string          `wire:"62"`
	Window  string          `wire:"63"`
	LimitIn string          `wire:"64"` // the currency of a price
	Held    decimal.Decimal `wire:"65"`
	Percent uint8           `wire:"66"`
}

// ToldTopUp is what a message says of an automatic purchase of credits, in addition to ToldPool:
// Amount and Currency are its price.
//
//schema:part
type ToldTopUp struct {
	Credits decimal.Decimal `wire:"70"`
	// Code is why it failed, PaymentID the provider's name of the payment.
	Code      string `wire:"71"`
	PaymentID string `wire:"72"`
}

// messageID names the n-th message of a record of the log: the same on every replica and in every
// delivery attempt.
func messageID(index uint64, position, n uint32) (id [16]byte) {
	b := binary.LittleEndian.AppendUint64([]byte("webhook message"), index)
	b = binary.LittleEndian.AppendUint32(b, position)
	sum := sha256.Sum256(binary.LittleEndian.AppendUint32(b, n))
	copy(id[:], sum[:])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id
}
