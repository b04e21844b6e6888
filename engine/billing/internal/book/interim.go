package book

import (
	"tollgate/engine/decimal"
	"tollgate/engine/machine"
)

// Interim is what interim invoices have of the units that a counter has in the present span. Only
// counters of plans with invoiceAbove have one.
//
//schema:row
type Interim struct {
	Counter uint32 // never changes
	InterimUnits
}

// InterimUnits are those of the Meter that the end of the span will make.
type InterimUnits struct{ Invoiced, Forgiven decimal.Decimal }

func interimHash(counter uint32) uint64 { return machine.Fold(0, uint64(counter)) }

func (s *Book) interimWith(counter uint32) uint32 {
	return s.interimByCounter.Find(interimHash(counter), func(row uint32) bool {
		return s.Interims.Read(row).Counter == counter
	})
}

// InterimOf returns what interim invoices have of a counter. Readers hold the customer's lock.
func (s *Book) InterimOf(counter uint32) InterimUnits {
	if row := s.interimWith(counter); row != 0 {
		return s.Interims.Read(row).InterimUnits
	}
	return InterimUnits{}
}

// SetInterim stores what interim invoices have of a counter. Callers hold the customer's lock.
func (t *Keeper) SetInterim(counter uint32, units InterimUnits) {
	row := t.S.interimWith(counter)
	if row == 0 {
		if units == (InterimUnits{}) {
			return
		}
		var r *Interim
		row, r = t.S.Interims.Append()
		r.Counter = counter
		t.S.interimByCounter.Insert(interimHash(counter), row)
	}
	t.S.Interims.Write(row).InterimUnits = units
	t.FoldDecimal(units.Invoiced)
	t.FoldDecimal(units.Forgiven)
}

// ReindexInterims rebuilds their index after a restore.
func (s *Book) ReindexInterims() {
	for row, n := range s.Interims.All() {
		s.interimByCounter.Insert(interimHash(n.Counter), row)
	}
}
