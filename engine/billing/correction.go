package billing

import (
	"github.com/cespare/xxhash/v2"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/billing/internal/sums"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// UsageRef is a recorded usage event as the journal has it. No command reads the journal, so
// FindUsage makes it before a correction is proposed, and the correction carries it through the
// log.
type UsageRef struct {
	Index    uint64 `wire:"1"`
	Position uint32 `wire:"2"`
	Owner    uint32 `wire:"3"` // the customer's row
	Hash     uint64 `wire:"4"` // xxHash64 of Payload
	Payload  []byte `wire:"5"` // usageEntry
	// Event is the event's number in the journal, from 1.
	Event uint64 `wire:"6"`
}

// VoidUsage voids a usage event. Its key stays used. Voiding it again is the same success.
//
//schema:request client EventVoid
type VoidUsage struct {
	Env      uint32   `wire:"1"`
	Key      [16]byte `wire:"2"`
	Reason   string   `wire:"3" json:"reason" rule:"max=500"`
	Original UsageRef `wire:"4"`
	// KeyBudget and Bindings are those of RecordUsage.
	KeyBudget uint32 `wire:"5"`
	Bindings  uint32 `wire:"6"`
}

func (c *VoidUsage) apply(t *turn) engine.Outcome {
	k, outcome := t.openCorrection(c.Env, &c.Key, &c.Original)
	if outcome == engine.OutcomeDone {
		outcome = k.reached(t, c.KeyBudget, c.Bindings)
	}
	switch {
	case outcome != engine.OutcomeDone:
		return outcome
	case k.voidedAt != 0:
		return engine.OutcomeDone
	}
	delta := k.units.Neg()
	if outcome = k.place(t, delta); outcome != engine.OutcomeDone {
		return outcome
	}
	if outcome = k.recredit(t, decimal.Decimal{}); outcome != engine.OutcomeDone {
		return outcome
	}
	if outcome = k.uncharge(t, true, delta, decimal.Decimal{}); outcome != engine.OutcomeDone {
		return outcome
	}
	made := correctionEntry{Reason: c.Reason, Delta: delta, Original: k.original}
	if _, ok := k.recost(t.state, journal.KindVoid, &made, nil); !ok {
		return engine.OutcomeOverflow
	}
	k.voidedAt, k.units = k.now, decimal.Decimal{}
	t.correct(k, journal.KindVoid, made)
	return engine.OutcomeDone
}

// AmendUsage changes the quantity of a usage event. ID names the request: of the requests for an
// event, the newest counts, once.
//
//schema:request client EventAmendment
type AmendUsage struct {
	Env      uint32          `wire:"1"`
	Key      [16]byte        `wire:"2"`
	Units    decimal.Decimal `wire:"3" json:"usageUnits" rule:"required,min=0"`
	Reason   string          `wire:"4" json:"reason" rule:"max=500"`
	Original UsageRef        `wire:"5"`
	ID       [16]byte        `wire:"6"`
	// KeyBudget and Bindings are those of RecordUsage.
	KeyBudget uint32 `wire:"7"`
	Bindings  uint32 `wire:"8"`
}

func (c *AmendUsage) apply(t *turn) engine.Outcome {
	k, outcome := t.openCorrection(c.Env, &c.Key, &c.Original)
	if outcome == engine.OutcomeDone {
		outcome = k.reached(t, c.KeyBudget, c.Bindings)
	}
	switch {
	case outcome != engine.OutcomeDone:
		return outcome
	case k.voidedAt != 0:
		return engine.OutcomeUsageVoided
	case c.Units.Sign() < 0 || !c.Units.InRange():
		return engine.OutcomeOverflow
	case k.stored && k.request == c.ID && k.units == c.Units:
		return engine.OutcomeDone
	}
	delta, ok := c.Units.Sub(k.units)
	if !ok {
		return engine.OutcomeOverflow
	}
	made := correctionEntry{
		Reason: c.Reason, Delta: delta, Units: c.Units, Original: k.original,
	}
	cost, ok := k.recost(t.state, journal.KindAmend, &made, nil)
	if !ok {
		return engine.OutcomeOverflow
	}
	if outcome = k.place(t, delta); outcome != engine.OutcomeDone {
		return outcome
	}
	if outcome = k.recredit(t, c.Units); outcome != engine.OutcomeDone {
		return outcome
	}
	if outcome = k.uncharge(t, false, delta, cost); outcome != engine.OutcomeDone {
		return outcome
	}
	k.units, k.request = c.Units, c.ID
	t.correct(k, journal.KindAmend, made)
	return engine.OutcomeDone
}

// correction is the present state of a corrected event, kept as long as its key may be.
//
//schema:row
type correction struct {
	key, request [16]byte // request: the newest amendment
	units        decimal.Decimal
	covered      decimal.Decimal // units that credits pay; correctionDraws has the credits
	voidedAt     int64
	stamp        int64 // log time of the first correction
	// event is the log index of the event. After its key is forgotten it may be used again, and
	// this correction does not apply to the new event.
	event uint64
	next  uint32
}

// correcting is a correction that is being applied.
type correcting struct {
	correction
	stored bool
	// text is what the corrections so far have left of its credits, budgets and cost.
	text     credits.DrawList
	row      uint32
	owner    uint32
	now      int64
	env      *accounts.Environment
	original usageEntry
	usage    RecordUsage
	// projection is the subscription that counted the event; nil if none did. span and ahead tell
	// where in it the change counts.
	projection *lifecycle.Projection
	lifecycle.Spot
	// forced is set if a reservation held the added units, beyond are those of them that do not fit.
	forced bool
	beyond decimal.Decimal
	meta   []byte // of the settlement
	// keyNode is the budget that the request's API key is bound to; 0: none.
	keyNode uint32
	// at is where its credits burn and change what happens to them; was and newly are what the
	// event has burnt before and after.
	at         book.Place
	change     credits.Recredit
	was, newly credits.Burnt
	// budget is what becomes of what it has counted in budgets; nil: it has counted in none.
	budget *charging.Correction
}

// openCorrection reads the original and its corrections so far.
func (t *turn) openCorrection(env uint32, key *[16]byte, ref *UsageRef) (
	k *correcting, outcome engine.Outcome,
) {
	if k, outcome = decodeCorrection(t.state, env, key, ref, t.Stamp); outcome != engine.OutcomeDone {
		return nil, outcome
	}
	if !t.AdvanceCustomer(ref.Owner, k.now) { // the pools are as of now, too
		return nil, engine.OutcomeDeferred
	}
	if t.budgets.Forest.Any(env) && !t.ExpireHolds(k.env, k.now) {
		return nil, engine.OutcomeDeferred
	}
	k.load(t.state, ref, t.Stamp)
	return k, engine.OutcomeDone
}

// decodeCorrection reads the original, at a log time.
func decodeCorrection(s *state, env uint32, key *[16]byte, ref *UsageRef, stamp int64) (
	k *correcting, outcome engine.Outcome,
) {
	e := s.Environment(env)
	if e == nil {
		return nil, engine.OutcomeAccountUnknown
	}
	k = &correcting{env: e, now: e.Now(stamp), owner: ref.Owner}
	if ref.Hash != xxhash.Sum64(ref.Payload) || wire.Decode(ref.Payload, &k.original) != nil ||
		wire.Decode(k.original.Record, &k.usage) != nil ||
		k.usage.Env != env || k.usage.Key != *key ||
		ref.Owner == 0 || ref.Owner > s.Customers.Len() ||
		s.Customers.Read(ref.Owner).Env != env || !ownDraws(s, ref.Owner, k.original.Draws) {
		return nil, engine.OutcomeUsageUnknown
	}
	if !ref.kept(s) {
		return nil, engine.OutcomeUsageFinal
	}
	return k, engine.OutcomeDone
}

// load reads the corrections so far.
func (k *correcting) load(s *state, ref *UsageRef, stamp int64) {
	k.row = s.correctionWith(&k.usage.Key)
	k.stored = k.row != 0 && s.corrections.Read(k.row).event == ref.Index
	if k.stored {
		k.correction = *s.corrections.Read(k.row)
		rows.DecodeText(s.correctionDraws.Read(k.row).Data, &k.text)
		return
	}
	k.correction = correction{
		key: k.usage.Key, units: k.usage.Units, stamp: stamp, event: ref.Index,
	}
}

// place finds where the event counts now and adds the change there in a projection.
func (k *correcting) place(t *turn, delta decimal.Decimal) engine.Outcome {
	row := k.original.Subscription
	if row == 0 || row > t.Subscriptions.Len() ||
		t.Subscriptions.Read(row).Customer != k.owner {
		return engine.OutcomeDone // nothing counted it
	}
	l, ok := t.Advanced(row, k.now)
	if !ok {
		return engine.OutcomeDeferred
	}
	at, stands := l.SpotOf(k.original.counted())
	switch stands {
	case lifecycle.Nowhere:
		return engine.OutcomeDone
	case lifecycle.Gone:
		return engine.OutcomeUsageFinal
	}
	held := t.Customers.Read(k.owner).Held
	if at.Forced = k.forced; held {
		at.Held = t.Held.Units(k.owner, l.Row, k.original.Feature, k.now)
	}
	outcome := l.Add(at, k.original.Feature, delta, k.now)
	if outcome.Refused() {
		return outcome
	}
	if at.Closed == nil && held && !k.forced {
		if outcome = k.beside(l, at.Held, delta); outcome.Refused() {
			return outcome
		}
	}
	k.projection, k.Spot = l, at
	return engine.OutcomeDone
}

// beside compares the counter plus held units with the limit.
func (k *correcting) beside(l *lifecycle.Projection, beside, delta decimal.Decimal) engine.Outcome {
	at := l.PlaceOf(lifecycle.Spot{}, k.original.Feature)
	u := usage{held: beside}
	n := &l.Counters[at.Counter-l.Sub.FirstCounter]
	return u.compare(at.Feature, decimal.Max(n.Reading(at.Feature), n.Next), delta)
}

// spot is where a recorded event counts. stands is false where it counts nowhere any more, or place
// defers it.
func (k *correcting) spot(t *turn) (l *lifecycle.Projection, at lifecycle.Spot, stands bool) {
	row := k.original.Subscription
	if row == 0 || row > t.Subscriptions.Len() || t.Subscriptions.Read(row).Customer != k.owner {
		return nil, at, false
	}
	l, ok := t.Advanced(row, k.now)
	if !ok {
		return nil, at, false
	}
	at, state := l.SpotOf(k.original.counted())
	return l, at, state != lifecycle.Nowhere && state != lifecycle.Gone
}

// fits is how many more units of a recorded event an ordinary event could count, where it counts.
func (k *correcting) fits(t *turn, units decimal.Decimal) decimal.Decimal {
	if units.Sign() <= 0 {
		return units
	}
	l, at, stands := k.spot(t)
	if !stands {
		return units
	}
	p := l.PlaceOf(at, k.original.Feature)
	if f, used, held := k.compared(t, l, at); f.HasMax && f.Hard {
		units = decimal.Min(units, sums.Remaining(f.Max, sums.Of(used, held)))
	}
	if p.Credited() && !p.Feature.Credits.Fallback {
		purse := t.PurseOf(k.owner, p.Feature.Credits.Pool, k.now)
		_, kept := t.reservedOf(k.owner, p, k.now)
		purse.Keep(kept)
		units = decimal.Min(units, purse.Coverable(units, &p.Feature.Credits))
	}
	return units
}

// compared is what the limit compares where the event counts, and its feature there.
func (k *correcting) compared(t *turn, l *lifecycle.Projection, at lifecycle.Spot) (
	f *catalogs.PlanFeature, used, held decimal.Decimal,
) {
	p, present := l.PlaceOf(at, k.original.Feature), true
	if f = p.Feature; at.Closed != nil {
		used, f, present = l.Compared(at.Closed, k.original.Feature)
	} else {
		n := &l.Counters[p.Counter-l.Sub.FirstCounter]
		if used = n.Reading(f); at.Ahead && !f.Accumulate {
			used = n.Next
		}
	}
	if present {
		held = t.Held.Units(k.owner, l.Row, k.original.Feature, k.now)
	}
	return f, used, held
}

// lacks is what there is where the limit of the event's feature, or its credits, do not admit a
// correction.
func (k *correcting) lacks(t *turn, o engine.Outcome) (r room) {
	if o == engine.OutcomeCreditsEmpty {
		r.rule = rulePool
		left := t.freeCredits(k.owner, k.at, k.now)
		r.ofPool(t.PurseOf(k.owner, k.at.Feature.Credits.Pool, k.now), &left)
		return r
	}
	r.rule = ruleLimit
	if l, ok := t.Advanced(k.original.Subscription, k.now); ok {
		if at, stands := l.SpotOf(k.original.counted()); stands != lifecycle.Gone {
			var f *catalogs.PlanFeature
			f, r.used, r.held = k.compared(t, l, at)
			r.limit = f.Max
		}
	}
	return r
}

// counted returns where the event counted when it was recorded.
func (u *usageEntry) counted() lifecycle.Counted {
	if u.Outcome != engine.OutcomeDone && u.Outcome != engine.OutcomeLimitReached {
		return lifecycle.Counted{}
	}
	return lifecycle.Counted{Feature: u.Feature, Span: u.Span, Period: u.Period, Ahead: u.Ahead}
}

// correct applies the correction to the counter, the key's record and the journal.
func (t *turn) correct(k *correcting, kind journal.Kind, entry correctionEntry) {
	if k.projection != nil {
		t.Commit(k.projection)
		t.recredited(k)
		t.Above(k.projection.Row)
	}
	if k.row == 0 {
		k.row = t.takeCorrection()
		t.correctionByKey.Insert(t.IDHash(&k.key), k.row)
		if t.LastCorrection == 0 {
			t.FirstCorrection = k.row
		} else {
			t.corrections.Write(t.LastCorrection).next = k.row
		}
		t.LastCorrection = k.row
	} else {
		k.next = t.corrections.Read(k.row).next
	}
	k.covered = k.newly.Paid
	*t.corrections.Write(k.row) = k.correction
	list := credits.DrawList{Draws: k.newly.Draws}
	draws := wire.Encode(nil, &list)
	if k.budget != nil {
		list.Budget = t.budgets.Correct(&t.Runner, k.budget)
	}
	list.Cost, list.HasCost = entry.Cost, entry.HasCost
	overrun := k.overrun()
	entry.HadOverrun = !overrun.IsZero()
	if entry.Delta.Sign() < 0 {
		overrun = sums.Remaining(overrun, entry.Delta.Neg())
	}
	list.Overrun = sums.Of(overrun, k.beyond)
	if entry.Overrun = list.Overrun; !entry.HadOverrun && !list.Overrun.IsZero() {
		t.m.overruns.Add(1)
	}
	t.correctionDraws.Write(k.row).Data = string(wire.Encode(nil, &list))
	t.expireCorrections()
	t.FoldDecimal(k.units)
	entry.RecordedAt, entry.Original, entry.Ahead = k.now, k.original, k.Ahead
	entry.Counted, entry.Span = k.projection != nil, k.Span
	entry.Covered, entry.Draws = sums.Difference(k.newly.Paid, k.was.Paid), draws
	t.m.journal.Append(journal.Record{
		Kind: kind, Index: t.Index, Position: t.Entry.Place(t.Position), Owner: k.owner,
		At: k.usage.OccurredAt, Payload: wire.Encode(nil, &entry),
	})
}

// overrun are the event's units that did not fit beyond a reservation, after its corrections so
// far.
func (k *correcting) overrun() decimal.Decimal {
	if k.stored {
		return k.text.Overrun
	}
	return k.original.Overrun
}

// takeCorrection returns a free row.
func (t *turn) takeCorrection() (row uint32) {
	if row = t.FreeCorrection; row != 0 {
		t.FreeCorrection = t.corrections.Read(row).next
		return row
	}
	row, _ = t.corrections.Append()
	t.correctionDraws.Append()
	return row
}

// correctionsDropped bounds the expired corrections that one correction drops.
const correctionsDropped = 4

// expireCorrections drops corrections whose keys were dropped: their events are older than their
// first correction.
func (t *turn) expireCorrections() {
	for range correctionsDropped {
		row := t.FirstCorrection
		if row == 0 || row == t.LastCorrection {
			return
		}
		c := t.corrections.Read(row)
		if !c.forgettable(t) {
			return
		}
		t.correctionByKey.Remove(t.IDHash(new(c.key)), row)
		t.FirstCorrection = c.next
		*t.corrections.Write(row) = correction{next: t.FreeCorrection}
		t.correctionDraws.Write(row).Data = ""
		t.FreeCorrection = row
	}
}

func (s *state) correctionWith(key *[16]byte) uint32 {
	return s.correctionByKey.Find(s.IDHash(key), func(row uint32) bool {
		return s.corrections.Read(row).key == *key
	})
}

// correctionEntry is the payload of a KindVoid or KindAmend record.
type correctionEntry struct {
	Reason     string          `wire:"1"`
	Delta      decimal.Decimal `wire:"2"`
	Units      decimal.Decimal `wire:"3"` // the change, and an amendment's new quantity
	RecordedAt int64           `wire:"4"`
	// Counted reports whether the change counted: in Span, or, if Ahead is set, in the period after
	// it.
	Counted  bool       `wire:"5"`
	Ahead    bool       `wire:"6"`
	Span     uint32     `wire:"7"`
	Original usageEntry `wire:"8"`
	// Covered is the change of the units that credits pay, Draws the credits burnt now (a
	// DrawList).
	Covered decimal.Decimal `wire:"9"`
	Draws   []byte          `wire:"10"`
	// HasCost is set where a settlement has stated what the event costs the provider, now or in a
	// correction before. Cost is all of it, CostChange the change; else they follow from Original.
	HasCost    bool            `wire:"11"`
	Cost       decimal.Decimal `wire:"12"`
	CostChange decimal.Decimal `wire:"13"`
	// Overrun are the event's units that did not fit beyond a reservation, after the correction;
	// HadOverrun is set where there were some before.
	Overrun    decimal.Decimal `wire:"14"`
	HadOverrun bool            `wire:"15"`
	// Meta is that of the settlement which has amended the event.
	Meta []byte `wire:"16"`
}
