package workspace

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"

	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// spaces are workspaces: who has them, their keys, and what they hold and may hold.
type spaces struct {
	tables
	policy SetPolicy
	// expireFrom is since when the policy says how long workspaces without an owner are kept.
	expireFrom int64
	keys       *page.Table[key]
	keyByHash  *page.Index // of API keys
	sources    machine.Ring[signups]
	// due is what will happen by itself, earliest first; no state.
	due dues
	// rooms are what workspaces hold; no state: they follow from the tables.
	rooms         rooms
	issues        records[issue]
	notifications records[notification]
	inspections   *page.Table[inspection]
	alerts        *page.Table[alert]
	access        *page.Table[access]
	persons       *page.Table[person]
	emailBy       map[string]uint32   // a person's verified address → row
	promised      map[string][]uint32 // an address that has not signed in yet → workspaces
}

// MaxSources is the maximum number of addresses with a signup in the past hour that a group keeps.
// Beyond it, signups from other addresses are refused.
const MaxSources = 200_000

func (x *spaces) open() {
	x.tables.open()
	x.policy, x.keyByHash = DefaultPolicy(), page.NewIndex()
	x.emailBy, x.promised = map[string]uint32{}, map[string][]uint32{}
	x.keys = page.NewTable(x.store, tableKeys, machine.RecordCodec[key]())
	x.issues = openRecords(x.store, x.seed, tableIssues, func(i *issue) head {
		return head{&i.ID, i.Workspace, i.Before}
	})
	x.notifications = openRecords(x.store, x.seed, tableNotifications, func(n *notification) head {
		return head{&n.ID, n.Workspace, n.Before}
	})
	x.inspections = page.NewTable(x.store, tableInspections, machine.RecordCodec[inspection]())
	x.alerts = page.NewTable(x.store, tableAlerts, machine.RecordCodec[alert]())
	x.access = page.NewTable(x.store, tableAccess, machine.RecordCodec[access]())
	x.persons = page.NewTable(x.store, tablePersons, machine.RecordCodec[person]())
	x.sources = machine.Ring[signups]{
		Table: page.NewTable(x.store, tableSignups, machine.RecordCodec[signups]()), Max: MaxSources,
		By: page.NewIndex(), Hash: x.idHash, Key: func(r *signups) [16]byte { return r.Source },
		At: func(r *signups) int64 { return r.At },
	}
}

// roomLimit is what a workspace may hold now.
func (x *spaces) roomLimit(workspace uint32) uint64 {
	bought := uint64(x.workspaces.Read(workspace).Ledger.RunsBought)
	return x.rooms.limit(workspace) + bought*BoughtRunBytes
}

// room reports whether a workspace may hold so many bytes more; what is not more is always allowed.
func (x *spaces) room(t *machine.Turn, workspace uint32, more int) engine.Outcome {
	used, limit := x.rooms.of[workspace].bytes, x.roomLimit(workspace)
	if more > 0 && used+uint64(more) > limit {
		t.Answer(&FullReply{Used: used, Limit: limit})
		return engine.OutcomeWorkspaceFull
	}
	return engine.OutcomeDone
}

// another reports whether a workspace may have another flow, run or purchase, with so many bytes.
func (x *spaces) another(t *machine.Turn, workspace uint32, bytes int) engine.Outcome {
	r := &x.rooms.of[workspace]
	if !r.claimed && r.records >= MaxUnclaimedRecords {
		t.Answer(&FullReply{Records: r.records, MaxRecords: MaxUnclaimedRecords})
		return engine.OutcomeWorkspaceFull
	}
	return x.room(t, workspace, bytes)
}

// anotherFlow reports whether a workspace may have another flow, with so many bytes.
func (x *spaces) anotherFlow(t *machine.Turn, workspace uint32, bytes int) engine.Outcome {
	r, limit := &x.rooms.of[workspace], uint32(MaxFlows)
	if !r.claimed {
		limit = MaxUnclaimedFlows
	}
	if r.flows >= limit {
		t.Answer(&FullReply{Records: r.flows, MaxRecords: limit})
		return engine.OutcomeWorkspaceFull
	}
	return x.another(t, workspace, bytes)
}

// writeRunText replaces what a run has to say.
func (x *spaces) writeRunText(row uint32, text *RunText) {
	more := x.runs.WriteText(row, text)
	x.rooms.hold(x.runs.Row(row).Workspace, more)
}

// countRooms counts what all workspaces hold, from the tables.
func (x *spaces) countRooms() (r rooms) {
	for _, w := range x.workspaces.All() {
		r.open(w)
	}
	for row, f := range x.flows.All() {
		r.of[f.Workspace].flows++
		r.add(f.Workspace, flowRowBytes+len(x.flowTexts.Read(row).Bytes))
	}
	for row := uint32(1); row <= x.runs.Len(); row++ {
		r.add(x.runs.Row(row).Workspace, runRowBytes+x.runs.TextBytes(row))
	}
	for _, p := range x.purchases.All() {
		r.add(p.Workspace, p.bytes())
	}
	for _, i := range x.issues.All() {
		r.hold(i.Workspace, i.bytes())
	}
	for _, n := range x.notifications.All() {
		r.hold(n.Workspace, noticeRowBytes)
	}
	for _, a := range x.alerts.All() {
		r.hold(a.Workspace, a.bytes())
	}
	for _, a := range x.access.All() {
		r.hold(a.Workspace, a.bytes())
	}
	for _, of := range x.schedules.All() {
		r.hold(of.Workspace, scheduleRowBytes)
		if of.EveryHours != 0 {
			r.of[of.Workspace].schedules++
		}
	}
	for _, i := range x.inspections.All() {
		r.hold(i.Workspace, i.bytes())
	}
	return r
}

