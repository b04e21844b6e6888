package tollgate

import (
	"encoding/json"
	"time"
)

// Change is a field of a change. The zero value leaves the field as it is.
type Change[T any] struct {
	value  *T
	change bool
}

// Set changes a field to a value.
func Set[T any](value T) Change[T] { return Change[T]{&value, true} }

// Clear empties a field.
func Clear[T any]() Change[T] { return Change[T]{nil, true} }

// IsZero reports whether the field stays as it is.
func (c Change[T]) IsZero() bool { return !c.change }

// MarshalJSON writes the value, or null.
func (c Change[T]) MarshalJSON() ([]byte, error) { return json.Marshal(c.value) }

// Created is a new subscription with its first invoice.
type Created struct {
	Subscription Subscription `json:"subscription"`
	Invoice      Invoice      `json:"invoice"`
}

// Status returns a subscription's state in one word: active, suspended or ended.
func (s *Subscription) Status() string {
	switch {
	case s.IsActive:
		return "active"
	case !s.Metadata.SuspendedAt.IsZero():
		return "suspended"
	}
	return "ended"
}

// PlanFeature is a feature of a plan.
type PlanFeature struct {
	ID          string `json:"id"`
	Key         string `json:"key"`
	Name        string `json:"name"`
	Description string `json:"description"`
	PricingType string `json:"pricingType"`
	// Pricing is the price model, as the catalog has it.
	Pricing json.RawMessage `json:"pricing"`
}

// CreditAllocation is credits that a plan grants in every period.
type CreditAllocation struct {
	Pool             string      `json:"pool"`
	Denomination     string      `json:"denomination"`
	Currency         string      `json:"currency"`
	Amount           json.Number `json:"amount"`
	Priority         int         `json:"priority"`
	ExpiresAfterDays int         `json:"expiresAfterDays,omitzero"`
	RolloverPolicy   string      `json:"rolloverPolicy"`
	RolloverCap      json.Number `json:"rolloverCap,omitzero"`
	HardLimit        bool        `json:"hardLimit"`
}

// CreditPool is a customer's credits of one kind.
type CreditPool struct {
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Denomination   string          `json:"denomination"`
	Currency       string          `json:"currency"`
	Balance        json.Number     `json:"balance"`
	TotalGranted   json.Number     `json:"totalGranted"`
	TotalConsumed  json.Number     `json:"totalConsumed"`
	TotalExpired   json.Number     `json:"totalExpired"`
	TotalReversed  json.Number     `json:"totalReversed"`
	HardLimit      bool            `json:"hardLimit"`
	Status         string          `json:"status"`
	RolloverPolicy string          `json:"rolloverPolicy"`
	RolloverCap    json.Number     `json:"rolloverCap,omitzero"`
	Priority       int             `json:"priority"`
	CustomerID     string          `json:"customerId"`
	Metadata       json.RawMessage `json:"metadata,omitzero"`
	CreatedAt      time.Time       `json:"createdAt"`
	ModifiedAt     time.Time       `json:"modifiedAt"`
}

// Invoice is an invoice with its lines. One that is PENDING has no number yet.
type Invoice struct {
	ID                  string        `json:"id"`
	Number              uint64        `json:"number,omitzero"`
	Type                string        `json:"type"`
	Status              string        `json:"status"`
	Amount              json.Number   `json:"amount"`
	Currency            string        `json:"currency"`
	SubscriptionID      string        `json:"subscriptionId,omitzero"`
	CustomerReferenceID string        `json:"customerReferenceId"`
	CreatedAt           time.Time     `json:"createdAt,omitzero"`
	DueDate             time.Time     `json:"dueDate,omitzero"`
	PaidAt              time.Time     `json:"paidAt,omitzero"`
	PeriodStart         time.Time     `json:"periodStart,omitzero"`
	PeriodEnd           time.Time     `json:"periodEnd,omitzero"`
	Items               []InvoiceItem `json:"items"`
}

// InvoiceItem is a line of an invoice.
type InvoiceItem struct {
	Kind        string          `json:"kind"`
	Description string          `json:"description"`
	FeatureKey  string          `json:"featureKey,omitzero"`
	Quantity    json.Number     `json:"quantity"`
	UnitPrice   json.Number     `json:"unitPrice,omitzero"`
	Tiers       json.RawMessage `json:"tiers,omitzero"`
	PeriodStart time.Time       `json:"periodStart,omitzero"`
	PeriodEnd   time.Time       `json:"periodEnd,omitzero"`
	Amount      json.Number     `json:"amount"`
	// CostAmount and EventsCounted are fields of usage in the admin API.
	CostAmount    json.Number `json:"costAmount,omitzero"`
	EventsCounted uint64      `json:"eventsCounted,omitzero"`
}

// Event is a usage event or a check of a customer, as the journal keeps it.
type Event struct {
	ID                  string          `json:"id"`
	Kind                string          `json:"kind"`
	EventIdempotencyKey string          `json:"eventIdempotencyKey,omitzero"`
	EventName           string          `json:"eventName,omitzero"`
	FeatureKey          string          `json:"featureKey,omitzero"`
	UsageUnits          json.Number     `json:"usageUnits"`
	CostAmount          json.Number     `json:"costAmount,omitzero"`
	OccurredAt          time.Time       `json:"occurredAt"`
	RecordedAt          time.Time       `json:"recordedAt"`
	SubscriptionID      string          `json:"subscriptionId,omitzero"`
	FlowID              string          `json:"flowId,omitzero"`
	Meta                json.RawMessage `json:"meta,omitzero"`
	VoidedAt            time.Time       `json:"voidedAt,omitzero"`
	CreditsUsed         json.Number     `json:"creditsUsed,omitzero"`
	IsAllowed           *bool           `json:"isAllowed,omitzero"`
	Reason              string          `json:"reason,omitzero"`
}
