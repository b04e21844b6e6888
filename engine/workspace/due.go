package workspace

import "container/heap"

// Kinds of rows that have an instant at which something happens to them.
const (
	dueRun      = 1
	duePurchase = 2
	// dueWorkspace is for those that nobody has claimed.
	dueWorkspace = 3
	dueSchedule  = 4
)

// dueItem reports whether a row's Due is, or was, at an instant.
type dueItem struct {
	at   int64
	kind uint8
	row  uint32
}

// dues is a heap, earliest first, runs before purchases before workspaces before schedules, lower
// rows first. A row
// whose instant has changed leaves an item behind, which is dropped when it comes to the top. A
// workspace's instant only ever moves on, by each of its uses: its one item moves when it comes to
// the top.
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

// instant is what an item's row has by now; 0 is none.
func (s *state) instant(i dueItem) int64 {
	switch i.kind {
	case dueRun:
		return s.runs.Read(i.row).Due
	case duePurchase:
		return s.purchases.Read(i.row).Due
	case dueSchedule:
		return s.schedules.Read(i.row).Due
	}
	return s.unusedEnd(s.workspaces.Read(i.row))
}

// stale reports whether an item's row has another instant by now, or none.
func (s *state) stale(i dueItem) bool { return s.instant(i) != i.at }

// pop takes the earliest item out; false when it is stale.
func (s *state) pop() (item dueItem, stands bool) {
	item = heap.Pop(&s.due).(dueItem)
	at := s.instant(item)
	if at != item.at && item.kind == dueWorkspace {
		s.due.add(at, dueWorkspace, item.row)
	}
	return item, at == item.at
}

// publishDue drops what is stale from the top and makes the rest known.
func (s *state) publishDue() {
	for len(s.due) > 0 && s.stale(s.due[0]) {
		s.pop()
	}
	if len(s.due) == 0 {
		s.nextDue.Store(0)
		return
	}
	s.nextDue.Store(s.due[0].at)
}

// dueAtOnce bounds what happens by itself in one entry; NextDue asks for the next one. A workspace
// that is removed counts as one for each rowsAtOnce of its rows.
const (
	dueAtOnce  = 256
	rowsAtOnce = 16
)

// advance lets what is due by the entry's stamp happen, at that stamp: months and days only ever
// move on.
func (t *turn) advance() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.requests.Forget(t.Stamp - RequestRetentionMS)
	t.sources.Forget(t.Stamp - hourMS)
	t.sessions.Forget(t.Stamp - SessionMS)
	for happened := 0; happened < dueAtOnce && len(t.due) > 0 && t.due[0].at <= t.Stamp; {
		item, stands := t.pop()
		if !stands {
			continue
		}
		happened++
		switch item.kind {
		case dueRun:
			t.runDue(item.row)
		case duePurchase:
			t.purchaseDue(item.row)
		case dueSchedule:
			t.scheduleDue(item.row)
		default:
			happened += t.remove(item.row) / rowsAtOnce
		}
		t.Fold(uint64(item.row))
	}
}
