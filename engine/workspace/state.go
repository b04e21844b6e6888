package workspace

import (
	"container/heap"
	"sync"
	"sync/atomic"

	"tollgate/engine/machine"
)

// state is everything that a snapshot holds, and what is rebuilt from it. Apply is its only writer,
// and holds mu for one record at a time; queries hold it to read.
type state struct {
	people
	mu      sync.RWMutex
	nextDue atomic.Int64 // what NextDue answers
}

// read returns the state, with mu held for reading.
func (m *Machine) read() *state {
	s := m.state.Load()
	s.mu.RLock()
	return s
}

// newState returns the state before the first entry.
func newState() *state {
	s := new(state)
	s.open()
	return s
}

// reindex rebuilds the indexes and what is due from the tables, after a restore.
func (x *state) reindex() {
	x.rooms = x.countRooms()
	gone := func(workspace uint32) bool { return x.rooms.of[workspace].gone }
	x.workspaces.reindex(func(uint32) bool { return false })
	x.flows.reindex(gone)
	x.purchases.reindex(gone)
	x.issues.reindex(gone)
	x.notifications.reindex(gone)
	for row, w := range x.workspaces.All() {
		if w.Claim != ([32]byte{}) {
			x.claimByHash.Insert(secretHash(&w.Claim), row)
		}
		x.due.add(x.unusedEnd(w), dueWorkspace, row)
	}
	for row, k := range x.keys.All() {
		x.keyByHash.Insert(secretHash(&k.Hash), row)
	}
	for row := uint32(1); row <= x.runs.Len(); row++ {
		x.due.add(x.runs.Read(row).Due, dueRun, row)
	}
	for row, p := range x.purchases.All() {
		if p.waits() {
			x.linkBy.Insert(secretHash(&p.Link), row)
		}
		x.paymentTasks.move(row, TaskNone, p.task())
		x.due.add(p.ExpiresAt, duePurchase, row)
	}
	for row, name := range x.agents.All() {
		x.agentBy[string(name.Bytes)] = row
	}
	for row, a := range x.alerts.All() {
		x.alerting.note(row, a.sendable())
	}
	for row, s := range x.schedules.All() {
		x.asking.note(row, s.Asked)
		x.due.add(s.Due, dueSchedule, row)
	}
	x.indexInspections()
	x.runs.packAll()
	x.requests.Reindex()
	x.sources.Reindex()
	x.indexPersons()
	x.publishDue()
}

// indexPersons rebuilds their indexes, and those of links, after a restore.
func (x *people) indexPersons() {
	for row, p := range x.persons.All() {
		x.personBy.Insert(x.subjectHash(p.Issuer, p.Subject), row)
		if p.Email != "" && !p.Agent {
			x.emailBy[Address(p.Email)] = row
		}
	}
	for row, w := range x.workspaces.All() {
		if w.claimed() && w.Person == 0 && w.GoneAt == 0 {
			x.promise(row, w.Owner)
		}
	}
	x.sessions.Reindex()
}

// indexInspections rebuilds their indexes, after a restore.
func (x *runner) indexInspections() {
	for row, i := range x.inspections.All() {
		if x.rooms.of[i.Workspace].gone {
			continue
		}
		x.inspectionBy[i.Run] = row
		if i.Kind == RunInspection {
			x.inspectedBy[hostKey{i.Workspace, i.Host}] = row
		}
	}
}

// instant is what an item's row has by now; 0 is none.
func (x *state) instant(i dueItem) int64 {
	switch i.kind {
	case dueRun:
		return x.runs.Read(i.row).Due
	case duePurchase:
		return x.purchases.Read(i.row).ExpiresAt
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
			x.finishPurchase(t, item.row, PurchaseExpired) // it was not approved or paid in time
		case dueSchedule:
			x.scheduleDue(t, item.row)
		default:
			happened += x.remove(t, item.row) / rowsAtOnce
		}
		t.Fold(uint64(item.row))
	}
}
