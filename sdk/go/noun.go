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

// ReservedItem is a feature of a reservation request, by key or by id, with the units to hold, or
// to be settled in all.
type ReservedItem struct {
	FeatureKey string      `json:"featureKey,omitzero"`
	FeatureID  string      `json:"featureId,omitzero"`
	UsageUnits json.Number `json:"usageUnits,omitzero"`
	CostAmount json.Number `json:"costAmount,omitzero"`
}

// ReservationRequest asks for a reservation: of Items, or of the one that is embedded.
type ReservationRequest struct {
	ReservationKey      string `json:"reservationKey"`
	CustomerReferenceID string `json:"customerReferenceId,omitzero"`
	CustomerID          string `json:"customerId,omitzero"`
	ReservedItem
	Items      []ReservedItem `json:"items,omitzero"`
	TTLSeconds int            `json:"ttlSeconds,omitzero"`
	// OnShortage is refuse or partial, Overrun record or refuse, OnExpiry release or settle.
	OnShortage string          `json:"onShortage,omitzero"`
	Overrun    string          `json:"overrun,omitzero"`
	OnExpiry   string          `json:"onExpiry,omitzero"`
	Budget     string          `json:"budget,omitzero"`
	DryRun     bool            `json:"dryRun,omitzero"`
	Meta       json.RawMessage `json:"meta,omitzero"`
}

// ReservationSettlement says what was used of a reservation in all: of Items, or of the only one.
type ReservationSettlement struct {
	ReservedItem
	Items []ReservedItem `json:"items,omitzero"`
	// Final is false for a part, after which the rest stays held; nil is true.
	Final               *bool           `json:"final,omitzero"`
	EventIdempotencyKey string          `json:"eventIdempotencyKey,omitzero"`
	OccurredAt          time.Time       `json:"occurredAt,omitzero"`
	Meta                json.RawMessage `json:"meta,omitzero"`
}

// ReservationExtension is the hold that is wanted in all, and how long it is to live from now on.
type ReservationExtension struct {
	UsageUnits json.Number `json:"usageUnits,omitzero"`
	TTLSeconds int         `json:"ttlSeconds,omitzero"`
}

// BudgetLimitRequest is a limit of a budget: of units of a feature, of price or of cost.
type BudgetLimitRequest struct {
	Of         string      `json:"of"`
	FeatureKey string      `json:"featureKey,omitzero"`
	Currency   string      `json:"currency,omitzero"` // of a price; USD when empty
	Limit      json.Number `json:"limit"`
	// Window is hour, day, week, month, year or lifetime, TimeZone where it begins: UTC when empty.
	Window   string `json:"window"`
	TimeZone string `json:"timeZone,omitzero"`
	// Mode is hard, which is the default, or soft.
	Mode string `json:"mode,omitzero"`
	// Thresholds are percents that are told by webhook, ascending.
	Thresholds []int `json:"thresholds,omitzero"`
}

// BudgetRequest is what a budget is to be.
type BudgetRequest struct {
	// Parent is the budget above a new one.
	Parent              string               `json:"parent,omitzero"`
	Name                string               `json:"name"`
	CustomerReferenceID string               `json:"customerReferenceId,omitzero"`
	Limits              []BudgetLimitRequest `json:"limits,omitzero"`
}

// BudgetLimit is a limit with what its present window has used, and what is held.
type BudgetLimit struct {
	BudgetLimitRequest
	Used        json.Number `json:"used"`
	Held        json.Number `json:"held"`
	Remaining   json.Number `json:"remaining"`
	WindowStart time.Time   `json:"windowStart"`
	WindowEnd   time.Time   `json:"windowEnd,omitzero"`
	// Overrun reports whether the window counted anything beyond a hard limit.
	Overrun bool `json:"overrun,omitzero"`
}

// BindingLimit is the hard limit of a budget, or of one above it, with the smallest part left.
type BindingLimit struct {
	Budget string `json:"budget"`
	BudgetLimit
}

// Budget is a budget with its limits.
type Budget struct {
	Budget              string        `json:"budget"`
	Name                string        `json:"name"`
	Parent              string        `json:"parent,omitzero"`
	CustomerReferenceID string        `json:"customerReferenceId,omitzero"`
	Status              string        `json:"status"` // ACTIVE, FROZEN or ARCHIVED
	Children            int           `json:"children"`
	Limits              []BudgetLimit `json:"limits"`
	Binding             *BindingLimit `json:"binding,omitzero"`
	CreatedAt           time.Time     `json:"createdAt"`
	ModifiedAt          time.Time     `json:"modifiedAt"`
}

// BudgetWindow is a window of a limit that is over.
type BudgetWindow struct {
	WindowStart time.Time   `json:"windowStart"`
	WindowEnd   time.Time   `json:"windowEnd"`
	Used        json.Number `json:"used"`
	Limit       json.Number `json:"limit"`
	Overrun     bool        `json:"overrun,omitzero"`
}

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

// AdminChange is one change by an operator.
type AdminChange struct {
	Number      uint64            `json:"number"`
	At          time.Time         `json:"at"`
	Actor       string            `json:"actor"`
	Action      string            `json:"action"`
	Account     string            `json:"account,omitzero"`
	Workspace   string            `json:"workspace,omitzero"`
	Environment string            `json:"environment,omitzero"`
	Subject     string            `json:"subject,omitzero"`
	Before      map[string]string `json:"before"`
	After       map[string]string `json:"after"`
}
