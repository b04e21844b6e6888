package billing

import (
	"cmp"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/wire"
)

// SetLimits changes the settings that decide results, for the whole group; 0 or less keeps a value.
// They are log entries because replicas that read them from their own configurations would diverge.
type SetLimits accounts.Limits

// Fields implements wire.Fielder.
func (c *SetLimits) Fields(w *wire.Codec) { (*accounts.Limits)(c).Fields(w) }

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
	next.AccountCustomers = cmp.Or(c.AccountCustomers, next.AccountCustomers)
	next.AccountKeys = cmp.Or(c.AccountKeys, next.AccountKeys)
	next.AccountCatalog = cmp.Or(c.AccountCatalog, next.AccountCatalog)
	next.AccountEndpoints = cmp.Or(c.AccountEndpoints, next.AccountEndpoints)
	if c.CustomerHolds > 0 {
		next.CustomerHolds = min(c.CustomerHolds, accounts.MaxCustomerHolds)
	}
	if c.EnvironmentHolds > 0 {
		next.EnvironmentHolds = min(c.EnvironmentHolds, accounts.MaxEnvironmentHolds)
	}
	if c.HoldMS > 0 {
		next.HoldMS = min(c.HoldMS, accounts.MaxHoldMS)
	}
	if c.MaxReservations > 0 {
		next.MaxReservations = min(c.MaxReservations, accounts.MaxReservations)
	}
	return next
}

// Limits returns the settings in force.
func (m *accountReader) Limits() accounts.Limits { return *m.state.Load().Limits.Load() }
