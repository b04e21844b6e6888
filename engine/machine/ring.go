package machine

import "tollgate/engine/page"

// Ring is records that are forgotten in the order in which they came: number n, counted from 0, is
// row 1 + n mod Max. Records From to To exist, each under a key, of which the newest is found. Only
// Apply uses it.
type Ring[T any] struct {
	Table *page.Table[T]
	Max   uint64
	Spare uint64 // of Max: only for records that can no longer be refused
	// From and To number the records that are there.
	From, To uint64
	By       *page.Index // no state: key → row
	Hash     func(*[16]byte) uint64
	Key      func(*T) [16]byte
	At       func(*T) int64
	// Forgets, if set, is called for each record before it is forgotten.
	Forgets func(row uint32, r *T)
}

// Row is the row of a record, by number.
func (k *Ring[T]) Row(n uint64) uint32 { return uint32(n%k.Max) + 1 }

// Number is the number of the newest record that was kept in a row.
func (k *Ring[T]) Number(row uint32) uint64 {
	last := k.To - 1
	return last - (last-uint64(row-1))%k.Max
}

// Full reports whether only the spare rows are left.
func (k *Ring[T]) Full() bool { return k.To-k.From+k.Spare >= k.Max }

// Find returns the row kept under a key after an instant; 0 when nothing was.
func (k *Ring[T]) Find(key [16]byte, after int64) uint32 {
	row := k.Newest(&key)
	if row == 0 || k.At(k.Table.Read(row)) <= after {
		return 0
	}
	return row
}

// Newest is the row that a key is found under, forgotten or not; 0 is none.
func (k *Ring[T]) Newest(key *[16]byte) uint32 {
	return k.By.Find(k.Hash(key), func(row uint32) bool { return k.Key(k.Table.Read(row)) == *key })
}

// forgottenAtOnce bounds the records that one entry forgets.
const forgottenAtOnce = 1024

// Forget drops some of the records added up to an instant; stamps never go backwards, so the oldest
// come first.
func (k *Ring[T]) Forget(until int64) {
	for range forgottenAtOnce {
		if k.From == k.To || k.At(k.Table.Read(k.Row(k.From))) > until {
			return
		}
		k.drop()
	}
}

// drop forgets the oldest record.
func (k *Ring[T]) drop() {
	row := k.Row(k.From)
	r := k.Table.Read(row)
	if k.Forgets != nil {
		k.Forgets(row, r)
	}
	key := k.Key(r)
	k.By.Remove(k.Hash(&key), row) // which is not there when the key was used again since
	k.From++
}

// Keep adds a record. A full ring drops its oldest.
func (k *Ring[T]) Keep(r T) {
	if k.To-k.From >= k.Max {
		k.drop()
	}
	row := k.Row(k.To)
	if row > k.Table.Len() {
		_, next := k.Table.Append()
		*next = r
	} else {
		*k.Table.Write(row) = r
	}
	k.found(row)
	k.To++
}

// Consistent reports, after a restore, whether the numbers have rows.
func (k *Ring[T]) Consistent() bool {
	rows := uint64(k.Table.Len())
	return k.From <= k.To && k.To-k.From <= k.Max && min(k.To, k.Max) <= rows && rows <= k.Max
}

// Reindex rebuilds the index, after a restore.
func (k *Ring[T]) Reindex() {
	for n := k.From; n < k.To; n++ {
		k.found(k.Row(n))
	}
}

// found makes a row the one that its key finds.
func (k *Ring[T]) found(row uint32) {
	key := k.Key(k.Table.Read(row))
	if old := k.Newest(&key); old != 0 {
		k.By.Remove(k.Hash(&key), old)
	}
	k.By.Insert(k.Hash(&key), row)
}
