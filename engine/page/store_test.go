package page

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRowsCountFromOneAndBeginZeroed(t *testing.T) {
	f := newFixture()
	require.Zero(t, f.accounts.Len())
	for want := uint32(1); want <= 3000; want++ {
		row, rec := f.accounts.Append()
		require.Equal(t, want, row)
		require.Equal(t, account{}, *rec)
		rec.Balance = int64(row)
		require.Same(t, rec, f.accounts.Read(row), "rows never move")
		require.Same(t, rec, f.accounts.Write(row))
	}
	first := f.accounts.Read(1)
	f.grow(10_000)
	require.Same(t, first, f.accounts.Read(1))
	require.EqualValues(t, 1, first.Balance)
	require.Panics(t, func() { f.accounts.Read(0) })
	require.Panics(t, func() { f.accounts.Read(1 << 31) })
	require.Positive(t, f.store.Bytes())
}

func TestTablesAreNumberedOnce(t *testing.T) {
	f := newFixture()
	require.Panics(t, func() { NewBlobTable(f.store, 7) })
	require.Panics(t, func() { NewTable(f.store, 1, Codec[struct{}]{}) })
	require.Panics(t, func() { NewTable(f.store, 1, Codec[[1 << 20]byte]{}) })
}

func TestAFullTablePanics(t *testing.T) {
	f := newFixture()
	f.flags.rows.Store(math.MaxUint32)
	require.Panics(t, func() { f.flags.Append() })
}

func TestRestoreBringsEveryRowBack(t *testing.T) {
	for _, rows := range []int{0, 1, 15, 16, 17, 2048, 5000} {
		f := newFixture()
		f.grow(rows)
		first := f.snapshot(t)
		g := newFixture()
		g.grow(37) // the old content goes
		require.NoError(t, g.store.Restore(bytes.NewReader(first)))
		require.Equal(t, f.contents(), g.contents())
		require.Equal(t, first, g.snapshot(t), "same state, same bytes")
		g.grow(20)
		g.flags.Write(1).Set = 200
		require.Equal(t, rows+20, int(g.accounts.Len()))
		require.Equal(t, g.contents(), restored(t, g.snapshot(t)).contents())
	}
}

func TestRestoreReadsItsBytesAndNoMore(t *testing.T) {
	f := newFixture()
	f.grow(100)
	src := bytes.NewReader(append(f.snapshot(t), "trailing"...))
	require.NoError(t, newFixture().store.Restore(src))
	require.Equal(t, len("trailing"), src.Len())
}

func TestATableThatTheSnapshotDoesNotKnowBecomesEmpty(t *testing.T) {
	s := NewStore()
	NewTable(s, 3, accountCodec()).Append()
	var buf bytes.Buffer
	_, err := s.Begin().WriteTo(&buf)
	require.NoError(t, err)
	f := newFixture()
	f.grow(3)
	require.NoError(t, f.store.Restore(bytes.NewReader(buf.Bytes())))
	require.EqualValues(t, 1, f.accounts.Len())
	require.Zero(t, f.blobs.Len())
	// And the other way round: a table that this build does not know is not dropped silently, and
	// is accepted while it is empty.
	require.NoError(t, s.Restore(bytes.NewReader(f.snapshot(t))))
	f.grow(1)
	require.NotZero(t, f.blobs.Len())
	require.ErrorIs(t, s.Restore(bytes.NewReader(f.snapshot(t))), ErrSnapshot)
}

func TestDamageIsRefused(t *testing.T) {
	f := newFixture()
	f.grow(40)
	snapshot := f.snapshot(t)
	for i := range snapshot {
		require.ErrorIs(t, newFixture().store.Restore(bytes.NewReader(snapshot[:i])), ErrSnapshot)
		damaged := bytes.Clone(snapshot)
		damaged[i] ^= 1 << (i % 8)
		require.ErrorIs(t, newFixture().store.Restore(bytes.NewReader(damaged)), ErrSnapshot,
			"bit %d of byte %d", i%8, i)
	}
}

