package billing

import (
	"bytes"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/charging"
	"tollgate/engine/billing/internal/credits"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/wire"
)

// aheadMS is how far ahead of its environment's clock an event may occur: 5 minutes.
const aheadMS = 5 * 60 * 1000

// Apply implements machine.Op.
func (c *RecordUsage) Apply(t *turn) engine.Outcome {
	if outcome := c.used(t); outcome != engine.OutcomeNone {
		return outcome
	}
	if bytes.HasPrefix(c.KeyText, []byte(holds.EventPrefix)) && t.Held.Owns(c.Env, c.KeyText) {
		return engine.OutcomeEventKeyReserved
	}
	if c.payload != nil {
		t.Payload = c.payload
	}
	e := t.Environment(c.Env)
	if e == nil {
		return engine.OutcomeAccountUnknown
	}
	if t.Limits.Load().Full(t.keys.Present(), t.keys.Held(uint32(accounts.FlowOf(c.Env)))) {
		return engine.OutcomeKeysFull
	}
	now := e.Now(t.Stamp)
	if outcome := t.timely(e, c.OccurredAt, now); outcome != engine.OutcomeDone {
		return outcome
	}
	if c.Units.Sign() < 0 || c.Cost.Sign() < 0 {
		return engine.OutcomeOverflow
	}
	catalog := e.Catalog.Load()
	customer, outcome := c.customer(t)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	if !t.AdvanceCustomer(customer, now) {
		return engine.OutcomeDeferred
	}
	if c.Bindings != 0 && c.Bindings != e.Bindings() {
		return engine.OutcomeKeyRebound
	}
	row := t.Customers.Read(customer)
	budgeted := row.Budgeted || len(c.Budget) > 0 || c.KeyBudget != 0
	if budgeted {
		t.budgets.Prefetch(customer)
		if !t.ExpireHolds(e, now) {
			return engine.OutcomeDeferred
		}
	}
	feature, outcome := c.feature(catalog)
	if outcome != engine.OutcomeDone {
		return outcome
	}
	at, outcome := c.place(t, catalog, usageTarget{customer, feature, now})
	if outcome != engine.OutcomeDone {
		return outcome
	}
	if t.archived(customer, at.Place) {
		return engine.OutcomeCustomerArchived
	}
	// Assigned one by one: copying a composite literal stalls on store forwarding (bench/JOURNAL).
	var u usage
	u.customer, u.feature, u.place, u.recordedAt = customer, at.number, at.Place, now
	if row.Held {
		u.held, u.kept = t.reservedOf(customer, at.Place, now)
	}
	if outcome = u.price(c, catalog.Feature(at.number)); outcome != engine.OutcomeDone {
		return outcome
	}
	if outcome = u.count(t, c); outcome.Refused() {
		return outcome
	}
	if u.place.Credited() {
		u.burning, outcome = t.PlanBurn(u.place, u.need(c.Units), now)
		if outcome.Refused() {
			return outcome
		}
	}
	if budgeted {
		if outcome = u.charge(t, c); outcome != engine.OutcomeDone {
			return outcome
		}
	}

	t.record(c, &u)
	if at.number == 0 {
		t.NoteUnmatched(e, c.name(), now)
	}
	return u.outcome
}

// used decides by the key. OutcomeNone means that it is unused, in memory and on disk. A verdict
// that omits keys that have left memory since must be made again.
func (c *RecordUsage) used(t *turn) engine.Outcome {
	if c.hash == 0 {
		c.hash = t.keys.Hash(c.Key)
	}
	if slot, found := t.keys.Find(c.Key, c.hash); found {
		return c.repeated(slot)
	}
	if t.TakenKeys > 0 && t.Held.Took(&c.Key) {
		return engine.OutcomeKeyReused
	}
	span := t.keys.Present()
	v := &c.verdict
	switch {
	case span.OnDisk() == 0:
		return engine.OutcomeNone
	case v.Found && v.Number >= span.Base && v.Number < span.Memory:
		return c.repeated(v.Slot)
	case v.Through < span.Memory:
		return engine.OutcomeKeyUnproven
	}
	return engine.OutcomeNone
}

