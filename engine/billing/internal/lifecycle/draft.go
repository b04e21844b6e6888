package lifecycle

import (
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/price"
	"tollgate/engine/wire"
)

// Draft is an invoice before it has a number and a row.
type Draft struct {
	book.Invoice
	Items []book.InvoiceItem
	fact  credits.InvoiceFact
	row   uint32 // once it is stored
	// baseVersion is the plan version whose price the period bears in arrears.
	baseVersion uint32
	// always reports whether the invoice is issued even without lines.
	always bool
}

// draft begins an invoice of the current period.
func (l *Projection) draft(kind book.InvoiceType, id [16]byte, at int64) *Draft {
	return &Draft{Invoice: book.Invoice{
		ID: id, Customer: l.Sub.Customer, Subscription: l.Row, Version: l.Sub.Version,
		Kind: kind, Status: book.InvoiceDue, CreatedAt: at,
		DueAt:       at + int64(l.Env.PaymentTerms().Days)*accounts.DayMS,
		PeriodStart: l.Sub.PeriodStart, PeriodEnd: l.Sub.PeriodEnd,
	}}
}

// charge adds a line for a part of a plan version's price.
func (d *Draft) charge(l *Projection, c credits.ChargeFact) {
	d.fact.Charges = append(d.fact.Charges, c)
	item := chargeItem(l.Catalog, &c)
	v := l.Catalog.Version(c.Version)
	item.Description = l.Catalog.Plans[v.Plan-1].Title() + chargeSuffix[c.Kind]
	d.Items = append(d.Items, item)
}

// chargeSuffix is what a line's description adds to the plan's name.
var chargeSuffix = map[book.LineKind]string{
	book.LineBase: " (base price)", book.LineUnused: " (unused time)",
	book.LineRemaining: " (remaining time)",
}

// chargeItem makes the line of a part of a price: price × ratio, rounded once.
func chargeItem(c *catalogs.Catalog, f *credits.ChargeFact) book.InvoiceItem {
	v := c.Version(f.Version)
	unit := v.Price
	if f.Kind == book.LineUnused {
		unit = unit.Neg()
	}
	amount, ok := unit.MulRound(f.Ratio, v.Places)
	if !ok {
		amount = decimal.Largest()
	}
	return book.InvoiceItem{
		Kind: f.Kind, Quantity: f.Ratio, UnitPrice: unit, HasUnitPrice: true,
		PeriodStart: f.Start, PeriodEnd: f.End, Amount: amount,
	}
}

// billUsage adds lines for the unbilled usage of closed spans.
func (l *Projection) billUsage(d *Draft) {
	d.fact.Usage = true
	for _, u := range usageLines(l.Catalog, l.Spans, l.rated) {
		f := l.Catalog.Feature(u.Feature)
		u.Item.Description = catalogs.Either(f.Document.Name, f.Document.Key)
		if u.Item.Kind == book.LineLate {
			u.Item.Description += " (late)"
		}
		d.Items = append(d.Items, u.Item)
	}
}

// usageLine is a line with its feature and span.
type usageLine struct {
	Feature, Span uint32
	Item          book.InvoiceItem
}

// usageLines makes the lines of the unbilled usage of spans and marks it as invoiced: first spans
// that were never billed, then late usage of the others. rated is where the tiers of an
// accumulating feature's next line begin; each of its lines moves it.
func usageLines(
	c *catalogs.Catalog, spans []book.HeldSpan, rated func(version, slot uint32) *decimal.Decimal,
) (lines []usageLine) {
	absorbForgiven(c, spans, rated)
	for _, kind := range [...]book.LineKind{book.LineUsage, book.LineLate} {
		for i := range spans {
			p := &spans[i]
			if p.Billed != (kind == book.LineLate) {
				continue
			}
			for j := range p.Meters {
				m := &p.Meters[j].Meter
				if m.Unbilled().IsZero() {
					continue
				}
				p.Dirty = true
				f := &c.Version(p.Version).Features[m.Slot]
				begin := m.Invoiced
				at := &begin
				if f.Accumulate {
					at = rated(p.Version, m.Slot)
				}
				lines = appendUsage(lines, c, p, m, kind, at)
			}
		}
	}
	for i := range spans {
		if p := &spans[i]; !p.Billed {
			p.Billed, p.Dirty = true, true
		}
	}
	return lines
}

