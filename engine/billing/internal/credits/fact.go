package credits

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// FactRecord is the payload of a journal.KindBilling record: an entry's effects, besides usage,
// that invoices depend on. With the usage records and the catalog's plan versions, invoices can be
// computed again from them.
type FactRecord struct {
	Facts []Fact `wire:"1"`
	// Size is about how many bytes it will have.
	Size int
}

// Kinds of facts.
const (
	FactSpan    = 1
	FactInvoice = 2
	FactNothing = 3
	FactVoided  = 4
	FactPaid    = 5
	// Facts from here on are about pools. FactCredits is a movement of credits, FactArchive
	// transactions that have left memory.
	FactCredits = 16
	FactArchive = 17
)

// Fact is a span that closed, an invoice that was issued, paid or voided, or an invoice without
// lines that was not issued (later usage is still late), or something about a pool of credits.
type Fact struct {
	Kind uint8
	// Position is the place of the journal record of the entry before which it happened: due events
	// happen first, and what expires is usage before the end of a period behind it.
	Position               uint32
	At                     int64
	Customer, Subscription uint32 // rows
	Span                   SpanFact
	Invoice                InvoiceFact
	Credits                creditFact
	Archive                archiveFact
	// Oldest is the oldest span of the subscription that can still receive usage.
	Oldest uint32
}

// Fields states the fact's fields.
func (f *Fact) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &f.Kind)
	wire.Uint(w, 2, &f.Position)
	w.Int(3, &f.At)
	wire.Uint(w, 4, &f.Customer)
	wire.Uint(w, 5, &f.Subscription)
	switch f.Kind {
	case FactSpan:
		w.Message(6, &f.Span)
	case FactInvoice, FactVoided, FactPaid: // the ID of the latter two
		w.Message(7, &f.Invoice)
	case FactCredits:
		w.Message(8, &f.Credits)
	case FactArchive:
		w.Message(9, &f.Archive)
	}
	wire.Uint(w, 10, &f.Oldest)
}

// SpanFact is a span that closed.
type SpanFact struct {
	Number      uint32 `wire:"1"`
	Period      uint32 `wire:"2"`
	Version     uint32 `wire:"3"`
	Start       int64  `wire:"4"`
	End         int64  `wire:"5"`
	PeriodEnded bool   `wire:"6"`
	Ended       bool   `wire:"7"`
	NextVersion uint32 `wire:"8"`
}

// InvoiceFact is an invoice without the counted usage.
type InvoiceFact struct {
	ID          [16]byte         `wire:"1"`
	Type        book.InvoiceType `wire:"2"`
	Version     uint32           `wire:"3"`
	PeriodStart int64            `wire:"4"`
	PeriodEnd   int64            `wire:"5"`
	// Usage reports whether it bills all unbilled usage of closed spans.
	Usage   bool         `wire:"6"`
	Charges []ChargeFact `wire:"7"`
	// Titles are the descriptions of its lines, since names may change.
	Titles []string `wire:"9"` // 8 was the customer's credit, which follows from earlier records
	// Number and DueAt follow from the environment's earlier invoices and settings.
	Number uint64 `wire:"10"`
	DueAt  int64  `wire:"11"`
	// Interim reports whether it bills the usage of the present span, too, which PeriodStart and
	// PeriodEnd bound.
	Interim bool `wire:"12"`
}

// ChargeFact is a part of a plan version's price.
type ChargeFact struct {
	Kind    book.LineKind   `wire:"1"`
	Version uint32          `wire:"2"`
	Ratio   decimal.Decimal `wire:"3"`
	Start   int64           `wire:"4"`
	End     int64           `wire:"5"`
}

// KeepFact adds a fact to the entry's record, and returns its place.
func (t *Burner) KeepFact(f *Fact) ChunkPlace {
	f.Position = max(t.Entry.Upcoming(t.Position), t.Moves.After)
	r := &t.Moves.Facts
	r.Facts = append(r.Facts, *f)
	r.Size += 60 + 48*len(f.Invoice.Charges) + 32*len(f.Invoice.Titles) +
		160*len(f.Archive.Rows)
	return ChunkPlace{
		At: f.At, Index: t.Index, Position: uint32(t.Entry.Records),
		Ordinal: uint32(len(r.Facts) - 1),
	}
}
