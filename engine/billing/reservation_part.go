package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/credit"
	"tollgate/engine/decimal"
)

// part is what a settlement adds to one item.
type part struct {
	item  int
	delta decimal.Decimal
	usage usage
	given *SettleItem
	// at is when it occurred, or was reserved, where the plan of then alone has the feature.
	at int64
	// beyond reports whether it is more units than the item holds, dear whether they count more in
	// budgets than these hold for the item.
	beyond, dear bool
	// tried is set where usage is what try made of it, and still holds.
	tried bool
	// owing is what parts before it are to draw of stopped pools.
	owing []credits.Draw
}

// plan decides about all parts together. It changes nothing, and nothing that it admits is refused
// when it is carried out.
func (h *settling) plan(t *turn, occurredAt int64) engine.Outcome {
	// Budgets are asked for all of what an expired reservation settles, and for what goes beyond an
	// open one that refuses overruns.
	asks, beyond := h.hold.State != holds.ReservationOpen, false
	for i := range h.parts {
		if outcome := h.parts[i].plan(t, h, occurredAt); outcome != engine.OutcomeDone {
			return outcome
		}
		beyond = beyond || h.parts[i].beyond
	}
	if len(h.parts) < 2 && !h.budgeted(t) { // it refuses by itself
		return engine.OutcomeDone
	}
	node, dear, held, outcome := h.weigh(t)
	if outcome.Refused() || node == 0 {
		return outcome
	}
	asks = asks || h.hold.RefuseOverrun && (beyond || dear && held)
	switch {
	case !asks && (beyond || dear):
		h.markBeyond(t, node)
		return engine.OutcomeDone
	case !asks:
		return engine.OutcomeDone
	case h.hold.State == holds.ReservationOpen:
		h.charges = append(h.charges, h.givesBack(t, h.charges, len(h.parts))...)
	}
	return t.budgets.Ask(&t.Runner, h.env.Number, node, h.charges, h.now)
}

// budgeted reports whether what settles the reservation may count in budgets.
func (h *settling) budgeted(t *turn) bool {
	return t.budgets.Forest.Any(h.env.Number) &&
		(h.words.Budget != "" || t.Customers.Read(h.hold.Customer).Budgeted)
}

// weigh finds what the parts count in budgets, by part, whether any counts more than is held for
// it, and whether something is held for any of those. node 0: they count in none.
func (h *settling) weigh(t *turn) (node uint32, dear, held bool, outcome engine.Outcome) {
	h.charges = h.charges[:0]
	var owing []credits.Draw
	for i := range h.parts {
		p := &h.parts[i]
		p.owing = owing
		u, outcome := p.try(t, h)
		if outcome.Refused() {
			return 0, false, false, outcome
		}
		if p.tried = len(h.parts) == 1; p.tried {
			p.usage = u
		}
		owing = t.OfStopped(u.burning.Draws, owing)
		if u.charged == nil {
			continue
		}
		node, h.charges = u.charged.Node, append(h.charges, u.charged.Charge)
		at, holds := p.held(t, h)
		p.dear = u.charged.Exceeds(&holds)
		dear, held = dear || p.dear, held || p.dear && at != 0
	}
	return node, dear, held, engine.OutcomeDone
}

// held is what budgets hold for the part's item, and at which node; 0: nothing.
func (p *part) held(t *turn, h *settling) (node uint32, held budgets.Charge) {
	return t.budgets.Forest.HeldBy(t.holds.ItemRow(&h.hold, p.item))
}

