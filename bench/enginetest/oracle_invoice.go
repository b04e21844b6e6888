package enginetest

import (
	"math/big"

	"tollgate/engine/billing"
)

// lined is how many units of an accumulating feature lines have, under one plan version.
func (s *OracleSubscription) lined(p *OraclePlan, feature string) *big.Rat {
	if s.billed[p] == nil {
		s.billed[p] = map[string]*big.Rat{}
	}
	if s.billed[p][feature] == nil {
		s.billed[p][feature] = new(big.Rat)
	}
	return s.billed[p][feature]
}

// invoice begins an invoice of the present period.
func (s *OracleSubscription) invoice(kind billing.InvoiceType, at int64) *OracleInvoice {
	return &OracleInvoice{Type: kind, At: at, Start: s.periodStart, End: s.periodEnd}
}

// charge adds a line for a part of a plan's price, rounded once.
func (s *OracleSubscription) charge(
	v *OracleInvoice, kind billing.LineKind, p *OraclePlan, ratio *big.Rat, span ...int64,
) {
	amount := new(big.Rat).Mul(p.Price, ratio)
	if kind == billing.LineUnused {
		amount.Neg(amount)
	}
	v.Lines = append(v.Lines, OracleLine{
		Kind: kind, Quantity: ratio, Amount: RoundHalfUp(amount, p.Places),
		Start: span[0], End: span[1],
	})
}

// bill adds the lines of closed spans: whole ones that no invoice has, then what came late for the
// others.
func (s *OracleSubscription) bill(v *OracleInvoice) {
	for _, p := range s.spans {
		for i := range p.plan.Features {
			if p.interim || p != s.last() || s.EndedAt != 0 {
				s.forgive(p, &p.plan.Features[i])
			}
		}
	}
	var invoiced []*oracleSpan
	for _, p := range s.spans {
		switch {
		case p.interim:
			for i := range p.plan.Features {
				s.line(v, p, &p.plan.Features[i], billing.LineUsage)
			}
		case p.end == 0 && s.EndedAt == 0 && p == s.last():
		case p.billed:
			invoiced = append(invoiced, p)
		default:
			p.billed = true
			for i := range p.plan.Features {
				s.line(v, p, &p.plan.Features[i], billing.LineUsage)
			}
		}
	}
	for _, p := range invoiced {
		for i := range p.plan.Features {
			s.line(v, p, &p.plan.Features[i], billing.LineLate)
		}
	}
}

// forgive removes the units of VOID invoices that a correction took back from the billed units.
// They were never paid, so no line credits them.
func (s *OracleSubscription) forgive(p *oracleSpan, f *OracleFeature) {
	units := new(big.Rat).Sub(p.quantity(f.Key), p.invoiced[f.Key])
	free := new(big.Rat).Neg(p.unpaid[f.Key])
	if units.Sign()*free.Sign() <= 0 {
		return
	}
	if new(big.Rat).Abs(units).Cmp(new(big.Rat).Abs(free)) < 0 {
		free.Set(units)
	}
	for _, total := range []*big.Rat{p.unpaid[f.Key], p.invoiced[f.Key]} {
		total.Add(total, free)
	}
	if f.Accumulate {
		s.lined(p.plan, f.Key).Add(s.lined(p.plan, f.Key), free)
	}
	if s.Unlisted[f.Key] == nil {
		s.Unlisted[f.Key] = new(big.Rat)
	}
	s.Unlisted[f.Key].Sub(s.Unlisted[f.Key], free)
}

// line adds the line for what of a span's units no invoice has.
func (s *OracleSubscription) line(
	v *OracleInvoice, p *oracleSpan, f *OracleFeature, kind billing.LineKind,
) {
	units := new(big.Rat).Sub(p.quantity(f.Key), p.invoiced[f.Key])
	if units.Sign() == 0 {
		return
	}
	before := new(big.Rat).Set(p.invoiced[f.Key])
	if f.Accumulate {
		lined := s.lined(p.plan, f.Key)
		before.Set(lined)
		lined.Add(lined, units)
	}
	p.invoiced[f.Key].Add(p.invoiced[f.Key], units)
	if f.Model.Name == "included" {
		return
	}
	after := new(big.Rat).Add(before, units)
	amount := f.Model.Line(after, p.plan.Places)
	v.Lines = append(v.Lines, OracleLine{
		Kind: kind, Feature: f.Key, Quantity: units, Start: p.start, End: p.end, span: p,
		Amount: amount.Sub(amount, f.Model.Line(before, p.plan.Places)),
	})
}

// issueWaiting issues the invoice that waits, if one does.
func (s *OracleSubscription) issueWaiting(now int64) {
	if issue := s.waiting; issue != nil {
		s.waiting = nil
		issue(now)
	}
}