// person copies a person by row; false when there is none.
func (x *spaces) person(row uint32) (p person, ok bool) {
	if row == 0 || row > x.persons.Len() {
		return p, false
	}
	return *x.persons.Read(row), true
}

// ownedBy reports whether a workspace is a person's, and there.
func (x *spaces) ownedBy(workspace, person uint32) bool {
	return x.owned(workspace) && person != 0 && x.workspaces.Read(workspace).Person == person &&
		x.workspaces.Read(workspace).GoneAt == 0
}

// give makes a workspace a person's; p is the person's row, w the workspace's.
func (x *spaces) give(t *machine.Turn, number uint32, w *workspace, row uint32, p *person) {
	w.Person, w.OwnedBefore, p.Owned = row, p.Owned, number
	t.Fold(uint64(number)<<32 | uint64(row))
}

// promise notes that a workspace is whose who signs in with an address: an operator claimed it.
func (x *spaces) promise(number uint32, owner string) {
	if strings.Contains(owner, "@") {
		x.promised[Address(owner)] = append(x.promised[Address(owner)], number)
	}
}

// adopt makes an unclaimed workspace its owner's, and its claim code void. Where person is 0, it is
// whose who has signed in with the owner's address, or does so later.
func (x *spaces) adopt(t *machine.Turn, row uint32, s *workspace, owner string, person uint32) {
	if s.claimed() {
		return
	}
	if s.Claim != ([32]byte{}) {
		x.claimByHash.Remove(secretHash(&s.Claim), row)
	}
	x.rooms.adopt(row)
	s.Claim, s.Owner, s.ClaimedAt = [32]byte{}, owner, t.Stamp
	person = cmp.Or(person, x.emailBy[Address(owner)])
	if person == 0 {
		x.promise(row, owner)
	} else {
		x.give(t, row, s, person, x.persons.Write(person))
	}
	t.Fold(uint64(row))
}

// openWorkspace adds an unclaimed workspace.
func (x *spaces) openWorkspace(t *machine.Turn, w workspace) (row uint32, added *workspace) {
	w.CreatedAt, w.Ledger.CapCents = t.Stamp, x.policy.DefaultCapCents
	row, added = x.workspaces.Append()
	*added = w
	x.rooms.open(added)
	x.due.add(x.unusedEnd(added), dueWorkspace, row)
	x.workspaces.index(row)
	if added.Claim != ([32]byte{}) {
		x.claimByHash.Insert(secretHash(&added.Claim), row)
	}
	return row, added
}

// NoticedMS is how exactly the use of a workspace is known, in milliseconds: within it a use is not
// noted again.
const NoticedMS = hourMS

// usedAt is when a workspace was used last, as far as is known: time before the settings said how
// long it is kept does not count.
func (x *spaces) usedAt(w *workspace) int64 { return max(w.CreatedAt, w.UsedAt, x.expireFrom) }

// unusedEnd is when an unclaimed workspace is removed unless it is used before; 0 is never.
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

// scheduleUnclaimed notes anew when workspaces without an owner are removed, after something that
// may move that back. It looks at all workspaces.
func (x *spaces) scheduleUnclaimed() {
	x.due = slices.DeleteFunc(x.due, func(i dueItem) bool { return i.kind == dueWorkspace })
	for row, w := range x.workspaces.All() {
		if at := x.unusedEnd(w); at != 0 {
			x.due = append(x.due, dueItem{at, dueWorkspace, row})
		}
	}
	heap.Init(&x.due)
}

func (x *spaces) addKey(t *machine.Turn, workspace uint32, k key) {
	w := x.workspaces.Write(workspace)
	row, r := x.keys.Append()
	k.Workspace, k.Before, k.CreatedAt = workspace, w.Keys, t.Stamp
	*r, w.Keys = k, row
	x.keyByHash.Insert(secretHash(&k.Hash), row)
	t.Fold(uint64(row))
}

// keyOf finds a key by its SHA-256; 0 when there is none.
func (x *spaces) keyOf(hash *[32]byte) uint32 {
	return x.keyByHash.Find(secretHash(hash), func(row uint32) bool {
		return x.keys.Read(row).Hash == *hash
	})
}

func (x *spaces) revoke(t *machine.Turn, row uint32) {
	if x.keys.Read(row).RevokedAt == 0 {
		x.keys.Write(row).RevokedAt = t.Stamp
		t.Fold(uint64(row))
	}
}
