package journal_test

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/journal"
)

// retained is a journal with the bytes of its segments, and everything that was ever appended.
type retained struct {
	*journal.Journal
	retention  int64
	longest    int64 // retention so far
	index      uint64
	now        int64
	files      map[journal.SegmentInfo][]byte
	everything []journal.Record
	old        map[uint64]bool // audit blocks that reached the retention of their time
}

func newRetained(retention int64) *retained {
	return &retained{
		Journal: journal.New(), retention: retention, now: 1_700_000_000_000,
		files: map[journal.SegmentInfo][]byte{}, old: map[uint64]bool{},
	}
}

// append ends an entry with one record whose payload begins with its index.
func (r *retained) append(kind journal.Kind, size int) (cut []journal.Segment, dropped int) {
	r.index++
	cut, dropped = r.expire()
	payload := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+size), r.index)
	record := journal.Record{
		Kind: kind, Index: r.index, At: r.now, Payload: payload[:8+size],
	}
	r.Append(record)
	r.everything = append(r.everything, record)
	cut = r.EndEntry(r.index, cut)
	r.keep(cut)
	return cut, dropped
}

func (r *retained) expire() ([]journal.Segment, int) {
	r.longest = max(r.longest, r.retention)
	for _, record := range r.everything {
		if record.Kind == journal.KindAudit && r.now-record.At >= r.retention {
			r.old[record.Index] = true
		}
	}
	cut, dropped := r.Expire(r.now, r.retention, nil)
	r.keep(cut)
	return cut, dropped
}

func (r *retained) keep(cut []journal.Segment) {
	for _, s := range cut {
		r.files[s.SegmentInfo] = s.Data
	}
}

// requireKept requires every usage record and every audit block that is younger than the retention,
// and that the others still kept are in segments with a younger one, or in a young tail.
func (r *retained) requireKept(t require.TestingT) {
	found := map[uint64]journal.Record{}
	collect := func(data []byte) {
		require.NoError(t, journal.Scan(data, func(record journal.Record) error {
			require.Equal(t, record.Index, binary.LittleEndian.Uint64(record.Payload))
			found[record.Index] = record
			return nil
		}))
	}
	for p, view := range r.View() {
		for i, info := range view.Segments {
			require.Equal(t, view.First+uint64(i), info.Number)
			require.Equal(t, journal.Part(p), info.Part)
			data, ok := r.files[info]
			require.True(t, ok, "%s was not cut", info)
			collect(data)
			if info.Part == journal.PartAudit {
				require.Greater(t, info.MaxAt+r.retention, r.now, "%s should be gone", info)
			}
		}
		collect(view.Tail)
	}
	for _, record := range r.everything {
		_, ok := found[record.Index]
		age := r.now - record.At
		if !r.old[record.Index] {
			require.True(t, ok, "record %d of kind %d is lost at age %d",
				record.Index, record.Kind, age)
		} else if age > r.retention+r.longest/30+1 {
			require.False(t, ok, "audit block %d is kept at age %d", record.Index, age)
		}
	}
}

// again returns the journal restored from its snapshot.
func (r *retained) again(t require.TestingT) *retained {
	var buf bytes.Buffer
	sn := r.Begin()
	_, err := sn.WriteTo(&buf)
	require.NoError(t, err)
	require.Equal(t, r.Manifest(), sn.Segments())
	other := *r
	other.Journal = journal.New()
	require.NoError(t, other.Restore(&buf))
	return &other
}

func TestAuditBlocksAreDroppedInWholeSegments(t *testing.T) {
	const mib, retention = 1 << 20, 30_000
	r := newRetained(retention)
	begin := r.now
	for range 3 { // segments 1, 2, 3 with times 0, 1, 2
		_, dropped := r.append(journal.KindUsage, 9*mib)
		require.Zero(t, dropped)
		cut, _ := r.append(journal.KindAudit, 9*mib)
		require.Len(t, cut, 1)
		r.now++
	}
	r.append(journal.KindAudit, 1)
	require.EqualValues(t, begin+3+retention/30, r.ExpiresAt(retention), "the tail is cut next")
	r.now = begin + 3 + retention/30 - 1
	cut, _ := r.expire()
	require.Empty(t, cut)
	r.now++
	cut, _ = r.expire()
	require.Len(t, cut, 1, "a tail is cut for its age")
	require.EqualValues(t, 4, cut[0].Number)
	require.EqualValues(t, begin+retention, r.ExpiresAt(retention))

	r.now = begin + retention - 1
	_, dropped := r.append(journal.KindAudit, 1)
	require.Zero(t, dropped)
	require.EqualValues(t, begin+retention, r.ExpiresAt(retention), "a drop comes before a cut")
	r.now = begin + retention + 1
	_, dropped = r.expire()
	require.Equal(t, 2, dropped)
	view := r.View()
	require.EqualValues(t, 3, view[journal.PartAudit].First)
	require.Len(t, view[journal.PartAudit].Segments, 2)
	require.EqualValues(t, 4, view[journal.PartAudit].Sealed.Number)
	require.True(t, r.Dropped(journal.SegmentInfo{Part: journal.PartAudit, Number: 2}))
	require.False(t, r.Dropped(journal.SegmentInfo{Part: journal.PartAudit, Number: 3}))
	require.False(t, r.Dropped(journal.SegmentInfo{Part: journal.PartUsage, Number: 2}))
	r.requireKept(t)

	r.now = math.MaxInt64
	_, dropped = r.expire()
	require.Equal(t, 3, dropped, "one of them was the tail")
	require.Zero(t, r.ExpiresAt(retention))
	view = r.View()
	require.Zero(t, view[journal.PartAudit].Sealed.Number, "dropped segments leave memory")
	require.Len(t, view[journal.PartUsage].Segments, 3, "usage never expires")
	again := r.again(t)
	require.Equal(t, r.Manifest(), again.Manifest())
	require.EqualValues(t, 6, again.First(journal.PartAudit), "numbers continue after dropped segments")
	for _, j := range []*retained{r, again} {
		cut, _ := j.append(journal.KindAudit, 9*mib)
		require.EqualValues(t, 6, cut[0].Number)
	}
	require.Equal(t, r.Manifest(), again.Manifest())
}