// markBeyond finds what the budget would not admit of parts that go beyond what is held, and that
// is recorded all the same. Beside one of them, the parts before it count whole, and of those
// behind it the ones that go beyond their holds what these hold. Charges are by part: a customer's
// budgets are asked about each of them, or about none.
func (h *settling) markBeyond(t *turn, node uint32) {
	now := h.env.Now(t.Stamp)
	for i := range h.parts {
		p := &h.parts[i]
		if !p.exceeds() {
			continue
		}
		asked := slices.Clone(h.charges)
		for j := i + 1; j < len(asked); j++ {
			if h.parts[j].exceeds() {
				asked[j] = budgets.Charge{}
			}
		}
		asked = append(asked, h.givesBack(t, h.charges, i+1)...)
		_, o := t.budgets.Forest.Plan(node, asked, now)
		if o == engine.OutcomeDone {
			continue
		}
		p.tried = false
		_, held := p.held(t, h)
		fit := func(units decimal.Decimal) (fit bool, work int) {
			u, outcome := p.less(units).try(t, h)
			if work = 1; u.late != nil {
				work += u.late.Weight()
			}
			if outcome.Refused() || u.charged == nil {
				return false, work
			}
			asked[i] = u.charged.Charge
			if !asked[i].Exceeds(&held) {
				return true, work
			}
			_, o := t.budgets.Forest.Plan(node, asked, now)
			return o == engine.OutcomeDone, work
		}
		fits, not := decimal.Min(h.items[p.item].Held(), p.delta), p.delta
		own := !p.dear || p.beyond
		if own && p.dear {
			own, _ = fit(fits)
		}
		if !own {
			fits, not = decimal.Decimal{}, fits
		}
		if !own || o == engine.OutcomeBudgetExceeded {
			fits = t.maxFitting(fits, not, len(h.parts), fit)
		}
		p.usage.overrun = decimal.Max(p.usage.overrun, sums.Difference(p.delta, fits))
	}
}

// exceeds reports whether the part goes beyond what is held for it.
func (p *part) exceeds() bool { return p.beyond || p.dear }

// less is the part with fewer units, and its share of a cost that is stated.
func (p *part) less(units decimal.Decimal) *part {
	q := *p
	if q.delta = units; p.given != nil {
		given := *p.given
		given.Cost = holds.Share(given.Cost, units, p.delta)
		q.given = &given
	}
	return &q
}

// maxFitting is the most units from fits, which fit, up to others, which do not; whole ones where
// both are. It is bounded to its share of partialWork among so many searches: where one try is
// expensive, fewer units are found than would fit.
func (t *turn) maxFitting(
	fits, not decimal.Decimal, searches int, try func(units decimal.Decimal) (fit bool, work int),
) decimal.Decimal {
	step := decimal.FromBits(0, 1)
	whole := fits == charging.Whole(fits) && not == charging.Whole(not)
	if whole {
		step = decimal.FromInt(1)
	}
	sum := 0
	for sum < partialWork/searches && step.Less(sums.Remaining(not, fits)) {
		half, _ := sums.Remaining(not, fits).FloorDiv(decimal.FromInt(2))
		units := sums.Of(fits, half)
		if whole {
			units = charging.Whole(units)
		}
		fit, work := try(units)
		if sum += work; fit {
			fits = units
		} else {
			not = units
		}
	}
	t.Spend(sum)
	return fits
}

// givesBack is what budgets do not hold any more once the parts are settled, which count so much.
// From a place on, those that go beyond their holds keep these.
func (h *settling) givesBack(
	t *turn, counts []budgets.Charge, from int,
) (charges []budgets.Charge) {
	row := h.hold.FirstItem
	for n := range h.items {
		node, held := t.budgets.Forest.HeldBy(row)
		row = t.holds.Items.Next(row)
		left, part, keeps := h.items[n], (*budgets.Charge)(nil), false
		for j := range h.parts {
			switch {
			case h.parts[j].item != n:
			case j >= from && h.parts[j].exceeds():
				keeps = true
			default:
				left.Settled, part = sums.Of(left.Settled, h.parts[j].delta), &counts[j]
			}
		}
		if node == 0 || keeps || h.partial && left.Settled == h.items[n].Settled {
			continue
		}
		charges = append(charges, held.Neg())
		if !h.partial || left.Held().IsZero() {
			continue
		}
		if stays, ok := h.holdsOn(t, &left, &held, part); ok {
			charges = append(charges, stays)
		}
	}
	return charges
}

