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
	require.False(t, first.Share(), "it is nobody's to read")
	view := j.View()[journal.PartUsage]
	require.Len(t, view.Segments, 1)
	require.Zero(t, view.Sealed, "nor is it shown")

	second, index := fill(j, index)
	require.Same(t, memory, &second.Data[0])
	third, _ := fill(j, index)
	require.NotSame(t, memory, &third.Data[0], "it was released twice and is used once")
	require.Equal(t, second.Hash, xxhash.Sum64(second.Data))
}

// TestBytesThatWereReadAreNotUsedAgain: whoever has a view reads what it was, however much later.
func TestBytesThatWereReadAreNotUsedAgain(t *testing.T) {
	for name, read := range map[string]func(*journal.Journal, *journal.Segment) []byte{
		"tail": func(j *journal.Journal, _ *journal.Segment) []byte { return tail(j) },
		"sealed": func(j *journal.Journal, _ *journal.Segment) []byte {
			return j.View()[journal.PartUsage].Sealed.Data
		},
		"shared":   func(_ *journal.Journal, s *journal.Segment) []byte { s.Share(); return s.Data },
		"snapshot": func(j *journal.Journal, _ *journal.Segment) []byte { j.Begin(); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			j := journal.NewCutting(4096)
			j.Append(record(1, 0, "first"))
			end(j, 1)
			var held []byte
			if name == "tail" || name == "snapshot" {
				held = read(j, nil)
			}
			sealed, index := fill(j, 2)
			if held == nil {
				held = read(j, &sealed)
			}
			before := bytes.Clone(held)
			sealed.Release()
			for range 3 {
				next, after := fill(j, index)
				require.NotSame(t, &sealed.Data[0], &next.Data[0])
				next.Release()
				index = after
			}
			require.True(t, bytes.Equal(before, held), "its bytes changed")
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
