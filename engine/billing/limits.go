package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
)

// SetLimits changes the settings that decide results, for the whole group. They are log entries
// because replicas that read them from their own configurations would diverge.
type SetLimits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event's occurredAt
	// may be, both in milliseconds of log time. A window beyond the retention is cut to it. 0 or
	// less keeps a value.
	KeyRetentionMS int64 `wire:"1"`
	WindowMS       int64 `wire:"2"`
	// MaxKeys is the number of idempotency keys that may be kept, in memory and on disk. 0 keeps
	// the value.
	MaxKeys uint64 `wire:"3"`
	// AuditRetentionMS is how long audit events are kept, in milliseconds of log time from their
	// recording. They are dropped in whole journal segments, at most a 30th later. 0 or less keeps
	// the value. Raising it does not bring back what was dropped.
	AuditRetentionMS int64 `wire:"4"`
	// MaxKeysInMemory is how many of the keys stay in memory. Older ones are in files, which take
	// at most 1.5 bytes of memory a key. While files are behind, memory may hold four times as
	// many. 0 keeps the value.
	MaxKeysInMemory uint64 `wire:"5"`
	// AccountCustomers, AccountKeys, AccountCatalog and AccountEndpoints are Bounds of each
	// account. 0 keeps a value. An account keeps what it holds beyond them.
	AccountCustomers uint64 `wire:"6"`
	AccountKeys      uint64 `wire:"7"`
	AccountCatalog   uint64 `wire:"8"`
	AccountEndpoints uint64 `wire:"9"`
	// CustomerHolds and EnvironmentHolds are how many open reservations a customer and an
	// environment may have, HoldMS how long one may live, in milliseconds. 0 keeps a value. Open
	// reservations beyond them stay.
	CustomerHolds    uint64 `wire:"10"`
	EnvironmentHolds uint64 `wire:"11"`
	HoldMS           int64  `wire:"12"`
}

func (c *SetLimits) apply(t *turn) engine.Outcome {
	next := c.Over(*t.Limits.Load())
	t.recordLimits(t.Limits.Load(), &next)
	t.Limits.Store(&next)
	t.keys.SetRetention(next.KeyRetentionMS)
	return engine.OutcomeDone
}

// Over returns the settings after the command: omitted values stay, values out of range are
// bounded. If they equal the present ones, there is nothing to propose.
func (c *SetLimits) Over(next accounts.Limits) accounts.Limits {
	if c.KeyRetentionMS > 0 {
		next.KeyRetentionMS = min(c.KeyRetentionMS, accounts.MaxRetentionMS)
	}
	if c.WindowMS > 0 {
		next.WindowMS = c.WindowMS
	}
	if c.MaxKeys > 0 {
		next.MaxKeys = min(c.MaxKeys, accounts.MaxKeys)
	}
	if c.AuditRetentionMS > 0 {
		next.AuditRetentionMS = min(c.AuditRetentionMS, accounts.MaxAuditRetentionMS)
	}
	if c.MaxKeysInMemory > 0 {
		next.MaxKeysInMemory = min(c.MaxKeysInMemory, accounts.MaxKeys)
	}
	next.WindowMS = min(next.WindowMS, next.KeyRetentionMS)
	wanted := accounts.Bounds{
		Customers: c.AccountCustomers, Keys: c.AccountKeys, Catalog: c.AccountCatalog,
		Endpoints: c.AccountEndpoints,
	}
	wanted.Or(&accounts.Bounds{
		Customers: next.AccountCustomers, Keys: next.AccountKeys,
		Catalog: next.AccountCatalog, Endpoints: next.AccountEndpoints,
	})
	next.AccountCustomers, next.AccountKeys = wanted.Customers, wanted.Keys
	next.AccountCatalog, next.AccountEndpoints = wanted.Catalog, wanted.Endpoints
	if c.CustomerHolds > 0 {
		next.CustomerHolds = min(c.CustomerHolds, accounts.MaxCustomerHolds)
	}
	if c.EnvironmentHolds > 0 {
		next.EnvironmentHolds = min(c.EnvironmentHolds, accounts.MaxEnvironmentHolds)
	}
	if c.HoldMS > 0 {
		next.HoldMS = min(c.HoldMS, accounts.MaxHoldMS)
	}
	return next
}

// Limits returns the settings in force.
func (m *accountReader) Limits() accounts.Limits { return *m.state.Load().Limits.Load() }
