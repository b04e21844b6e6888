package billing

import (
	"fmt"
	"io"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/outbox"
	"tollgate/engine/billing/internal/rows"
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
	Lists       book.Lists    `wire:"12"`
	// RequestsFrom and RequestsTo number the kept requests: see requests.
	RequestsFrom uint64 `wire:"40"`
	RequestsTo   uint64 `wire:"41"`
	// Checkouts, Submissions and Changes (admin changes) count all there have been.
	Checkouts   uint64             `wire:"42"`
	Submissions uint64             `wire:"43"`
	Changes     uint64             `wire:"64"`
	Outbox      outbox.OutboxLists `wire:"48"`
	// Holds is empty until there was a reservation.
	Holds []holds.Lists `wire:"81"`
	// Version is the cluster version agreed on.
	Version uint32 `wire:"80"`

	Budgets budgets.Lists `wire:",inline"`
}

// Snapshot freezes the present state. Its cost does not grow with customers, events or their
// keys; it does with environments and API keys, of which there are few.
func (m *Machine) Snapshot() (engine.Snapshot, error) {
	if !m.kernel.Hold() {
		return nil, rows.ErrSnapshotRunning
	}
	s := m.state.Load()
	limits := s.Limits.Load()
	index, hash := s.Log.Hash()
	sn := &snapshot{
		machine: m,
		header: snapshotHeader{
			Machine: machineName, Shard: m.kernel.Shard,
			Index: index, Hash: hash, Stamp: s.Log.Stamp(),
			Limits: SetLimits(*limits), Floor: s.Floor,
			UsageEvents: s.usageEvents.Load(), AuditEvents: s.auditEvents.Load(),
			Sources:  append([]auditSource(nil), s.sources...),
			Accounts: uint32(len(s.Accounts.All())), Lists: s.Lists,

			RequestsFrom: s.requests.From, RequestsTo: s.requests.To,
			Checkouts: s.checkouts.count, Submissions: s.submissions.To, Changes: s.Changes,
			Outbox: s.outbox.OutboxLists, Version: s.Log.Version(), Budgets: s.budgets.Forest.Lists,
			Holds: s.holds.Saved(),
		},
		accounts: s.Accounts.All(),
		pages:    s.Store.Begin(),
		keys:     s.keys.Begin(),
		journal:  m.journal.Begin(),
	}
	for _, e := range s.Environments.All() {
		sn.environments = append(sn.environments, environmentFixed{
			catalog: e.Catalog.Load(), keys: e.FixedKeys(), origins: e.ListedOrigins(),
			payment: e.PaymentSettings(), terms: e.PaymentTerms(),
			seller: e.StatedSeller(), sellers: e.FormerSellers(),
			portal: e.PortalLook(), linkEnds: e.EndedLinks(),
			offset: e.Offset.Load(), invoices: e.Invoices, unmatched: e.UnmatchedNames(),
		})
	}
	return sn, nil
}

// snapshot is a frozen state. What it refers to never changes, or its package guards it.
type snapshot struct {
	machine      *Machine
	header       snapshotHeader
	accounts     []*accounts.Account
	environments []environmentFixed
	pages        *page.Snapshot
	keys         *idempotency.Snapshot
	journal      *journal.Snapshot
	released     bool
}

// environmentFixed is an environment at the beginning of the snapshot.
type environmentFixed struct {
	catalog  *catalogs.Catalog
	keys     []*accounts.APIKey
	origins  []string
	payment  accounts.PaymentSettings
	terms    accounts.PaymentTerms
	seller   accounts.Seller
	sellers  []accounts.FormerSeller
	portal   accounts.Portal
	linkEnds []accounts.LinksEnd
	offset   int64
	invoices uint64

	unmatched []accounts.UnmatchedName
}

// Index returns the last entry in the snapshot.
func (sn *snapshot) Index() uint64 { return sn.header.Index }

// Segments lists the journal segments of the snapshot.
func (sn *snapshot) Segments() []journal.SegmentInfo { return sn.journal.Segments() }

