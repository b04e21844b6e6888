// Package auditor computes from a customer's journal records what its invoices must be, without the
// code that issues them.
package auditor

import (
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
)

// Usage is a usage event, a void or an amendment that a subscription counted.
type Usage struct {
	Index                                           uint64
	Position, Customer, Subscription, Feature, Span uint32
	// Ahead reports whether it counted for the period after Span.
	Ahead bool
	// Units, the part of them that credits paid, and their cost. Corrections state changes.
	Units, Covered, Cost decimal.Decimal
}

// Lines are the lines of an invoice computed from the journal.
type Lines struct {
	Recomputed []book.InvoiceItem `json:"recomputed" with:"billingview.WriteInvoiceItem"`
	// Counted is how many events and corrections each line counts that no line before it did; 0 for
	// a price.
	Counted []uint64
	// Costs are what those events cost: as stored with them, plus their corrections.
	Costs []decimal.Decimal
	// FirstIndex and LastIndex bound the log entries of those events.
	FirstIndex uint64 `json:"firstLogIndex,omitzero"`
	LastIndex  uint64 `json:"lastLogIndex,omitzero"`
}

// Invoice is the journal's record of an invoice without its lines.
type Invoice struct {
	ID            [16]byte
	Number        uint64
	DueAt, PaidAt int64
	Void          bool
	// Problem tells how the stored invoice differs, if it does; Listed reports whether it is among
	// the customer's. The caller sets both.
	Problem string
	Listed  bool

	currency string
	// carried is what it added to the customer's credit, or, below zero, used. A void invoice did
	// neither.
	carried decimal.Decimal
	// usage is what its lines have priced, while it can still become VOID.
	usage []part
}

// Auditor holds what each of a customer's subscriptions has counted in the spans that can still
// change, and a little of each invoice; no record.
type Auditor struct {
	// Credit is the customer's credit, by currency.
	Credit map[string]decimal.Decimal
	Issued []Invoice // oldest first
	// Broken names the record that could not be read, if any.
	Broken string

	subscriptions map[uint32]*subscription
	byID          map[[16]byte]int
}

// New returns the auditor of one customer, who has no records yet.
func New() *Auditor {
	return &Auditor{
		Credit:        map[string]decimal.Decimal{},
		subscriptions: map[uint32]*subscription{}, byID: map[[16]byte]int{},
	}
}

// Spans returns how many closed spans it holds.
func (a *Auditor) Spans() (count int) {
	for _, s := range a.subscriptions { // any order: a sum
		count += len(s.closed)
	}
	return count
}

// Invoice finds an invoice of the journal.
func (a *Auditor) Invoice(id [16]byte) *Invoice {
	i, known := a.byID[id]
	if !known {
		return nil
	}
	return &a.Issued[i]
}

func (a *Auditor) subscription(row uint32) *subscription {
	s := a.subscriptions[row]
	if s == nil {
		s = &subscription{
			used: map[uint32]*meter{}, ahead: map[uint32]*meter{},
			rated: map[place]decimal.Decimal{},
		}
		a.subscriptions[row] = s
	}
	return s
}

// Count adds usage. Records come in log order, together with Take's facts.
func (a *Auditor) Count(c *catalogs.Catalog, u *Usage) {
	a.subscription(u.Subscription).count(c, u)
}

// Take adds a fact. For an invoice it returns the lines, else nil.
func (a *Auditor) Take(c *catalogs.Catalog, f *credits.Fact) (x *Lines) {
	s := a.subscription(f.Subscription)
	switch f.Kind {
	case credits.FactSpan:
		s.close(c, &f.Span)
	case credits.FactNothing:
		s.bill(c, nil)
	case credits.FactVoided:
		if v := a.Invoice(f.Invoice.ID); v != nil {
			v.Void = true
			a.Credit[v.currency] = sums.Difference(a.Credit[v.currency], v.carried)
			for _, p := range v.usage {
				p.meter.void = sums.Of(p.meter.void, p.units)
			}
			v.usage = nil
		}
	case credits.FactPaid:
		if v := a.Invoice(f.Invoice.ID); v != nil {
			v.PaidAt, v.usage = f.At, nil
		}
	case credits.FactInvoice:
		x = a.issue(c, s, &f.Invoice)
	}
	s.drop(f.Oldest)
	return x
}

// issue makes the lines of an invoice from its fact and the counted usage.
func (a *Auditor) issue(c *catalogs.Catalog, s *subscription, f *credits.InvoiceFact) *Lines {
	x, v := &Lines{}, Invoice{ID: f.ID, Number: f.Number, DueAt: f.DueAt}
	if f.Usage {
		for _, p := range s.bill(c, s.presentOf(f)) {
			x.add(&p)
			v.usage = append(v.usage, p.part)
		}
	}
	for i := range f.Charges {
		x.Recomputed = append(x.Recomputed, charge(c, &f.Charges[i]))
	}
	v.currency = c.Version(f.Version).Currency
	v.carried = x.balance(a.Credit[v.currency])
	a.Credit[v.currency] = sums.Of(a.Credit[v.currency], v.carried)
	a.byID[v.ID], a.Issued = len(a.Issued), append(a.Issued, v)
	for i := range x.Recomputed {
		line := &x.Recomputed[i]
		if i < len(f.Titles) {
			line.Description = f.Titles[i]
		}
		if line.PeriodEnd == 0 {
			line.PeriodStart, line.PeriodEnd = f.PeriodStart, f.PeriodEnd
		}
		if i >= len(x.Counted) {
			x.Counted, x.Costs = append(x.Counted, 0), append(x.Costs, decimal.Decimal{})
		}
	}
	return x
}

// add adds a line of usage.
func (x *Lines) add(p *priced) {
	x.Recomputed = append(x.Recomputed, p.line)
	x.Counted, x.Costs = append(x.Counted, p.events), append(x.Costs, p.cost)
	if x.FirstIndex == 0 || p.first != 0 && p.first < x.FirstIndex {
		x.FirstIndex = p.first
	}
	x.LastIndex = max(x.LastIndex, p.last)
}

// balance adds the line that raises a negative total to zero, or that uses up credit; change is the
// line's effect on the credit.
func (x *Lines) balance(credit decimal.Decimal) (change decimal.Decimal) {
	var total decimal.Decimal
	for i := range x.Recomputed {
		total = sums.Of(total, x.Recomputed[i].Amount)
	}
	line := book.InvoiceItem{Quantity: decimal.FromInt(1)}
	switch {
	case total.Sign() < 0:
		line.Kind, line.Amount = book.LineCarried, total.Neg()
	case total.Sign() > 0 && credit.Sign() > 0:
		line.Kind, line.Amount = book.LineCredit, decimal.Min(total, credit).Neg()
	default:
		return change
	}
	x.Recomputed = append(x.Recomputed, line)
	return line.Amount
}

// charge makes the line of a part of a plan version's price: price × ratio, rounded once, and below
// zero if it is returned.
func charge(c *catalogs.Catalog, f *credits.ChargeFact) book.InvoiceItem {
	v := c.Version(f.Version)
	line := book.InvoiceItem{
		Kind: f.Kind, Quantity: f.Ratio, UnitPrice: v.Price, HasUnitPrice: true,
		PeriodStart: f.Start, PeriodEnd: f.End,
	}
	if f.Kind == book.LineUnused {
		line.UnitPrice = line.UnitPrice.Neg()
	}
	var exact bool
	if line.Amount, exact = line.UnitPrice.MulRound(f.Ratio, v.Places); !exact {
		line.Amount = decimal.Largest()
	}
	return line
}
