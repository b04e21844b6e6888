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
	// Metadata is an object without fields.
	Metadata json.RawMessage `json:"metadata"`
}

// Status returns a subscription's state in one word: active, suspended or ended.
func (s *Subscription) Status() string {
	switch {
	case s.IsActive:
		return "active"
	case !s.Metadata.SuspendedAt.IsZero() && s.EndedAt.IsZero():
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