// block makes a valid block of a body that need not be valid.
func block(body []byte) []byte {
	b := blocks{buf: append(make([]byte, blockHeader), body...)}
	var out bytes.Buffer
	b.w = &out
	if err := b.cut(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func TestImpossibleFramesAreRefused(t *testing.T) {
	head := func(rows uint32) []byte {
		b := append([]byte(magic), formatVersion, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 9, 0)
		return block(binary.LittleEndian.AppendUint32(b, rows))
	}
	frame := func(id uint16, first uint32, count uint16, records string) []byte {
		b := binary.LittleEndian.AppendUint16(nil, id)
		b = binary.LittleEndian.AppendUint32(b, first)
		b = binary.LittleEndian.AppendUint16(b, count)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(records)))
		return append(b, records...)
	}
	end := make([]byte, blockHeader)
	restore := func(parts ...[]byte) error {
		return newFixture().store.Restore(bytes.NewReader(bytes.Join(parts, nil)))
	}
	require.NoError(t, restore(head(3), block(frame(9, 1, 2, "bc")), block(frame(9, 0, 1, "a")), end))
	for name, b := range map[string][]byte{
		"row twice":       append(block(frame(9, 0, 2, "ab")), block(frame(9, 1, 2, "bc"))...),
		"row for another": append(block(frame(9, 0, 2, "ab")), block(frame(9, 0, 1, "a"))...),
		"row missing":     block(frame(9, 0, 2, "ab")),
		"row too high":    block(frame(9, 1, 3, "abc")),
		"row overflow":    block(frame(9, math.MaxUint32, 2, "ab")),
		"unknown table":   block(frame(8, 0, 3, "abc")),
		"record missing":  block(frame(9, 0, 3, "ab")),
		"record too many": block(frame(9, 0, 3, "abcd")),
		"frame cut":       block(frame(9, 0, 3, "abc")[:13]),
		"header cut":      block([]byte{9, 0, 0}),
	} {
		require.ErrorIs(t, restore(head(3), b, end), ErrSnapshot, name)
	}
	// A header that promises four billion rows allocates none of them.
	require.ErrorIs(t, restore(head(math.MaxUint32), end), ErrSnapshot)
}

func TestHashGoesRoundAndNoticesAnyRecord(t *testing.T) {
	turn := func(f *fixture) []uint64 {
		var list []uint64
		h := uint64(0)
		for range 3*(200/hashRows+1) + 2 {
			h = f.store.HashNext(h)
			list = append(list, h)
		}
		return list
	}
	build := func() *fixture { f := newFixture(); f.grow(200); return f }
	want := turn(build())
	require.Equal(t, want, turn(build()))
	for row := uint32(1); row <= 200; row++ {
		f := build()
		f.accounts.Write(row).Counters[8]++
		require.NotEqual(t, want[len(want)-1], turn(f)[len(want)-1], "row %d", row)
	}
	require.EqualValues(t, 5, newFixture().store.HashNext(5), "an empty store hashes to itself")
}

func TestHashCursorIsPartOfTheSnapshot(t *testing.T) {
	f, rng := newFixture(), rand.New(rand.NewPCG(1, 2))
	f.grow(100)
	h := uint64(1)
	for range 60 {
		g := restored(t, f.snapshot(t))
		require.Equal(t, f.store.HashNext(h), g.store.HashNext(h))
		h = f.store.HashNext(h)
		f.change(rng.Uint64())
	}
}

func FuzzRestore(f *testing.F) {
	seed := newFixture()
	seed.grow(20)
	var buf bytes.Buffer
	if _, err := seed.store.Begin().WriteTo(&buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksums are fixed, so that the bytes reach the decoders behind them.
		data = bytes.Clone(data)
		for at := 0; at+blockHeader <= len(data); {
			size := int(binary.LittleEndian.Uint32(data[at:])) % (len(data) - at - blockHeader + 1)
			binary.LittleEndian.PutUint32(data[at:], uint32(size))
			fixed := block(data[at+blockHeader : at+blockHeader+size])
			copy(data[at:], fixed)
			at += blockHeader + max(size, 1)
		}
		g := newFixture()
		if err := g.store.Restore(bytes.NewReader(data)); err == nil {
			_ = restored(t, g.snapshot(t))
		}
	})
}
