package workspace

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// A snapshot is, in this order:
//
//	"TGWS" · format version (1 byte) · block: header · page store
//
// A block is as machine.BlockWriter has it. The page store has a format, and checksums, of its own
// package.
const snapshotMagic = "TGWS\x02"

var (
	// ErrSnapshot means that bytes are not a snapshot of this machine and format version.
	ErrSnapshot = errors.New("workspace: malformed snapshot")
	// ErrSnapshotRunning means that the snapshot before was not released.
	ErrSnapshotRunning = errors.New("workspace: a snapshot is running")
)

// header is what is not in a table.
type header struct {
	Shard        uint16    `wire:"1"`
	Index        uint64    `wire:"2"`
	Hash         uint64    `wire:"3"`
	Stamp        int64     `wire:"4"`
	Policy       SetPolicy `wire:"5"`
	Day          uint32    `wire:"6"`
	FreeToday    uint32    `wire:"7"`
	FirstQueued  uint32    `wire:"8"`
	LastQueued   uint32    `wire:"9"`
	Queued       uint32    `wire:"10"`
	Running      uint32    `wire:"11"`
	RequestsFrom uint64    `wire:"12"`
	RequestsTo   uint64    `wire:"13"`
	SourcesFrom  uint64    `wire:"14"`
	SourcesTo    uint64    `wire:"15"`
	// Version is the cluster version that was agreed on.
	Version uint32 `wire:"30"`
	// ExpireFrom is since when the settings say how long workspaces without an owner are kept.
	ExpireFrom   int64  `wire:"41"`
	SessionsFrom uint64 `wire:"50"`
	SessionsTo   uint64 `wire:"51"`
	// Agents are those that are configured.
	Agents []string `wire:"141"`
}

// Snapshot fixes the present state. Its cost does not grow with workspaces or runs.
func (m *Machine) Snapshot() (engine.Snapshot, error) {
	if !m.kernel.Hold() {
		return nil, ErrSnapshotRunning
	}
	s := m.state.Load()
	index, hash := s.log.Hash()
	return &snapshot{
		machine: m,
		header: header{
			Shard: m.kernel.Shard, Index: index, Hash: hash, Stamp: s.log.Stamp(),
			Policy: s.policy, Day: s.day, FreeToday: s.freeToday,
			FirstQueued: s.firstQueued, LastQueued: s.lastQueued,
			Queued: s.queued, Running: s.running,
			RequestsFrom: s.requests.From, RequestsTo: s.requests.To,
			SourcesFrom: s.sources.From, SourcesTo: s.sources.To, Version: s.log.Version(),
			ExpireFrom: s.expireFrom, SessionsFrom: s.sessions.From, SessionsTo: s.sessions.To,
			Agents: s.offered,
		},
		pages: s.store.Begin(),
	}, nil
}

// snapshot is a fixed state.
type snapshot struct {
	machine  *Machine
	header   header
	pages    *page.Snapshot
	released bool
}

// Index is the last entry that the snapshot contains.
func (sn *snapshot) Index() uint64 { return sn.header.Index }

// Segments is empty: this machine keeps no journal.
func (sn *snapshot) Segments() []journal.SegmentInfo { return nil }

// Pressed reports whether Apply will soon wait for WriteTo.
func (sn *snapshot) Pressed() bool { return sn.pages.Pressed() }

// Release ends the snapshot, written or not.
func (sn *snapshot) Release() {
	if !sn.released {
		sn.released = true
		sn.pages.Release()
		sn.machine.kernel.Snapshotting.Store(false)
	}
}

// WriteTo writes the snapshot. It runs concurrently with Apply.
func (sn *snapshot) WriteTo(dst io.Writer) (int64, error) {
	out := machine.BlockWriter{Dst: dst}
	out.Write([]byte(snapshotMagic))
	out.Block(&sn.header)
	out.Part(sn.pages)
	if out.Err != nil {
		return out.N, fmt.Errorf("workspace: write a snapshot: %w", out.Err)
	}
	return out.N, nil
}

