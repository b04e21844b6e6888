package idempotency

import (
	"bytes"
	"encoding/binary"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func key(n uint64) (k [16]byte) {
	binary.BigEndian.PutUint64(k[:], n)
	binary.BigEndian.PutUint64(k[8:], n*0x9e3779b97f4a7c15)
	return k
}

func find(k *Keys, key [16]byte) (Slot, bool) { return k.Find(key, k.Hash(key)) }

func add(k *Keys, key [16]byte, s Slot, stamp int64, owner uint32) {
	k.Add(key, k.Hash(key), s, stamp, owner)
	k.Show()
}

func slotOf(n uint64) Slot {
	return Slot{Attempt: uint32(n), Fingerprint: uint32(n*7) & 0xffffff, Outcome: uint8(n)}
}

func snapshot(t require.TestingT, k *Keys) []byte {
	var buf bytes.Buffer
	sn := k.Begin()
	defer sn.Release()
	n, err := sn.WriteTo(&buf)
	require.NoError(t, err)
	require.EqualValues(t, buf.Len(), n)
	return buf.Bytes()
}

func TestAKeyKeepsItsFirstRequest(t *testing.T) {
	k := New(1000)
	_, found := find(k, key(1))
	require.False(t, found)
	want := Slot{Attempt: 1<<32 - 1, Fingerprint: 0xfedcba, Outcome: 255}
	add(k, key(1), want, 5, 0)
	got, found := find(k, key(1))
	require.True(t, found)
	require.Equal(t, want, got)
	_, found = find(k, key(2))
	require.False(t, found)
	require.EqualValues(t, 1, k.Len())
}

func TestAKeyIsComparedWhole(t *testing.T) {
	k := New(1000)
	add(k, key(1), slotOf(1), 5, 0)
	k.index.insert(k.Hash(key(2)), 0, k.gone) // as if all bits that the index keeps were equal
	_, found := find(k, key(2))
	require.False(t, found)
	add(k, key(2), slotOf(2), 5, 0)
	got, found := find(k, key(2))
	require.True(t, found)
	require.Equal(t, slotOf(2), got)
}

func TestAgeCountsTheKeysAfter(t *testing.T) {
	k := New(1000)
	for n := range uint64(10) {
		add(k, key(n), slotOf(n), int64(n), owner(n))
	}
	for n := range uint64(10) {
		age, found := k.Age(key(n))
		require.True(t, found)
		require.Equal(t, 9-n, age)
	}
	_, found := k.Age(key(10))
	require.False(t, found)
	add(k, key(10), slotOf(10), marginMS+2000, 0)
	k.Expire(marginMS + 2000)
	_, found = k.Age(key(9))
	require.False(t, found, "a dropped key has no age")
	age, found := k.Age(key(10))
	require.True(t, found && age == 0)
}

func TestKeysStayForTheRetentionAndGoInTime(t *testing.T) {
	const retention, span = 200_000, 50_000
	stamps := []int64{0, span - 1, span, 2*span - 1, 5 * span}
	at := func(stamp int64) (k *Keys, has func(i int) bool) {
		k = New(retention)
		for i, stamp := range stamps {
			k.Expire(stamp)
			add(k, key(uint64(i)), slotOf(0), stamp, 0)
		}
		k.Expire(stamp)
		return k, func(i int) bool { _, found := find(k, key(uint64(i))); return found }
	}
	for i, stamp := range stamps {
		_, has := at(stamp + retention + marginMS)
		for j := i; j < len(stamps); j++ {
			require.True(t, has(j), "key %d left %d too early", j, stamps[j]-stamp)
		}
		_, has = at(stamp + retention + marginMS + span)
		require.False(t, has(i), "key %d is kept a generation too long", i)
	}
	k, has := at(1 << 40)
	require.Zero(t, k.Len())
	add(k, key(0), slotOf(1), 1<<40, 0)
	require.True(t, has(0), "an expired key may be used again")
	require.EqualValues(t, 1, k.Len())
}

func TestRetentionMayChange(t *testing.T) {
	k := New(1000)
	add(k, key(1), slotOf(1), 0, 0)
	k.SetRetention(50_000)
	require.EqualValues(t, 50_000, k.Retention())
	k.Expire(1000 + marginMS + 1)
	require.EqualValues(t, 1, k.Len())
	k.SetRetention(1000)
	k.Expire(1000 + marginMS + 1)
	require.Zero(t, k.Len())
}

// TestKeysAgreeWithAMap also restores now and then, which must not be visible.
func TestKeysAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k, stamp := New(16_000), int64(0)
		type kept struct {
			slot Slot
			at   int64
		}
		model := map[uint64]kept{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			stamp += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300_000)).Draw(t, "pass")
			k.Expire(stamp)
			first := uint64(rapid.IntRange(0, 800).Draw(t, "first"))
			for n := first; n < first+uint64(rapid.IntRange(0, 800).Draw(t, "count")); n++ {
				if _, found := find(k, key(n)); !found {
					m, known := model[n]
					if known && stamp-m.at <= 16_000+marginMS {
						t.Fatalf("key %d was lost", n)
					}
					add(k, key(n), slotOf(n+uint64(stamp)), stamp, 0)
					model[n] = kept{slotOf(n + uint64(stamp)), stamp}
				}
			}
			if rapid.IntRange(0, 4).Draw(t, "restore") == 0 {
				bytesBefore, restored := snapshot(t, k), New(1)
				require.NoError(t, restored.Restore(bytes.NewReader(bytesBefore), k.next))
				require.Equal(t, bytesBefore, snapshot(t, restored))
				require.Equal(t, k.Len(), restored.Len())
				k = restored
			}
		}
		live := 0
		ages := map[uint64]bool{} // each is some key's, so no two keys are of one age
		for n, m := range model {
			slot, found := find(k, key(n))
			if found {
				live++
				require.Equal(t, m.slot, slot)
				age, found := k.Age(key(n))
				require.True(t, found && age < k.Len())
				ages[age] = true
			} else {
				require.Greater(t, stamp-m.at, int64(16_000+marginMS))
			}
		}
		require.EqualValues(t, live, k.Len())
		require.Len(t, ages, live)
	})
}

