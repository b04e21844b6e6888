package billing

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// dayMS is one day in milliseconds.
const dayMS = 24 * 60 * 60 * 1000

// SetLimits changes the settings that decide results, for the whole group. They are log entries
// because a replica that read them from its own configuration would diverge.
type SetLimits struct {
	// KeyRetentionMS is how long idempotency keys are kept, WindowMS how old an event's occurredAt
	// may be, both in milliseconds of log time. A window beyond the retention is cut to it. 0 (or
	// less) leaves a value as it is.
	KeyRetentionMS, WindowMS int64
	// MaxKeys is the number of idempotency keys that fit the memory budget. 0 leaves it as it is.
	MaxKeys uint64
	// AuditRetentionMS is how long audit events are kept, in milliseconds of log time from their
	// recording; they go in whole journal segments, at most a 30th later. 0 (or less) leaves it as it
	// is. What was dropped does not come back when it is raised.
	AuditRetentionMS int64
}

// Fields states the command's fields.
func (c *SetLimits) Fields(w *wire.Codec) {
	w.Int(1, &c.KeyRetentionMS)
	w.Int(2, &c.WindowMS)
	wire.Uint(w, 3, &c.MaxKeys)
	w.Int(4, &c.AuditRetentionMS)
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
	next.WindowMS = min(next.WindowMS, next.KeyRetentionMS)
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
	// MaxKeys is the number of idempotency keys that fit the budget.
	MaxKeys uint64
	// AuditRetentionMS is how long audit events are kept.
	AuditRetentionMS int64
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
