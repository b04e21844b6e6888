package journal

import "errors"

// Indexer finds the owners of a record: it calls add once for each owner, or, for a block of many
// events, once for each event with its own time and its ordinal within the record. It must depend
// on the record alone, and may ignore a record that it does not know. Ordinals ascend.
type Indexer func(r Record, add func(owner uint32, at int64, ordinal uint32))

// KindSet is a set of kinds; empty, it means every kind.
type KindSet uint64

// Kinds makes a set.
func Kinds(kinds ...Kind) KindSet {
	var s KindSet
	for _, k := range kinds {
		s |= 1 << k
	}
	return s
}

// Has reports whether k is wanted.
func (s KindSet) Has(k Kind) bool { return s == 0 || s>>k&1 == 1 }

// Cursor is a place in a listing: the item that was listed last.
type Cursor struct {
	At       int64
	Index    uint64
	Position uint32
	Ordinal  uint32
}

// Compare orders cursors as listings are ordered: by time, then by identity.
func (c Cursor) Compare(d Cursor) int {
	switch {
	case c.At != d.At:
		return order(c.At < d.At)
	case c.Index != d.Index:
		return order(c.Index < d.Index)
	case c.Position != d.Position:
		return order(c.Position < d.Position)
	case c.Ordinal != d.Ordinal:
		return order(c.Ordinal < d.Ordinal)
	}
	return 0
}

func order(less bool) int {
	if less {
		return -1
	}
	return 1
}

// Query asks for items of one owner.
type Query struct {
	// Owner is the customer's row.
	Owner uint32
	// From and To bound the items' times, in milliseconds since 1970 UTC: From ≤ time < To.
	From, To int64
	// Kinds are the kinds that are wanted.
	Kinds KindSet
	// After, when HasAfter is set, is the last item of the page before.
	After    Cursor
	HasAfter bool
	// Descending lists the newest items first.
	Descending bool
	// Limit is the largest number of items, at least 1.
	Limit int
}

// Item is one listed item: a record, and in a record of many items the place of this one.
type Item struct {
	Record
	// Time is the item's own time, by which it is listed; Record.At is the record's.
	Time    int64
	Ordinal uint32
}

// Listed reports whether an item at a place is to be listed, as far as its kind and owner allow it.
func (q *Query) Listed(c Cursor) bool {
	if c.At < q.From || c.At >= q.To {
		return false
	}
	return !q.HasAfter || q.Order(q.After, c) < 0
}

// Order compares places as this query lists them.
func (q *Query) Order(c, d Cursor) int {
	if q.Descending {
		return d.Compare(c)
	}
	return c.Compare(d)
}

// Cursor is the item's place in the listing.
func (it Item) Cursor() Cursor { return Cursor{it.Time, it.Index, it.Position, it.Ordinal} }

// Source reads a journal. Payloads must not be changed.
type Source interface {
	// List lists items in the order of their cursors, or backwards.
	List(q Query) ([]Item, error)
	// Event returns the KindUsage record of a number: events are counted from 1, in the order of
	// the log. It is ErrNoEvent when the journal has fewer.
	Event(number uint64) (Record, error)
	// Walk yields records of PartUsage in the order of the log, from the log entry on: all those of
	// the owners, which ascend, and where that is cheaper those of others, too; without owners, all
	// records. The Indexer decides ownership. A record's payload is valid until yield returns.
	// Records appended meanwhile are not yielded. An error that yield returns ends the walk and is
	// returned.
	Walk(owners []uint32, from uint64, yield func(Record) error) error
	// Back yields records of all owners, the newest of the log first, until yield returns false or an
	// error, which is returned.
	Back(q BackQuery, yield func(Record) (more bool, err error)) error
}

// BackQuery asks for the newest records of the log.
type BackQuery struct {
	// Kinds are the kinds that are wanted. The parts that have them are read, and their records of
	// other kinds are yielded, too, so that whoever asks can bound how many it passes over.
	Kinds KindSet
	// Index and Position, unless Index is 0, are the place of the newest record that is wanted.
	Index    uint64
	Position uint32
	// From and To bound the times of wanted records of PartUsage: From ≤ Record.At < To. Segments
	// without one are passed over; other records are yielded, too.
	From, To int64
}

// Reads reports whether the query reads a part.
func (q *BackQuery) Reads(part Part) bool {
	if part == PartAudit {
		return q.Kinds.Has(KindAudit)
	}
	return q.Kinds != Kinds(KindAudit)
}

// Reaches reports whether a record is at the query's place, or older.
func (q *BackQuery) Reaches(r *Record) bool {
	return q.Index == 0 || r.Index < q.Index || r.Index == q.Index && r.Position <= q.Position
}

// Skips reports whether the query passes over a segment.
func (q *BackQuery) Skips(i *SegmentInfo) bool {
	return q.Index != 0 && i.FirstIndex > q.Index ||
		i.Part == PartUsage && (i.MaxAt < q.From || i.MinAt >= q.To)
}

// ErrNoEvent means that a journal has no usage event of the number that was asked for.
var ErrNoEvent = errors.New("journal: no such usage event")
