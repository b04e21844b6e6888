package workspace

import (
	"encoding/binary"

	"tollgate/engine/machine"
	"tollgate/engine/page"
	"tollgate/engine/wire"
)

// runRow is what is in memory of every run: what never changes of it, and where the rest is.
type runRow struct {
	ID                [16]byte
	Workspace, Before uint32
	place             place
	Kind              RunKind
}

// textRow is where a run's text is; nowhere is an empty one.
type textRow struct{ place place }

// runs are all runs. One that may change is whole, as a part; one that has ended is packed: its row
// and what it has to say lie in the archive. Which of both a run no other part of this package
// sees, nor does a snapshot or a hash. Apply writes, under the state's lock.
type runs struct {
	rows    *page.Table[runRow]
	whole   *page.Parts[run]
	texts   *page.Table[textRow]
	said    *page.Parts[[]byte] // texts as wire has them
	archive *page.Archive
	by      *page.Index
	hash    func(id *[16]byte) uint64
	ended   []uint32 // and not packed yet, oldest first
	scratch []byte
	// attempts are how often a text was packed, behind whatever; unlike are the texts that were
	// kept whole since they did not read back as they were.
	attempts, unlike uint64
	// unpacked is of a test: nothing is packed.
	unpacked bool

	// Flows and workspaces know the text that those of their runs are packed behind.
	flows      *page.Table[flow]
	workspaces *page.Table[workspace]
}

// textRows bounds the texts of a page: rows are small, and what they stand for is not.
const textRows = 16

// openRuns makes the tables of runs, after those of flows and workspaces.
func openRuns(store *page.Store, flows *page.Table[flow], workspaces *page.Table[workspace],
	hash func(id *[16]byte) uint64,
) *runs {
	s := &runs{
		whole: page.NewParts[run](), said: page.NewParts[[]byte](), archive: page.NewArchive(),
		by: page.NewIndex(), hash: hash, flows: flows, workspaces: workspaces,
	}
	record := machine.RecordCodec[run]()
	s.rows = page.NewTable(store, tableRuns, page.Codec[runRow]{
		Append: func(dst []byte, row *runRow) []byte {
			r, c := s.of(row), wire.NewEncoder(append(dst, 0))
			r.Fields(&c) // in place of record.Append, which would let r escape
			return machine.Measured(c.Encoded(), len(dst))
		},
		ReadRow: func(row uint32, src []byte, to *runRow) ([]byte, error) {
			var r run
			rest, err := record.Read(src, &r)
			if err == nil {
				s.put(to, &r)
				s.by.Insert(s.hash(&r.ID), row)
			}
			return rest, err
		},
		Apart: func(row *runRow) bool { return row.place.changes() },
	})
	s.texts = page.NewTable(store, tableRunTexts, page.Codec[textRow]{
		Append: s.appendText, ReadRow: s.readText, Sum: s.appendSum, Rows: textRows,
		Apart: func(row *textRow) bool { return row.place.changes() },
	})
	return s
}

// Len is the number of runs.
func (s *runs) Len() uint32 { return s.rows.Len() }

// Row is what never changes of a run.
func (s *runs) Row(row uint32) *runRow { return s.rows.Read(row) }

// Read returns a run.
func (s *runs) Read(row uint32) run { return s.of(s.rows.Read(row)) }

func (s *runs) of(row *runRow) run {
	if row.place.changes() {
		return *s.whole.Read(row.place.part())
	}
	return readRun(s.archive.Read(uint32(row.place)), row)
}

// put fills a row that is new: packed, if the run has ended.
func (s *runs) put(row *runRow, r *run) {
	*row = runRow{ID: r.ID, Workspace: r.Workspace, Before: r.Before, Kind: r.Kind}
	if r.Status.Final() && !s.unpacked {
		row.place = s.archived(r)
	}
	if row.place == 0 {
		row.place = changing | place(s.whole.Put(0, *r))
	}
}

func (s *runs) archived(r *run) place {
	s.scratch = appendRun(s.scratch[:0], r)
	return place(s.archive.Put(s.scratch))
}

// Find finds a run of any workspace; 0 when there is none.
func (s *runs) Find(id *[16]byte) (row uint32) {
	return s.by.Find(s.hash(id), func(row uint32) bool { return s.rows.Read(row).ID == *id })
}

// restored is Find among those that a restore has read.
func (s *runs) restored(id *[16]byte) (row uint32) {
	return s.by.Find(s.hash(id), func(row uint32) bool {
		r, ok := s.rows.Restored(row)
		return ok && r.ID == *id
	})
}

