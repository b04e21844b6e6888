package page

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestIndexAgreesWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, model := NewIndex(), map[uint64][]uint32{}
		// Few hashes, in one sub-table, so that they meet, wrap round and leave tombstones.
		hash := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(0xffff_ffe0, 0xffff_ffff))
		for row := uint32(1); row < uint32(rapid.IntRange(2, 300).Draw(t, "steps")); row++ {
			h := hash.Draw(t, "hash")
			if list := model[h]; len(list) > 0 && rapid.Bool().Draw(t, "remove") {
				x.Remove(h, list[0])
				x.Remove(h, list[0])
				model[h] = list[1:]
				continue
			}
			x.Insert(h, row)
			model[h] = append(model[h], row)
		}
		total := 0
		for h, list := range model {
			total += len(list)
			var found []uint32
			require.Zero(t, x.Find(h, func(row uint32) bool {
				found = append(found, row)
				return false
			}))
			require.ElementsMatch(t, list, found)
			for _, row := range list {
				require.Equal(t, row, x.Find(h, func(r uint32) bool { return r == row }))
			}
		}
		require.EqualValues(t, total, x.Len())
	})
}

// TestNotesStayWithTheirRows: whatever is inserted, removed and grown, the note of a row is the one
// that was noted last, and Likely returns a row under the hash if there is any.
func TestNotesStayWithTheirRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, notes, hashes := NewNotingIndex(), map[uint32]uint64{}, map[uint32]uint64{}
		hash := rapid.OneOf(rapid.Uint64Range(0, 40), rapid.Uint64Range(0xffff_ffe0, 0xffff_ffff))
		for row := uint32(1); row < uint32(rapid.IntRange(2, 300).Draw(t, "steps")); row++ {
			other := rapid.Uint32Range(1, row).Draw(t, "other")
			h := hash.Draw(t, "hash")
			switch _, there := hashes[other]; {
			case there && rapid.Bool().Draw(t, "remove"):
				x.Remove(hashes[other], other)
				delete(hashes, other)
			case there && rapid.Bool().Draw(t, "note"):
				notes[other] = rapid.Uint64().Draw(t, "what")
				x.Note(hashes[other], other, notes[other])
			default:
				x.Insert(h, row)
				hashes[row], notes[row] = h, 0
				x.Note(h, row+1, 77) // which is not there
			}
		}
		require.EqualValues(t, len(hashes), x.Len())
		for row, h := range hashes {
			require.Equal(t, row, x.Find(h, func(r uint32) bool { return r == row }))
			likely, note := x.Likely(h)
			require.Equal(t, h, hashes[likely])
			require.Equal(t, notes[likely], note)
			for likely != row { // those before it under the same hash
				x.Remove(h, likely)
				delete(hashes, likely)
				likely, note = x.Likely(h)
				require.Equal(t, notes[likely], note)
			}
		}
		likely, _ := x.Likely(99)
		require.Zero(t, likely)
	})
}

func TestIndexFindsBesideTheWriter(t *testing.T) {
	const rows = 60_000
	x := NewIndex()
	keys := make([]uint64, rows+1)
	for i := range keys {
		keys[i] = rand.Uint64()
	}
	var newest atomic.Uint32
	done := make(chan struct{})
	go func() {
		defer close(done)
		for row := uint32(1); row <= rows; row++ {
			x.Insert(keys[row], row)
			if row%3 == 0 {
				x.Remove(keys[row], row)
			}
			newest.Store(row)
		}
	}()
	for n, running := 0, true; running; n++ {
		select {
		case <-done:
			running = false
		default:
		}
		if top := newest.Load(); top > 0 {
			row := rand.Uint32N(top) + 1
			want := row
			if row%3 == 0 {
				want = 0
			}
			got := x.Find(keys[row], func(r uint32) bool { return r == row })
			require.Equal(t, want, got)
		}
	}
}

func TestSubTablesGrowOneAfterAnother(t *testing.T) {
	x, rng := NewIndex(), rand.New(rand.NewPCG(3, 4))
	const rounds = 150
	last, slots := x.bytes.Load(), 0
	for round := range uint32(rounds) {
		growths := 0
		for sub := range uint64(subTables) { // all are equally full all the time
			x.Insert(sub<<(64-subTableBits)|uint64(rng.Uint32()), round+1)
			if now := x.bytes.Load(); now != last {
				growths, last = growths+1, now
			}
		}
		if round > 40 {
			require.Less(t, growths, subTables/3, "sub-tables grew at the same time")
		}
	}
	for i := range x.subs {
		sub := &x.subs[i]
		slots += len(*sub.slots.Load())
		require.LessOrEqual(t, int(sub.used)*4, len(*sub.slots.Load())*3)
	}
	require.Less(t, slots, subTables*rounds*7/4)
}

func TestFindAllocatesNothing(t *testing.T) {
	x := NewIndex()
	f := newFixture()
	f.grow(10)
	x.Insert(77, 3)
	id := byte(3)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		if x.Find(77, func(row uint32) bool { return f.accounts.Read(row).ID[0] == id }) != 3 {
			panic("not found")
		}
	}))
}

func TestNearIsWhereFindBegins(t *testing.T) {
	x := NewIndex()
	require.Zero(t, x.Near(7).Load(), "nothing is there to read")
	x.Insert(7, 3)
	require.Equal(t, uint64(7<<32|3), x.Near(7).Load())
}

func TestAReservedIndexHardlyGrows(t *testing.T) {
	const rows = 1 << 19
	rng := rand.New(rand.NewPCG(3, 4))
	reserved, grown := NewIndex(), NewIndex()
	reserved.Reserve(rows)
	before := reserved.Bytes()
	hashes := make([]uint64, rows+1)
	for row := uint32(1); row <= rows; row++ {
		hashes[row] = rng.Uint64()
		reserved.Insert(hashes[row], row)
		grown.Insert(hashes[row], row)
	}
	require.Less(t, reserved.Bytes()-before, before/50, "it has moved more than one in a hundred")
	require.Less(t, reserved.Bytes(), grown.Bytes()*11/10)
	filled := reserved.Bytes()
	reserved.Reserve(4 * rows)
	require.Equal(t, filled, reserved.Bytes(), "it is too late, and no harm")
	for row := uint32(1); row <= rows; row++ {
		require.Equal(t, row, reserved.Find(hashes[row], func(r uint32) bool { return r == row }))
	}
}
