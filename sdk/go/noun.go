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