// TestAllKeysAreFoundAfterALongRestore: of more keys than are put into the index at a time, demoted
// ones before them.
func TestAllKeysAreFoundAfterALongRestore(t *testing.T) {
	const demoted, count = 5000, 5000 + 2*indexKeys + 100
	k := New(1000)
	for n := range uint64(count) {
		add(k, key(n), slotOf(n), 0, 0)
	}
	k.Demote(demoted)
	restored := New(1)
	require.NoError(t, restored.Restore(bytes.NewReader(snapshot(t, k)), count))
	for n := range uint64(count) {
		slot, found := find(restored, key(n))
		if found != (n >= demoted) || found && slot != slotOf(n) {
			t.Fatalf("key %d: %t %v", n, found, slot)
		}
	}
	require.Less(t, restored.Bytes(), k.Bytes()*11/10)
	for n := range uint64(subTables) { // there is room for more
		add(restored, key(count+n), slotOf(n), 0, 0)
	}
}

func TestReplicasHaveTheSameBytes(t *testing.T) {
	build := func() *Keys {
		k := New(1600)
		for n := range uint64(20_000) {
			k.Expire(int64(n))
			add(k, key(n), slotOf(n), int64(n), owner(n))
		}
		return k
	}
	require.Equal(t, snapshot(t, build()), snapshot(t, build()))
}

func TestASnapshotIsTheSetAtBeginWhileKeysAreAdded(t *testing.T) {
	k, n := New(1000), uint64(0)
	add := func(count, pass int64) {
		for range count {
			k.Expire(int64(n) * pass)
			add(k, key(n), slotOf(n), int64(n)*pass, owner(n))
			n++
		}
	}
	add(20_000, 1)
	want := snapshot(t, k)
	sn := k.Begin()
	add(100, 1) // to the generation that was open
	done := make(chan struct{})
	go func() {
		defer close(done)
		add(20_000, 100) // and all that were there expire
	}()
	var got bytes.Buffer
	_, err := sn.WriteTo(&got)
	require.NoError(t, err)
	<-done
	require.True(t, bytes.Equal(want, got.Bytes()))
	require.Less(t, k.Len(), uint64(20_000))
}

