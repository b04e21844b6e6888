package journal_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"math"
	"sync/atomic"
	"testing"

	"github.com/cespare/xxhash/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/journal"
)

func TestTheBytesAreThese(t *testing.T) {
	j := journal.New()
	j.Append(journal.Record{
		Kind: 1, Index: 0x102, Position: 3, Owner: 300, At: 0x1234, Payload: []byte("ab"),
	})
	j.Append(journal.Record{Kind: 3, Index: 0x105, Position: 0, Owner: 0, At: 0x1232})
	j.Append(journal.Record{Kind: 2, Index: 0x106, Position: 1, Owner: 0, At: 0x1240})
	end(j, 0x106)
	require.Equal(t, "54474a4c"+"02000000"+"0100000000000000"+"0201000000000000"+"3412000000000000"+
		"01"+"00"+"03"+"ac02"+"00"+"02"+"6162"+
		"03"+"03"+"00"+"00"+"03"+"00", hex.EncodeToString(tail(j)))
	require.Equal(t, "54474a4c"+"02010000"+"0100000000000000"+"0601000000000000"+"4012000000000000"+
		"02"+"00"+"01"+"00"+"00"+"00", hex.EncodeToString(j.Tail(journal.PartAudit)))
}

func TestASegmentIsCutAfterTheEntryThatFillsIt(t *testing.T) {
	j := journal.New()
	payload := make([]byte, 1<<20)
	for index := uint64(1); index <= 3; index++ {
		var before []byte
		for position := range uint32(9) { // one entry of nine times 1 MiB, beyond the tail's buffer
			before = tail(j)
			j.Append(journal.Record{
				Kind: journal.KindUsage, Index: index, Position: position,
				At: 100 - int64(index), Payload: payload,
			})
		}
		require.Empty(t, before)
		sealed, cut := end(j, index)
		require.True(t, cut)
		require.Equal(t, journal.SegmentInfo{
			Number: index, FirstIndex: index, LastIndex: index, Length: uint64(len(sealed.Data)),
			Records: 9, EventsThrough: 9 * index, Hash: xxhash.Sum64(sealed.Data),
			MinAt: 100 - int64(index), MaxAt: 100 - int64(index),
		}, sealed.SegmentInfo)
		require.Greater(t, len(sealed.Data), journal.SegmentBytes)
		require.Len(t, scan(t, sealed.Data), 9)
		require.Equal(t, sealed, j.View()[journal.PartUsage].Sealed)
		require.Equal(t, sealed.SegmentInfo, j.Manifest()[index-1])
		require.Empty(t, tail(j))
	}
	_, cut := end(j, 99)
	require.False(t, cut)
}

func TestALongEntryMovesTheTailAndHidesNothing(t *testing.T) {
	j := journal.New()
	j.Append(record(1, 0, "first"))
	end(j, 1)
	before := tail(j)
	for position := range uint32(12) {
		j.Append(record(2, position, string(make([]byte, 1<<20))))
		require.Equal(t, before, tail(j))
	}
	sealed, cut := end(j, 2)
	require.True(t, cut)
	require.Len(t, scan(t, sealed.Data), 13)
	require.Len(t, scan(t, before), 1, "a reader's view never changes")
}

func TestRecordsOutOfOrderPanic(t *testing.T) {
	j := journal.New()
	j.Append(record(5, 2, ""))
	require.Panics(t, func() { j.Append(record(5, 2, "")) })
	require.Panics(t, func() { j.Append(record(5, 1, "")) })
	require.Panics(t, func() { j.Append(record(4, 9, "")) })
	require.Panics(t, func() { j.Append(journal.Record{Index: 6}) })
	require.Panics(t, func() { j.Append(journal.Record{Kind: 64, Index: 6}) })
	j.Append(record(5, 3, ""))
	end(j, 5)
	require.Len(t, scan(t, tail(j)), 2)
}

func TestAnyRecordComesBackAtItsOffset(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j, index := journal.New(), rapid.Uint64Range(0, math.MaxUint64-1000).Draw(t, "base")
		part := rapid.SampledFrom(journal.Parts()).Draw(t, "part")
		kinds := rapid.IntRange(1, journal.MaxKind).Filter(func(kind int) bool {
			return journal.Kind(kind).Part() == part
		})
		var want []journal.Record
		for range rapid.IntRange(1, 30).Draw(t, "records") {
			index += rapid.Uint64Range(1, 9).Draw(t, "gap")
			want = append(want, journal.Record{
				Kind:     journal.Kind(kinds.Draw(t, "kind")),
				Index:    index,
				Position: rapid.Uint32().Draw(t, "position"), Owner: rapid.Uint32().Draw(t, "owner"),
				At:      rapid.Int64().Draw(t, "at"),
				Payload: rapid.SliceOfN(rapid.Byte(), 0, 200).Draw(t, "payload"),
			})
			j.Append(want[len(want)-1])
			end(j, index)
		}
		data := j.Tail(part)
		rd, err := journal.NewReader(data)
		require.NoError(t, err)
		n := 0
		require.NoError(t, journal.ScanFrom(data, 0, func(r journal.Record, offset int) error {
			require.True(t, bytes.Equal(want[n].Payload, r.Payload))
			r.Payload = want[n].Payload
			require.Equal(t, want[n], r)
			_, size, err := rd.Record(data[offset:])
			require.NoError(t, err)
			for cut := 1; cut < size; cut++ {
				_, need, err := rd.Record(data[offset : offset+cut])
				require.ErrorIs(t, err, journal.ErrData)
				require.Greater(t, need, cut)
				require.LessOrEqual(t, need, size)
			}
			n++
			return nil
		}))
		require.Len(t, want, n)
	})
}

