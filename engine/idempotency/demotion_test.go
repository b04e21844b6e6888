package idempotency

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// files hold the keys that left memory, as far as tests need them.
type files map[uint64]struct {
	number uint64
	slot   Slot
}

// owner is the owner of key n in tests; a third of the keys have none.
func owner(n uint64) uint32 { return uint32(n % 3 * 5) }

// held counts the keys of an owner that are kept.
func (f files) held(k *Keys, o uint32) (held uint64) {
	for n, r := range f {
		if owner(n) == o && k.Kept(r.number) {
			held++
		}
	}
	return held
}

// find looks in memory and then in the files, as the execution of a record does.
func (f files) find(k *Keys, n uint64) (Slot, bool) {
	if slot, found := find(k, key(n)); found {
		return slot, true
	}
	r, found := f[n]
	if !found || r.number >= k.Span().Memory || !k.Kept(r.number) {
		return Slot{}, false
	}
	return r.slot, true
}

// Memory and files together know the same as memory alone would, whatever was demoted, and a
// restore changes nothing.
func TestDemotedKeysAgreeWithAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const retention = 16_000
		k, whole, stamp, disk := New(retention), New(retention), int64(0), files{}
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			stamp += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, 300_000)).Draw(t, "pass")
			k.Expire(stamp)
			whole.Expire(stamp)
			first := uint64(rapid.IntRange(0, 3000).Draw(t, "first"))
			for n := first; n < first+uint64(rapid.IntRange(0, 3000).Draw(t, "count")); n++ {
				want, known := find(whole, key(n))
				if got, found := disk.find(k, n); found != known || got != want {
					t.Fatalf("key %d: %v and %v, not %v and %v", n, got, found, want, known)
				}
				if known {
					continue
				}
				slot := slotOf(n + uint64(stamp))
				disk[n] = struct {
					number uint64
					slot   Slot
				}{k.Span().Next, slot}
				add(k, key(n), slot, stamp, owner(n))
				add(whole, key(n), slot, stamp, owner(n))
			}
			span := k.Span()
			if rapid.Bool().Draw(t, "demotes") {
				k.Demote(span.Base + rapid.Uint64Range(0, span.Next-span.Base+5).Draw(t, "through"))
			}
			if rapid.IntRange(0, 3).Draw(t, "restore") == 0 {
				before, restored := snapshot(t, k), New(1)
				require.NoError(t, restored.Restore(bytes.NewReader(before), k.Span().Next))
				require.Equal(t, before, snapshot(t, restored))
				require.Equal(t, k.Span(), restored.Span())
				require.Equal(t, k.Oldest(), restored.Oldest())
				k = restored
			}
			require.Equal(t, whole.Len(), k.Len())
			for _, o := range []uint32{5, 10, 11} {
				require.Equal(t, disk.held(k, o), k.Held(o))
			}
			require.Equal(t, whole.Span().Base, k.Span().Base)
			require.GreaterOrEqual(t, k.Span().Memory, span.Memory)
		}
	})
}

func TestDemotionFreesMemoryAndTouchesNoKey(t *testing.T) {
	k := New(1000)
	for n := range uint64(20 * chunkKeys) {
		add(k, key(n), slotOf(n), 1, owner(n))
	}
	before := k.Bytes()
	require.Zero(t, testing.AllocsPerRun(1, func() { k.Demote(0) }))
	k.Demote(15*chunkKeys + 7)
	require.Equal(t, Span{Memory: 15*chunkKeys + 7, Next: 20 * chunkKeys}, k.Span())
	require.LessOrEqual(t, k.Bytes(), before-15*chunkKeys*24)
	_, found := find(k, key(15*chunkKeys+6))
	require.False(t, found)
	_, found = find(k, key(15*chunkKeys+7))
	require.True(t, found)
	require.True(t, k.Kept(0) && !k.Kept(20*chunkKeys))
	age, found := k.Age(key(20*chunkKeys - 1))
	require.True(t, found && age == 0)
	k.Demote(3)
	require.EqualValues(t, 15*chunkKeys+7, k.Span().Memory, "what left memory does not come back")
	k.Demote(1 << 40)
	require.Equal(t, k.Span().Next, k.Span().Memory)
	k.Expire(1 << 40)
	require.Zero(t, k.Len())
	require.Zero(t, k.Span().OnDisk())
}

func TestASnapshotOfDemotedKeysIsTheSetAtBegin(t *testing.T) {
	k := New(1000)
	for n := range uint64(3 * chunkKeys) {
		add(k, key(n), slotOf(n), 1, owner(n))
	}
	k.Demote(chunkKeys + 5)
	want, sn := snapshot(t, k), k.Begin()
	k.Demote(2*chunkKeys + 5)
	var got bytes.Buffer
	_, err := sn.WriteTo(&got)
	require.NoError(t, err)
	require.True(t, bytes.Equal(want, got.Bytes()))
}

func TestDamagedSnapshotsOfDemotedKeysAreRefused(t *testing.T) {
	k := New(1000)
	for n := range uint64(10) {
		add(k, key(n), slotOf(n), int64(n*20_000), owner(n))
	}
	k.Demote(4)
	whole := snapshot(t, k)
	require.NoError(t, New(1).Restore(bytes.NewReader(whole), 10))
	require.ErrorIs(t, New(1).Restore(bytes.NewReader(whole), 9), ErrSnapshot)
	for i := range whole {
		require.ErrorIs(t, New(1).Restore(bytes.NewReader(whole[:i]), 10), ErrSnapshot)
		damaged := bytes.Clone(whole)
		damaged[i] ^= 1 << (i % 8)
		require.ErrorIs(t, New(1).Restore(bytes.NewReader(damaged), 10), ErrSnapshot, "byte %d", i)
	}
}
