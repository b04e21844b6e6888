package segments

import (
	"slices"
	"sync"

	"tollgate/engine/journal"
)

// tailIndex finds the items of an owner in the journal's open tail. It reads on from where it
// stopped whenever someone lists, so it costs nothing when no one does.
type tailIndex struct {
	lock   sync.Mutex
	data   []byte // what was read of the tail; its array tells one tail from another
	owners map[uint32]*tailOwner
}

type tailOwner struct {
	entries []entry
	sorted  bool
}

// entries returns the entries of an owner in a tail, which is not empty, in order. They do not
// change, and the next call appends behind them at most.
func (t *tailIndex) entries(tail []byte, owner uint32, ix journal.Indexer) ([]entry, error) {
	t.lock.Lock()
	defer t.lock.Unlock()
	if len(t.data) == 0 || &t.data[0] != &tail[0] {
		t.data, t.owners = nil, map[uint32]*tailOwner{}
	}
	if len(tail) > len(t.data) {
		fresh, _, err := collect(nil, tail, len(t.data), ix)
		if err != nil {
			return nil, err
		}
		for _, e := range fresh {
			o := t.owners[e.owner]
			if o == nil {
				o = &tailOwner{sorted: true}
				t.owners[e.owner] = o
			}
			if n := len(o.entries); n > 0 && o.sorted && o.entries[n-1].compare(&e) > 0 {
				o.sorted = false
			}
			o.entries = append(o.entries, e)
		}
		t.data = tail
	}
	o := t.owners[owner]
	if o == nil {
		return nil, nil
	}
	if !o.sorted {
		// A copy, since other queries may hold the old order.
		o.entries = slices.Clone(o.entries)
		slices.SortFunc(o.entries, func(a, b entry) int { return a.compare(&b) })
		o.sorted = true
	}
	return o.entries, nil
}
