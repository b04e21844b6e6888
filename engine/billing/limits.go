package billing

import (
	"tollgate/engine"
	"tollgate/engine/idempotency"
)

// dayMS is one day in milliseconds.
const dayMS = 24 * 60 * 60 * 1000

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
	// memory has 1.5 bytes a key at the most. Where files do not come to it, there may be four
	// times as many, and no more. 0 leaves it as it is.
	MaxKeysInMemory uint64 `wire:"5"`
	// AccountCustomers, AccountKeys, AccountCatalog and AccountEndpoints are Bounds of each
	// account. 0 leaves one as it is. What an account holds beyond stays.
	AccountCustomers uint64 `wire:"6"`
	AccountKeys      uint64 `wire:"7"`
	AccountCatalog   uint64 `wire:"8"`
	AccountEndpoints uint64 `wire:"9"`
}

func (c *SetLimits) apply(t *turn) engine.Outcome {
	next := c.Over(*t.limits.Load())
	t.recordLimits(t.limits.Load(), &next)
	t.limits.Store(&next)
	t.keys.SetRetention(next.KeyRetentionMS)
	return engine.OutcomeDone
}

// Over is what the settings become when the command is carried out: what it leaves out stays, what
// it asks too much of is bounded. Where that changes nothing there is nothing to propose.
func (c *SetLimits) Over(next Limits) Limits {
	if c.KeyRetentionMS > 0 {
		next.KeyRetentionMS = min(c.KeyRetentionMS, maxRetentionMS)
	}
	if c.WindowMS > 0 {
		next.WindowMS = c.WindowMS
	}
	if c.MaxKeys > 0 {
		next.MaxKeys = min(c.MaxKeys, maxKeys)
	}
	if c.AuditRetentionMS > 0 {
		next.AuditRetentionMS = min(c.AuditRetentionMS, maxAuditRetentionMS)
	}
	if c.MaxKeysInMemory > 0 {
		next.MaxKeysInMemory = min(c.MaxKeysInMemory, maxKeys)
	}
	next.WindowMS = min(next.WindowMS, next.KeyRetentionMS)
	wanted := Bounds{c.AccountCustomers, c.AccountKeys, c.AccountCatalog, c.AccountEndpoints}
	wanted.or(&Bounds{
		next.AccountCustomers, next.AccountKeys, next.AccountCatalog, next.AccountEndpoints,
	})
	next.AccountCustomers, next.AccountKeys = wanted.Customers, wanted.Keys
	next.AccountCatalog, next.AccountEndpoints = wanted.Catalog, wanted.Endpoints
	return next
}

const (
	// maxRetentionMS is the longest retention of idempotency keys: 400 days.
	maxRetentionMS = 400 * dayMS
	// maxAuditRetentionMS is the longest retention of audit events: ten years.
	maxAuditRetentionMS = 3660 * dayMS
	// maxKeys is the largest budget of idempotency keys: what their index can number.
	maxKeys = 4_000_000_000
)

// Limits are the settings that decide results, as SetLimits left them.
type Limits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event may be.
	KeyRetentionMS, WindowMS int64
	// MaxKeys is the number of idempotency keys that may be kept, in memory and on disk. The last
	// eighth is for accounts that hold fewer than are free.
	MaxKeys uint64
	// AuditRetentionMS is how long audit events are kept.
	AuditRetentionMS int64
	// MaxKeysInMemory is how many of the keys stay in memory; 0 is 32 Mi (some 1.2 GB).
	MaxKeysInMemory uint64
	// AccountCustomers, AccountKeys, AccountCatalog and AccountEndpoints are Bounds of each
	// account; 0 is the default.
	AccountCustomers, AccountKeys, AccountCatalog, AccountEndpoints uint64
}

// memoryShare is how many times as many keys as are to stay in memory may be there, while their
// files are behind.
const memoryShare = 4

// MostKeysInMemory is how many keys may be in memory while their files are behind; beyond that no
// event is recorded.
func (l *Limits) MostKeysInMemory() uint64 {
	if l.MaxKeysInMemory == 0 {
		return l.MaxKeys
	}
	return min(l.MaxKeys, memoryShare*l.MaxKeysInMemory)
}

// keyReserve is the part of the room for keys that is for accounts with few of them: an eighth.
const keyReserve = 8

// full reports whether an account that has kept held keys may keep no other. In the reserve that is
// whoever holds as much as is free, so that no account can lock out the others.
func (l *Limits) full(s idempotency.Span, held uint64) bool {
	free := l.MaxKeys - min(l.MaxKeys, s.Next-s.Base)
	return free == 0 || free < l.MaxKeys/keyReserve && held >= free ||
		l.MaxKeysInMemory > 0 && s.InMemory()/memoryShare >= l.MaxKeysInMemory
}

// memoryKeys is how many keys stay in memory.
func (l *Limits) memoryKeys() uint64 {
	if l.MaxKeysInMemory == 0 {
		return 32 << 20
	}
	return l.MaxKeysInMemory
}

// DefaultLimits are in force until the first SetLimits: 7 days, 64 Mi keys (some 2.4 GB), and 30
// days for audit events.
func DefaultLimits() Limits {
	return Limits{
		KeyRetentionMS: 7 * dayMS, WindowMS: 7 * dayMS, MaxKeys: 64 << 20,
		AuditRetentionMS: 30 * dayMS,
	}
}

// Limits returns the settings in force.
func (m *Machine) Limits() Limits { return *m.state.Load().limits.Load() }