func TestScanStopsAtTheFirstError(t *testing.T) {
	j, stop := journal.New(), errors.New("enough")
	for index := range uint64(5) {
		j.Append(record(index, 0, ""))
		end(j, index)
	}
	n := 0
	require.ErrorIs(t, journal.Scan(tail(j), func(journal.Record) error {
		if n++; n == 2 {
			return stop
		}
		return nil
	}), stop)
	require.Equal(t, 2, n)
	data := tail(j)
	cut := data[:len(data)-1]
	require.ErrorIs(t, journal.Scan(cut, func(journal.Record) error { return nil }),
		journal.ErrData)
	require.ErrorIs(t, journal.Scan(data[:9], nil), journal.ErrData)
	require.NoError(t, journal.Scan(nil, nil))
	twice := append(bytes.Clone(data), data[journal.HeaderBytes:]...)
	require.ErrorIs(t, journal.Scan(twice, func(journal.Record) error { return nil }),
		journal.ErrData, "records out of order")
}

func TestReadersSeeWholeEntriesBesideAppend(t *testing.T) {
	j := journal.New()
	done := make(chan struct{})
	var newest atomic.Uint64
	go func() {
		defer close(done)
		for index := uint64(1); index <= 3000; index++ {
			for position := range uint32(4) {
				j.Append(record(index, position, string(make([]byte, 3000))))
			}
			end(j, index)
			newest.Store(index)
		}
	}()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		least := newest.Load()
		view := j.View()[journal.PartUsage]
		first := uint64(1)
		if n := len(view.Segments); n > 0 {
			first = view.Segments[n-1].LastIndex + 1
			require.Equal(t, view.Segments[n-1], view.Sealed.SegmentInfo)
		}
		list := scan(t, view.Tail)
		require.Zero(t, len(list)%4, "half an entry was seen")
		require.GreaterOrEqual(t, first+uint64(len(list)/4), least+1, "a cut hid records")
		for i, r := range list {
			require.Equal(t, first+uint64(i/4), r.Index)
		}
	}
}

func TestDamagedSnapshotsAreRefused(t *testing.T) {
	j := journal.New()
	j.Append(journal.Record{Kind: 1, Index: 1, Payload: make([]byte, journal.SegmentBytes)})
	end(j, 1)
	j.Append(record(2, 1, "abc"))
	end(j, 2)
	var buf bytes.Buffer
	_, err := j.Begin().WriteTo(&buf)
	require.NoError(t, err)
	whole := buf.Bytes()
	fresh := journal.New()
	for i := range whole {
		require.ErrorIs(t, fresh.Restore(bytes.NewReader(whole[:i])), journal.ErrData)
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		require.ErrorIs(t, fresh.Restore(bytes.NewReader(damaged)), journal.ErrData, "byte %d", i)
	}
	require.Empty(t, fresh.Manifest(), "a refused snapshot changes nothing")
	src := bytes.NewReader(append(whole, 1, 2))
	require.NoError(t, fresh.Restore(src))
	require.Equal(t, 2, src.Len())
	require.Equal(t, j.Manifest(), fresh.Manifest())
	usage, _ := fresh.Usage()
	require.EqualValues(t, 2, usage)
	require.Panics(t, func() { fresh.Append(record(2, 1, "")) }, "the order survives a restore")
}

func FuzzScan(f *testing.F) {
	j := journal.New()
	j.Append(record(3, 1, "payload"))
	j.Append(record(9, 0, ""))
	end(j, 9)
	f.Add(tail(j))
	f.Fuzz(func(t *testing.T, data []byte) {
		again := journal.New()
		if journal.Scan(data, func(journal.Record) error { return nil }) != nil || len(data) == 0 {
			return
		}
		require.NoError(t, journal.Scan(data, func(r journal.Record) error {
			again.Append(r)
			return nil
		}))
		end(again, math.MaxUint64)
	})
}

func FuzzRestore(f *testing.F) {
	j := journal.New()
	j.Append(record(3, 1, "payload"))
	end(j, 3)
	var buf bytes.Buffer
	if _, err := j.Begin().WriteTo(&buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := journal.New().Restore(bytes.NewReader(data)); err != nil {
			require.ErrorIs(t, err, journal.ErrData)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	j := journal.New()
	r := record(0, 0, string(make([]byte, 100)))
	b.ReportAllocs()
	for b.Loop() {
		r.Position++
		if r.Position == 1000 {
			end(j, r.Index)
			r.Index, r.Position = r.Index+1, 0
		}
		j.Append(r)
	}
}
