package journal

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// slack is the capacity of a tail beyond SegmentBytes, for the entry that fills it. An entry that
// needs more moves the tail to a larger buffer.
const slack = 1 << 20

// firstTail is the capacity that the first tail of a part begins with. It doubles until the tail
// has room for a segment, as those of later segments have at once: a machine that records little
// does not pay for more.
const firstTail = 64 << 10

// Journal is the journal of one state machine: of each part the manifest of its sealed segments,
// and the open tail. One goroutine appends, any goroutine reads whole entries.
type Journal struct {
	view  atomic.Pointer[view]
	tails [partCount]tail
	cut   int // length in bytes at which a segment is cut
	spare spares

	usage, audit uint64 // records so far, those of an unfinished entry included
	shownUsage   atomic.Uint64
	shownAudit   atomic.Uint64
	lastIndex    uint64 // identity of the newest record
	lastPosition uint32
}

// tail is the open segment of a part, for the writer alone.
type tail struct {
	// buf is the tail's bytes, which lie in memory; readers have those that the view publishes.
	buf    []byte
	memory *buffer
	hashed int // how much of buf is in digest
	digest xxhash.Digest
	open   SegmentInfo // the tail if it were cut now; Length and Hash come later
	base   base
}

// view is the state that readers see at one instant. Its fields never change; its tails grow.
type view [partCount]partView

type partView struct {
	first    uint64 // number of the oldest segment that was not dropped
	segments []SegmentInfo
	sealed   Segment      // the newest segment with its bytes; zero when there is none here
	memory   *buffer      // of the tail; nil while it is empty
	tailAt   int64        // time of the tail's first record
	length   atomic.Int64 // bytes of it that hold whole entries
}

// View is the journal at one instant, by part.
type View [partCount]PartView

// PartView is a part at one instant: the sealed segments and the tail that follows them.
type PartView struct {
	// First is the number of the oldest segment that was not dropped; when there is none, the
	// number that the tail will have.
	First uint64
	// Segments is the manifest, oldest first. It must not be changed.
	Segments []SegmentInfo
	// Sealed is the newest sealed segment with its bytes, so that a reader that comes before the
	// segment was stored finds it. Its Number is 0 when it is not here: after a restore, and once
	// its store has released it.
	Sealed Segment
	// Tail is the open segment so far: whole entries only. Its bytes never change. TailBytes is its
	// length, which an Outline has, too.
	Tail      []byte
	TailBytes int

	tailAt int64
}

// OldestAt is the time of the part's first record; false when there is none.
func (v *PartView) OldestAt() (ms int64, ok bool) {
	if len(v.Segments) > 0 {
		return v.Segments[0].MinAt, true
	}
	return v.tailAt, v.TailBytes > 0
}

// New makes an empty journal.
func New() *Journal { return NewCutting(SegmentBytes) }

// NewCutting makes an empty journal whose segments are cut at another length, in bytes: all
// replicas of a machine have the same one. Tests have short ones.
func NewCutting(length int) *Journal {
	j, v := &Journal{cut: length}, &view{}
	j.spare.length = j.room()
	for _, p := range Parts() {
		j.tails[p].reset(SegmentInfo{Part: p, Number: 1})
		v[p].first = 1
	}
	j.view.Store(v)
	return j
}

// reset begins a tail of the given description. Readers still see the published view.
func (t *tail) reset(open SegmentInfo) {
	t.buf, t.memory, t.hashed = nil, nil, 0
	t.digest.Reset()
	t.open = open
	t.base = base{}
}

// hash adds the bytes appended since to the digest.
func (t *tail) hash() {
	if _, err := t.digest.Write(t.buf[t.hashed:]); err != nil {
		panic(err) // documented never to happen
	}
	t.hashed = len(t.buf)
}

// publish shows readers a part that change has replaced; parts are changed in no other way.
func (j *Journal) publish(p Part, change func(v *partView)) {
	old, next := j.view.Load(), &view{}
	for i := range next {
		from, to := &old[i], &next[i]
		to.first, to.segments, to.sealed = from.first, from.segments, from.sealed
		to.memory, to.tailAt = from.memory, from.tailAt
		to.length.Store(from.length.Load())
	}
	change(&next[p])
	j.view.Store(next)
}

