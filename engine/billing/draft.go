package billing

import (
	"tollgate/engine/decimal"
	"tollgate/engine/price"
)

// LineKind says what an invoice line is for. Numbers are never reused.
type LineKind uint8

const (
	// LineBase is a plan's base price, or a part of it.
	LineBase LineKind = 1
	// LineUsage is what a feature counted in a period, or in the part of it before a plan change.
	LineUsage LineKind = 2
	// LineLate is usage that came, or was corrected, after its period was invoiced.
	LineLate LineKind = 3
	// LineUnused gives back what is left of the old plan's price, LineRemaining charges the new
	// plan's for it.
	LineUnused    LineKind = 4
	LineRemaining LineKind = 5
	// LineCarried lifts a total below zero to zero; LineCredit takes it off the next invoice.
	LineCarried LineKind = 6
	LineCredit  LineKind = 7
)

// ofUsage reports whether a line bills what a feature counted in a span.
func (k LineKind) ofUsage() bool { return k == LineUsage || k == LineLate }

// draft is an invoice before it has a number and a row.
type draft struct {
	invoice
	items []InvoiceItem
	fact  invoiceFact
	row   uint32 // once it is stored
	// baseVersion is the plan version whose price the period bears in arrears.
	baseVersion uint32
	// always reports whether the invoice is issued even without a line.
	always bool
}

// draft begins an invoice of the current period.
func (l *ledger) draft(kind InvoiceType, id [16]byte, at int64) *draft {
	return &draft{invoice: invoice{
		id: id, customer: l.b.customer, subscription: l.row, version: l.b.version,
		kind: kind, status: InvoiceDue, createdAt: at, dueAt: l.env.dueOf(at),
		periodStart: l.b.periodStart, periodEnd: l.b.periodEnd,
	}}
}

// charge adds a line for a part of a plan version's price.
func (d *draft) charge(l *ledger, c chargeFact) {
	d.fact.Charges = append(d.fact.Charges, c)
	item := chargeItem(l.catalog, &c)
	v := l.catalog.version(c.Version)
	item.Description = l.catalog.plans[v.plan-1].title() + chargeSuffix[c.Kind]
	d.items = append(d.items, item)
}

// chargeSuffix is what a line's description adds to the plan's name.
var chargeSuffix = map[LineKind]string{
	LineBase: " (base price)", LineUnused: " (unused time)", LineRemaining: " (remaining time)",
}

// chargeItem works out the line of a part of a price: price × ratio, rounded once.
func chargeItem(c *catalog, f *chargeFact) InvoiceItem {
	v := c.version(f.Version)
	unit := v.price
	if f.Kind == LineUnused {
		unit = unit.Neg()
	}
	amount, ok := unit.MulRound(f.Ratio, v.places)
	if !ok {
		amount = decimal.Largest()
	}
	return InvoiceItem{
		Kind: f.Kind, Quantity: f.Ratio, UnitPrice: unit, HasUnitPrice: true,
		PeriodStart: f.Start, PeriodEnd: f.End, Amount: amount,
	}
}

// billUsage adds lines for what closed spans hold and no invoice has.
func (l *ledger) billUsage(d *draft) {
	d.fact.Usage = true
	for _, u := range usageLines(l.catalog, l.spans, l.rated) {
		f := l.catalog.feature(u.feature)
		u.item.Description = either(f.document.Name, f.document.Key)
		if u.item.Kind == LineLate {
			u.item.Description += " (late)"
		}
		d.items = append(d.items, u.item)
	}
}

// usageLine is a line with the feature and span that it is about.
type usageLine struct {
	feature, span uint32
	item          InvoiceItem
}

// usageLines makes the lines of what spans hold beyond what invoices have, and notes it as
// invoiced: first the spans that were never billed, then what came late for the others. rated is
// where the tiers of the next line of an accumulating feature begin; each of its lines moves it.
func usageLines(
	c *catalog, spans []heldSpan, rated func(version, slot uint32) *decimal.Decimal,
) (lines []usageLine) {
	absorbForgiven(c, spans, rated)
	for _, kind := range [...]LineKind{LineUsage, LineLate} {
		for i := range spans {
			p := &spans[i]
			if p.billed != (kind == LineLate) {
				continue
			}
			for j := range p.meters {
				m := &p.meters[j].meter
				if m.unbilled().IsZero() {
					continue
				}
				p.dirty = true
				f := &c.version(p.version).features[m.slot]
				begin := m.invoiced
				at := &begin
				if f.accumulate {
					at = rated(p.version, m.slot)
				}
				lines = appendUsage(lines, c, p, m, kind, at)
			}
		}
	}
	for i := range spans {
		if p := &spans[i]; !p.billed {
			p.billed, p.dirty = true, true
		}
	}
	return lines
}

