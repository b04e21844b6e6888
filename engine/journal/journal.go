// Package journal is the append-only record of usage and audit events, from which listings,
// exports and the recomputation of invoices are served. Its bytes are a function of the log alone:
// the state machine appends, and cuts a segment after the entry that fills SegmentBytes. See
// DESIGN.md for the bytes.
package journal

import "fmt"

// SegmentBytes is the length at which a segment is cut, after the entry that reached it (8 MiB).
const SegmentBytes = 8 << 20

// Part is one of the two sequences of segments that a journal has.
type Part uint8

const (
	// PartUsage has everything that invoices rest on. None of it is ever dropped.
	PartUsage Part = iota
	// PartAudit has the blocks of entitlement checks. Expire drops its oldest segments.
	PartAudit

	partCount
)

var partNames = [partCount]string{"usage", "audit"}

// String is the part's name, for files and metrics.
func (p Part) String() string { return partNames[p] }

// Parts lists the parts of a journal.
func Parts() []Part { return []Part{PartUsage, PartAudit} }

// SegmentInfo describes a sealed segment. The list of them is replicated state: the manifest.
type SegmentInfo struct {
	// Part is the part that the segment belongs to.
	Part Part
	// Number counts the segments of a part from 1, without gaps.
	Number uint64
	// FirstIndex and LastIndex are the log entries whose records the segment holds.
	FirstIndex, LastIndex uint64
	// Length is the number of bytes, Records the number of records.
	Length, Records uint64
	// EventsThrough is how many KindUsage records this segment and all before it hold.
	EventsThrough uint64
	// Hash is xxHash64 of the bytes.
	Hash uint64
	// MinAt and MaxAt bound the records' own times (Record.At), in milliseconds since 1970 UTC.
	MinAt, MaxAt int64
}

// String names the segment, as in "audit segment 7".
func (i SegmentInfo) String() string { return fmt.Sprintf("%s segment %d", i.Part, i.Number) }

// Segment is a sealed segment with its bytes, which never change until it is released.
type Segment struct {
	SegmentInfo
	Data   []byte
	memory *buffer // that Data lies in; nil when it is of no journal
	home   *spares
}

// Share lets the bytes be read for as long as anyone likes: Release does nothing from now on. It
// is false when the segment was released before, or has no bytes.
func (s *Segment) Share() bool {
	return s.Data != nil && (s.memory == nil || s.memory.share())
}

// Release is for the store that the journal gave the segment to: it has stored it and does not read
// Data again. Unless others may, the memory becomes that of another tail.
func (s *Segment) Release() {
	if s.memory != nil && s.memory.free() {
		s.home.give(s.memory)
	}
}

// Kind is the kind of a record. Numbers are never reused.
type Kind uint8

const (
	// KindUsage is one recorded usage event.
	KindUsage Kind = 1
	// KindAudit is a block of entitlement checks of many customers.
	KindAudit Kind = 2
	// KindVoid and KindAmend correct an earlier usage event.
	KindVoid  Kind = 3
	KindAmend Kind = 4
	// KindBilling holds the facts behind invoices other than usage: closed spans and issued
	// invoices, of many customers.
	KindBilling Kind = 5
	// KindChange is the admin changes of an entry; its items are of owner 0, which is not a
	// customer.
	KindChange Kind = 6
)

// Part is where records of this kind are kept.
func (k Kind) Part() Part {
	if k == KindAudit {
		return PartAudit
	}
	return PartUsage
}

// Record is one record of the journal.
type Record struct {
	Kind Kind
	// Index and Position are the log entry and the place in it that made the record: its identity.
	Index    uint64
	Position uint32
	// Owner is the customer's row; 0 in records that have many owners.
	Owner uint32
	// At is the time by which listings are ordered, in milliseconds since 1970 UTC; of an audit
	// block, whose checks have times of their own, the log time, by which it expires.
	At int64
	// Payload is the domain's own encoding.
	Payload []byte
}
