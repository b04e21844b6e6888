package billing

import (
	"github.com/cespare/xxhash/v2"

	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/prefetch"
	"tollgate/engine/wire"
)

// RecordUsage records one usage event, exactly once per Key. Byte slices alias the request or the
// entry, so the hot path copies nothing. Key, Attempt and Fingerprint come first; the fields after
// them are the body, which Fingerprint covers.
//
//schema:described client EventRequest
//schema:split head body 5
//schema:quick
//schema:straight parts
type RecordUsage struct {
	Env uint32 `wire:"1"`
	// Key is made of environment number and idempotency key, mostly by SHA-256: UsageKey.
	Key [16]byte `wire:"2"`
	// Attempt tells a re-sent record (same tag: the first outcome again) from a repeated request
	// (another tag: OutcomeDuplicate). It is never 0.
	Attempt uint32 `wire:"3"`
	// Fingerprint is 24 bits of a hash of the body: another body under the same key is
	// OutcomeKeyReused. Seal sets it.
	Fingerprint uint32 `wire:"4"`
	// KeyText is the idempotency key itself.
	KeyText []byte `wire:"5" json:"eventIdempotencyKey" rule:"min=1,max=255"`
	// Customer is the caller's id. Exactly one of it and CustomerID is set.
	Customer   []byte   `wire:"6" json:"customerReferenceId" rule:"min=1,max=128"`
	CustomerID [16]byte `wire:"7" json:"customerId"`
	EventName  []byte   `wire:"8" json:"eventName" rule:"required,min=1,max=128"`
	FeatureKey []byte   `wire:"9" json:"featureKey" rule:"min=1,max=128"`
	FeatureID  [16]byte `wire:"10" json:"featureId"`
	// Units is the counted quantity, 1 if a request has none.
	Units      decimal.Decimal `wire:"11" json:"usageUnits" rule:"min=0"`
	OccurredAt int64           `wire:"12" json:"occurredAt" rule:"required" as:"time"`
	// Cost is the event's cost. Without HasCost the feature has it.
	Cost           decimal.Decimal `wire:"13" json:"costAmount" rule:"min=0"`
	HasCost        bool            `wire:"14"`
	SubscriptionID [16]byte        `wire:"15" json:"subscriptionId"`
	EntitlementID  [16]byte        `wire:"16" json:"entitlementId"`
	InvoiceID      [16]byte        `wire:"17" json:"invoiceId"`
	FlowID         []byte          `wire:"18" json:"flowId" rule:"max=128"`
	// Meta is a JSON object of up to 8 KiB.
	Meta []byte `wire:"19" json:"meta" as:"object"`

	// Budget is the key of the budget that it counts at; empty: the customer's own. KeyBudget is the
	// node that the request's API key is bound to; 0: none.
	Budget    []byte `wire:"20" json:"budget" rule:"min=1,max=128"`
	KeyBudget uint32 `wire:"21"`
	// Bindings are those of the Principal; 0: it is not asked. Fingerprint does not cover it.
	Bindings uint32 `wire:"22"`

	near
	// verdict is what files report about Key, and payload the record without it, if there is one.
	verdict idempotency.Verdict
	payload []byte
}

// near is what prefetch found of an event: the customer's row, and the key's hash in the index;
// else 0.
type near struct {
	row  uint32
	hash uint64
}

// UsageKey returns the idempotency key of a usage event as the log carries it: its scope is the
// environment, and 128 bits of a cryptographic hash do not collide.
func UsageKey(env uint32, key []byte) [16]byte { return rows.UsageKey(env, key) }

// fingerprintBits is how many bits of the body's hash a key's slot keeps.
const fingerprintBits = 24

// Seal sets Fingerprint from the body and appends the record's encoding to dst. It allocates
// nothing if dst has room.
func (c *RecordUsage) Seal(dst []byte) []byte {
	// The body is encoded first, in place except for the head, whose length depends on it.
	start, bindings := len(dst), c.Bindings
	c.Bindings = 0
	dst = c.appendBody(dst)
	c.Fingerprint = uint32(xxhash.Sum64(dst[start:]) >> (64 - fingerprintBits))
	c.Bindings = bindings
	dst = wire.AppendUint(dst, 22, uint64(c.Bindings)) // the last field
	bodyEnd := len(dst)
	dst = c.appendHead(dst)
	rotate(dst[start:], bodyEnd-start)
	return dst
}

// rotate moves the bytes from n on to the front. What it moves fits the room of a head.
func rotate(b []byte, n int) {
	var room [64]byte
	head := append(room[:0], b[n:]...)
	copy(b[len(head):], b[:n])
	copy(b, head)
}

func openUsage(m *Machine, payload []byte) (op, error) {
	c := m.scratch.event()
	if c.quick(payload) {
		return c, nil
	}
	*c = RecordUsage{}
	d := wire.NewDecoder(payload)
	c.Fields(&d)
	return c, d.Close()
}

// prefetched is how many usage events are prefetched together.
const prefetched = book.Prefetched

// prefetch prefetches the memory of an entry's next usage events before the first is applied. With
// many customers nearly every access misses the processor's caches. Here the misses are independent
// and overlap; in apply each would wait for the one before. It changes only row fields: a customer
// never moves.
func (s *state) prefetch(usages []RecordUsage) {
	var keys [prefetched]prefetch.Address
	var names [prefetched]uint64
	for i := range usages {
		usages[i].hash = s.keys.Hash(usages[i].Key)
		keys[i] = prefetch.Of(s.keys.Near(usages[i].hash))
		names[i] = s.ExternalHash(usages[i].Env, usages[i].Customer)
	}
	prefetch.Lines(keys[:len(usages)])
	s.Prefetch(names[:len(usages)])
	for i := range usages {
		if c := &usages[i]; c.CustomerID != ([16]byte{}) {
			c.row = s.CustomerIn(c.Env, &c.CustomerID)
		} else {
			c.row = s.CustomerUnder(names[i], c.Env, c.Customer)
		}
	}
}