// absorbForgiven removes corrected units that were only on VOID invoices from rated, before any
// line prices more. So the lines of an accumulating feature end at its counter.
func absorbForgiven(
	c *catalogs.Catalog, spans []book.HeldSpan, rated func(version, slot uint32) *decimal.Decimal,
) {
	for i := range spans {
		p := &spans[i]
		for j := range p.Meters {
			m := &p.Meters[j].Meter
			change := m.Absorb()
			if change.IsZero() {
				continue
			}
			p.Dirty = true
			if c.Version(p.Version).Features[m.Slot].Accumulate {
				at := rated(p.Version, m.Slot)
				*at = sums.Of(*at, change)
			}
		}
	}
}

// appendUsage adds the line of one meter, with tiers from rated on, and marks its units as
// invoiced. A feature that is free has no line.
func appendUsage(
	lines []usageLine, c *catalogs.Catalog, p *book.HeldSpan, m *book.Meter, kind book.LineKind,
	rated *decimal.Decimal,
) []usageLine {
	v := c.Version(p.Version)
	f := &v.Features[m.Slot]
	before, quantity := *rated, m.Unbilled()
	m.Invoiced, *rated = sums.Of(m.Invoiced, quantity), sums.Of(before, quantity)
	if !f.Priced || quantity.IsZero() {
		return lines
	}
	amount, err := price.Delta(&f.Model, before, *rated, v.Places)
	if err != nil {
		amount = decimal.Largest()
	}
	item := book.InvoiceItem{
		Kind: kind, FeatureKey: c.Feature(f.Feature).Document.Key, Quantity: quantity,
		Tiers: f.Pricing.Tiers, PeriodStart: p.Start, PeriodEnd: p.End, Amount: amount,
	}
	if f.Model.Kind == price.KindPerUnit {
		item.UnitPrice, item.HasUnitPrice = f.Model.PricePerUnit, true
	}
	return append(lines, usageLine{f.Feature, p.Number, item})
}

// Descriptions of the lines that carry a negative total to the next invoice.
const (
	carriedText = "Credit carried to the next invoice"
	creditText  = "Credit carried from an earlier invoice"
)

// balanceItems ends an invoice's lines so that the total is at least 0: it carries a negative total
// forward, and uses up earlier credit.
func balanceItems(items []book.InvoiceItem, credit decimal.Decimal) (
	all []book.InvoiceItem, amount, left decimal.Decimal,
) {
	for i := range items {
		amount = sums.Of(amount, items[i].Amount)
	}
	switch {
	case amount.Sign() < 0:
		carried := amount.Neg()
		items = append(items, book.InvoiceItem{
			Kind: book.LineCarried, Description: carriedText, Quantity: decimal.FromInt(1),
			Amount: carried,
		})
		return items, decimal.Decimal{}, sums.Of(credit, carried)
	case amount.Sign() > 0 && credit.Sign() > 0:
		used := decimal.Min(amount, credit)
		items = append(items, book.InvoiceItem{
			Kind: book.LineCredit, Description: creditText, Quantity: decimal.FromInt(1),
			Amount: used.Neg(),
		})
		return items, sums.Difference(amount, used), sums.Difference(credit, used)
	}
	return items, amount, credit
}

// Carried returns what an invoice's lines have added to the customer's credit; below zero what they
// have used.
func Carried(items []book.InvoiceItem) (amount decimal.Decimal) {
	for i := range items {
		if k := items[i].Kind; k == book.LineCarried || k == book.LineCredit {
			amount = sums.Of(amount, items[i].Amount)
		}
	}
	return amount
}