// repeated returns the outcome of a used key.
func (c *RecordUsage) repeated(slot idempotency.Slot) engine.Outcome {
	switch {
	case slot.Attempt == c.Attempt && c.Attempt != 0:
		return engine.Outcome(slot.Outcome)
	case slot.Fingerprint == c.Fingerprint:
		return engine.OutcomeDuplicate
	}
	return engine.OutcomeKeyReused
}

// timely checks occurredAt: at most 5 minutes ahead, and not so old that its key may have been
// dropped.
func (t *turn) timely(e *accounts.Environment, occurredAt, now int64) engine.Outcome {
	if occurredAt > now+aheadMS {
		return engine.OutcomeOccurredTooLate
	}
	if occurredAt < now-t.Limits.Load().WindowMS || occurredAt < e.Now(t.Floor) {
		return engine.OutcomeOccurredTooEarly
	}
	return engine.OutcomeDone
}

// customer finds the row of the event's customer.
func (c *RecordUsage) customer(t *turn) (row uint32, outcome engine.Outcome) {
	if c.CustomerID != ([16]byte{}) && len(c.Customer) > 0 {
		return 0, engine.OutcomeIDsContradict
	}
	if row = c.row; row == 0 {
		row = c.customerRow(t.state)
	}
	if row == 0 {
		return 0, engine.OutcomeCustomerUnknown
	}
	return row, engine.OutcomeDone
}

func (c *RecordUsage) customerRow(s *state) uint32 {
	if c.CustomerID != ([16]byte{}) {
		return s.CustomerIn(c.Env, &c.CustomerID)
	}
	return s.CustomerNamed(c.Env, c.Customer)
}

// feature resolves the feature by id, else by key, else by the event's name. An unknown key does
// not fall back to the name: number 0, recorded and unpriced.
func (c *RecordUsage) feature(catalog *catalogs.Catalog) (number uint32, outcome engine.Outcome) {
	switch {
	case c.FeatureID != ([16]byte{}):
		if number = catalog.FeatureByID[c.FeatureID]; number == 0 {
			return 0, engine.OutcomeFeatureUnknown
		}
	case len(c.FeatureKey) > 0:
		number = catalog.FeatureByKey[string(c.FeatureKey)]
	default:
		number = catalog.FeatureNamed(c.EventName)
	}
	return number, engine.OutcomeDone
}

// name returns the event's name of its feature.
func (c *RecordUsage) name() []byte {
	if len(c.FeatureKey) > 0 {
		return c.FeatureKey
	}
	return c.EventName
}

// archived reports whether a place's customer is archived and takes no usage: all its subscriptions
// have ended.
func (t *turn) archived(customer uint32, at book.Place) bool {
	if at.Found() && t.Subscriptions.Read(at.Subscription).ColdPart == 0 {
		return false // a usual subscription has not ended
	}
	return t.Customers.Read(customer).Archived
}

// usage is a usage event that is being applied.
type usage struct {
	customer, feature uint32
	place             book.Place
	recordedAt        int64
	hasCost           bool
	cost              decimal.Decimal
	// before is the counter's value, counted its new one; ahead reports whether the event belongs to
	// the next period.
	before, counted book.Counter
	ahead           bool
	// span is where the event counts; late is the projection that counted it, if that span is closed.
	span    uint32
	late    *lifecycle.Projection
	spot    lifecycle.Spot
	outcome engine.Outcome
	burning credits.Burning
	// held and kept are the units and credits in reservations.
	held, kept decimal.Decimal
	// settling is the reservation that the event settles, in part or whole; nil: none. forced is
	// set if it reserved the units, so that nothing refuses them; overrun is what did not fit
	// beyond that.
	settling settler
	forced   bool
	overrun  decimal.Decimal
	// charged is what it counts in budgets; nil: in none.
	charged *charging.Charge
}