func TestReleaseStopsAWrite(t *testing.T) {
	k := New(1000)
	add(k, key(1), slotOf(1), 1, 0)
	sn := k.Begin()
	sn.Release()
	_, err := sn.WriteTo(io.Discard)
	require.ErrorIs(t, err, ErrReleased)
}

func TestDamageIsRefused(t *testing.T) {
	k := New(1000)
	for n := range uint64(10) {
		add(k, key(n), slotOf(n), int64(n*20_000), owner(n))
	}
	whole := snapshot(t, k)
	for i := range whole {
		require.ErrorIs(t, New(1).Restore(bytes.NewReader(whole[:i]), 10), ErrSnapshot)
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		require.ErrorIs(t, New(1).Restore(bytes.NewReader(damaged), 10), ErrSnapshot, "byte %d", i)
	}
	src := bytes.NewReader(append(whole, "more"...))
	require.NoError(t, New(1).Restore(src, 10))
	require.Equal(t, 4, src.Len(), "no byte too many is read")
}

func FuzzRestore(f *testing.F) {
	k := New(1000)
	for n := range uint64(5) {
		add(k, key(n), slotOf(n), int64(n*100), owner(n))
	}
	var buf bytes.Buffer
	if _, err := k.Begin().WriteTo(&buf); err != nil {
		f.Fatal(err)
	}
	f.Add(buf.Bytes())
	k.Demote(3)
	f.Add(snapshot(f, k))
	f.Fuzz(func(t *testing.T, data []byte) {
		k := New(1)
		if k.Restore(bytes.NewReader(data), 5) == nil {
			again := New(1)
			require.NoError(t, again.Restore(bytes.NewReader(snapshot(t, k)), 5))
			require.Equal(t, k.Span(), again.Span())
		}
	})
}

func TestMemoryPerKeyStaysBounded(t *testing.T) {
	k, rng := New(1), rand.New(rand.NewPCG(1, 2))
	stamp := int64(0)
	worst := 0.0
	for n := range 1_200_000 {
		stamp++ // 600,000 keys
		if n%100 == 0 {
			k.Expire(stamp)
		}
		add(k, key(rng.Uint64()), Slot{}, stamp, 0)
		if n > 700_000 && n%1000 == 0 { // hundreds of thousands of keys, generations coming and going
			worst = max(worst, float64(k.Bytes()-8192*32)/float64(k.Len()))
		}
	}
	require.Less(t, worst, 40.0)
}

// TestSlotsStayInOrder: whatever tags come in whatever order, also when they run over the end of
// their sub-table, each is found between its place and the first slot that is empty or greater.
func TestSlotsStayInOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for name, tag := range map[string]func() uint32{
		"spread":     rng.Uint32,
		"at the end": func() uint32 { return math.MaxUint32 - rng.Uint32N(1000) },
		"at the top": func() uint32 { return rng.Uint32N(1000) },
		"few":        func() uint32 { return rng.Uint32N(3) << 30 },
	} {
		t.Run(name, func(t *testing.T) {
			var x index
			kept := map[uint64]bool{}
			gone := func(low uint32) bool { return low%3 == 0 && low < 500 }
			for low := range uint32(2000) {
				hash := uint64(7)<<(64-subTableBits) | uint64(tag())
				before := x.total
				x.insert(hash, low, gone)
				kept[slotWith(hash, low)] = true
				if x.total == before {
					continue
				}
				maps.DeleteFunc(kept, func(v uint64, _ bool) bool {
					return gone(uint32(v)) && uint32(v) != low
				})
			}
			sub := &x.subs[7]
			require.Zero(t, sub.slots[len(sub.slots)-1])
			require.EqualValues(t, len(sub.slots), x.total)
			require.LessOrEqual(t, x.total, uint64(sub.places+sub.used+2*spill))
			for v := range kept {
				i := sub.place(uint32(v >> 32))
				for ; sub.slots[i] != v; i++ {
					require.False(t, ends(sub.slots[i], uint32(v>>32)), "%x is not found", v)
				}
			}
			require.True(t, slices.IsSorted(slices.DeleteFunc(slices.Clone(sub.slots),
				func(v uint64) bool { return v == 0 })))
		})
	}
}

