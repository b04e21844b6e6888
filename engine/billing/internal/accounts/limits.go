package accounts

import (
	"cmp"

	"tollgate/engine/idempotency"
)

// DayMS is one day in milliseconds.
const DayMS = 24 * 60 * 60 * 1000

const (
	// MaxRetentionMS is the longest retention of idempotency keys: 400 days.
	MaxRetentionMS = 400 * DayMS
	// MaxAuditRetentionMS is the longest retention of audit events: ten years.
	MaxAuditRetentionMS = 3660 * DayMS
	// MaxKeys is the largest budget of idempotency keys: what their index can number.
	MaxKeys = 4_000_000_000
	// MaxReservations bounds the setting of that name: their items have 32-bit numbers.
	MaxReservations = 256 << 20
)

// Limits are the settings that decide results, set by SetLimits.
type Limits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event's occurredAt
	// may be, both in milliseconds of log time. A window beyond the retention is cut to it.
	KeyRetentionMS int64 `wire:"1"`
	WindowMS       int64 `wire:"2"`
	// MaxKeys is the number of idempotency keys that may be kept, in memory and on disk. The last
	// eighth is reserved for accounts that hold fewer than are free.
	MaxKeys uint64 `wire:"3"`
	// AuditRetentionMS is how long audit events are kept, in milliseconds of log time from their
	// recording. They are dropped in whole journal segments, at most a 30th later. Raising it does
	// not bring back what was dropped.
	AuditRetentionMS int64 `wire:"4"`
	// MaxKeysInMemory is how many of the keys stay in memory; 0 is 32 Mi (some 1.2 GB). Older ones
	// are in files, which take at most 1.5 bytes of memory a key. While files are behind, memory may
	// hold four times as many.
	MaxKeysInMemory uint64 `wire:"5"`
	// AccountCustomers, AccountKeys, AccountCatalog and AccountEndpoints are Bounds of each
	// account; 0 is the default. An account keeps what it holds beyond them.
	AccountCustomers uint64 `wire:"6"`
	AccountKeys      uint64 `wire:"7"`
	AccountCatalog   uint64 `wire:"8"`
	AccountEndpoints uint64 `wire:"9"`
	// CustomerHolds and EnvironmentHolds are how many open reservations a customer and an
	// environment may have, HoldMS how long one may live, extensions included; 0 is the default of
	// each. Open reservations beyond them stay.
	CustomerHolds    uint64 `wire:"10"`
	EnvironmentHolds uint64 `wire:"11"`
	HoldMS           int64  `wire:"12"`
	// MaxReservations is how many reservations a group keeps: the open ones, and the closed ones as
	// long as KeyRetentionMS; 0 is the default. The last eighth is reserved as that of MaxKeys.
	MaxReservations uint64 `wire:"13"`
}

// Bounds of reservations.
const (
	defaultCustomerHolds    = 1_000
	defaultEnvironmentHolds = 200_000
	MaxCustomerHolds        = 100_000
	MaxEnvironmentHolds     = 4_000_000
	DefaultReservations     = 16 << 20
	// MaxHoldMS bounds the setting HoldMS: 7 days.
	MaxHoldMS = 7 * DayMS
)

// Holds returns how many open reservations a customer and an environment may have.
func (l *Limits) Holds() (customer, environment uint64) {
	return cmp.Or(l.CustomerHolds, defaultCustomerHolds),
		cmp.Or(l.EnvironmentHolds, defaultEnvironmentHolds)
}

// Reservations returns how many reservations a group keeps.
func (l *Limits) Reservations() uint64 { return cmp.Or(l.MaxReservations, DefaultReservations) }

// ReservationsFull reports whether an account that has held of the kept reservations may have no
// other.
func (l *Limits) ReservationsFull(kept, held uint64) bool {
	return fullFor(l.Reservations(), kept, held)
}

// MaxHold returns how long a reservation may live: 24 hours by default.
func (l *Limits) MaxHold() int64 { return cmp.Or(l.HoldMS, DayMS) }

// memoryShare is how many times MemoryKeys memory may hold while files are behind.
const memoryShare = 4

// MaxKeysBehind is how many keys may be in memory while files are behind; beyond it no event is
// recorded.
func (l *Limits) MaxKeysBehind() uint64 {
	if l.MaxKeysInMemory == 0 {
		return l.MaxKeys
	}
	return min(l.MaxKeys, memoryShare*l.MaxKeysInMemory)
}

// reserve is the part of a room that is reserved for accounts with little in it: an eighth.
const reserve = 8

// fullFor reports whether an account with held records may have no other in a room for maximum, of
// which taken are there. In the reserve this is any account that holds at least as many as are
// free, so no account can lock out the others.
func fullFor(maximum, taken, held uint64) bool {
	free := maximum - min(maximum, taken)
	return free == 0 || free < maximum/reserve && held >= free
}

// Full reports whether an account with held keys may keep no other.
func (l *Limits) Full(s idempotency.Span, held uint64) bool {
	return fullFor(l.MaxKeys, s.Next-s.Base, held) ||
		l.MaxKeysInMemory > 0 && s.InMemory()/memoryShare >= l.MaxKeysInMemory
}

// MemoryKeys returns how many keys stay in memory.
func (l *Limits) MemoryKeys() uint64 {
	if l.MaxKeysInMemory == 0 {
		return 32 << 20
	}
	return l.MaxKeysInMemory
}

// DefaultLimits apply until the first SetLimits: 7 days, 64 Mi keys (some 2.4 GB), and 30 days for
// audit events.
func DefaultLimits() Limits {
	return Limits{
		KeyRetentionMS: 7 * DayMS, WindowMS: 7 * DayMS, MaxKeys: 64 << 20,
		AuditRetentionMS: 30 * DayMS,
	}
}

// RequestRetentionMS is how long the answer to an Idempotency-Key is kept, in log time: 24 hours.
const RequestRetentionMS = DayMS