// charge finds what the event counts in budgets, and asks their limits.
func (u *usage) charge(t *turn, c *RecordUsage) (outcome engine.Outcome) {
	u.charged, outcome = t.budgets.Plan(&t.Runner, &charging.Usage{
		For: charging.For{
			Env: c.Env, Customer: u.customer, Named: c.Budget, KeyNode: c.KeyBudget,
		},
		Feature: u.feature, Place: u.place, Ahead: u.ahead, Late: u.late, Spot: u.spot,
		Units: c.Units, Covered: u.burning.Covered, Cost: u.cost, Now: u.recordedAt,
	})
	return outcome
}

// need returns what the event needs of credits.
func (u *usage) need(units decimal.Decimal) *credits.Need {
	return &credits.Need{Customer: u.customer, Units: units, Kept: u.kept, Forced: u.forced}
}

// price computes the provider's cost if the event does not state it.
func (u *usage) price(c *RecordUsage, f *catalogs.Feature) engine.Outcome {
	switch {
	case c.HasCost:
		u.cost, u.hasCost = c.Cost, true
	case f != nil && f.Document.HasCost:
		cost, ok := c.Units.Mul(f.Document.CostPerUnit)
		if !ok {
			return engine.OutcomeOverflow
		}
		u.cost, u.hasCost = cost, true
	}
	return engine.OutcomeDone
}

// count computes the counter's new value and compares it with the limit.
func (u *usage) count(t *turn, c *RecordUsage) engine.Outcome {
	if u.place.Feature == nil {
		u.outcome = engine.OutcomeUnpriced
		return u.outcome
	}
	f, k := u.place.Feature, t.Keeper.S
	b := k.Subscriptions.Read(u.place.Subscription)
	span, spanStart := b.Period, b.PeriodStart
	if b.ColdPart != 0 {
		cold := k.Subscriptions.Cold(u.place.Subscription)
		span, spanStart = cold.Span, cold.SpanStart
		if cold.EndedAt != 0 {
			return u.countLate(t, c)
		}
	}
	if c.OccurredAt < spanStart && b.FirstSpan != 0 {
		return u.countLate(t, c)
	}
	u.before, u.span = k.Counters.Read(u.place.Counter), span
	u.counted = u.before
	u.ahead = c.OccurredAt >= b.PeriodEnd
	sum := &u.counted.Used
	if u.ahead {
		sum = &u.counted.Next
	}
	var ok bool
	if *sum, ok = sum.Add(c.Units); !ok || !f.Billable(*sum) {
		return engine.OutcomeOverflow
	}
	total := *sum
	if f.Accumulate {
		if total, ok = u.counted.Used.Add(u.counted.Next); !ok {
			return engine.OutcomeOverflow
		}
	}
	u.outcome = u.compare(f, total, c.Units)
	return u.outcome
}

// compare compares a total, which includes the event's units, with the limit: used and held units
// together must not exceed it, and used units reach it.
func (u *usage) compare(
	f *catalogs.PlanFeature, total, units decimal.Decimal,
) engine.Outcome {
	if u.forced {
		units = decimal.Decimal{}
	}
	return f.CompareWithHeld(total, u.held, units)
}

// settler learns that a usage event which settles a reservation was counted.
type settler interface {
	reservation() [16]byte
	// took is called under the customer's lock. It does not get the usage, which stays on the
	// stack.
	took(t *turn, draws []credits.Draw)
}

// countLate counts an event that occurred before the present span, or in an ended subscription.
func (u *usage) countLate(t *turn, c *RecordUsage) engine.Outcome {
	l := t.OpenProjection(u.place.Subscription)
	t.Spend(2 * l.Weight())
	at, found := l.SpotAt(c.OccurredAt, u.feature)
	if !found {
		u.place = book.Place{Subscription: u.place.Subscription}
		u.outcome = engine.OutcomeUnpriced
		return u.outcome
	}
	at.Forced, at.Held = u.forced, u.held
	u.late, u.spot, u.span, u.ahead = l, at, at.Span, at.Ahead
	u.outcome = l.Add(at, u.feature, c.Units, u.recordedAt)
	return u.outcome
}

