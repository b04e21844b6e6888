package journal

import (
	"fmt"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// slack is the room that a tail has beyond SegmentBytes, for the entry that fills it. An entry
// that needs more moves the tail to a larger buffer.
const slack = 1 << 20

// Journal is the journal of one state machine: the manifest of its sealed segments, and the open
// tail. One goroutine appends, any goroutine reads whole entries.
type Journal struct {
	view atomic.Pointer[view]
	// buf is the tail's bytes; those behind what view publishes belong to the writer alone.
	buf    []byte
	hashed int // how much of buf is in digest
	digest xxhash.Digest
	open   SegmentInfo // what the tail would be if it were cut now; Length and Hash come later
	base   base

	usage, audit uint64 // records so far, those of an unfinished entry included
	shownUsage   atomic.Uint64
	shownAudit   atomic.Uint64
	lastIndex    uint64 // identity of the newest record
	lastPosition uint32
}

// view is what readers see at one instant. Its fields never change; its tail grows.
type view struct {
	segments []SegmentInfo
	sealed   Segment // the newest segment with its bytes; zero when there is none here
	buf      []byte
	length   atomic.Int64 // bytes of buf that hold whole entries
}

// View is the journal at one instant: the sealed segments and the tail that follows them.
type View struct {
	// Segments is the manifest, oldest first. It must not be changed.
	Segments []SegmentInfo
	// Sealed is the newest sealed segment with its bytes, so that a reader that comes before the
	// segment was stored finds it. Its Number is 0 when it is not here (after a restore).
	Sealed Segment
	// Tail is the open segment so far: whole entries only. Its bytes never change.
	Tail []byte
}

// New makes an empty journal.
func New() *Journal {
	j := &Journal{}
	j.reset(SegmentInfo{Number: 1})
	j.view.Store(&view{})
	return j
}

// reset begins a tail of the given description. Readers go on seeing what view says.
func (j *Journal) reset(open SegmentInfo) {
	j.buf, j.hashed = nil, 0
	j.digest.Reset()
	j.open = open
	j.base = base{}
}

// Append adds a record to the tail. For the writer. Records come in ascending order of (Index,
// Position); Append panics when they do not, or when Kind is not between 1 and 63, because the
// segment could never be read. Readers see the record after EndEntry.
func (j *Journal) Append(r Record) {
	if r.Kind == 0 || r.Kind > MaxKind {
		panic(fmt.Sprintf("journal: record of kind %d", r.Kind))
	}
	if j.lastIndex != 0 && (r.Index < j.lastIndex ||
		r.Index == j.lastIndex && r.Position <= j.lastPosition) {
		panic(fmt.Sprintf("journal: record %d.%d after %d.%d",
			r.Index, r.Position, j.lastIndex, j.lastPosition))
	}
	j.lastIndex, j.lastPosition = r.Index, r.Position
	if len(j.buf) == 0 {
		j.begin(r)
	}
	o := &j.open
	o.LastIndex = r.Index
	o.Records++
	o.MinAt, o.MaxAt = min(o.MinAt, r.At), max(o.MaxAt, r.At)
	switch r.Kind {
	case KindAudit:
		j.audit++
	case KindBilling:
	case KindUsage:
		j.usage++
		o.EventsThrough++
	default:
		j.usage++
	}
	j.reserve(maxRecordHeader + len(r.Payload))
	j.buf = appendRecord(j.buf, j.base, r)
}

// begin starts a tail with the segment header, which its first record determines.
func (j *Journal) begin(r Record) {
	j.open.FirstIndex, j.open.MinAt, j.open.MaxAt = r.Index, r.At, r.At
	j.base = base{index: r.Index, at: r.At}
	j.buf = make([]byte, 0, SegmentBytes+slack)
	j.buf = appendHeader(j.buf, j.open.Number, j.base)
	old := j.view.Load()
	j.view.Store(&view{segments: old.segments, sealed: old.sealed, buf: j.buf[:cap(j.buf)]})
}

// reserve makes room for n bytes. Readers keep the buffer that they have.
func (j *Journal) reserve(n int) {
	if len(j.buf)+n <= cap(j.buf) {
		return
	}
	grown := make([]byte, len(j.buf), 2*cap(j.buf)+n)
	copy(grown, j.buf)
	j.buf = grown
	old := j.view.Load()
	next := &view{segments: old.segments, sealed: old.sealed, buf: grown[:cap(grown)]}
	next.length.Store(old.length.Load())
	j.view.Store(next)
}

// EndEntry shows the records of an entry to readers, and cuts a segment when the tail has reached
// SegmentBytes. For the writer, after each entry that may have appended, with its index. The
// segment goes to the segment store before the next EndEntry.
func (j *Journal) EndEntry(index uint64) (Segment, bool) {
	if len(j.buf) == j.hashed {
		return Segment{}, false
	}
	if _, err := j.digest.Write(j.buf[j.hashed:]); err != nil {
		panic(err) // documented never to happen
	}
	j.hashed = len(j.buf)
	j.shownUsage.Store(j.usage)
	j.shownAudit.Store(j.audit)
	v := j.view.Load()
	if len(j.buf) < SegmentBytes {
		v.length.Store(int64(len(j.buf)))
		return Segment{}, false
	}
	info := j.open
	info.LastIndex = max(info.LastIndex, index)
	info.Length, info.Hash = uint64(len(j.buf)), j.digest.Sum64()
	sealed := Segment{SegmentInfo: info, Data: j.buf[:len(j.buf):len(j.buf)]}
	// Appending in place is safe beside readers: they hold a header with the old length.
	j.reset(SegmentInfo{Number: info.Number + 1, EventsThrough: info.EventsThrough})
	j.view.Store(&view{segments: append(v.segments, info), sealed: sealed})
	return sealed, true
}

// View returns the manifest and the tail as they were at one instant. Any goroutine.
func (j *Journal) View() View {
	v := j.view.Load()
	n := v.length.Load()
	return View{
		Segments: v.segments[:len(v.segments):len(v.segments)],
		Sealed:   v.sealed,
		Tail:     v.buf[:n:n],
	}
}

// Manifest lists the sealed segments, oldest first. It must not be changed. Any goroutine. Who
// needs the tail as well calls View, since a cut may come between two calls.
func (j *Journal) Manifest() []SegmentInfo { return j.View().Segments }

// Tail returns the open segment so far: whole entries only; nil when it is empty. Its bytes never
// change. Any goroutine.
func (j *Journal) Tail() []byte { return j.View().Tail }

// Usage returns how many records the journal ever took: audit blocks, and records of usage and
// of corrections. Any goroutine.
func (j *Journal) Usage() (usageRecords, auditRecords uint64) {
	return j.shownUsage.Load(), j.shownAudit.Load()
}
