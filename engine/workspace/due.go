package workspace

import "container/heap"

// Kinds of rows that have an instant at which something happens to them.
const (
	dueRun      = 1
	duePurchase = 2
)

// dueItem says that a row's Due is, or was, at an instant.
type dueItem struct {
	at   int64
	kind uint8
	row  uint32
}

// dues is a heap, earliest first, runs before purchases, lower rows first. A row whose Due has
// changed leaves an item behind, which is dropped when it comes to the top.
type dues []dueItem

func (d dues) Len() int      { return len(d) }
func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }
func (d dues) Less(i, j int) bool {
	a, b := d[i], d[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.row < b.row
}

// Push and Pop are for container/heap alone.
func (d *dues) Push(x any) { *d = append(*d, x.(dueItem)) }

// Pop is for container/heap alone.
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// add notes an instant; 0 is none.
func (d *dues) add(at int64, kind uint8, row uint32) {
	if at != 0 {
		heap.Push(d, dueItem{at, kind, row})
	}
}

// stale says that an item's row has another instant by now, or none.
func (s *state) stale(i dueItem) bool {
	if i.kind == dueRun {
		return s.runs.Read(i.row).Due != i.at
	}
	return s.purchases.Read(i.row).Due != i.at
}

// publishDue drops what is stale from the top and makes the rest known.
func (s *state) publishDue() {
	for len(s.due) > 0 && s.stale(s.due[0]) {
		heap.Pop(&s.due)
	}
	if len(s.due) == 0 {
		s.nextDue.Store(0)
		return
	}
	s.nextDue.Store(s.due[0].at)
}

// dueAtOnce bounds what happens by itself in one entry; NextDue asks for the next one.
const dueAtOnce = 256

// advance lets what is due by the entry's stamp happen, at that stamp: months and days only ever
// move on.
func (t *turn) advance() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests.forget(t.stamp - RequestRetentionMS)
	t.sources.forget(t.stamp - hourMS)
	for happened := 0; happened < dueAtOnce && len(t.due) > 0 && t.due[0].at <= t.stamp; {
		item := heap.Pop(&t.due).(dueItem)
		if t.stale(item) {
			continue
		}
		happened++
		if item.kind == dueRun {
			t.runDue(item.row)
		} else {
			t.purchaseDue(item.row)
		}
		t.fold(uint64(item.row))
	}
}