// record writes the event: counter, key, journal.
func (t *turn) record(c *RecordUsage, u *usage) {
	switch {
	case u.late != nil:
		u.late.Cover(u.spot, u.feature, u.burning.Covered)
		t.Commit(u.late)
		t.Above(u.place.Subscription)
		if u.place.Credited() {
			lock := t.Stripe(u.customer)
			lock.Lock()
			t.Burn(u.place, &u.burning, u.recordedAt)
			lock.Unlock()
		}
	case u.place.Feature != nil:
		k := t.Keeper.S
		watched := u.outcome == engine.OutcomeLimitReached || u.place.Feature.Watched
		lock := k.Stripe(u.customer)
		lock.Lock()
		k.Counters.Write(u.place.Counter, &u.counted)
		if u.place.Credited() {
			t.Burn(u.place, &u.burning, u.recordedAt)
			t.Cover(u.place.Counter, u.burning.Covered, u.ahead)
		}
		if u.settling != nil {
			u.settling.took(t, u.burning.Draws)
		}
		lock.Unlock()
		high, low := u.counted.Used.Bits()
		t.Fold(uint64(high) ^ low)
		high, low = u.counted.Next.Bits()
		t.Fold(uint64(u.place.Counter)<<32 ^ uint64(high) ^ low)
		if watched {
			f := u.place.Feature
			t.EmitReached(u.place, u.before.Reading(f), u.counted.Reading(f), u.recordedAt)
		}
		if u.place.Feature.Interim {
			t.Above(u.place.Subscription)
		}
	}
	if u.settling != nil && (u.late != nil || u.place.Feature == nil) {
		lock := t.WriteLock(u.customer)
		u.settling.took(t, u.burning.Draws)
		lock.Unlock()
	}
	if u.charged != nil {
		// In the windows of now, even if an expired reservation is billed: others may have begun them.
		t.budgets.Count(&t.Runner, u.customer, u.charged, t.Environment(c.Env).Now(t.Stamp))
	}
	t.keys.Add(c.Key, c.hash, idempotency.Slot{
		Attempt: c.Attempt, Fingerprint: c.Fingerprint, Outcome: uint8(u.outcome),
	}, t.Stamp, uint32(accounts.FlowOf(c.Env)))
	t.recorded++
	if !u.overrun.IsZero() {
		t.m.overruns.Add(1)
	}
	t.m.journal.Append(journal.Record{
		Kind: journal.KindUsage, Index: t.Index, Position: t.Entry.Place(t.Position),
		Owner: u.customer, At: c.OccurredAt, Payload: t.usagePayload(u),
	})
}

// usagePayload encodes the journal record of an event, in memory that the next one reuses.
func (t *turn) usagePayload(u *usage) []byte {
	e := &t.m.scratch.usage
	// Cleared and assigned one by one: copying a composite literal stalls on store forwarding
	// (bench/JOURNAL).
	*e = usageEntry{}
	e.Subscription, e.Feature, e.Outcome = u.place.Subscription, u.feature, u.outcome
	e.RecordedAt, e.HasCost, e.Cost, e.Record = u.recordedAt, u.hasCost, u.cost, t.Payload
	e.Covered, e.Span, e.Ahead, e.Overrun = u.burning.Covered, u.span, u.ahead, u.overrun
	if u.settling != nil {
		e.Reservation = u.settling.reservation()
	}
	if u.place.Subscription != 0 {
		e.Period = t.Subscriptions.Read(u.place.Subscription).Period
		if u.ahead {
			e.Period++
		}
	}
	if u.charged != nil {
		e.Budget = u.charged.Record
	}
	if len(u.burning.Draws) > 0 {
		e.Draws = wire.Encode(nil, &credits.DrawList{Draws: u.burning.Draws})
	}
	t.m.scratch.payload = e.append(t.m.scratch.payload[:0])
	return t.m.scratch.payload
}
