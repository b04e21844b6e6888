package enginetest

import (
	"math/big"
	"time"

	"tollgate/engine/billing"
)

// OraclePlan is a version of a plan, for OracleCustomer.
type OraclePlan struct {
	Key      string
	Price    *big.Rat
	Places   int // of the currency
	Months   int
	Arrears  bool
	Features []OracleFeature
	// InvoiceAbove is the amount of unbilled usage beyond which an interim invoice is made; nil: none.
	InvoiceAbove *big.Rat
}

// OracleFeature is a feature within a plan.
type OracleFeature struct {
	Key        string
	Model      OracleModel
	Accumulate bool
	// Limit is the maximum usage; nil: none. Hard reports whether it refuses usage.
	Limit *big.Rat
	Hard  bool
}

func (p *OraclePlan) feature(key string) *OracleFeature {
	for i := range p.Features {
		if p.Features[i].Key == key {
			return &p.Features[i]
		}
	}
	return nil
}

// OracleOf reads a plan of a catalog document.
func OracleOf(d *billing.PlanDocument, places int) *OraclePlan {
	p := &OraclePlan{
		Key: d.Key, Price: Rat(d.PriceAmount.String()), Places: places,
		Months: int(d.IntervalMonths), Arrears: d.BillingTiming == "IN_ARREARS",
	}
	if d.Interim() {
		p.InvoiceAbove = Rat(d.InvoiceAbove.String())
	}
	for i := range d.Features {
		f := &d.Features[i]
		g := OracleFeature{Key: f.Key, Accumulate: f.Pricing.ResetMode == "accumulate"}
		if f.Pricing.HasMax {
			g.Limit, g.Hard = Rat(f.Pricing.MaxUsage.String()), f.Pricing.LimitMode == "hard"
		}
		g.Model = OracleModel{
			Name: f.PricingType, PricePerUnit: Rat(f.Pricing.PricePerUnit.String()),
			IncludedUnits:   Rat(f.Pricing.IncludedUnits.String()),
			PackageSize:     Rat(f.Pricing.PackageSize.String()),
			PricePerPackage: Rat(f.Pricing.PricePerPackage.String()),
		}
		if f.PricingType == "usage_based" {
			if g.Model.Name = f.Pricing.Model; f.Pricing.Model == "" {
				g.Model.Name = "per_unit"
			}
		}
		for _, tier := range f.Pricing.Tiers {
			next := OracleTier{
				PricePerUnit: Rat(tier.PricePerUnit.String()), FlatFee: Rat(tier.FlatFee.String()),
			}
			if !tier.Infinite {
				next.UpTo = Rat(tier.UpTo.String())
			}
			g.Model.Tiers = append(g.Model.Tiers, next)
		}
		p.Features = append(p.Features, g)
	}
	return p
}

// OracleCustomer says which invoices a customer must get, from the words of the specification: who
// used what, under which plan, and when. It keeps every event and adds up anew for each line; it
// knows neither counters nor engine/price, engine/period or engine/decimal.
type OracleCustomer struct {
	Subscriptions []*OracleSubscription
	Invoices      []*OracleInvoice // oldest first
	// Settle is how long the invoice of a period waits after its end, in milliseconds.
	Settle int64
	credit *big.Rat
}

// OracleInvoice is an invoice that must exist.
type OracleInvoice struct {
	Type           billing.InvoiceType
	At, Start, End int64
	Amount         *big.Rat
	Lines          []OracleLine
	PaidAt         int64
	Void           bool
}

// OracleLine is a line that it must have.
type OracleLine struct {
	Kind             billing.LineKind
	Feature          string
	Quantity, Amount *big.Rat
	Start, End       int64

	span *oracleSpan // of a line of usage
}

const (
	oracleDay  = 24 * 60 * 60 * 1000
	oracleTerm = 7 * oracleDay // from issue to due date
)

// Status is what becomes of the invoice by an instant; what amounts to nothing is paid when due.
func (v *OracleInvoice) Status(now int64) billing.InvoiceStatus {
	switch {
	case v.Void:
		return billing.InvoiceVoid
	case v.PaidAt != 0, v.Amount.Sign() == 0 && now >= v.At+oracleTerm:
		return billing.InvoicePaid
	case now >= v.At+oracleTerm:
		return billing.InvoicePastDue
	}
	return billing.InvoiceDue
}

// Credit is the customer's credit.
func (c *OracleCustomer) Credit() *big.Rat { return new(big.Rat).Set(c.credit) }

// VoidInvoice makes an invoice void: credit that it used returns to the customer, and what it
// carried forward is withdrawn. It returns false, and does nothing, if that was used. Its usage is
// not billed again, and its later correction refunds nothing.
func (c *OracleCustomer) VoidInvoice(v *OracleInvoice) bool {
	left := new(big.Rat).Set(c.credit)
	for _, line := range v.Lines {
		if line.Kind == billing.LineCredit || line.Kind == billing.LineCarried {
			left.Sub(left, line.Amount)
		}
	}
	if left.Sign() < 0 {
		return false
	}
	v.Void, c.credit = true, left
	for _, line := range v.Lines {
		if line.span != nil {
			unpaid := line.span.unpaid[line.Feature]
			unpaid.Add(unpaid, line.Quantity)
		}
	}
	return true
}

// issue ends an invoice's lines so that they add up to nothing less than 0.
func (c *OracleCustomer) issue(v *OracleInvoice) {
	total := new(big.Rat)
	for _, line := range v.Lines {
		total.Add(total, line.Amount)
	}
	last := OracleLine{Quantity: big.NewRat(1, 1), Start: v.Start, End: v.End}
	switch {
	case total.Sign() < 0:
		last.Kind, last.Amount = billing.LineCarried, new(big.Rat).Neg(total)
		c.credit.Add(c.credit, last.Amount)
	case total.Sign() > 0 && c.credit.Sign() > 0:
		used := new(big.Rat).Set(c.credit)
		if total.Cmp(used) < 0 {
			used.Set(total)
		}
		c.credit.Sub(c.credit, used)
		last.Kind, last.Amount = billing.LineCredit, used.Neg(used)
	}
	if last.Kind != 0 {
		v.Lines = append(v.Lines, last)
		total.Add(total, last.Amount)
	}
	v.Amount = total
	c.Invoices = append(c.Invoices, v)
}

// Advance carries out what is due by an instant.
func (c *OracleCustomer) Advance(now int64) {
	for {
		var next *OracleSubscription
		for _, s := range c.Subscriptions {
			if s.due() <= now && (next == nil || s.due() < next.due()) {
				next = s
			}
		}
		if next == nil {
			return
		}
		switch at := next.due(); {
		case next.EndedAt == 0 && next.periodEnd == at:
			next.endPeriod(at)
		case next.waiting != nil && next.issueAt == at:
			next.issueWaiting(at)
		default:
			next.adjustAt = 0
			v := next.invoice(billing.InvoiceAdjustment, at)
			if next.bill(v); len(v.Lines) > 0 {
				c.issue(v)
			}
		}
	}
}

// later is an instant some months after another: the same day of the month, or the last one.
func later(anchor int64, months int) int64 {
	a := time.UnixMilli(anchor).UTC()
	first := time.Date(a.Year(), a.Month()+time.Month(months), 1, 0, 0, 0, 0, time.UTC)
	day := min(a.Day(), first.AddDate(0, 1, -1).Day())
	return time.Date(first.Year(), first.Month(), day, a.Hour(), a.Minute(), a.Second(),
		a.Nanosecond(), time.UTC).UnixMilli()
}