// Restore replaces the whole state. Concurrent queries see the old state or the new one. After an
// error the machine is as it was.
func (m *Machine) Restore(src io.Reader) error {
	if m.kernel.Snapshotting.Load() {
		return ErrSnapshotRunning
	}
	var h header
	in := machine.BlockReader{Src: src}
	err := in.Begin(snapshotMagic)
	if err == nil {
		err = in.Block(&h)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if h.Shard != m.kernel.Shard {
		return fmt.Errorf("%w: of shard %d, this is shard %d", ErrSnapshot, h.Shard, m.kernel.Shard)
	}
	if err := engine.CheckVersion(h.Version, engine.Version); err != nil {
		return err
	}
	s := newState()
	s.log.Agree(h.Version)
	if err := s.store.Restore(src); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	s.policy, s.day, s.freeToday, s.expireFrom = h.Policy, h.Day, h.FreeToday, h.ExpireFrom
	s.firstQueued, s.lastQueued, s.queued, s.running = h.FirstQueued, h.LastQueued, h.Queued, h.Running
	s.requests.From, s.requests.To = h.RequestsFrom, h.RequestsTo
	s.sources.From, s.sources.To = h.SourcesFrom, h.SourcesTo
	s.sessions.From, s.sessions.To = h.SessionsFrom, h.SessionsTo
	s.offered = h.Agents
	if err := s.consistent(); err != nil {
		return err
	}
	s.log.Publish(h.Index, h.Stamp, h.Hash)
	s.reindex()
	if !s.resolve() {
		return fmt.Errorf("%w: a request that made nothing", ErrSnapshot)
	}
	m.kernel.Restored(&s.log)
	m.state.Store(s)
	return nil
}

// consistent reports an error unless rows name rows that exist and blobs decode. It is called
// before anything follows them.
func (x *state) consistent() error {
	bad := func(what string) error { return fmt.Errorf("%w: %s", ErrSnapshot, what) }
	if !x.requests.Consistent() || !x.sources.Consistent() ||
		x.flowTexts.Len() != x.flows.Len() || x.runs.texts.Len() != x.runs.Len() ||
		x.firstQueued > x.runs.Len() || x.lastQueued > x.runs.Len() {
		return bad("counts that do not agree")
	}
	for _, w := range x.workspaces.All() {
		if w.Keys > x.keys.Len() || w.Flows > x.flows.Len() || w.Runs > x.runs.Len() ||
			w.Purchases > x.purchases.Len() || w.Issues > x.issues.Len() ||
			w.Notifications > x.notifications.Len() || w.Transactions > x.transactions.Len() ||
			w.Acts > x.actRows.Len() || w.Ledger.Open > x.purchases.Len() ||
			w.Access > x.access.Len() {
			return bad("a workspace's lists")
		}
	}
	for row, k := range x.keys.All() {
		if k.Before >= row || !x.owned(k.Workspace) {
			return bad("a key")
		}
	}
	for row, f := range x.flows.All() {
		if f.Before >= row || !x.owned(f.Workspace) || f.Open > x.runs.Len() ||
			f.Issues > x.issues.Len() || f.Watch > WatchFailing || f.Alert > x.alerts.Len() ||
			f.Schedule > x.schedules.Len() ||
			wire.Decode(x.flowTexts.Read(row).Bytes, &FlowDocument{}) != nil {
			return bad("a flow")
		}
	}
	for row := uint32(1); row <= x.runs.Len(); row++ {
		r := x.runs.Read(row)
		if r.Before >= row || !x.owned(r.Workspace) || r.Flow > x.flows.Len() ||
			r.Next > x.runs.Len() || r.Kind < RunHosted || r.Kind > RunLocal ||
			r.Status < RunQueued || r.Status > RunCancelled || r.Outcome > OutcomeInconclusive ||
			r.Kind == RunHosted && r.Flow == 0 {
			return bad("a run")
		}
	}
	if !x.consistentInspections() {
		return bad("an inspection")
	}
	if !x.consistentPersons() {
		return bad("a person, a link or a session")
	}
	return x.consistentLists(bad)
}

func (x *state) consistentLists(bad func(string) error) error {
	for row, p := range x.purchases.All() {
		if p.Before >= row || !x.owned(p.Workspace) || p.Flow > x.flows.Len() ||
			p.Status < PurchaseApproval || p.Status > PurchaseExpired || p.Reason > ReasonDeclined {
			return bad("a purchase")
		}
	}
	for row, i := range x.issues.All() {
		if i.Before >= row || i.BeforeOfFlow >= row || !x.owned(i.Workspace) || i.Flow == 0 ||
			i.Flow > x.flows.Len() || i.Status < IssueOpen || i.Status > IssueClosed {
			return bad("an issue")
		}
	}
	for row, n := range x.notifications.All() {
		if n.Before >= row || !x.owned(n.Workspace) || n.Flow > x.flows.Len() ||
			n.Kind < NoticeRegression || n.Kind > NoticeScheduleSkipped || n.Skip > SkipRunnerBusy {
			return bad("a notification")
		}
	}
	for row, r := range x.transactions.All() {
		if r.Before >= row || r.Kind < transactionGrant || r.Kind > transactionRelease {
			return bad("a transaction")
		}
	}
	for row, a := range x.actRows.All() {
		if !isAct(a.Kind) || a.Before >= row || !x.owned(a.Workspace) ||
			a.Person > x.persons.Len() {
			return bad("an act")
		}
	}
	for _, a := range x.alerts.All() {
		if !x.owned(a.Workspace) || a.Flow == 0 || a.Flow > x.flows.Len() ||
			len(a.Deliveries) > MaxDeliveries ||
			slices.ContainsFunc(a.Deliveries, func(d DeliveryView) bool { return !d.consistent() }) {
			return bad("a flow's alerts")
		}
	}
	for _, of := range x.schedules.All() {
		if !x.owned(of.Workspace) || of.Flow == 0 || of.Flow > x.flows.Len() ||
			of.EveryHours > MaxScheduleHours || of.EveryHours == 0 && of.Due|of.Trying != 0 {
			return bad("a schedule")
		}
	}
	for row, a := range x.access.All() {
		if !x.owned(a.Workspace) || a.Before >= row {
			return bad("test credentials")
		}
	}
	return nil
}

// consistentPersons reports whether persons, links and sessions name rows that exist.
func (x *people) consistentPersons() bool {
	persons, spaces, links := x.persons.Len(), x.workspaces.Len(), x.links.Len()
	return every(x.persons, func(_ uint32, p *person) bool {
		return p.Own <= spaces && p.Owned <= spaces && p.Links <= links && p.Link <= links &&
			p.Asked <= links
	}) && every(x.workspaces.Table, func(row uint32, w *workspace) bool {
		return w.Person <= persons && w.OwnedBefore <= spaces && w.OwnedBefore != row
	}) && every(x.links, func(row uint32, l *link) bool {
		return l.Agent != 0 && l.Agent <= persons && l.Owner != 0 && l.Owner <= persons &&
			l.BeforeOfAgent < row && l.BeforeOfOwner < row && l.Workspace <= spaces &&
			l.Status >= LinkWaiting && l.Status <= LinkRemoved
	}) && x.sessions.Consistent()
}

// consistentInspections reports whether inspections name rows that exist, and no document is longer
// than was announced.
func (x *runner) consistentInspections() bool {
	return x.documents.Len() == x.inspections.Len() &&
		every(x.inspections, func(row uint32, i *inspection) bool {
			return i.Before < row && i.Previous < row && x.owned(i.Workspace) && i.Run != 0 &&
				i.Run <= x.runs.Len() && x.runs.Read(i.Run).Kind == i.Kind &&
				len(x.documents.Read(row).Bytes()) <= int(i.Size) &&
				wire.Decode(i.Findings, &findings{}) == nil
		})
}