// plan decides what becomes of a part that goes beyond what is held. It changes nothing. Units that
// the plan has lost since they were reserved count where they were reserved.
func (p *part) plan(t *turn, h *settling, occurredAt int64) engine.Outcome {
	i := &h.items[p.item]
	u := &p.usage
	u.customer, u.feature, u.recordedAt, u.settling = h.hold.Customer, i.Feature, h.now, h
	p.at = occurredAt
	own := decimal.Decimal{}
	if h.hold.State == holds.ReservationOpen {
		u.place = t.within(h.catalog, i.Subscription, i.Feature, occurredAt)
		if own = i.Held(); u.place.Feature == nil {
			p.at = h.hold.CreatedAt
			u.place = t.within(h.catalog, i.Subscription, i.Feature, p.at)
		}
	} else { // expired: an ordinary event
		c := RecordUsage{Env: h.env.Number, OccurredAt: occurredAt}
		at, _ := c.place(t, h.catalog, usageTarget{u.customer, i.Feature, h.now})
		if u.place = at.Place; t.archived(u.customer, u.place) {
			return engine.OutcomeCustomerArchived
		}
	}
	held, _ := t.reservedOf(u.customer, u.place, h.now)
	u.kept = p.keeps(t, h)
	for j := range h.parts { // what parts before it are to burn is gone then
		if h.parts[j].item == p.item {
			break
		}
		u.kept = sums.Of(u.kept, h.parts[j].burns(h, u))
	}
	if u.place.Subscription == i.Subscription {
		held = credit.Less(held, decimal.Min(held, own))
	}
	u.held, u.forced = held, true
	if p.beyond = own.Less(p.delta); !p.beyond {
		return engine.OutcomeDone
	}
	return p.overrun(t, h, own)
}

// keeps returns how many credits stay held when the part is settled: those of other reservations,
// and this one's for its later parts or, if it stays open, for all its other parts.
func (p *part) keeps(t *turn, h *settling) decimal.Decimal {
	u := &p.usage
	if !u.place.Credited() {
		return decimal.Decimal{}
	}
	_, kept := t.reservedOf(u.customer, u.place, h.now)
	for j := range h.items {
		if h.items[j].Pool == u.place.Feature.Credits.Pool && (j == p.item || !h.waits(p, j)) {
			kept = sums.Remaining(kept, h.items[j].Credits)
		}
	}
	return kept
}

// waits reports whether an item holds its credits while a part is carried out.
func (h *settling) waits(p *part, item int) bool {
	waits := h.partial
	for i := range h.parts {
		waits = waits || item > p.item && h.parts[i].item == item
	}
	return waits
}

// burns is how many credits of a usage's pool the part needs beyond those that stay held for it.
func (p *part) burns(h *settling, u *usage) decimal.Decimal {
	at := p.usage.place
	if !at.Credited() || !u.place.Credited() ||
		at.Feature.Credits.Pool != u.place.Feature.Credits.Pool {
		return decimal.Decimal{}
	}
	need, _ := credit.Need(p.delta, at.Feature.Credits.Weight)
	if h.partial {
		return sums.Remaining(need, h.items[p.item].Credits)
	}
	return need
}

