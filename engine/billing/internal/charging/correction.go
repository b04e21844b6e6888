package charging

import (
	"tollgate/engine"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// Correction is what a correction does to what its event has counted in budgets.
type Correction struct {
	env     uint32
	counted budgets.Counted
	change  budgets.Charge
}

// Correcting is a correction of an event that was placed: Counted is what the event counts so far.
type Correcting struct {
	Env     uint32
	Counted []byte
	Now     int64
	// Forced is set where limits are not asked.
	Forced bool
	// Void gives back all of it; else Units and Cost are what the event has more, and Paid those of
	// Units that credits pay.
	Void              bool
	Units, Paid, Cost decimal.Decimal
	// Late is the ledger that has counted the units, at Spot; nil: they are in no bill.
	Late    *lifecycle.Ledger
	Spot    lifecycle.Spot
	Feature uint32
}

// PlanCorrection decides what a correction changes: all of the event where it is voided, else what
// units add to the bill or take off it. Nil: the event has counted in no budget.
func (b *Budgets) PlanCorrection(t *lifecycle.Runner, k *Correcting) (*Correction, engine.Outcome) {
	if len(k.Counted) == 0 {
		return nil, engine.OutcomeDone
	}
	c := &Correction{env: k.Env}
	if wire.Decode(k.Counted, &c.counted) != nil {
		return nil, engine.OutcomeUsageUnknown
	}
	was := c.counted.Charge()
	if c.change = was.Neg(); k.Void {
		return c, engine.OutcomeDone
	}
	c.change.Units, c.change.Cost, c.change.Price = k.Units, k.Cost, decimal.Exact{}
	if k.Late != nil {
		units := sums.Difference(k.Units, k.Paid)
		billed, f := k.Late.Billed(k.Spot, k.Feature)
		var ok bool
		c.change.Price, ok = lifecycle.Added(f, sums.Difference(billed, units), units)
		if !ok {
			return nil, engine.OutcomeOverflow
		}
		if least := was.Price.Neg(); least.Sign() <= 0 && c.change.Price.Cmp(least) < 0 {
			c.change.Price = least // no more than it has counted
		}
	}
	if k.Forced {
		return c, engine.OutcomeDone
	}
	return c, b.AskCorrections(t, k.Env, k.Now, c)
}

// AskCorrections decides whether limits admit corrections together. A refusal is in the reply.
func (b *Budgets) AskCorrections(
	t *lifecycle.Runner, env uint32, now int64, list ...*Correction,
) engine.Outcome {
	var events []budgets.Corrected
	for _, c := range list {
		events = append(events, budgets.Corrected{Counted: &c.counted, Change: &c.change})
	}
	refused, o := b.Forest.PlanCorrections(events, now)
	if o != engine.OutcomeDone {
		b.refuse(t, env, refused)
	}
	return o
}

// Correct carries a correction out, and returns what the event counts then.
func (b *Budgets) Correct(t *lifecycle.Runner, c *Correction) []byte {
	b.Forest.Correct(&t.Tx, c.env, &c.counted, &c.change)
	return wire.Encode(nil, &c.counted)
}