func TestSubTablesGrowOneAfterAnother(t *testing.T) {
	var x index
	kept := func(uint32) bool { return false }
	last := uint64(0)
	for round := range uint64(120) {
		growths := 0
		for sub := range uint64(subTables) { // all are equally full all the time
			x.insert(sub<<(64-subTableBits)|round*0x9e3779b1&0xffffffff, uint32(round), kept)
			if x.total != last {
				growths, last = growths+1, x.total
			}
		}
		if round > 40 {
			require.Less(t, growths, subTables/3, "sub-tables grew at the same time")
		}
	}
}

func TestFindAndAddAllocateNothing(t *testing.T) {
	k, n := New(1000), uint64(0)
	for ; n < 100_000; n++ {
		add(k, key(n), Slot{}, 0, 0)
	}
	require.Less(t, testing.AllocsPerRun(1000, func() {
		if _, found := find(k, key(n)); !found {
			add(k, key(n), Slot{}, 0, 0)
		}
		n++
	}), 1.0, "only chunks and growing sub-tables are allocated")
}

const benchKeys = 10_000_000

func BenchmarkKeys(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 2))
	k := New(1 << 40)
	keys := make([][16]byte, benchKeys)
	for i := range keys {
		keys[i] = key(rng.Uint64())
		add(k, keys[i], Slot{}, 1, 0)
	}
	b.Run("hit-10000000", func(b *testing.B) {
		for b.Loop() {
			if _, found := find(k, keys[rng.Uint32N(benchKeys)]); !found {
				b.Fatal("lost")
			}
		}
		b.ReportMetric(float64(k.Bytes())/float64(k.Len()), "B/key")
	})
	b.Run("miss-10000000", func(b *testing.B) {
		for b.Loop() {
			if _, found := find(k, key(rng.Uint64())); found {
				b.Fatal("invented")
			}
		}
	})
	b.Run("find-and-add-10000000", func(b *testing.B) {
		for b.Loop() {
			fresh := key(rng.Uint64())
			if _, found := find(k, fresh); !found {
				k.Add(fresh, k.Hash(fresh), Slot{}, 1, 0)
			}
		}
		k.Show()
		b.ReportMetric(float64(k.Bytes())/float64(k.Len()), "B/key")
	})
}

// Add begins where the last search ended. It does not when another key has taken that slot since,
// or the sub-table has grown.
func TestAddAfterASearchForAnother(t *testing.T) {
	k, next := New(1000), uint64(0)
	for ; next < 20_000; next++ { // each sub-table has slots
		add(k, key(next), slotOf(next), 0, 0)
	}
	var added []uint64
	for range 20 {
		searched := next
		next++
		_, found := find(k, key(searched))
		require.False(t, found)
		near := k.Near(k.Hash(key(searched)))
		for k.Near(k.Hash(key(next))) != near {
			next++
		}
		added = append(added, searched, next)
		add(k, key(next), slotOf(next), 0, 0) // where the search ended, or in a larger sub-table
		add(k, key(searched), slotOf(searched), 0, 0)
		next++
	}
	for _, n := range added {
		s, found := find(k, key(n))
		require.True(t, found, n)
		require.Equal(t, slotOf(n), s)
	}
}

func TestNearIsWhereFindBegins(t *testing.T) {
	k := New(1000)
	require.Zero(t, *k.Near(k.Hash(key(1))), "nothing is there to read")
	add(k, key(1), slotOf(1), 5, 0)
	require.NotZero(t, *k.Near(k.Hash(key(1))))
}
