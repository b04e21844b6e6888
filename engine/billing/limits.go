package billing

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
)

// SetLimits changes the settings that decide results, for the whole group. They are log entries
// because a replica that read them from its own configuration would diverge.
type SetLimits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event's occurredAt
	// may be, both in milliseconds of log time. A window beyond the retention is cut to it. 0 (or
	// less) leaves a value as it is.
	KeyRetentionMS int64 `wire:"1"`
	WindowMS       int64 `wire:"2"`
	// MaxKeys is the number of idempotency keys that may be kept, in memory and on disk. 0 leaves
	// it as it is.
	MaxKeys uint64 `wire:"3"`
	// AuditRetentionMS is how long audit events are kept, in milliseconds of log time from their
	// recording; they go in whole journal segments, at most a 30th later. 0 (or less) leaves it as
	// it is. What was dropped does not come back when it is raised.
	AuditRetentionMS int64 `wire:"4"`
	// MaxKeysInMemory is how many of the keys stay in memory; older ones are in files, of which
	// memory has 1.5 bytes a key at most. Where files do not come to it, there may be four
	// times as many, and no more. 0 leaves it as it is.
	MaxKeysInMemory uint64 `wire:"5"`
	// AccountCustomers, AccountKeys, AccountCatalog and AccountEndpoints are Bounds of each
	// account. 0 leaves one as it is. What an account holds beyond stays.
	AccountCustomers uint64 `wire:"6"`
	AccountKeys      uint64 `wire:"7"`
	AccountCatalog   uint64 `wire:"8"`
	AccountEndpoints uint64 `wire:"9"`
	// CustomerHolds and EnvironmentHolds are how many open reservations a customer and an
	// environment may have, HoldMS how long one may live in all, in milliseconds. 0 leaves one as it
	// is. What is open beyond stays.
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

// Over is what the settings become when the command is carried out: what it leaves out stays, what
// it asks too much of is bounded. Where that changes nothing there is nothing to propose.
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
