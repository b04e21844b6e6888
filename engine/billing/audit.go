package billing

// AuditBlock collects entitlement checks into the payload of one KindRecordAudits record. One
// goroutine uses it. The zero value must be Reset before use.
type AuditBlock struct{}

// AuditCheck is one answered check. Byte slices are copied by Add.
type AuditCheck struct {
	Env uint32
	// CustomerRow names the customer; where it is unknown (0), CustomerText does.
	CustomerRow  uint32
	CustomerText []byte
	// FeatureNumber names the feature; where it is unknown (0), FeatureText does.
	FeatureNumber uint32
	FeatureText   []byte
	Reason        Reason
	// At is when the check was answered, on the environment's clock, in milliseconds.
	At int64
	// IdempotencyKey and FlowID are the request's context, stored with it.
	IdempotencyKey, FlowID []byte
}

// Reset empties the block and names it: origin is the node's number, boot grows with every start
// of its process, sequence with every block of one boot. A block is applied once however often it
// is proposed.
func (b *AuditBlock) Reset(origin, boot, sequence uint64) {}

// Add appends one check.
func (b *AuditBlock) Add(c *AuditCheck) {}

// Len is the number of checks in the block, Bytes the length of its encoding.
func (b *AuditBlock) Len() int { return 0 }

// Bytes is an upper bound of what Encode appends.
func (b *AuditBlock) Bytes() int { return 0 }

// Encode appends the payload.
func (b *AuditBlock) Encode(dst []byte) []byte { return dst }

// UsageKey is the idempotency key of a usage event as the log carries it.
func UsageKey(env uint32, key []byte) [16]byte { return [16]byte{} }

// Seal appends the record's encoding, with Fingerprint computed over the body.
func (c *RecordUsage) Seal(dst []byte) []byte { return dst }
