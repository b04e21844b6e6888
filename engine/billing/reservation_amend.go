package billing

import (
	"slices"

	"tollgate/engine"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// amend gives the events of a reservation that was billed when it expired the real units; none
// where an event under the command's key has them.
func (c *SettleReservation) amend(
	t *turn, h *settling, totals []decimal.Decimal,
) engine.Outcome {
	outcome := c.used(t, h)
	if outcome == engine.OutcomeKeyUnproven || outcome == engine.OutcomeDuplicate && c.Partial {
		return outcome
	}
	if outcome == engine.OutcomeNone && c.OccurredAt != 0 {
		if timely := t.timely(h.env, c.OccurredAt, h.now); timely != engine.OutcomeDone {
			return timely
		}
	}
	takes := outcome == engine.OutcomeNone && c.EventKey != "" && !h.words.Own(&c.Key)
	if takes && len(h.words.Taken) >= 16*holds.MaxTaken {
		return engine.OutcomeKeysFull
	}
	h.late = make([]holds.LateCost, len(h.items))
	copy(h.late, h.words.LateCosts)
	changed := outcome == engine.OutcomeDuplicate ||
		!c.Partial && (h.corrected(t) || c.OccurredAt != 0 || slices.ContainsFunc(h.late, stated))
	for i := range h.items {
		changed = changed || totals[i] != h.items[i].Settled
	}
	for j := range c.Items {
		changed = changed || c.Items[j].HasCost
	}
	if outcome == engine.OutcomeDuplicate {
		totals, h.words.Event, h.words.Recorded = nil, c.EventKey, true
	}
	if changed {
		if outcome = c.correct(t, h, totals); outcome != engine.OutcomeDone {
			return outcome
		}
	} else { // it states no cost
		for i := range h.late {
			c.addCost(h, i, decimal.Decimal{})
		}
	}
	if slices.ContainsFunc(h.late, func(l holds.LateCost) bool { return !l.Units.IsZero() }) {
		h.words.LateCosts = h.late
	}
	if !c.Partial {
		h.hold.State = holds.ReservationSettled
	}
	h.words.Late = true
	h.store(t)
	lock := t.WriteLock(h.hold.Customer)
	if takes { // no event under it is recorded any more: what was billed counts for it
		h.words.Event = c.EventKey
		t.holds.Take(&t.Keeper, h.row, &h.words, &c.Key)
	}
	t.holds.SetWords(h.row, &h.words)
	lock.Unlock()
	h.answer(t)
	return engine.OutcomeDone
}

func stated(l holds.LateCost) bool { return l.Stated() }

// corrected reports whether an event that settles the reservation was corrected, maybe not by a
// settlement.
func (h *settling) corrected(t *turn) bool {
	for n := h.hold.Events; n > 0 && h.hold.Events-n < uint32(len(h.items)); n-- {
		key := holds.EventKey(h.env.Number, &h.hold.ID, n)
		if t.correctionWith(&key) != 0 {
			return true
		}
	}
	return false
}

// correct amends each event so that its item, where the command names it, is settled at its total,
// whatever the event was amended to meanwhile; without totals another event has the units, and
// these have none.
func (c *SettleReservation) correct(
	t *turn, h *settling, totals []decimal.Decimal,
) engine.Outcome {
	if len(c.Originals) == 0 {
		return engine.OutcomeReservationBilled
	}
	amended, outcome := c.billed(t, h)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	for i, k := range amended {
		if totals == nil || k == nil || !c.names(h, i) || c.Partial && totals[i] == h.items[i].Settled {
			continue
		}
		if !k.countsAt(t, c.OccurredAt) {
			return engine.OutcomeReservationPeriod
		}
	}
	targets, settled, outcome := c.targets(t, h, amended, totals)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	var deltas, beyond [holds.MaxItems]decimal.Decimal
	for _, try := range [...]bool{true, false} {
		for i, k := range amended {
			if k == nil {
				continue
			}
			k.forced = !try || !h.hold.RefuseOverrun
			if try {
				deltas[i] = sums.Difference(targets[i], k.units)
				beyond[i] = sums.Remaining(deltas[i], k.fits(t, deltas[i]))
			}
			k.beyond, k.meta = beyond[i], c.Meta
			cost := c.states(t, h, k, i, targets[i], totals)
			if outcome := h.amendEvent(t, k, deltas[i], cost, try); outcome != engine.OutcomeDone {
				return outcome
			}
		}
		if !try {
			break
		}
		if !h.hold.RefuseOverrun {
			c.markBeyond(t, h, amended, deltas[:], beyond[:], totals)
		} else if outcome = h.together(t, amended); outcome != engine.OutcomeDone {
			return outcome
		}
		for i, k := range amended {
			if k != nil {
				h.overran(i, deltas[i], beyond[i])
			}
		}
	}
	for i := range h.items {
		h.items[i].Settled = settled[i]
	}
	return engine.OutcomeDone
}

// markBeyond adds to what goes beyond limits what budgets would not admit of amendments, which are
// carried out all the same. Those before one count whole.
func (c *SettleReservation) markBeyond(
	t *turn, h *settling, amended []*correcting, deltas, beyond, totals []decimal.Decimal,
) {
	var list []*charging.Correction
	searches := 0
	for _, k := range amended {
		if k != nil && k.budget != nil {
			searches++
		}
	}
	for i, k := range amended {
		if k == nil || k.budget == nil {
			continue
		}
		list = append(list, k.budget)
		if deltas[i].Sign() <= 0 ||
			t.budgets.AdmitCorrections(h.now, list...) == engine.OutcomeDone {
			continue
		}
		fit := func(units decimal.Decimal) (bool, int) {
			cost := c.states(t, h, k, i, sums.Of(k.units, units), totals)
			outcome, work := h.amendEvent(t, k, units, cost, true), 1
			if k.projection != nil {
				work += k.projection.Weight()
			}
			if outcome != engine.OutcomeDone || k.budget == nil {
				return false, work
			}
			trial := append(list[:len(list)-1:len(list)-1], k.budget)
			return t.budgets.AdmitCorrections(h.now, trial...) == engine.OutcomeDone, work
		}
		fits := t.maxFitting(decimal.Decimal{}, deltas[i], searches, fit)
		beyond[i] = decimal.Max(beyond[i], sums.Difference(deltas[i], fits))
	}
}

// together decides whether budgets and credits admit amendments together that they admit each by
// itself.
func (h *settling) together(t *turn, amended []*correcting) engine.Outcome {
	var list []*charging.Correction
	for i, k := range amended {
		if k == nil {
			continue
		}
		if k.budget != nil {
			list = append(list, k.budget)
		}
		more := decimal.Decimal{}
		for _, other := range amended[:i+1] { // those before it burn theirs first
			if other != nil && k.sharesPool(other) {
				more = sums.Of(more, sums.Difference(
					credits.Drawn(other.newly.Draws), credits.Drawn(other.was.Draws)))
			}
		}
		if more.Sign() <= 0 || k.at.Feature.Credits.Fallback {
			continue
		}
		purse := t.freeCredits(k.owner, k.at, h.now)
		if free, endless := purse.Free(); !endless && free.Less(more) {
			r := room{rule: rulePool}
			r.ofPool(t.PurseOf(k.owner, k.at.Feature.Credits.Pool, h.now), &purse)
			r.short(t, h.catalog.Feature(k.original.Feature).Document.Key,
				sums.Difference(k.newly.Units, k.was.Units))
			return engine.OutcomeReservationShort
		}
	}
	if len(list) < 2 { // a single one was asked
		return engine.OutcomeDone
	}
	return t.budgets.AskCorrections(&t.Runner, h.env.Number, h.now, list...)
}

// sharesPool reports whether the credits of pools of one name pay two corrected events.
func (k *correcting) sharesPool(other *correcting) bool {
	return k.projection != nil && k.at.Credited() && other.projection != nil && other.at.Credited() &&
		k.at.Feature.Credits.Pool == other.at.Feature.Credits.Pool
}

// targets are what events are to count, and what items are settled at then. It takes events that
// stay as they are out of the list.
func (c *SettleReservation) targets(
	t *turn, h *settling, amended []*correcting, totals []decimal.Decimal,
) (targets, settled [holds.MaxItems]decimal.Decimal, outcome engine.Outcome) {
	for i, k := range amended {
		was := h.items[i].Settled
		if settled[i] = was; totals != nil {
			settled[i] = totals[i]
		}
		if k == nil && settled[i] != was {
			return targets, settled, h.closed(t) // it was settled before, and not billed
		}
		if k == nil || totals != nil && !c.names(h, i) {
			amended[i] = nil
			continue
		}
		before := sums.Difference(h.items[i].Granted, k.usage.Units) // what parts had settled
		if totals == nil {
			settled[i] = before
		}
		targets[i] = sums.Difference(settled[i], before)
		c.addCost(h, i, before)
		switch {
		case targets[i].Sign() < 0:
			return targets, settled, engine.OutcomeSettledMore
		case targets[i] == k.units && !k.recosts(t, c.states(t, h, k, i, targets[i], totals)),
			settled[i] == was && k.voidedAt != 0,
			c.Partial && targets[i].Less(k.units): // a part takes nothing back
			amended[i] = nil
		case k.voidedAt != 0:
			return targets, settled, engine.OutcomeUsageVoided
		}
	}
	return targets, settled, engine.OutcomeDone
}

// states returns what an event of so many units is to cost the provider; nil: what follows from
// them. A part takes nothing back. Without totals another event has the cost, too.
func (c *SettleReservation) states(
	t *turn, h *settling, k *correcting, item int, units decimal.Decimal, totals []decimal.Decimal,
) *decimal.Decimal {
	if totals == nil && (k.usage.HasCost || k.text.HasCost) {
		return new(decimal.Decimal)
	}
	cost := h.late[item].Cost
	switch stated := h.late[item].Stated(); {
	case totals == nil, !stated && !k.usage.HasCost:
		return nil
	case !stated: // expiry billed what was expected
		cost = holds.Share(k.usage.Cost, units, k.usage.Units)
	}
	if now, ok := k.cost(t.state); c.Partial && ok && !now.Less(cost) {
		return nil
	}
	return &cost
}

// recosts reports whether a cost that is stated is another one than the event has.
func (k *correcting) recosts(t *turn, stated *decimal.Decimal) bool {
	if stated == nil || k.voidedAt != 0 {
		return false
	}
	cost, ok := k.cost(t.state)
	return !ok || cost != *stated
}

// names reports whether the command names an item.
func (c *SettleReservation) names(h *settling, item int) bool {
	for j := range c.Items {
		if c.item(h, j) == item {
			return true
		}
	}
	return false
}

// billed opens the events that the command brings, by which the reservation was billed, one for
// each item; nil: an item has none. An event of a reservation of several items is known by its
// feature, and was billed if it was recorded when the reservation expired.
func (c *SettleReservation) billed(t *turn, h *settling) (
	amended []*correcting, outcome engine.Outcome,
) {
	amended = make([]*correcting, len(h.items))
	for j := range c.Originals {
		ref := &c.Originals[j]
		key := originalKey(ref)
		k, outcome := t.openCorrection(c.Env, &key, ref)
		if outcome != engine.OutcomeDone {
			return nil, outcome
		}
		i := slices.IndexFunc(h.items, func(i holds.Item) bool {
			return i.Feature == k.original.Feature
		})
		if i < 0 || k.original.Reservation != h.hold.ID {
			return nil, engine.OutcomeReservationBilled
		}
		if billed := k.original.RecordedAt == h.hold.ExpiresAt; billed && amended[i] == nil {
			amended[i] = k // another one is a part that was settled before
		}
	}
	return amended, engine.OutcomeDone
}

// countsAt reports whether usage of an instant would count where the event does; 0: of its own.
// Where the plan of then lacks the feature, usage counts where it was reserved, as the event does.
func (k *correcting) countsAt(t *turn, occurredAt int64) bool {
	if occurredAt == 0 {
		return true
	}
	l, at, stands := k.spot(t)
	if !stands {
		return true
	}
	of, found := l.SpotAt(occurredAt, k.original.Feature)
	return !found || of.Span == at.Span && of.Ahead == at.Ahead
}

// overran notes what an item records beyond its limits with so many units more, or takes back with
// fewer.
func (h *settling) overran(item int, delta, beyond decimal.Decimal) {
	if beyond.IsZero() && len(h.words.Overruns) == 0 {
		return
	}
	for len(h.words.Overruns) < len(h.items) {
		h.words.Overruns = append(h.words.Overruns, holds.Overrun{})
	}
	o := &h.words.Overruns[item]
	if delta.Sign() < 0 {
		o.Units = sums.Remaining(o.Units, delta.Neg())
	}
	o.Units, h.rewritten = sums.Of(o.Units, beyond), true
}

// originalKey is the idempotency key of an event that the command brings.
func originalKey(ref *UsageRef) [16]byte {
	var u usageEntry
	var e RecordUsage
	if wire.Decode(ref.Payload, &u) != nil || wire.Decode(u.Record, &e) != nil {
		return [16]byte{}
	}
	return e.Key
}

// amendEvent changes an event by so many units, and to the cost that the command states, if it
// does; a try changes nothing.
func (h *settling) amendEvent(
	t *turn, k *correcting, delta decimal.Decimal, stated *decimal.Decimal, try bool,
) engine.Outcome {
	units := sums.Of(k.units, delta)
	made := correctionEntry{Delta: delta, Units: units, Original: k.original, Meta: k.meta}
	cost, ok := k.recost(t.state, journal.KindAmend, &made, stated)
	if !ok {
		return engine.OutcomeOverflow
	}
	outcome := k.place(t, delta)
	if outcome == engine.OutcomeDone {
		outcome = k.recredit(t, units)
	}
	if outcome == engine.OutcomeDone {
		outcome = k.uncharge(t, false, delta, cost)
	}
	switch {
	case outcome == engine.OutcomeHardLimit || outcome == engine.OutcomeCreditsEmpty:
		r := k.lacks(t, outcome)
		r.short(t, h.catalog.Feature(k.original.Feature).Document.Key, delta)
		return engine.OutcomeReservationShort
	case outcome != engine.OutcomeDone || try:
		return outcome
	}
	k.units = units
	t.correct(k, journal.KindAmend, made)
	return engine.OutcomeDone
}
