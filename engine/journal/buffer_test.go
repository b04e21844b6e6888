package journal_test

import (
	"bytes"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"

	"tollgate/engine/journal"
)

// fill appends entries until a segment is cut, and returns the index of the next one.
func fill(j *journal.Journal, index uint64) (journal.Segment, uint64) {
	for ; ; index++ {
		j.Append(record(index, 0, string(bytes.Repeat([]byte{byte(index)}, 100))))
		if sealed, cut := end(j, index); cut {
			return sealed, index + 1
		}
	}
}

func TestMemoryOfAReleasedSegmentIsUsedAgain(t *testing.T) {
	j := journal.NewCutting(4096)
	first, index := fill(j, 1)
	memory := &first.Data[0]
	first.Release()
	first.Release()
	require.False(t, first.Share(), "its memory was released")
	view := j.View()[journal.PartUsage]
	require.Len(t, view.Segments, 1)
	require.Zero(t, view.Sealed, "nor is it shown")

	second, index := fill(j, index)
	require.Same(t, memory, &second.Data[0])
	third, _ := fill(j, index)
	require.NotSame(t, memory, &third.Data[0], "it was released twice and is used once")
	require.Equal(t, second.Hash, xxhash.Sum64(second.Data))
}

// TestMemoryOfAnotherLengthIsNotKept: the first tail of a part grows, and is cut before it has the
// length of the others if entries are short.
func TestMemoryOfAnotherLengthIsNotKept(t *testing.T) {
	j, index := journal.New(), uint64(0)
	cut := func(kind journal.Kind) journal.Segment {
		for {
			index++
			j.Append(journal.Record{Kind: kind, Index: index, Payload: make([]byte, 100)})
			if sealed, cut := end(j, index); cut {
				return sealed
			}
		}
	}
	kinds := []journal.Kind{journal.KindUsage, journal.KindAudit}
	for _, kind := range kinds {
		first := cut(kind)
		first.Release()
	}
	for _, kind := range kinds {
		second := cut(kind)
		memory := &second.Data[0]
		second.Release()
		require.Same(t, memory, &cut(kind).Data[0], kind.Part())
	}
}

// TestAnOutlineKeepsNoMemory: it has the lengths and times of a view, and memory is used again.
func TestAnOutlineKeepsNoMemory(t *testing.T) {
	j := journal.NewCutting(4096)
	oldest := func() int64 {
		view := j.Outline()[journal.PartUsage]
		at, ok := view.OldestAt()
		require.Equal(t, ok, len(view.Segments) > 0 || view.TailBytes > 0)
		if !ok {
			return 0
		}
		return at
	}
	require.Zero(t, oldest())
	r := record(1, 0, "first")
	j.Append(r)
	require.Zero(t, oldest(), "its entry has not ended")
	end(j, 1)
	require.Equal(t, r.At, oldest())
	first, index := fill(j, 2)
	require.Equal(t, r.At, oldest())
	memory := &first.Data[0]
	other := first.SegmentInfo
	other.Hash++
	_, ok := j.Sealed(other)
	require.False(t, ok)
	first.Release()
	_, ok = j.Sealed(first.SegmentInfo)
	require.False(t, ok, "it was released")

	second, index := fill(j, index)
	require.Same(t, memory, &second.Data[0])
	sealed, ok := j.Sealed(second.SegmentInfo)
	require.True(t, ok)
	require.Equal(t, second, sealed)
	second.Release()
	third, index := fill(j, index)
	require.NotSame(t, memory, &third.Data[0], "Sealed gave the second to be read")

	j.Append(record(index, 0, "of the tail"))
	end(j, index)
	view := j.View()[journal.PartUsage]
	require.Equal(t, len(view.Tail), view.TailBytes)
	view.Tail, view.Sealed = nil, journal.Segment{}
	require.Equal(t, view, j.Outline()[journal.PartUsage])
}

// TestARestoredOutlineIsTheSame, with a tail that has outgrown its first buffer, and without one.
func TestARestoredOutlineIsTheSame(t *testing.T) {
	j := journal.New()
	for index := uint64(1); index < 200; index++ {
		j.Append(record(index, 0, string(make([]byte, 100<<10))))
		end(j, index)
		if index%25 != 0 && j.Outline()[journal.PartUsage].TailBytes > 0 {
			continue
		}
		var buf bytes.Buffer
		_, err := j.Begin().WriteTo(&buf)
		require.NoError(t, err)
		restored := journal.New()
		require.NoError(t, restored.Restore(&buf))
		require.Equal(t, j.Outline(), restored.Outline())
	}
}

// TestBytesThatWereReadAreNotUsedAgain: whoever has a view reads what it was, however much later.
func TestBytesThatWereReadAreNotUsedAgain(t *testing.T) {
	// Each begins to read while the tail is open, or once it is sealed, and returns what goes on to.
	held := func(b []byte) func() []byte { return func() []byte { return b } }
	for name, read := range map[string]struct {
		tail   func(*journal.Journal) func() []byte
		sealed func(*journal.Journal, *journal.Segment) func() []byte
	}{
		"tail": {tail: func(j *journal.Journal) func() []byte { return held(tail(j)) }},
		"snapshot": {tail: func(j *journal.Journal) func() []byte {
			sn := j.Begin()
			return func() []byte {
				var buf bytes.Buffer
				_, err := sn.WriteTo(&buf)
				require.NoError(t, err)
				return buf.Bytes()
			}
		}},
		"sealed": {sealed: func(j *journal.Journal, _ *journal.Segment) func() []byte {
			return held(j.View()[journal.PartUsage].Sealed.Data)
		}},
		"shared": {sealed: func(_ *journal.Journal, s *journal.Segment) func() []byte {
			s.Share()
			return held(s.Data)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			j := journal.NewCutting(4096)
			j.Append(record(1, 0, "first"))
			end(j, 1)
			var shown func() []byte
			if read.tail != nil {
				shown = read.tail(j)
			}
			sealed, index := fill(j, 2)
			if read.sealed != nil {
				shown = read.sealed(j, &sealed)
			}
			before := bytes.Clone(shown())
			require.NotEmpty(t, before)
			sealed.Release()
			for range 3 {
				next, after := fill(j, index)
				require.NotSame(t, &sealed.Data[0], &next.Data[0])
				next.Release()
				index = after
			}
			require.True(t, bytes.Equal(before, shown()), "its bytes changed")
		})
	}
}

// TestReadersNeverSeeAnotherSegment reads while memory goes round as fast as it can.
func TestReadersNeverSeeAnotherSegment(t *testing.T) {
	j := journal.NewCutting(4096)
	done, reused := make(chan struct{}), 0
	go func() {
		defer close(done)
		var last *byte
		for n, index := 0, uint64(1); n < 3000; n++ {
			var sealed journal.Segment
			sealed, index = fill(j, index)
			if last == &sealed.Data[0] {
				reused++
			}
			last = &sealed.Data[0]
			sealed.Release()
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		view := j.View()[journal.PartUsage]
		number := view.First + uint64(len(view.Segments))
		if len(view.Tail) > 0 {
			rd, err := journal.NewReader(view.Tail)
			require.NoError(t, err)
			require.Equal(t, number, rd.Number())
		}
		for _, r := range scan(t, view.Tail) {
			require.Equal(t, string(bytes.Repeat([]byte{byte(r.Index)}, 100)), string(r.Payload))
		}
		if s := &view.Sealed; s.Number != 0 {
			require.Equal(t, number-1, s.Number)
			require.Equal(t, s.Hash, xxhash.Sum64(s.Data))
		}
	}
	require.NotZero(t, reused)
}
