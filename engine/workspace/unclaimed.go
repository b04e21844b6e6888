package workspace

import (
	"cmp"
	"container/heap"
	"slices"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// NoticedMS is how exactly the use of a workspace is known, in milliseconds: within it a use is not
// noted again.
const NoticedMS = hourMS

// NoteUse reports whether a key of a workspace without an owner was used. Within NoticedMS of the
// use before it changes nothing, and so it does where workspaces are kept forever, or this one is
// claimed.
type NoteUse struct {
	Workspace uint32 `wire:"1"`
}

func (c *NoteUse) apply(x *spaces, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if w.claimed() || x.policy.UnclaimedMS == 0 || t.Stamp < x.usedAt(&w)+NoticedMS {
		return engine.OutcomeDone
	}
	x.workspaces.Write(c.Workspace).UsedAt = t.Stamp
	t.Fold(uint64(c.Workspace))
	return engine.OutcomeDone
}

// usedAt is when a workspace was used last, as far as is known: time before the settings said how
// long it is kept does not count.
func (x *spaces) usedAt(w *workspace) int64 { return max(w.CreatedAt, w.UsedAt, x.expireFrom) }

// unusedEnd is when a workspace that nobody claims is removed unless it is used before; 0 is never.
// One that was given credits stays. No purchase waits then, since asking for one is a use.
func (x *spaces) unusedEnd(w *workspace) int64 {
	life := max(x.policy.UnclaimedMS, ApprovalMS+dayMS)
	if w.Flows|w.Runs|w.Purchases == 0 {
		// Not later than others, so that saving something moves its instant on, as dues need it.
		life = min(cmp.Or(x.policy.EmptyMS, life), life)
	}
	if w.claimed() || w.GoneAt != 0 || x.policy.UnclaimedMS == 0 || w.Ledger.CreditsGranted != 0 {
		return 0
	}
	return x.usedAt(w) + life
}

// scheduleUnclaimed notes anew when workspaces without an owner are removed, since the settings say
// another time now. Where they are kept no more forever, time counts from now. It looks at all
// workspaces.
func (x *spaces) scheduleUnclaimed(t *machine.Turn, forEver bool) {
	if forEver {
		x.expireFrom = t.Stamp
	}
	x.rescheduleUnclaimed()
}

// rescheduleUnclaimed notes those instants anew after something that may move them back.
func (x *spaces) rescheduleUnclaimed() {
	x.due = slices.DeleteFunc(x.due, func(i dueItem) bool { return i.kind == dueWorkspace })
	for row := uint32(1); row <= x.workspaces.Len(); row++ {
		if at := x.unusedEnd(x.workspaces.Read(row)); at != 0 {
			x.due = append(x.due, dueItem{at, dueWorkspace, row})
		}
	}
	heap.Init(&x.due)
}

// RemoveWorkspace removes a workspace that nobody has claimed: for an operator. Of one that is
// claimed it is OutcomeWorkspaceClaimed.
type RemoveWorkspace struct {
	Workspace uint32 `wire:"1"`
}

func (c *RemoveWorkspace) apply(x *people, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if w.claimed() {
		return engine.OutcomeWorkspaceClaimed
	}
	x.remove(t, c.Workspace)
	return engine.OutcomeDone
}

// remove lets go of all that a workspace without an owner holds: its keys and its claim code work
// no more, its records are unknown, their texts are gone and their room is free. What stays is one
// row for each, since rows are never used again, and of the workspace when it went. It returns the
// number of these rows.
func (x *people) remove(t *machine.Turn, number uint32) (rows int) {
	for row := x.workspaces.Read(number).Runs; row != 0; row = x.runs.Row(row).Before {
		if !x.runs.Read(row).Status.Final() {
			x.end(t, row, ending{status: RunCancelled})
		}
	}
	w := *x.workspaces.Read(number)
	if open := w.Ledger.Open; open != 0 {
		x.change(t, open, &w, PurchaseCancelled, 0)
	}
	x.claimByHash.Remove(secretHash(&w.Claim), number)
	x.rooms.bury(number)
	for row := w.Keys; row != 0; row = x.keys.Read(row).Before {
		x.revoke(t, row)
		rows++
	}
	rows += x.forgetTests(t, number, &w)
	x.forgetAccess(t, w.Access)
	for row := w.Purchases; row != 0; row = x.purchases.Read(row).Before {
		x.purchaseBy.Remove(x.idHash(&x.purchases.Read(row).ID), row)
		rows++
	}
	for row := w.Notifications; row != 0; row = x.notifications.Read(row).Before {
		x.notification.Remove(x.idHash(&x.notifications.Read(row).ID), row)
		rows++
	}
	w.Label, w.Claim, w.GoneAt = "", [32]byte{}, t.Stamp
	w.Flows, w.Runs, w.Purchases, w.Issues, w.Notifications = 0, 0, 0, 0, 0
	*x.workspaces.Write(number) = w
	t.Fold(uint64(number)<<32 | uint64(rows))
	return rows + 1
}

// forgetTests lets go of a workspace's flows, runs and issues, and returns their number.
func (x *people) forgetTests(t *machine.Turn, number uint32, w *workspace) (rows int) {
	for row := w.Flows; row != 0; row = x.flows.Read(row).Before {
		x.flowBy.Remove(x.idHash(&x.flows.Read(row).ID), row)
		x.schedule(t, row, 0)
		f, text := x.flows.Write(row), x.flowTexts.Write(row)
		f.ArchivedAt = cmp.Or(f.ArchivedAt, t.Stamp)
		x.rooms.hold(number, -len(text.Bytes))
		text.Bytes = nil
		rows++
	}
	for row := w.Runs; row != 0; row = x.runs.Row(row).Before {
		x.writeRunText(row, &RunText{})
		x.runs.End(row)
		x.forgetInspection(row)
		rows++
	}
	for row := w.Issues; row != 0; row = x.issues.Read(row).Before {
		x.issueBy.Remove(x.idHash(&x.issues.Read(row).ID), row)
		i := x.issues.Write(row)
		before := i.bytes()
		i.Step, i.Code, i.Reason, i.Note = "", "", "", ""
		x.rooms.hold(number, i.bytes()-before)
		rows++
	}
	return rows
}

// Gone is why a key does not work any more whose workspace was removed.
type Gone uint8

// The causes.
const (
	GoneNot      Gone = 0 // it is there, or never was
	GoneUnused   Gone = 1 // by itself: nobody claimed or used it
	GoneOperator Gone = 2
)

func (x *people) goneBy(w *workspace) Gone {
	switch {
	case w.GoneAt == 0:
		return GoneNot
	case w.Acts != 0 && x.actRows.Read(w.Acts).Kind == KindRemoveWorkspace:
		return GoneOperator
	}
	return GoneUnused
}

// GoneKey reports whether the key with this SHA-256 belonged to a workspace that was removed.
func (m *Machine) GoneKey(hash [32]byte) Gone {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.keyOf(&hash)
	if row == 0 {
		return GoneNot
	}
	return s.goneBy(s.workspaces.Read(s.keys.Read(row).Workspace))
}

// GoneAt is when a workspace was removed; 0 when it was not, or there is no such row.
func (m *Machine) GoneAt(workspace uint32) int64 {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.owned(workspace) {
		return 0
	}
	return s.workspaces.Read(workspace).GoneAt
}

// StrangersView is what all workspaces without an owner hold together, and may hold, in bytes; Gone
// is what the rows of removed ones take, and may take.
type StrangersView struct{ Bytes, MaxBytes, Gone, MaxGone uint64 }

// Strangers is what workspaces without an owner hold.
func (m *Machine) Strangers() StrangersView {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return StrangersView{
		Bytes: s.rooms.strangers, MaxBytes: MaxStrangersBytes, Gone: s.rooms.gone, MaxGone: MaxGoneBytes,
	}
}
