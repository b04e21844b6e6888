package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// RecordAudits stores a block of answered entitlement checks. Its payload comes from
// AuditBlock.Encode; the journal keeps it unchanged.
type RecordAudits struct {
	block auditReader
}

func decodeAudits(_ *Machine, payload []byte) (op, error) {
	block, err := openAudits(payload)
	if err != nil {
		return nil, err
	}
	c := &RecordAudits{block: block}
	for block.next() {
		continue // the whole block must decode before anything of the entry is applied
	}
	return c, block.err
}

// Apply implements machine.Op.
func (c *RecordAudits) Apply(t *turn) engine.Outcome {
	b := &c.block
	if !t.sources.fresh(b.origin, b.boot, b.sequence) {
		return engine.OutcomeDuplicate
	}

	t.sources.note(auditSource{b.origin, b.boot, b.sequence, t.Index})
	t.auditEvents.Store(t.auditEvents.Load() + b.count)
	t.m.journal.Append(journal.Record{
		Kind: journal.KindAudit, Index: t.Index, Position: t.Entry.Place(t.Position),
		At: t.Stamp, Payload: t.Payload,
	})
	t.Fold(b.sequence)
	return engine.OutcomeDone
}

// expireAudits drops expired audit blocks before an entry adds any. Their age counts from their
// record in the log, whatever the clocks of nodes and environments say, so an event that waited in
// a node's spool is kept its full time.
func (m *Machine) expireAudits(t *turn, out *engine.Applied) {
	dropped := 0
	out.Sealed, dropped = m.journal.Expire(t.Stamp, t.Limits.Load().AuditRetentionMS, out.Sealed)
	if dropped > 0 {
		t.Fold(m.journal.First(journal.PartAudit))
	}
}

// endJournal ends the entry in the journal.
func (m *Machine) endJournal(t *turn, out *engine.Applied) {
	out.Sealed = m.journal.EndEntry(t.Index, out.Sealed)
	for i := range out.Sealed {
		t.Fold(out.Sealed[i].Hash)
	}
	m.noteAuditDue(t.state)
}

// noteAuditDue publishes when expireAudits is needed next.
func (m *Machine) noteAuditDue(s *state) {
	s.auditDue.Store(m.journal.ExpiresAt(s.Limits.Load().AuditRetentionMS))
}

// maxAuditSources bounds how many processes have their last block remembered.
const maxAuditSources = 256

// auditSource is the newest block of one process of one node.
type auditSource struct {
	origin   uint64 `wire:"1"`
	boot     uint64 `wire:"2"`
	sequence uint64 `wire:"3"`
	// index is the log entry that brought the block. The source that has been silent longest gives
	// way.
	index uint64 `wire:"4"`
}

// auditSources remembers which blocks have been applied: the newest sequence per origin and boot. A
// node may propose an earlier process's blocks from its spool together with its own.
type auditSources []auditSource

// fresh reports whether a block has not been applied yet.
func (s auditSources) fresh(origin, boot, sequence uint64) bool {
	for i := range s {
		if s[i].origin == origin && s[i].boot == boot {
			return sequence > s[i].sequence
		}
	}
	return true
}

func (s *auditSources) note(n auditSource) {
	list := *s
	oldest := 0
	for i := range list {
		if list[i].origin == n.origin && list[i].boot == n.boot {
			list[i] = n
			return
		}
		if list[i].index < list[oldest].index {
			oldest = i
		}
	}
	if len(list) >= maxAuditSources {
		list = slices.Delete(list, oldest, oldest+1)
	}
	*s = append(list, n)
}
