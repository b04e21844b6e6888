package workspace

import (
	"container/heap"

	"tollgate/engine/machine"
)

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
func (x *state) instant(i dueItem) int64 {
	switch i.kind {
	case dueRun:
		return x.runs.Read(i.row).Due
	case duePurchase:
		return x.purchases.Read(i.row).Due
	case dueSchedule:
		return x.schedules.Read(i.row).Due
	}
	return x.unusedEnd(x.workspaces.Read(i.row))
}

// stale reports whether an item's row has another instant by now, or none.
func (x *state) stale(i dueItem) bool { return x.instant(i) != i.at }

// pop takes the earliest item out; false when it is stale.
func (x *state) pop() (item dueItem, stands bool) {
	item = heap.Pop(&x.due).(dueItem)
	at := x.instant(item)
	if at != item.at && item.kind == dueWorkspace {
		x.due.add(at, dueWorkspace, item.row)
	}
	return item, at == item.at
}

// publishDue drops what is stale from the top and makes the rest known.
func (x *state) publishDue() {
	for len(x.due) > 0 && x.stale(x.due[0]) {
		x.pop()
	}
	if len(x.due) == 0 {
		x.nextDue.Store(0)
		return
	}
	x.nextDue.Store(x.due[0].at)
}

// dueAtOnce bounds what happens by itself in one entry; NextDue asks for the next one. A workspace
// that is removed counts as one for each rowsAtOnce of its rows.
const (
	dueAtOnce  = 256
	rowsAtOnce = 16
)

// advance lets what is due by the entry's stamp happen, at that stamp: months and days only ever
// move on.
func (x *state) advance(t *machine.Turn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.requests.Forget(t.Stamp - RequestRetentionMS)
	x.sources.Forget(t.Stamp - hourMS)
	x.sessions.Forget(t.Stamp - SessionMS)
	for happened := 0; happened < dueAtOnce && len(x.due) > 0 && x.due[0].at <= t.Stamp; {
		item, stands := x.pop()
		if !stands {
			continue
		}
		happened++
		switch item.kind {
		case dueRun:
			x.runDue(t, item.row)
		case duePurchase:
			x.purchaseDue(t, item.row)
		case dueSchedule:
			x.scheduleDue(t, item.row)
		default:
			happened += x.remove(t, item.row) / rowsAtOnce
		}
		t.Fold(uint64(item.row))
	}
}
