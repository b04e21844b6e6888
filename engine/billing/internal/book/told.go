package book

import "tollgate/engine/machine"

// Told is the highest threshold that webhooks were told of a counter's usage, where a correction
// has taken it below that since. Only such counters have one.
//
//schema:row
type Told struct {
	Counter uint32 // never changes
	// Version and Period are those of the subscription then: in others it is told again.
	Version, Period uint32
	Percent         uint8
}

func (s *Book) toldWith(counter uint32) uint32 {
	return s.toldByCounter.Find(machine.Fold(0, uint64(counter)), func(row uint32) bool {
		return s.Told.Read(row).Counter == counter
	})
}

// ToldOf returns what was told of a subscription's counter in its present period; for one that
// goes on, in any. For Apply.
func (s *Book) ToldOf(counter uint32, b *UsualSubscription, goesOn bool) (percent uint8) {
	row := s.toldWith(counter)
	if row == 0 {
		return 0
	}
	if v := s.Told.Read(row); v.Version == b.Version && (goesOn || v.Period == b.Period) {
		return v.Percent
	}
	return 0
}

// SetTold stores what was told of a subscription's counter. It follows from the counters, which are
// in the hash. Callers hold the customer's lock.
func (t *Keeper) SetTold(counter uint32, b *UsualSubscription, percent uint8) {
	row := t.S.toldWith(counter)
	if row == 0 {
		row, _ = t.S.Told.Append()
		t.S.toldByCounter.Insert(machine.Fold(0, uint64(counter)), row)
	}
	*t.S.Told.Write(row) = Told{
		Counter: counter, Version: b.Version, Period: b.Period, Percent: percent,
	}
}

// ReindexTold rebuilds their index after a restore.
func (s *Book) ReindexTold() {
	for row, v := range s.Told.All() {
		s.toldByCounter.Insert(machine.Fold(0, uint64(v.Counter)), row)
	}
}
