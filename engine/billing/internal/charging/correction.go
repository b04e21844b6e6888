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
	// anew is set where the event has counted in no budget, and counts the change at one.
	anew *Charge
	at   Correcting
}

// Correcting is a correction of an event that was placed: Counted is what the event counts so far.
type Correcting struct {
	// For has whose own budget is asked for what an event counts more, or the one below it that the
	// API key is bound to.
	For
	Counted []byte
	Now     int64
	// Forced is set where limits are not asked.
	Forced bool
	// Void gives back all of it; else Units and Cost are what the event has more, and Paid those of
	// Units that credits pay.
	Void              bool
	Units, Paid, Cost decimal.Decimal
	// Late is the projection that has counted the units, at Spot; nil: they are in no bill.
	Late    *lifecycle.Projection
	Spot    lifecycle.Spot
	Feature uint32
}

// PlanCorrection decides what a correction changes: all of the event where it is voided, else what
// units add to the bill or take off it. Nil: the event has counted in no budget.
func (b *Budgets) PlanCorrection(t *lifecycle.Runner, k *Correcting) (*Correction, engine.Outcome) {
	node, ok := uint32(0), true
	if !k.Void && (k.Units.Sign() > 0 || k.Cost.Sign() > 0) {
		if node, ok = b.Forest.Choose(&k.For); !ok {
			return nil, engine.OutcomeBudgetUnknown
		}
	}
	if node != 0 && !k.Forced { // where a budget is frozen or archived, nothing counts more
		if o := b.Ask(t, k.Env, node, nil, k.Now); o != engine.OutcomeDone {
			return nil, o
		}
	}
	if len(k.Counted) == 0 {
		if node == 0 {
			return nil, engine.OutcomeDone
		}
		return b.planAnew(t, k, node)
	}
	c := &Correction{env: k.Env, at: *k}
	if wire.Decode(k.Counted, &c.counted) != nil {
		return nil, engine.OutcomeUsageUnknown
	}
	was := c.counted.Charge()
	if c.change = was.Neg(); k.Void {
		return c, engine.OutcomeDone
	}
	// It gives back no more than it has counted: it may have counted in no budget at first.
	c.change.Units = decimal.Max(k.Units, decimal.Min(was.Units.Neg(), decimal.Decimal{}))
	c.change.Cost = decimal.Max(k.Cost, decimal.Min(was.Cost.Neg(), decimal.Decimal{}))
	c.change.Price = decimal.Exact{}
	if k.Late != nil {
		if c.change.Price, ok = k.price(); !ok {
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

// CountedWithin reports whether an event counts at a node or below it.
func (b *Budgets) CountedWithin(counted []byte, node uint32) bool {
	var k budgets.Counted
	return wire.Decode(counted, &k) == nil && budgets.CountedWithin(&b.Forest, &k, node)
}

// AskCorrections decides whether limits admit corrections together. A refusal is in the reply.
func (b *Budgets) AskCorrections(
	t *lifecycle.Runner, env uint32, now int64, list ...*Correction,
) engine.Outcome {
	refused, o := b.planCorrections(now, list)
	if o != engine.OutcomeDone {
		b.refuse(t, env, refused)
	}
	return o
}

// AdmitCorrections is AskCorrections without an answer.
func (b *Budgets) AdmitCorrections(now int64, list ...*Correction) engine.Outcome {
	_, o := b.planCorrections(now, list)
	return o
}

func (b *Budgets) planCorrections(now int64, list []*Correction) (
	budgets.Refusal, engine.Outcome,
) {
	var events []budgets.Corrected
	for _, c := range list {
		x := budgets.Corrected{Counted: &c.counted, Change: &c.change}
		if c.anew != nil {
			x = budgets.Corrected{Node: c.anew.Node, Change: &c.anew.Charge}
		}
		events = append(events, x)
	}
	return b.Forest.PlanCorrections(events, now)
}

// price is what the units add to the bill, or take off it.
func (k *Correcting) price() (more decimal.Exact, ok bool) {
	units := sums.Difference(k.Units, k.Paid)
	billed, f := k.Late.Billed(k.Spot, k.Feature)
	return lifecycle.Added(f, sums.Difference(billed, units), units)
}

// planAnew is PlanCorrection of an event that has counted in no budget: what it has more counts at
// the customer's own, as usage of now.
func (b *Budgets) planAnew(
	t *lifecycle.Runner, k *Correcting, node uint32,
) (*Correction, engine.Outcome) {
	c := &Correction{env: k.Env, anew: &Charge{Node: node, env: k.Env}, at: *k}
	c.anew.Feature, c.anew.Units, c.anew.Cost = k.Feature, k.Units, k.Cost
	if k.Units.Sign() < 0 { // it costs more, and gives back none of what it has not counted
		c.anew.Units = decimal.Decimal{}
	}
	c.anew.Cost = decimal.Max(c.anew.Cost, decimal.Decimal{})
	if k.Late != nil && k.Units.Sign() >= 0 {
		version := k.Late.Sub.Version
		if k.Spot.Closed != nil {
			version = k.Spot.Closed.Version
		}
		b.setCurrency(&c.anew.Charge, k.Env, version)
		var ok bool
		if c.anew.Price, ok = k.price(); !ok {
			return nil, engine.OutcomeOverflow
		}
	}
	if k.Forced {
		return c, engine.OutcomeDone
	}
	return c, b.Ask(t, k.Env, node, []budgets.Charge{c.anew.Charge}, k.Now)
}

// Correct carries a correction out, and returns what the event counts then.
func (b *Budgets) Correct(t *lifecycle.Runner, c *Correction) []byte {
	if c.anew != nil {
		b.Count(t, c.at.Customer, c.anew, c.at.Now)
		record := c.anew.Record
		if c.at.KeyNode != 0 {
			record = budgets.AppendNode(record, c.anew.Node)
		}
		return record
	}
	crossed := b.Forest.Correct(&t.Tx, c.env, &c.counted, &c.change, c.at.Now)
	for i := range crossed {
		b.emit(t, c.at.Customer, &crossed[i], c.at.Now)
	}
	return wire.Encode(nil, &c.counted)
}