// Append adds a record to the tail of its part. For the writer. Records come in ascending order of
// (Index, Position); Append panics when they do not, or when Kind is not between 1 and 63, because
// the segment could never be read. Readers see the record after EndEntry.
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
	t := &j.tails[r.Kind.Part()]
	if len(t.buf) == 0 {
		j.begin(t, r)
	}
	o := &t.open
	o.LastIndex = r.Index
	o.Records++
	o.MinAt, o.MaxAt = min(o.MinAt, r.At), max(o.MaxAt, r.At)
	switch r.Kind {
	case KindAudit:
		j.audit++
	case KindBilling, KindChange:
	case KindUsage:
		j.usage++
		o.EventsThrough++
	default:
		j.usage++
	}
	if need := maxRecordHeader + len(r.Payload); len(t.buf)+need > t.memory.paged {
		j.reserve(t, need)
	}
	t.buf = appendRecord(t.buf, t.base, r)
}

// begin starts a tail with the segment header, which its first record determines.
func (j *Journal) begin(t *tail, r Record) {
	t.open.FirstIndex, t.open.MinAt, t.open.MaxAt = r.Index, r.At, r.At
	t.base = base{index: r.Index, at: r.At}
	capacity := j.room()
	if t.open.Number == 1 {
		capacity = min(capacity, firstTail)
	}
	t.memory = j.spare.take(capacity)
	t.buf = appendHeader(t.memory.data[:0], t.open.Part, t.open.Number, t.base)
	j.publish(t.open.Part, func(v *partView) {
		v.memory, v.tailAt = t.memory, r.At
		v.length.Store(0)
	})
}

// room is the capacity of a buffer for a segment.
func (j *Journal) room() int { return j.cut + min(j.cut, slack) }

// pagesAhead is how much memory the kernel is asked for at a time.
const pagesAhead = 128 << 10

// reserve makes room for n bytes, in a larger buffer where they do not fit, and in memory that has
// its pages: of a buffer that is new the kernel would give each when it is first written, and the
// fault would cost a tenth of an event.
func (j *Journal) reserve(t *tail, n int) {
	if len(t.buf)+n > cap(t.buf) {
		j.grow(t, n)
	}
	t.memory.populate((len(t.buf)+n)/pagesAhead*pagesAhead + 2*pagesAhead)
}

// grow moves the tail to a buffer with room for n bytes more. Readers keep the one that they have.
func (j *Journal) grow(t *tail, n int) {
	size := 2*cap(t.buf) + n
	if most := j.room(); len(t.buf)+n <= most {
		size = min(size, most)
	}
	grown := &buffer{data: make([]byte, size)}
	grown.paged = copy(grown.data, t.buf)
	t.buf, t.memory = grown.data[:len(t.buf)], grown
	j.publish(t.open.Part, func(v *partView) { v.memory = grown })
}

// EndEntry shows the records of an entry to readers, and cuts a segment from each part whose tail
// has reached the length for it: it is appended to sealed. For the writer, after each entry that
// may have appended, with its index. The segments go to the segment store before the next EndEntry.
func (j *Journal) EndEntry(index uint64, sealed []Segment) []Segment {
	for i := range j.tails {
		t := &j.tails[i]
		if len(t.buf) == t.hashed {
			continue
		}
		t.hash()
		if len(t.buf) >= j.cut {
			t.open.LastIndex = max(t.open.LastIndex, index)
			sealed = append(sealed, j.seal(t))
			continue
		}
		j.view.Load()[i].length.Store(int64(len(t.buf)))
	}
	j.shownUsage.Store(j.usage)
	j.shownAudit.Store(j.audit)
	return sealed
}

// seal makes the tail, which is not empty, a segment.
func (j *Journal) seal(t *tail) Segment {
	info := t.open
	info.Length, info.Hash = uint64(len(t.buf)), t.digest.Sum64()
	sealed := Segment{
		SegmentInfo: info, Data: t.buf[:len(t.buf):len(t.buf)], memory: t.memory, home: &j.spare,
	}
	t.reset(SegmentInfo{
		Part: info.Part, Number: info.Number + 1, EventsThrough: info.EventsThrough,
	})
	j.publish(info.Part, func(v *partView) {
		// Appending in place is safe: readers hold a header with the old length.
		v.segments, v.sealed = append(v.segments, info), sealed
		v.memory, v.tailAt = nil, 0
		v.length.Store(0)
	})
	return sealed
}

// sealShare is the part of the retention after which a tail of audit blocks is cut however short it
// is: so nothing is kept for more than a 30th longer than the retention, on an idle system either.
const sealShare = 30