func TestARetentionOfNothingKeepsAll(t *testing.T) {
	r := newRetained(0)
	r.append(journal.KindAudit, 9<<20)
	r.now = math.MaxInt64
	cut, dropped := r.expire()
	require.Empty(t, cut)
	require.Zero(t, dropped)
	require.Zero(t, r.ExpiresAt(0))
}

func TestDropsLoseNothingYoung(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newRetained(rapid.Int64Range(1, 400).Draw(t, "retention"))
		kind := rapid.SampledFrom([]journal.Kind{
			journal.KindAudit, journal.KindAudit, journal.KindUsage, journal.KindVoid,
			journal.KindBilling,
		})
		size := rapid.SampledFrom([]int{0, 10, 100, 1 << 10, 5 << 20})
		for range rapid.IntRange(1, 15).Draw(t, "entries") {
			r.now += rapid.Int64Range(0, 60).Draw(t, "pause")
			switch rapid.IntRange(0, 9).Draw(t, "step") {
			case 0:
				r.retention = rapid.Int64Range(1, 400).Draw(t, "other retention")
			case 1, 2:
				due := r.ExpiresAt(r.retention)
				cut, dropped := r.expire()
				require.Equal(t, due != 0 && due <= r.now, len(cut)+dropped > 0)
				r.requireKept(t)
			case 3:
				again := r.again(t)
				k, n := kind.Draw(t, "kind"), size.Draw(t, "size")
				r.append(k, n)
				again.append(k, n)
				r.requireSame(t, again)
			default:
				r.append(kind.Draw(t, "kind"), size.Draw(t, "size"))
			}
		}
		r.expire()
		r.requireKept(t)
	})
}

// requireSame requires that a replica which went on from a snapshot is where this one is.
func (r *retained) requireSame(t require.TestingT, again *retained) {
	require.Equal(t, r.Manifest(), again.Manifest())
	require.Equal(t, r.ExpiresAt(r.retention), again.ExpiresAt(r.retention))
	for _, p := range journal.Parts() {
		require.True(t, bytes.Equal(r.Tail(p), again.Tail(p)))
		require.Equal(t, r.First(p), again.First(p))
	}
}

func TestOnlyTheAuditPartMayBeginLate(t *testing.T) {
	r := newRetained(10)
	r.append(journal.KindAudit, 9<<20)
	r.now += 100
	_, dropped := r.expire()
	require.Equal(t, 1, dropped)
	r.append(journal.KindUsage, 1)
	var buf bytes.Buffer
	_, err := r.Begin().WriteTo(&buf)
	require.NoError(t, err)
	for at, value := range map[int]uint64{38: 2, 62: 0} { // first of usage, first of audit
		bad := bytes.Clone(buf.Bytes())
		binary.LittleEndian.PutUint64(bad[at:], value)
		require.ErrorContains(t, journal.New().Restore(bytes.NewReader(bad)), "begins at segment")
	}
	whole := buf.Bytes()
	tail := bytes.Index(whole, []byte("TGJL"))
	for at, says := range map[int]string{
		tail + 8: "tail is usage segment 0, not usage segment 1", // its number
		tail + 5: "kind 1",                                       // its part, to which no usage event belongs
	} {
		bad := bytes.Clone(whole[:len(whole)-4])
		bad[at] ^= 1
		sum := crc32.Checksum(bad, crc32.MakeTable(crc32.Castagnoli))
		bad = binary.LittleEndian.AppendUint32(bad, sum)
		require.ErrorContains(t, journal.New().Restore(bytes.NewReader(bad)), says)
	}
}