// Pressed reports whether Apply will soon wait for WriteTo.
func (sn *snapshot) Pressed() bool { return sn.pages.Pressed() }

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

// WriteTo writes the snapshot, concurrently with Apply.
func (sn *snapshot) WriteTo(dst io.Writer) (int64, error) {
	out := machine.BlockWriter{Dst: dst}
	out.Write([]byte(snapshotMagic))
	out.Block(&sn.header)
	for i, a := range sn.accounts {
		r := accountRecord{ID: a.ID, Name: a.Name, CreatedAt: a.CreatedAt}
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

// Restore replaces the whole state. Concurrent queries see the old one or the new one. After an
// error the machine is unchanged.
func (m *Machine) Restore(src io.Reader) error {
	if m.kernel.Snapshotting.Load() {
		return rows.ErrSnapshotRunning
	}
	s := newState()
	if err := m.restoreHead(&machine.BlockReader{Src: src}, s); err != nil {
		return err
	}
	if err := s.Store.Restore(src); err != nil {
		return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
	}
	if err := m.together(func() error {
		if err := s.keys.Restore(src, s.usageEvents.Load()); err != nil {
			return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
		}
		return nil
	}, func() error {
		if err := s.consistent(); err != nil {
			return err
		}
		s.reindex()
		return nil
	}, func() error { return linesDecode(s) }); err != nil {
		return err
	}
	m.applying.Lock()
	defer m.applying.Unlock()
	if err := m.journal.Restore(src); err != nil {
		return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
	}
	m.noteAuditDue(s)
	m.kernel.Restored(&s.Log)
	m.state.Store(s)
	return nil
}

// together completes a restore after the pages. The keys need the rest of the stream and no tables;
// checks and indexes need the tables and nothing of the stream; the longest check needs nothing
// else.
func (m *Machine) together(parts ...func() error) error {
	if m.config.Together != nil {
		return m.config.Together(parts...)
	}
	for _, part := range parts {
		if err := part(); err != nil {
			return err
		}
	}
	return nil
}

// restoreHead reads the part before the pages.
func (m *Machine) restoreHead(in *machine.BlockReader, s *state) error {
	if err := in.Begin(snapshotMagic); err != nil {
		return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
	}
	var h snapshotHeader
	if err := in.Block(&h); err != nil {
		return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
	}
	if h.Machine != machineName || h.Shard != m.kernel.Shard {
		return fmt.Errorf("%w: of machine %q, shard %d", rows.ErrSnapshot, h.Machine, h.Shard)
	}
	if err := engine.CheckVersion(h.Version, engine.Version); err != nil {
		return err
	}
	s.Log.Agree(h.Version)
	limits := accounts.Limits(h.Limits)
	if limits.AuditRetentionMS <= 0 {
		return fmt.Errorf(
			"%w: audit events are kept for %d ms", rows.ErrSnapshot, limits.AuditRetentionMS,
		)
	}
	s.Limits.Store(&limits)
	s.requests.From, s.requests.To = h.RequestsFrom, h.RequestsTo
	s.outbox.OutboxLists, s.budgets.Forest.Lists = h.Outbox, h.Budgets
	for _, lists := range h.Holds {
		s.holds.Lists = lists
	}
	s.checkouts.count, s.submissions.To = h.Checkouts, h.Submissions
	s.submissions.From = h.Submissions - min(h.Submissions, MaxSubmissions)
	s.Floor, s.sources, s.Lists = h.Floor, h.Sources, h.Lists
	s.Changes = h.Changes
	s.ChangesShown.Store(h.Changes)
	s.usageEvents.Store(h.UsageEvents)
	s.auditEvents.Store(h.AuditEvents)
	s.Log.Publish(h.Index, h.Stamp, h.Hash)
	for range h.Accounts {
		var r accountRecord
		if err := in.Block(&r); err != nil {
			return fmt.Errorf("%w: %w", rows.ErrSnapshot, err)
		}
		if err := s.restoreAccount(&r); err != nil {
			return err
		}
	}
	return nil
}
