package workspace

import (
	"encoding/binary"
	"errors"

	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// errRecord says that a snapshot's record is cut short.
var errRecord = errors.New("workspace: truncated record in a snapshot")

// recordCodec states a row's bytes in a snapshot: their number as an unsigned varint, and the
// row's fields as wire has them. A field more is no new format.
func recordCodec[T any, P interface {
	*T
	wire.Fielder
}]() page.Codec[T] {
	return page.Codec[T]{
		Append: func(dst []byte, r *T) []byte {
			body := wire.Encode(nil, P(r))
			return append(binary.AppendUvarint(dst, uint64(len(body))), body...)
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

// kept are records that are forgotten in the order in which they came: number n, counted from 0, is
// row 1 + n mod most. Those from from to to are there, each under a key. Only Apply uses it.
type kept[T any] struct {
	table    *page.Table[T]
	most     uint64
	from, to uint64
	byKey    map[[16]byte]uint64 // no state: key → number
	key      func(*T) [16]byte
	at       func(*T) int64
}

func (k *kept[T]) row(n uint64) uint32 { return uint32(n%k.most) + 1 }

func (k *kept[T]) full() bool { return k.to-k.from >= k.most }

// find returns the row of what was kept under a key after an instant; 0 when nothing was.
func (k *kept[T]) find(key [16]byte, after int64) uint32 {
	n, ok := k.byKey[key]
	if !ok || k.at(k.table.Read(k.row(n))) <= after {
		return 0
	}
	return k.row(n)
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
		r := k.table.Read(k.row(k.from))
		if k.at(r) > until {
			return
		}
		if key := k.key(r); k.byKey[key] == k.from { // else the key was used again since
			delete(k.byKey, key)
		}
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
	k.byKey[k.key(&r)] = k.to
	k.to++
}

// consistent says, after a restore, that the numbers have rows.
func (k *kept[T]) consistent() bool {
	return k.from <= k.to && k.to-k.from <= k.most && min(k.to, k.most) == uint64(k.table.Len())
}

// reindex rebuilds the index, after a restore.
func (k *kept[T]) reindex() {
	for n := k.from; n < k.to; n++ {
		k.byKey[k.key(k.table.Read(k.row(n)))] = n
	}
}

// request is a request that was carried out, and what its answer is given again from.
type request struct {
	Key, Body, Made [16]byte
	At              int64
}

// Fields states the row's fields.
func (r *request) Fields(w *wire.Codec) {
	w.ID(1, &r.Key)
	w.ID(2, &r.Body)
	w.ID(3, &r.Made)
	w.Int(4, &r.At)
}

// signups counts the workspaces that one address made in the hour that began at At.
type signups struct {
	Source [16]byte
	At     int64
	Count  uint32
}

// Fields states the row's fields.
func (s *signups) Fields(w *wire.Codec) {
	w.ID(1, &s.Source)
	w.Int(2, &s.At)
	wire.Uint(w, 3, &s.Count)
}
