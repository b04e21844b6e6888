package workspace

import (
	"hash/maphash"

	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// records is a table of rows that are found by their ids.
type records[T any] struct {
	*page.Table[T]
	by   *page.Index // of ids; no state
	seed maphash.Seed
	head func(r *T) head
}

// head is what records have in common: an id, the workspace they belong to, and the one before them
// in the workspace's list.
type head struct {
	id                *[16]byte
	workspace, before uint32
}

func openRecords[T any, P machine.Payload[T]](
	s *page.Store, seed maphash.Seed, table uint16, head func(r *T) head,
) records[T] {
	return records[T]{
		page.NewTable(s, table, machine.RecordCodec[T, P]()), page.NewIndex(), seed, head,
	}
}

// find returns the row of an id, in whatever workspace; 0 when there is none.
func (r *records[T]) find(id [16]byte) uint32 {
	return r.by.Find(maphash.Bytes(r.seed, id[:]), func(row uint32) bool {
		return *r.head(r.Read(row)).id == id
	})
}

// of finds a record of a workspace; 0 when there is none.
func (r *records[T]) of(workspace uint32, id [16]byte) uint32 {
	row := r.find(id)
	if row == 0 || r.head(r.Read(row)).workspace != workspace {
		return 0
	}
	return row
}

// index makes a row known by its id, unindex unknown.
func (r *records[T]) index(row uint32) { r.by.Insert(r.hash(row), row) }

func (r *records[T]) unindex(row uint32) { r.by.Remove(r.hash(row), row) }

func (r *records[T]) hash(row uint32) uint64 {
	return maphash.Bytes(r.seed, r.head(r.Read(row)).id[:])
}

// reindex makes all rows known, but for those of workspaces that are gone.
func (r *records[T]) reindex(gone func(workspace uint32) bool) {
	for row, record := range r.All() {
		if !gone(r.head(record).workspace) {
			r.index(row)
		}
	}
}

// every reports whether ok is true of all rows of a table.
func every[T any](t *page.Table[T], ok func(row uint32, r *T) bool) bool {
	for row, r := range t.All() {
		if !ok(row, r) {
			return false
		}
	}
	return true
}
