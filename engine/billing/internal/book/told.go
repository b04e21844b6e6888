package book

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// Told is the highest threshold that webhooks were told of a counter's usage. Only counters of
// which one was told have a row; they keep it, as subscriptions keep their counters.
//
//schema:row
type Told struct {
	Counter uint32 // never changes
	// Version and Period are those of the subscription then: in others it is told again.
	Version, Period uint32
	Percent         uint8
}

// told is the table of what was told. It follows from the messages, which are in the hash. Callers
// hold the customer's lock to write it.
type told struct {
	Rows *page.Table[Told]
	by   *page.Index // by counter
}

// OpenTold makes the table.
func OpenTold(s *page.Store) told {
	return told{page.NewTable(s, accounts.TableTold, ToldCodec), page.NewIndex()}
}

func (x *told) with(counter uint32) uint32 {
	return x.by.Find(machine.Fold(0, uint64(counter)), func(row uint32) bool {
		return x.Rows.Read(row).Counter == counter
	})
}

// Of returns the percent that was told of a counter in a period; for one that goes on, in any. For
// Apply.
func (x *told) Of(counter, version, period uint32, goesOn bool) (percent uint8) {
	row := x.with(counter)
	if row == 0 {
		return 0
	}
	if v := x.Rows.Read(row); v.Version == version && (goesOn || v.Period == period) {
		return v.Percent
	}
	return 0
}

// Set replaces what was told of a counter.
func (x *told) Set(v Told) {
	row := x.with(v.Counter)
	if row == 0 {
		row, _ = x.Rows.Append()
		x.by.Insert(machine.Fold(0, uint64(v.Counter)), row)
	}
	*x.Rows.Write(row) = v
}

// Bytes is the memory that the table and its index hold.
func (x *told) Bytes() uint64 { return x.Rows.Bytes() + x.by.Bytes() }

// Reindex rebuilds the index after a restore.
func (x *told) Reindex() {
	for row, v := range x.Rows.All() {
		x.by.Insert(machine.Fold(0, uint64(v.Counter)), row)
	}
}