// Append adds a run and its text, as wire has it.
func (s *runs) Append(r *run, text []byte) (row uint32) {
	row, next := s.rows.Append()
	s.put(next, r)
	if _, said := s.texts.Append(); len(text) > 0 {
		said.place = changing | place(s.said.Put(0, text))
	}
	s.by.Insert(s.hash(&r.ID), row)
	return row
}

// Write returns a run for changing; what never changes of it must not. One that was packed is whole
// again. The pointer is good until the record ends.
func (s *runs) Write(row uint32) *run {
	r := s.rows.Write(row)
	if !r.place.changes() {
		r.place = changing | place(s.whole.Put(0, s.of(r)))
	}
	return s.whole.Read(r.place.part())
}

// End notes a run that has ended and is not in the queue any more: it is packed when the entry has
// been carried out, or one of those behind it, since until then it may be changed.
func (s *runs) End(row uint32) { s.ended = append(s.ended, row) }

const (
	// packedAtOnce bounds what an entry packs, in bytes of text as wire has it; the last text may
	// go beyond it.
	packedAtOnce = 64 << 10
	// packedRun is what a run counts for in addition to its text.
	packedRun = 256
)

// Pack packs runs that have ended, oldest first: some, and the next entries the rest, since a lock
// is held meanwhile. When a run is packed shows nowhere.
func (s *runs) Pack() {
	n := 0
	for size := 0; n < len(s.ended) && size < packedAtOnce; n++ {
		size += packedRun + s.TextBytes(s.ended[n])
		s.pack(s.ended[n])
	}
	s.ended = s.ended[n:]
}

// packAll packs what a restore could not pack while it read.
func (s *runs) packAll() {
	for row := uint32(1); row <= s.Len(); row++ {
		if s.texts.Read(row).place.changes() {
			s.pack(row)
		}
	}
}

// pack packs a run that has ended. Where the archive is full it stays as it is.
func (s *runs) pack(row uint32) {
	r := s.Read(row)
	if !r.Status.Final() || s.unpacked {
		return
	}
	if old := s.rows.Read(row).place; old.changes() {
		if to := s.archived(&r); to != 0 {
			s.rows.Write(row).place = to
			s.whole.Drop(old.part())
		}
	}
	old := s.texts.Read(row).place
	if !old.changes() {
		return
	}
	to, text := place(0), s.Text(row)
	if b := *s.said.Read(old.part()); len(b) > 0 {
		if to = s.archivedText(b, &text, s.basesOf(&r)); to == 0 {
			return
		}
	}
	s.texts.Write(row).place = to
	*s.said.Read(old.part()) = nil
	s.said.Drop(old.part())
}

// Bytes is the memory of all runs, in bytes.
func (s *runs) Bytes() uint64 {
	return s.rows.Bytes() + s.whole.Bytes() + s.texts.Bytes() + s.said.Bytes() + s.archive.Bytes()
}

// appendRun appends what a row does not have of a run; instants are differences to those before,
// the first to that of the id, which begins with one.
func appendRun(dst []byte, r *run) []byte {
	dst = append(dst, byte(r.Status), byte(r.Outcome), byte(r.Charge), byte(r.ChargeState))
	for _, v := range [...]uint32{
		r.Flow, r.FlowVersion, r.Next, r.Agent, r.Token, r.Credits, r.Cents,
	} {
		dst = binary.AppendUvarint(dst, uint64(v))
	}
	at := idInstant(&r.ID)
	for _, v := range [...]int64{r.CreatedAt, r.StartedAt, r.FinishedAt} {
		dst, at = binary.AppendVarint(dst, v-at), v
	}
	dst = binary.AppendVarint(binary.AppendVarint(dst, r.Due), r.WallEnd)
	return binary.AppendVarint(dst, r.Scheduled)
}

// readRun is the run that appendRun wrote.
func readRun(b []byte, row *runRow) (r run) {
	r = run{
		ID: row.ID, Workspace: row.Workspace, Before: row.Before, Kind: row.Kind,
		Status: RunStatus(b[0]), Outcome: RunOutcome(b[1]), Charge: ChargeKind(b[2]),
		ChargeState: ChargeState(b[3]),
	}
	c := columns{b: b[4:]}
	for _, v := range [...]*uint32{
		&r.Flow, &r.FlowVersion, &r.Next, &r.Agent, &r.Token, &r.Credits, &r.Cents,
	} {
		*v = uint32(c.uint())
	}
	at := idInstant(&row.ID)
	for _, v := range [...]*int64{&r.CreatedAt, &r.StartedAt, &r.FinishedAt} {
		at += c.int()
		*v = at
	}
	r.Due, r.WallEnd, r.Scheduled = c.int(), c.int(), c.int()
	return r
}

// idInstant is what an id of the leader's begins with: the time in milliseconds.
func idInstant(id *[16]byte) int64 { return int64(binary.BigEndian.Uint64(id[:]) >> 16) }