// overrun decides about what goes beyond the hold: what fits counts as any event.
func (p *part) overrun(t *turn, h *settling, own decimal.Decimal) engine.Outcome {
	u := &p.usage
	refuses := h.hold.RefuseOverrun && h.hold.State == holds.ReservationOpen
	fits, level, outcome := u.fitting(t, &RecordUsage{Units: p.delta, OccurredAt: p.at}, refuses)
	if outcome.Refused() {
		return outcome
	}
	fits = decimal.Max(fits, decimal.Min(own, p.delta))
	if u.overrun = credit.Less(p.delta, fits); u.overrun.IsZero() {
		return engine.OutcomeDone
	}
	if h.hold.RefuseOverrun || h.hold.State != holds.ReservationOpen {
		key := h.catalog.Feature(u.feature).Document.Key
		r := room{rule: level, held: u.held}
		if f := u.place.Feature; level == rulePool {
			purse := t.PurseOf(u.customer, f.Credits.Pool, h.now)
			left := purse
			left.Keep(u.kept)
			r.ofPool(purse, &left)
		} else if f != nil && u.place.Counter != 0 {
			r.used, r.limit = t.Counters.Reading(u.place.Counter, f), f.Max
		}
		s := r.shortage(t, key, p.delta)
		s.Stays = h.hold.State == holds.ReservationOpen
		t.Answer(&s)
		return engine.OutcomeReservationShort
	}
	return engine.OutcomeDone
}

// fitting is how many of an event's units an ordinary event could count, and what decides that.
// With soft set, soft limits refuse as they refuse reservations.
func (u *usage) fitting(
	t *turn, c *RecordUsage, soft bool,
) (fits decimal.Decimal, level string, o engine.Outcome) {
	f := u.place.Feature
	if f == nil {
		return c.Units, "", engine.OutcomeDone
	}
	fits = c.Units
	trial := *u
	trial.forced = false
	switch outcome := trial.count(t, c); {
	case outcome != engine.OutcomeHardLimit && outcome.Refused():
		return fits, "", outcome
	case outcome == engine.OutcomeHardLimit || soft:
		counted := decimal.Decimal{}
		if !outcome.Refused() {
			counted = c.Units
		}
		total, limit, limited := trial.compared(t, counted)
		if left := sums.Remaining(limit, total); limited && left.Less(fits) {
			fits, level = left, ruleLimit
		}
	}
	if u.place.Credited() && !f.Credits.Fallback {
		purse := t.PurseOf(u.customer, f.Credits.Pool, u.recordedAt)
		purse.Keep(u.kept)
		if paid := purse.Coverable(fits, &f.Credits); paid.Less(fits) {
			fits, level = paid, rulePool
		}
	}
	return fits, level, engine.OutcomeDone
}

// compared is what the limit compares before the event, with what others hold, and that limit;
// limited is false where there is none. counted are the units that a late event's projection has
// already.
func (u *usage) compared(
	t *turn, counted decimal.Decimal,
) (total, limit decimal.Decimal, limited bool) {
	f := u.place.Feature
	if f == nil {
		return total, limit, false
	}
	if u.late != nil && u.spot.Closed != nil {
		var present bool
		if total, f, present = u.late.Compared(u.spot.Closed, u.feature); present {
			total = sums.Of(total, u.held)
		}
		return sums.Difference(total, counted), f.Max, f.HasMax
	}
	n := t.Counters.Read(u.place.Counter)
	if total = n.Reading(f); u.ahead && !f.Accumulate {
		total = n.Next
	}
	return sums.Of(total, u.held), f.Max, f.HasMax
}

// try is what could still refuse to carry a part out: numbers that are too large. It changes
// nothing. What the usage counts in budgets is valid until the next try; nil: nothing.
func (p *part) try(t *turn, h *settling) (u usage, outcome engine.Outcome) {
	u = p.usage
	outcome = p.measure(t, h, &u)
	return u, outcome
}

// measure finds what a part's usage counts, costs, burns and counts in budgets.
func (p *part) measure(t *turn, h *settling, u *usage) (outcome engine.Outcome) {
	e := RecordUsage{Units: p.delta, OccurredAt: p.at}
	p.cost(h, &e)
	outcome = u.price(&e, h.catalog.Feature(u.feature))
	if outcome == engine.OutcomeDone {
		outcome = u.count(t, &e)
	}
	if !outcome.Refused() && u.place.Credited() {
		u.burning, outcome = t.PlanBurn(u.place, p.need(h), h.now)
	}
	if !outcome.Refused() {
		outcome = h.charge(t, &e, u)
	}
	return outcome
}