// issue adds a draft to the projection; without lines only if it must be issued.
func (l *Projection) issue(d *Draft) {
	if len(d.Items) == 0 && !d.always {
		l.Facts = append(l.Facts, credits.Fact{Kind: credits.FactNothing, At: d.CreatedAt})
		return
	}
	d.Items, d.Amount, l.Credit = balanceItems(d.Items, l.Credit)
	d.GraceEnd = d.DueAt + int64(l.Sub.GraceDays)*accounts.DayMS
	d.fact.ID, d.fact.Type, d.fact.Version = d.ID, d.Kind, d.Version
	for i := range d.Items {
		d.fact.Titles = append(d.fact.Titles, d.Items[i].Description)
	}
	d.fact.PeriodStart, d.fact.PeriodEnd = d.PeriodStart, d.PeriodEnd
	d.fact.DueAt = d.DueAt
	l.Unpaid = append(l.Unpaid, HeldInvoice{at: len(l.Drafts), Invoice: d.Invoice})
	l.Facts = append(
		l.Facts, credits.Fact{Kind: credits.FactInvoice, At: d.CreatedAt, Invoice: d.fact},
	)
	l.Drafts = append(l.Drafts, *d)
	issued := &l.Unpaid[len(l.Unpaid)-1]
	l.EmitInvoice(accounts.WebhookInvoiceCreated, d.CreatedAt, issued)
	l.EmitInvoice(accounts.WebhookInvoiceDue, d.CreatedAt, issued)
}

// adjust bills late usage of an ended subscription at the end of the day on which it arrived.
func (l *Projection) adjust(at int64) {
	l.Sub.AdjustAt = 0
	d := l.draft(
		book.InvoiceAdjustment, book.DerivedID(l.Sub.ID, book.LabelAdjustment, l.Sub.Adjustments), at,
	)
	l.billUsage(d)
	if len(d.Items) > 0 {
		l.Sub.Adjustments++
	}
	l.issue(d)
}

// append numbers a draft, stores it and adds it to its customer. Callers hold the customer's lock.
func (t *Runner) append(e *accounts.Environment, d *Draft) (row uint32) {
	e.Invoices++
	d.Number = e.Invoices
	row = t.S.AppendInvoice(&d.Invoice)
	lines := book.InvoiceLines{Items: append([]book.InvoiceItem(nil), d.Items...)}
	for i := range lines.Items {
		item := &lines.Items[i]
		if item.PeriodStart == d.PeriodStart && item.PeriodEnd == d.PeriodEnd {
			item.PeriodStart, item.PeriodEnd = 0, 0
		}
	}
	t.S.Items.Append(wire.Encode(nil, &lines))
	c := t.S.Customers.Write(d.Customer)
	if c.FirstInvoice == 0 {
		c.FirstInvoice = row
	} else {
		t.S.Invoices.Link(c.LastInvoice, row)
	}
	c.LastInvoice = row
	t.Fold(uint64(row))
	t.FoldDecimal(d.Amount)
	return row
}

// Foreseen returns the invoices that the projection issued or changed.
func (s *Projector) Foreseen(
	l *Projection, changed map[uint32]book.InvoiceView,
) (issued []book.InvoiceView) {
	issued = make([]book.InvoiceView, len(l.Drafts))
	for i := range l.Drafts {
		d := &l.Drafts[i]
		issued[i] = s.InvoiceView(&d.Invoice, d.Items)
	}
	for _, list := range [...][]HeldInvoice{l.Unpaid, l.finished} {
		for i := range list {
			v := &list[i]
			if v.Row == 0 {
				issued[v.at].Status, issued[v.at].PaidAt = v.Status, v.PaidAt
			} else {
				changed[v.Row] = s.InvoiceView(&v.Invoice, s.InvoiceItems(v.Row, &v.Invoice))
			}
		}
	}
	return issued
}

// Initial issues the invoice of a new subscription: the base price in advance, nothing in arrears.
func (l *Projection) Initial(id [16]byte) {
	d := l.draft(book.InvoiceInitial, id, l.Sub.CreatedAt)
	if l.Version().Timing == catalogs.TimingInAdvance {
		d.charge(l, credits.ChargeFact{
			Kind: book.LineBase, Version: l.Sub.Version, Ratio: decimal.FromInt(1),
			Start: l.Sub.PeriodStart, End: l.Sub.PeriodEnd,
		})
	}
	d.always = true
	l.issue(d)
	l.Sub.Due = l.NextDue()
}
