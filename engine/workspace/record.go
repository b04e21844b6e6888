package workspace

import (
	"encoding/binary"
	"errors"

	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// errRecord means that a snapshot's record is cut short.
var errRecord = errors.New("workspace: truncated record in a snapshot")

// recordCodec states a row's bytes in a snapshot: their number as an unsigned varint, and the
// row's fields as wire has them. A field more is not a new format.
func recordCodec[T any, P interface {
	*T
	wire.Fielder
}]() page.Codec[T] {
	return page.Codec[T]{
		Append: func(dst []byte, r *T) []byte {
			return measured(wire.Encode(append(dst, 0), P(r)), len(dst))
		},
		Read: func(src []byte, r *T) ([]byte, error) {
			size, n := binary.Uvarint(src)
			if n <= 0 || size > uint64(len(src)-n) {
				return nil, errRecord
			}
			src = src[n:]
			return src[size:], wire.Decode(src[:size], P(r))
		},
	}
}

// measured puts the length of what stands behind a byte in its place; more than 127 takes more
// room.
func measured(b []byte, at int) []byte {
	size := uint64(len(b) - at - 1)
	var head [binary.MaxVarintLen64]byte
	if n := binary.PutUvarint(head[:], size); n > 1 {
		b = append(b, head[:n-1]...) // room, for whatever
		copy(b[at+n:], b[at+1:len(b)-n+1])
		copy(b[at:], head[:n])
		return b
	}
	b[at] = byte(size)
	return b
}

// kept are records that are forgotten in the order in which they came: number n, counted from 0,
// is row 1 + n mod most. Those from from to to are there, each under a key, whose newest is found.
// Only Apply uses it.
type kept[T any] struct {
	table    *page.Table[T]
	most     uint64
	spare    uint64 // of most: only for what may not be refused any more
	from, to uint64
	by       *page.Index // no state: key → row
	hash     func(*[16]byte) uint64
	key      func(*T) [16]byte
	at       func(*T) int64
}

func (k *kept[T]) row(n uint64) uint32 { return uint32(n%k.most) + 1 }

func (k *kept[T]) full() bool { return k.to-k.from+k.spare >= k.most }

// find returns the row of what was kept under a key after an instant; 0 when nothing was.
func (k *kept[T]) find(key [16]byte, after int64) uint32 {
	row := k.newest(&key)
	if row == 0 || k.at(k.table.Read(row)) <= after {
		return 0
	}
	return row
}

// newest is the row that a key is found under, forgotten or not; 0 is none.
func (k *kept[T]) newest(key *[16]byte) uint32 {
	return k.by.Find(k.hash(key), func(row uint32) bool { return k.key(k.table.Read(row)) == *key })
}

// forgottenAtOnce bounds what one entry forgets.
const forgottenAtOnce = 1024

// forget drops some of what came until an instant; stamps never go backwards, so the oldest come
// first.
func (k *kept[T]) forget(until int64) {
	for range forgottenAtOnce {
		if k.from == k.to {
			return
		}
		row := k.row(k.from)
		r := k.table.Read(row)
		if k.at(r) > until {
			return
		}
		key := k.key(r)
		k.by.Remove(k.hash(&key), row) // which is not there when the key was used again since
		k.from++
	}
}

func (k *kept[T]) keep(r T) {
	row := k.row(k.to)
	if row > k.table.Len() {
		_, next := k.table.Append()
		*next = r
	} else {
		*k.table.Write(row) = r
	}
	k.found(row)
	k.to++
}

// consistent says, after a restore, that the numbers have rows.
func (k *kept[T]) consistent() bool {
	rows := uint64(k.table.Len())
	return k.from <= k.to && k.to-k.from <= k.most && min(k.to, k.most) <= rows && rows <= k.most
}

// reindex rebuilds the index, after a restore.
func (k *kept[T]) reindex() {
	for n := k.from; n < k.to; n++ {
		k.found(k.row(n))
	}
}

// found makes a row what its key is found under.
func (k *kept[T]) found(row uint32) {
	key := k.key(k.table.Read(row))
	if old := k.newest(&key); old != 0 {
		k.by.Remove(k.hash(&key), old)
	}
	k.by.Insert(k.hash(&key), row)
}

// signups counts the workspaces that one address made in the hour that began at At.
type signups struct {
	Source [16]byte `wire:"1"`
	At     int64    `wire:"2"`
	Count  uint32   `wire:"3"`
}