// Expire ends audit blocks whose time is over, at the log time now. A tail whose first block is a
// 30th of the retention old is cut, and appended to sealed; segments whose newest block has reached
// the retention are dropped, oldest first. Usage records never expire. For the writer, before the
// records of an entry; now and retention are in milliseconds, now never falls; a retention of 0
// keeps all. The segments that it cuts go to the segment store as those of EndEntry do.
func (j *Journal) Expire(now, retention int64, sealed []Segment) (_ []Segment, dropped int) {
	if at := j.ExpiresAt(retention); at == 0 || at > now {
		return sealed, 0
	}
	if t := &j.tails[PartAudit]; len(t.buf) > 0 && sealedAt(&t.open, retention) <= now {
		sealed = append(sealed, j.seal(t))
	}
	j.publish(PartAudit, func(v *partView) {
		for dropped < len(v.segments) && v.segments[dropped].MaxAt+retention <= now {
			dropped++
		}
		v.first += uint64(dropped)
		v.segments = v.segments[dropped:]
		if v.sealed.Number < v.first {
			v.sealed = Segment{}
		}
	})
	return sealed, dropped
}

// ExpiresAt is the log time at which Expire has something to do next; 0 when it has not. For the
// writer.
func (j *Journal) ExpiresAt(retention int64) (at int64) {
	if retention <= 0 {
		return 0
	}
	if t := &j.tails[PartAudit]; len(t.buf) > 0 {
		at = sealedAt(&t.open, retention)
	}
	if list := j.view.Load()[PartAudit].segments; len(list) > 0 {
		if dropped := list[0].MaxAt + retention; at == 0 || dropped < at {
			at = dropped
		}
	}
	return at
}

// sealedAt is when a tail is cut for its age.
func sealedAt(open *SegmentInfo, retention int64) int64 {
	return open.MinAt + max(1, retention/sealShare)
}

// View returns manifests and tails as they were at one instant; of the newest entry, one tail may
// have its records and the other not yet. Whoever has one may read its bytes for as long as it
// likes: their memory is not used again. Any goroutine.
func (j *Journal) View() View {
	for {
		if out, ok := j.view.Load().shared(); ok {
			return out
		}
	}
}

// shared is View; false when a tail is no longer one, and its memory is in use again.
func (v *view) shared() (out View, ok bool) {
	for i := range v {
		p := &v[i]
		out[i] = p.outline()
		if p.memory != nil {
			if !p.memory.share() {
				return out, false
			}
			n := out[i].TailBytes
			out[i].Tail = p.memory.data[:n:n]
		}
		if p.sealed.Share() {
			out[i].Sealed = p.sealed
		}
	}
	return out, true
}

// Outline is View without the bytes of the tails and of the newest segments: it keeps no memory
// from being used again. Any goroutine.
func (j *Journal) Outline() (out View) {
	v := j.view.Load()
	for i := range v {
		out[i] = v[i].outline()
	}
	return out
}

func (p *partView) outline() PartView {
	return PartView{
		First: p.first, Segments: p.segments[:len(p.segments):len(p.segments)],
		TailBytes: int(p.length.Load()), tailAt: p.tailAt,
	}
}

// Sealed returns a segment with its bytes, which may be kept, if it is the newest of its part and
// View still has them. Any goroutine.
func (j *Journal) Sealed(info SegmentInfo) (s Segment, ok bool) {
	s = j.view.Load()[info.Part].sealed
	if s.SegmentInfo != info || !s.Share() {
		return Segment{}, false
	}
	return s, true
}

// Manifest lists the sealed segments of both parts, oldest first. Any goroutine. Callers that need
// the tails as well use View, since a cut may come between two calls.
func (j *Journal) Manifest() []SegmentInfo {
	v := j.Outline()
	return slices.Concat(v[PartUsage].Segments, v[PartAudit].Segments)
}

// First is the number of the oldest segment of a part that was not dropped; without any, the number
// that its tail will have. Any goroutine.
func (j *Journal) First(p Part) uint64 { return j.view.Load()[p].first }

// Dropped reports whether a segment was dropped. Any goroutine.
func (j *Journal) Dropped(info SegmentInfo) bool { return info.Number < j.First(info.Part) }

// Tail returns the open segment of a part so far: whole entries only; nil when it is empty. Its
// bytes never change. Any goroutine.
func (j *Journal) Tail(p Part) []byte { return j.View()[p].Tail }

// Usage returns how many records the journal ever took: audit blocks, and records of usage and
// of corrections. Any goroutine.
func (j *Journal) Usage() (usageRecords, auditRecords uint64) {
	return j.shownUsage.Load(), j.shownAudit.Load()
}