// absorbForgiven takes corrected units that only VOID invoices had out of what is rated, before any
// line prices more: the lines of an accumulating feature end where its counter is.
func absorbForgiven(
	c *catalog, spans []heldSpan, rated func(version, slot uint32) *decimal.Decimal,
) {
	for i := range spans {
		p := &spans[i]
		for j := range p.meters {
			m := &p.meters[j].meter
			change := m.absorb()
			if change.IsZero() {
				continue
			}
			p.dirty = true
			if c.version(p.version).features[m.slot].accumulate {
				at := rated(p.version, m.slot)
				*at = sum(*at, change)
			}
		}
	}
}

// appendUsage adds the line of one meter, whose tiers begin at rated, and notes it as invoiced.
// What costs nothing by its kind has no line.
func appendUsage(
	lines []usageLine, c *catalog, p *heldSpan, m *meter, kind LineKind, rated *decimal.Decimal,
) []usageLine {
	v := c.version(p.version)
	f := &v.features[m.slot]
	before, quantity := *rated, m.unbilled()
	m.invoiced, *rated = sum(m.invoiced, quantity), sum(before, quantity)
	if !f.priced || quantity.IsZero() {
		return lines
	}
	amount, err := price.Delta(&f.model, before, *rated, v.places)
	if err != nil {
		amount = decimal.Largest()
	}
	item := InvoiceItem{
		Kind: kind, FeatureKey: c.feature(f.feature).document.Key, Quantity: quantity,
		Tiers: f.pricing.Tiers, PeriodStart: p.start, PeriodEnd: p.end, Amount: amount,
	}
	if f.model.Kind == price.KindPerUnit {
		item.UnitPrice, item.HasUnitPrice = f.model.PricePerUnit, true
	}
	return append(lines, usageLine{f.feature, p.number, item})
}

// Descriptions of the lines that carry a total below zero to the next invoice.
const (
	carriedText = "Credit carried to the next invoice"
	creditText  = "Credit carried from an earlier invoice"
)

// balanceItems ends an invoice's lines so that they add up to 0 or more: what would go below is
// carried forward, and what was carried before is used up.
func balanceItems(items []InvoiceItem, credit decimal.Decimal) (
	all []InvoiceItem, amount, left decimal.Decimal,
) {
	for i := range items {
		amount = sum(amount, items[i].Amount)
	}
	switch {
	case amount.Sign() < 0:
		carried := amount.Neg()
		items = append(items, InvoiceItem{
			Kind: LineCarried, Description: carriedText, Quantity: decimal.FromInt(1),
			Amount: carried,
		})
		return items, decimal.Decimal{}, sum(credit, carried)
	case amount.Sign() > 0 && credit.Sign() > 0:
		used := decimal.Min(amount, credit)
		items = append(items, InvoiceItem{
			Kind: LineCredit, Description: creditText, Quantity: decimal.FromInt(1),
			Amount: used.Neg(),
		})
		return items, difference(amount, used), difference(credit, used)
	}
	return items, amount, credit
}

// carried is what an invoice's lines have added to the customer's credit; below zero what they have
// used of it.
func carried(items []InvoiceItem) (amount decimal.Decimal) {
	for i := range items {
		if k := items[i].Kind; k == LineCarried || k == LineCredit {
			amount = sum(amount, items[i].Amount)
		}
	}
	return amount
}

// issue adds a draft to what the ledger brought forth; one without lines only where it must be.
func (l *ledger) issue(d *draft) {
	if len(d.items) == 0 && !d.always {
		l.facts = append(l.facts, fact{Kind: factNothing, At: d.createdAt})
		return
	}
	d.items, d.amount, l.credit = balanceItems(d.items, l.credit)
	d.graceEnd = d.dueAt + int64(l.b.graceDays)*dayMS
	d.fact.ID, d.fact.Type, d.fact.Version = d.id, d.kind, d.version
	for i := range d.items {
		d.fact.Titles = append(d.fact.Titles, d.items[i].Description)
	}
	d.fact.PeriodStart, d.fact.PeriodEnd = d.periodStart, d.periodEnd
	d.fact.DueAt = d.dueAt
	l.unpaid = append(l.unpaid, heldInvoice{at: len(l.drafts), invoice: d.invoice})
	l.facts = append(l.facts, fact{Kind: factInvoice, At: d.createdAt, Invoice: d.fact})
	l.drafts = append(l.drafts, *d)
	issued := &l.unpaid[len(l.unpaid)-1]
	l.tellInvoice(WebhookInvoiceCreated, d.createdAt, issued)
	l.tellInvoice(WebhookInvoiceDue, d.createdAt, issued)
}

// adjust bills late usage of a subscription that has ended, at the end of the day it came.
func (l *ledger) adjust(at int64) {
	l.b.adjustAt = 0
	d := l.draft(InvoiceAdjustment, derivedID(l.b.id, labelAdjustment, l.b.adjustments), at)
	l.billUsage(d)
	if len(d.items) > 0 {
		l.b.adjustments++
	}
	l.issue(d)
}
