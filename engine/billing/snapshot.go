package billing

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"tollgate/engine"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// A snapshot is, in this order:
//
//	"TGBS" · format version (2 bytes) · block: snapshotHeader · per account a block: accountRecord
//	· page store · idempotency keys · journal (manifest and open tail)
//
// A block is its length (4 bytes), the bytes, their CRC32C (4 bytes); integers are little endian.
// The last three parts have formats, and checksums, of their own packages.
const (
	snapshotMagic   = "TGBS"
	snapshotVersion = 2
	machineName     = "billing"
	// maxBlock bounds a block that Restore believes in.
	maxBlock = 1 << 30
	// blockStep is how much of a block is read at a time, so that a false length reserves little.
	blockStep = 1 << 20
)

var (
	// ErrSnapshot means that bytes are not a snapshot of this machine and format version.
	ErrSnapshot = errors.New("billing: malformed snapshot")
	// ErrSnapshotRunning means that the snapshot before was not released.
	ErrSnapshotRunning = errors.New("billing: a snapshot is running")

	castagnoli = crc32.MakeTable(crc32.Castagnoli)
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
	if !m.snapshotting.CompareAndSwap(false, true) {
		return nil, ErrSnapshotRunning
	}
	s := m.state.Load()
	limits := s.limits.Load()
	sn := &snapshot{
		machine: m,
		header: snapshotHeader{
			Machine: machineName, Shard: m.config.Shard,
			Index: s.hashIndex, Hash: s.hash64, Stamp: s.stamp.Load(),
			Limits: SetLimits(*limits), Floor: s.floor,
			UsageEvents: s.usageEvents.Load(), AuditEvents: s.auditEvents.Load(),
			Sources:  append([]auditSource(nil), s.sources...),
			Accounts: uint32(len(s.accounts.all())), Lists: s.lists,

			RequestsFrom: s.requests.from, RequestsTo: s.requests.to,
			Checkouts: s.checkouts.count, Submissions: s.submissions.count, Changes: s.changes,
			Outbox: s.outbox.outboxLists, Version: s.version.Load(),
		},
		accounts: s.accounts.all(),
		pages:    s.store.Begin(),
		keys:     s.keys.Begin(),
		journal:  m.journal.Begin(),
	}
	for _, e := range s.environments.all() {
		sn.environments = append(sn.environments, environmentFixed{
			catalog: e.catalog.Load(), keys: e.keys.all(), origins: e.listedOrigins(),
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
	sn.machine.snapshotting.Store(false)
}

// WriteTo writes the snapshot. It runs beside Apply.
func (sn *snapshot) WriteTo(dst io.Writer) (int64, error) {
	out := &blockWriter{dst: dst}
	out.write(binary.LittleEndian.AppendUint16([]byte(snapshotMagic), snapshotVersion))
	out.block(&sn.header)
	for i, a := range sn.accounts {
		r := accountRecord{ID: a.id, Name: a.name, CreatedAt: a.createdAt}
		for _, e := range sn.environments[2*i : 2*i+2] {
			r.Environments = append(r.Environments, e.record(sn.header.Index))
		}
		out.block(&r)
	}
	for _, part := range [...]io.WriterTo{sn.pages, sn.keys, sn.journal} {
		out.part(part)
	}
	if out.err != nil {
		return out.n, fmt.Errorf("billing: write a snapshot: %w", out.err)
	}
	return out.n, nil
}

// blockWriter writes until the first error, which stays.
type blockWriter struct {
	dst io.Writer
	n   int64
	err error
	buf []byte
}

func (w *blockWriter) write(b []byte) {
	if w.err != nil {
		return
	}
	n, err := w.dst.Write(b)
	w.n, w.err = w.n+int64(n), err
}

func (w *blockWriter) block(v wire.Fielder) {
	w.buf = wire.Encode(append(w.buf[:0], 0, 0, 0, 0), v)
	body := w.buf[4:]
	if len(body) > maxBlock && w.err == nil {
		w.err = fmt.Errorf("block of %d bytes", len(body))
	}
	binary.LittleEndian.PutUint32(w.buf, uint32(len(body)))
	w.write(binary.LittleEndian.AppendUint32(w.buf, crc32.Checksum(body, castagnoli)))
}

func (w *blockWriter) part(p io.WriterTo) {
	if w.err != nil {
		return
	}
	n, err := p.WriteTo(w.dst)
	w.n, w.err = w.n+n, err
}

// Restore replaces the whole state. Queries that run beside it see the old one or the new one.
// After an error the machine is as it was.
func (m *Machine) Restore(src io.Reader) error {
	if m.snapshotting.Load() {
		return ErrSnapshotRunning
	}
	s := newState()
	in := &blockReader{src: src}
	if err := m.restoreHead(in, s); err != nil {
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
	m.ring.Forget()
	m.ring.Note(engine.CheckState{Index: s.hashIndex, Hash: s.hash64})
	m.state.Store(s)
	return nil
}

// restoreHead reads what stands before the pages.
func (m *Machine) restoreHead(in *blockReader, s *state) error {
	var head [len(snapshotMagic) + 2]byte
	if _, err := io.ReadFull(in.src, head[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	version := binary.LittleEndian.Uint16(head[len(snapshotMagic):])
	if string(head[:len(snapshotMagic)]) != snapshotMagic || version != snapshotVersion {
		return fmt.Errorf("%w: no header of version %d", ErrSnapshot, snapshotVersion)
	}
	var h snapshotHeader
	if err := in.block(&h); err != nil {
		return err
	}
	if h.Machine != machineName || h.Shard != m.config.Shard {
		return fmt.Errorf("%w: of machine %q, shard %d", ErrSnapshot, h.Machine, h.Shard)
	}
	if err := engine.CheckVersion(h.Version, engine.Version); err != nil {
		return err
	}
	s.version.Store(h.Version)
	limits := Limits(h.Limits)
	if limits.AuditRetentionMS <= 0 {
		return fmt.Errorf("%w: audit events are kept for %d ms", ErrSnapshot, limits.AuditRetentionMS)
	}
	s.limits.Store(&limits)
	s.floor, s.sources = h.Floor, h.Sources
	s.requests.from, s.requests.to = h.RequestsFrom, h.RequestsTo
	s.checkouts.count = h.Checkouts
	s.outbox.outboxLists = h.Outbox
	s.checkouts.count, s.submissions.count = h.Checkouts, h.Submissions
	s.floor, s.sources, s.lists = h.Floor, h.Sources, h.Lists
	s.changes = h.Changes
	s.changesShown.Store(h.Changes)
	s.usageEvents.Store(h.UsageEvents)
	s.auditEvents.Store(h.AuditEvents)
	s.publish(h.Index, h.Stamp, h.Hash)
	for range h.Accounts {
		var r accountRecord
		if err := in.block(&r); err != nil {
			return err
		}
		if err := s.restoreAccount(&r); err != nil {
			return err
		}
	}
	return nil
}

// blockReader reads what blockWriter wrote, and no more.
type blockReader struct {
	src io.Reader
	buf []byte
}

func (r *blockReader) block(v wire.Fielder) error {
	var head [4]byte
	if _, err := io.ReadFull(r.src, head[:]); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	size := binary.LittleEndian.Uint32(head[:])
	if size > maxBlock {
		return fmt.Errorf("%w: block of %d bytes", ErrSnapshot, size)
	}
	r.buf = r.buf[:0]
	for rest := int(size) + 4; rest > 0; {
		step := min(rest, blockStep)
		at := len(r.buf)
		r.buf = append(r.buf, make([]byte, step)...)
		if _, err := io.ReadFull(r.src, r.buf[at:]); err != nil {
			return fmt.Errorf("%w: %w", ErrSnapshot, err)
		}
		rest -= step
	}
	body := r.buf[:size]
	if crc32.Checksum(body, castagnoli) != binary.LittleEndian.Uint32(r.buf[size:]) {
		return fmt.Errorf("%w: checksum of a block", ErrSnapshot)
	}
	if err := wire.Decode(body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrSnapshot, err)
	}
	return nil
}
