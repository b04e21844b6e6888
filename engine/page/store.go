package page

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cespare/xxhash/v2"
)

// hashRows is how many rows HashNext folds at a time. It is a number of the format, not of the
// memory layout: replicas whose pages differ in size must fold the same rows.
const hashRows = 16

// Store is the tables of one state machine, which are snapshotted together.
type Store struct {
	tables  []tabular // by id
	running atomic.Pointer[Snapshot]
	epoch   uint32

	// The cursor of HashNext: the table's id and the next row, counted from 0. It is state.
	hashTable uint16
	hashRow   uint32
	scratch   []byte
}

// tabular is a Table of any record, as snapshots see it.
type tabular interface {
	number() uint16
	Len() uint32
	Bytes() uint64
	fix()
	fixedLen() uint32
	unfix()
	pages() uint32
	take(sn *Snapshot, p uint32, dst []byte) ([]byte, bool)
	appendSums(dst []byte, first, count uint32) []byte
	restoreBegin(rows uint32)
	restoreFrame(first, count uint32, src []byte) error
	restoreEnd() error
}

// NewStore makes a store without tables; NewTable adds them.
func NewStore() *Store { return &Store{} }

func (s *Store) add(t tabular) {
	i, found := slices.BinarySearchFunc(s.tables, t.number(), func(t tabular, id uint16) int {
		return cmp.Compare(t.number(), id)
	})
	if found {
		panic(fmt.Sprintf("page: two tables with the number %d", t.number()))
	}
	s.tables = slices.Insert(s.tables, i, t)
}

// Bytes is the memory of all tables, in bytes, without memory that records point to. Any goroutine.
func (s *Store) Bytes() uint64 {
	var n uint64
	for _, t := range s.tables {
		n += t.Bytes()
	}
	return n
}

// HashNext folds the next 16 rows into h and moves a cursor over all rows of all tables in turn:
// after enough calls every record has been compared between replicas. For the writer. The cursor
// is part of the state, and of the snapshot.
func (s *Store) HashNext(h uint64) uint64 {
	for range len(s.tables) + 1 {
		for _, t := range s.tables {
			if t.number() < s.hashTable {
				continue
			}
			if t.number() > s.hashTable {
				s.hashTable, s.hashRow = t.number(), 0
			}
			if n := t.Len(); s.hashRow < n {
				return s.hashRows(h, t, min(hashRows, n-s.hashRow))
			}
		}
		s.hashTable, s.hashRow = 0, 0
	}
	return h // no table has a row
}

func (s *Store) hashRows(h uint64, t tabular, count uint32) uint64 {
	b := binary.LittleEndian.AppendUint64(s.scratch[:0], h)
	b = binary.LittleEndian.AppendUint16(b, s.hashTable)
	b = binary.LittleEndian.AppendUint32(b, s.hashRow)
	b = t.appendSums(b, s.hashRow, count)
	s.scratch = b
	s.hashRow += count
	return xxhash.Sum64(b)
}
