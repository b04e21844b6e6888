package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// factRecord is the payload of a journal.KindBilling record: what an entry did that invoices rest
// on, besides usage. With the usage records, and the plan versions of the catalog, it is all that
// an invoice can be worked out from again.
type factRecord struct {
	Facts []fact `wire:"1"`
	// size is about how many bytes it will have.
	size int
}

// Kinds of facts.
const (
	factSpan    = 1
	factInvoice = 2
	factNothing = 3
	factVoided  = 4
	factPaid    = 5
	// From here on facts are of pools. factCredits is a movement of credits, factArchive
	// transactions that have left memory.
	factCredits = 16
	factArchive = 17
)

// fact is a span that closed, an invoice that was issued, paid or voided, or one that would have
// had no line and was not issued: what comes afterwards is late all the same; or something of a
// pool of credits.
type fact struct {
	Kind uint8
	// Position is the record of the entry before which it happened: what is due happens first.
	Position               uint32
	At                     int64
	Customer, Subscription uint32 // rows
	Span                   spanFact
	Invoice                invoiceFact
	Credits                creditFact
	Archive                archiveFact
	// Oldest is the oldest span of the subscription to which something may still belong.
	Oldest uint32
}

// Fields states the fact's fields.
func (f *fact) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &f.Kind)
	wire.Uint(w, 2, &f.Position)
	w.Int(3, &f.At)
	wire.Uint(w, 4, &f.Customer)
	wire.Uint(w, 5, &f.Subscription)
	switch f.Kind {
	case factSpan:
		w.Message(6, &f.Span)
	case factInvoice, factVoided, factPaid: // of the latter two the ID
		w.Message(7, &f.Invoice)
	case factCredits:
		w.Message(8, &f.Credits)
	case factArchive:
		w.Message(9, &f.Archive)
	}
	wire.Uint(w, 10, &f.Oldest)
}

// spanFact is a span that closed.
type spanFact struct {
	Number      uint32 `wire:"1"`
	Period      uint32 `wire:"2"`
	Version     uint32 `wire:"3"`
	Start       int64  `wire:"4"`
	End         int64  `wire:"5"`
	PeriodEnded bool   `wire:"6"`
	Ended       bool   `wire:"7"`
	NextVersion uint32 `wire:"8"`
}

// invoiceFact is what an invoice consists of besides counted usage.
type invoiceFact struct {
	ID          [16]byte    `wire:"1"`
	Type        InvoiceType `wire:"2"`
	Version     uint32      `wire:"3"`
	PeriodStart int64       `wire:"4"`
	PeriodEnd   int64       `wire:"5"`
	// Usage reports whether it bills all usage of closed spans that was not billed before.
	Usage   bool         `wire:"6"`
	Charges []chargeFact `wire:"7"`
	// Titles are the descriptions of its lines, since names may change.
	Titles []string `wire:"9"` // 8 was the customer's credit, which follows from the records before
	// Number and DueAt come from what the environment has issued and is set to.
	Number uint64 `wire:"10"`
	DueAt  int64  `wire:"11"`
}

// chargeFact is a part of a plan version's price.
type chargeFact struct {
	Kind    LineKind        `wire:"1"`
	Version uint32          `wire:"2"`
	Ratio   decimal.Decimal `wire:"3"`
	Start   int64           `wire:"4"`
	End     int64           `wire:"5"`
}

// keepFacts keeps the facts of a ledger that was committed for the entry's record.
func (t *runner) keepFacts(l *ledger) {
	oldest, drafts := l.b.span, l.drafts
	if len(l.spans) > 0 {
		oldest = l.spans[0].number
	}
	for i := range l.facts {
		f := &l.facts[i]
		f.Customer, f.Subscription = l.b.customer, l.row
		f.Oldest = oldest
		if f.Kind == factInvoice { // each draft has one
			f.Invoice.Number, drafts = drafts[0].number, drafts[1:]
		}
		t.keepFact(f)
	}
}

// keepFact keeps a fact for the entry's record, and returns where it will stand.
func (t *burner) keepFact(f *fact) chunkPlace {
	f.Position = t.Position
	r := &t.moves.facts
	r.Facts = append(r.Facts, *f)
	r.size += 60 + 48*len(f.Invoice.Charges) + 32*len(f.Invoice.Titles) +
		160*len(f.Archive.Rows)
	return chunkPlace{
		At: f.At, Index: t.Index, Position: uint32(t.entry.records),
		Ordinal: uint32(len(r.Facts) - 1),
	}
}

// journalFacts appends what an entry noted, as one record behind those of its commands.
func (m *Machine) journalFacts(index uint64, position uint32) {
	r := &m.scratch.moves.facts
	if len(r.Facts) == 0 {
		return
	}
	m.scratch.payload = wire.Encode(m.scratch.payload[:0], r)
	m.journal.Append(journal.Record{
		Kind: journal.KindBilling, Index: index, Position: position,
		At: r.Facts[0].At, Payload: m.scratch.payload,
	})
	clear(r.Facts)
	r.Facts, r.size = r.Facts[:0], 0
}