// need is what the part needs of credits.
func (p *part) need(h *settling) *credits.Need {
	n, i := p.usage.need(p.delta), &h.items[p.item]
	n.Owing = p.owing
	if h.hold.State == holds.ReservationOpen && i.Pool == p.usage.place.Feature.Credits.Pool {
		n.Held, n.Since = i.Credits, h.hold.CreatedAt
	}
	return n
}

// unpaid is how many units of a part that was tried are recorded although neither credits nor a
// price pay for them, or the hard limit of their own closed period does not admit them: the
// reservation did not hold these.
func (p *part) unpaid(h *settling) (units decimal.Decimal) {
	u := &p.usage
	switch f := u.place.Feature; {
	case h.hold.State != holds.ReservationOpen:
		return units
	case f == nil:
		return p.delta // no span that still accepts usage has the feature
	case u.place.Credited() && !f.Credits.Fallback:
		units = sums.Difference(p.delta, u.burning.Covered)
	}
	if u.late != nil && u.spot.Closed != nil {
		total, f, present := u.late.Compared(u.spot.Closed, u.feature)
		if f.HasMax && f.Hard && !present {
			beyond := decimal.Min(p.delta, sums.Remaining(total, f.Max))
			units = decimal.Max(units, beyond)
		}
	}
	return units
}

// cost puts into a part's event what it costs the provider: what the settlement states, else what
// the feature says, else its share of the cost that the reservation expects.
func (p *part) cost(h *settling, e *RecordUsage) {
	switch i := &h.items[p.item]; {
	case p.given != nil && p.given.HasCost:
		e.Cost, e.HasCost = p.given.Cost, true
	case i.HasCost && !h.catalog.Feature(i.Feature).Document.HasCost:
		e.Cost, e.HasCost = i.CostOf(p.delta), true
	}
}

// carryOut records a part as a usage event. With the last one the reservation gets its new state.
func (p *part) carryOut(t *turn, h *settling, c *SettleReservation) engine.Outcome {
	i, u := &h.items[p.item], &p.usage
	u.kept, p.owing = p.keeps(t, h), nil // parts before it have burnt theirs
	h.feature = append(h.feature[:0], h.catalog.Feature(i.Feature).Document.Key...)
	e := RecordUsage{
		Env: h.env.Number, Attempt: uint32(t.Index) | 1, Units: p.delta, OccurredAt: p.at,
		FeatureKey: h.feature,
	}
	if c != nil {
		e.Meta = c.Meta
	}
	p.cost(h, &e)
	if h.hold.State == holds.ReservationOpen || u.place.Subscription == i.Subscription {
		e.SubscriptionID = t.Subscriptions.Read(i.Subscription).ID
	}
	e.EventName = e.FeatureKey
	e.Customer = t.ExternalID(t.Customers.Read(h.hold.Customer))
	h.name(t, &e, c)
	t.m.scratch.sealed = e.Seal(t.m.scratch.sealed[:0])
	t.Payload = t.m.scratch.sealed
	if !p.tried {
		if outcome := p.measure(t, h, u); outcome.Refused() {
			return outcome
		}
	}
	u.overrun = decimal.Max(u.overrun, p.unpaid(h))
	h.at, h.total, h.counts = p.item, sums.Of(i.Settled, p.delta), u.charged
	if !u.overrun.IsZero() {
		for len(h.words.Overruns) < len(h.items) {
			h.words.Overruns = append(h.words.Overruns, holds.Overrun{})
		}
		o := &h.words.Overruns[p.item]
		o.Units, h.rewritten = sums.Of(o.Units, u.overrun), true
	}
	h.left--
	t.record(&e, u)
	t.Spend(4)
	return engine.OutcomeDone
}
