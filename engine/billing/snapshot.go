package billing

import (
	"errors"
	"fmt"
	"io"

	"tollgate/engine"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// A snapshot is, in this order:
//
//	"TGBS" · format version (2 bytes) · block: snapshotHeader · per account a block: accountRecord
//	· page store · idempotency keys · journal (manifest and open tail)
//
// A block is as machine.BlockWriter has it. The last three parts have formats, and checksums, of
// their own packages.
const (
	snapshotMagic = "TGBS\x02\x00"
	machineName   = "billing"
)

var (
	// ErrSnapshot means that bytes are not a snapshot of this machine and format version.
	ErrSnapshot = errors.New("billing: malformed snapshot")
	// ErrSnapshotRunning means that the snapshot before was not released.
	ErrSnapshotRunning = errors.New("billing: a snapshot is running")
)

// snapshotHeader is what a snapshot begins with.
//
//schema:declared
type snapshotHeader struct {
	Machine     string        `wire:"1"`
	Shard       uint16        `wire:"2"`
	Index       uint64        `wire:"3"`
	Hash        uint64        `wire:"4"`
	Stamp       int64         `wire:"5"`
	Limits      SetLimits     `wire:"6"`
	Floor       int64         `wire:"7"`
	UsageEvents uint64        `wire:"8"`
	AuditEvents uint64        `wire:"9"`
	Sources     []auditSource `wire:"10"`
	Accounts    uint32        `wire:"11"`
	Lists       lists         `wire:"12"`
	// RequestsFrom and RequestsTo number the kept requests: see requests.
	RequestsFrom uint64 `wire:"40"`
	RequestsTo   uint64 `wire:"41"`
	// Checkouts, Submissions and Changes (by an admin) count those that there have been.
	Checkouts   uint64      `wire:"42"`
	Submissions uint64      `wire:"43"`
	Changes     uint64      `wire:"64"`
	Outbox      outboxLists `wire:"48"`
	// Version is the cluster version that was agreed on.
	Version uint32 `wire:"80"`
}

// Snapshot fixes the present state. Its cost does not grow with customers, events or keys.
func (m *Machine) Snapshot() (engine.Snapshot, error) {
	if !m.kernel.Hold() {
		return nil, ErrSnapshotRunning
	}
	s := m.state.Load()
	limits := s.limits.Load()
	index, hash := s.log.Hash()
	sn := &snapshot{
		machine: m,
		header: snapshotHeader{
			Machine: machineName, Shard: m.kernel.Shard,
			Index: index, Hash: hash, Stamp: s.log.Stamp(),
			Limits: SetLimits(*limits), Floor: s.floor,
			UsageEvents: s.usageEvents.Load(), AuditEvents: s.auditEvents.Load(),
			Sources:  append([]auditSource(nil), s.sources...),
			Accounts: uint32(len(s.accounts.All())), Lists: s.lists,

			RequestsFrom: s.requests.From, RequestsTo: s.requests.To,
			Checkouts: s.checkouts.count, Submissions: s.submissions.To, Changes: s.changes,
			Outbox: s.outbox.outboxLists, Version: s.log.Version(),
		},
		accounts: s.accounts.All(),
		pages:    s.store.Begin(),
		keys:     s.keys.Begin(),
		journal:  m.journal.Begin(),
	}
	for _, e := range s.environments.All() {
		sn.environments = append(sn.environments, environmentFixed{
			catalog: e.catalog.Load(), keys: e.keys.All(), origins: e.listedOrigins(),
			payment: e.paymentSettings(), terms: e.paymentTerms(),
			offset: e.offset.Load(), invoices: e.invoices, unmatched: e.unmatchedNames(),
		})
	}
	return sn, nil
}

// snapshot is a fixed state. What it refers to never changes, or is guarded by its package.
type snapshot struct {
	machine      *Machine
	header       snapshotHeader
	accounts     []*account
	environments []environmentFixed
	pages        *page.Snapshot
	keys         *idempotency.Snapshot
	journal      *journal.Snapshot
	released     bool
}

// environmentFixed is an environment as it was when the snapshot began.
type environmentFixed struct {
	catalog  *catalog
	keys     []*apiKey
	origins  []string
	payment  PaymentSettings
	terms    paymentTerms
	offset   int64
	invoices uint64

	unmatched []UnmatchedName
}

// Index is the last entry that the snapshot contains.
func (sn *snapshot) Index() uint64 { return sn.header.Index }

// Segments lists the journal segments that the snapshot refers to.
func (sn *snapshot) Segments() []journal.SegmentInfo { return sn.journal.Segments() }

// Release ends the snapshot, written or not.
func (sn *snapshot) Release() {
	if sn.released {
		return
	}
	sn.released = true
	sn.pages.Release()
	sn.keys.Release()
	sn.machine.kernel.Snapshotting.Store(false)
}

// WriteTo writes the snapshot. It runs beside Apply.
func (sn *snapshot) WriteTo(dst io.Writer) (int64, error) {
	out := machine.BlockWriter{Dst: dst}
	out.Write([]byte(snapshotMagic))
	out.Block(&sn.header)
	for i, a := range sn.accounts {
		r := accountRecord{ID: a.id, Name: a.name, CreatedAt: a.createdAt}
		for _, e := range sn.environments[2*i : 2*i+2] {
			r.Environments = append(r.Environments, e.record(sn.header.Index))
		}
		out.Block(&r)
	}
	for _, part := range [...]io.WriterTo{sn.pages, sn.keys, sn.journal} {
		out.Part(part)
	}
	if out.Err != nil {
		return out.N, fmt.Errorf("billing: write a snapshot: %w", out.Err)
	}
	return out.N, nil
}

// Restore replaces the whole state. Queries that run beside it see the old one or the new one.
// After an error the machine is as it was.
func (m *Machine) Restore(src io.Reader) error {
	if m.kernel.Snapshotting.Load() {
		return ErrSnapshotRunning
	}
	s := newState()
	if err := m.restoreHead(&machine.BlockReader{Src: src}, s); err != nil {
		return err
	}
	if err := s.store.Restore(src); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if err := s.keys.Restore(src, s.usageEvents.Load()); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if err := s.consistent(); err != nil {
		return err
	}
	s.reindex()
	m.applying.Lock()
	defer m.applying.Unlock()
	if err := m.journal.Restore(src); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	m.noteAuditDue(s)
	m.kernel.Restored(&s.log)
	m.state.Store(s)
	return nil
}

// restoreHead reads what stands before the pages.
func (m *Machine) restoreHead(in *machine.BlockReader, s *state) error {
	if err := in.Begin(snapshotMagic); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	var h snapshotHeader
	if err := in.Block(&h); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	if h.Machine != machineName || h.Shard != m.kernel.Shard {
		return fmt.Errorf("%w: of machine %q, shard %d", ErrSnapshot, h.Machine, h.Shard)
	}
	if err := engine.CheckVersion(h.Version, engine.Version); err != nil {
		return err
	}
	s.log.Agree(h.Version)
	limits := Limits(h.Limits)
	if limits.AuditRetentionMS <= 0 {
		return fmt.Errorf("%w: audit events are kept for %d ms", ErrSnapshot, limits.AuditRetentionMS)
	}
	s.limits.Store(&limits)
	s.requests.From, s.requests.To = h.RequestsFrom, h.RequestsTo
	s.outbox.outboxLists = h.Outbox
	s.checkouts.count, s.submissions.To = h.Checkouts, h.Submissions
	s.submissions.From = h.Submissions - min(h.Submissions, MaxSubmissions)
	s.floor, s.sources, s.lists = h.Floor, h.Sources, h.Lists
	s.changes = h.Changes
	s.changesShown.Store(h.Changes)
	s.usageEvents.Store(h.UsageEvents)
	s.auditEvents.Store(h.AuditEvents)
	s.log.Publish(h.Index, h.Stamp, h.Hash)
	for range h.Accounts {
		var r accountRecord
		if err := in.Block(&r); err != nil {
			return fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		if err := s.restoreAccount(&r); err != nil {
			return err
		}
	}
	return nil
}
