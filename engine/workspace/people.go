package workspace

import (
	"cmp"
	"hash/maphash"
	"slices"

	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// people are who signs in: persons, sessions, and agents that ask to work for their owner.
type people struct {
	runner
	personBy *page.Index
	sessions machine.Ring[session]
	links    *page.Table[link]
}

func (x *people) open() {
	x.runner.open()
	x.personBy = page.NewIndex()
	x.links = page.NewTable(x.store, tableLinks, machine.RecordCodec[link]())
	x.sessions = machine.Ring[session]{
		Table: page.NewTable(x.store, tableSessions, machine.RecordCodec[session]()), Max: MaxSessions,
		By: page.NewIndex(), Hash: x.idHash,
		Key: func(r *session) [16]byte { return sessionKey(&r.Hash) },
		At:  func(r *session) int64 { return r.CreatedAt },
	}
}

// subjectHash is where the index has a person.
func (x *people) subjectHash(issuer, subject string) uint64 {
	return maphash.String(x.seed, issuer+"\n"+subject)
}

// personRow finds the person who has signed in as an issuer's subject, 0 if none has.
func (x *people) personRow(issuer, subject string) uint32 {
	return x.personBy.Find(x.subjectHash(issuer, subject), func(row uint32) bool {
		p := x.persons.Read(row)
		return p.Issuer == issuer && p.Subject == subject
	})
}

// hold gives a person an address, takes it from the person who had it, and gives them the
// workspaces that an operator has claimed for it.
func (x *people) hold(t *machine.Turn, row uint32, p *person, email string) {
	if old := Address(p.Email); p.Email != "" && x.emailBy[old] == row && old != Address(email) {
		delete(x.emailBy, old)
	}
	p.Email = email
	if email == "" {
		return
	}
	if other := x.emailBy[Address(email)]; other != 0 && other != row {
		x.persons.Write(other).Email = ""
	}
	x.emailBy[Address(email)] = row
	promised := x.promised[Address(email)]
	slices.Sort(promised) // the order after a restore
	for _, number := range promised {
		x.give(t, number, x.workspaces.Write(number), row, p)
	}
	delete(x.promised, Address(email))
}

// linkOf is the link of an agent with the person of a verified address: the one that there is, or a
// new one, where that person may be asked. 0 is none.
func (x *people) linkOf(t *machine.Turn, row uint32, p *person, email string) uint32 {
	number := x.emailBy[Address(email)]
	if email == "" || number == 0 {
		return 0
	}
	owners := 0
	for l := p.Links; l != 0; l = x.links.Read(l).BeforeOfAgent {
		if x.links.Read(l).Owner == number {
			return l
		}
		owners++
	}
	owner := x.persons.Read(number)
	if owner.Waiting >= MaxWaitingLinks || owner.Asks >= maxAsks || owners >= maxOwners {
		return 0
	}
	next, l := x.links.Append()
	*l = link{
		ID: LinkID(p.ID, number, t.Stamp), Agent: row, Owner: number,
		BeforeOfAgent: p.Links, BeforeOfOwner: owner.Asked, Status: LinkWaiting, AskedAt: t.Stamp,
	}
	p.Links = next
	owner = x.persons.Write(number)
	owner.Asked, owner.Asks, owner.Waiting = next, owner.Asks+1, owner.Waiting+1
	t.Fold(uint64(next))
	return next
}

// LinkID is the id of the link that an agent, by id, asks the person of a row for at an instant.
func LinkID(agent [16]byte, owner uint32, stamp int64) [16]byte {
	return derivedID(agent, labelLink, uint64(owner), stamp)
}

const (
	// MaxWaitingLinks is how many agents may wait for one person's answer: the next one is not
	// asked for, and asks again when it signs in again.
	MaxWaitingLinks = 20
	// maxAsks is how many links a person was ever asked for, maxOwners how many owners an agent
	// ever had; beyond it no more are asked for.
	maxAsks   = 1000
	maxOwners = 100
)

// needsWorkspace reports whether an agent has no workspace of its own, or none any more.
func (x *people) needsWorkspace(p *person) bool {
	return p.Agent && (p.Own == 0 || x.workspaces.Read(p.Own).GoneAt != 0)
}

// sessionRow finds a session that has not ended at an instant; 0 when there is none.
func (x *people) sessionRow(hash *[32]byte, now int64) uint32 {
	row := x.sessions.Find(sessionKey(hash), now-SessionMS)
	if row == 0 {
		return 0
	}
	r := x.sessions.Table.Read(row)
	if r.Hash != *hash || r.ClosedAt != 0 || now >= r.ends() {
		return 0
	}
	if p, ok := x.person(r.Person); !ok || r.CreatedAt < p.EndedAt {
		return 0
	}
	return row
}

// closeSession ends a session. A session that is unknown or has ended is left alone.
func (x *people) closeSession(t *machine.Turn, hash *[32]byte) {
	if row := x.sessionRow(hash, t.Stamp); row != 0 {
		x.sessions.Table.Write(row).ClosedAt = t.Stamp
		t.Fold(uint64(row))
	}
}

func (x *people) openSession(t *machine.Turn, r session) {
	r.CreatedAt, r.UsedAt = t.Stamp, t.Stamp
	x.sessions.Keep(r)
	t.Fold(x.sessions.To)
}

// linkAsked finds a link that a person was asked for; 0 when there is none.
func (x *people) linkAsked(person uint32, id [16]byte) uint32 {
	p, _ := x.person(person)
	row := p.Asked
	for row != 0 && x.links.Read(row).ID != id {
		row = x.links.Read(row).BeforeOfOwner
	}
	return row
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
		x.purchases.unindex(row)
		rows++
	}
	for row := w.Notifications; row != 0; row = x.notifications.Read(row).Before {
		x.notifications.unindex(row)
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
		x.flows.unindex(row)
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
		x.issues.unindex(row)
		i := x.issues.Write(row)
		before := i.bytes()
		i.Step, i.Code, i.Reason, i.Note = "", "", "", ""
		x.rooms.hold(number, i.bytes()-before)
		rows++
	}
	return rows
}

// workspaceOf is the workspace that a session works in: an agent's that its owner has given it, or
// its own; a person's that was chosen, or the newest. 0 is none.
func (x *people) workspaceOf(r *session, p *person) uint32 {
	switch {
	case r.Surface != SurfaceWorkspaces:
		return 0
	case !p.Agent && x.ownedBy(r.Workspace, r.Person):
		return r.Workspace
	case !p.Agent:
		return p.Owned
	}
	if p.Link != 0 {
		if l := x.links.Read(p.Link); l.Status == LinkApproved && x.ownedBy(l.Workspace, l.Owner) {
			return l.Workspace
		}
	}
	if p.Own != 0 && x.workspaces.Read(p.Own).GoneAt == 0 {
		return p.Own
	}
	return 0
}
