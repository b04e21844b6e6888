package billing_test

import (
	"math/big"
	"slices"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// projectionHold is a reservation of one feature, by the oracle.
type projectionHold struct {
	p                *person
	key, feature     string
	of               *enginetest.OracleSubscription
	subscription     [16]byte
	granted, settled decimal.Decimal
	madeAt           int64
	expiresAt        int64
	row              uint32 // those of one instant expire in the order of their rows
	bills            bool
	state            billing.ReservationState
	billed           *recorded // what expiry billed
}

// held is what it holds.
func (v *projectionHold) held() decimal.Decimal {
	if v.state != billing.ReservationOpen || v.granted.Less(v.settled) {
		return decimal.Decimal{}
	}
	return plus(v.granted, v.settled.Neg())
}

// advance brings the oracle to now: each reservation ends at its instant, when the subscriptions
// are as of then. So are the interim invoices to which that leads.
func (h *projections) advance() {
	for {
		var first *projectionHold
		for _, v := range h.holds {
			if v.state == billing.ReservationOpen && v.expiresAt <= h.now() &&
				(first == nil || v.expiresAt < first.expiresAt ||
					v.expiresAt == first.expiresAt && v.row < first.row) {
				first = v
			}
		}
		if first == nil {
			break
		}
		h.tick() // then what it holds becomes usage
		first.p.oracle.Advance(first.expiresAt)
		units := first.held()
		if first.state = billing.ReservationExpired; first.bills && units.Sign() > 0 {
			first.state = billing.ReservationBilled
			var leads bool
			first.billed, leads = h.settles(
				first, first.of, units, first.expiresAt, first.expiresAt)
			if leads {
				first.of.Above(first.expiresAt)
			}
		}
	}
	for _, p := range h.people {
		p.oracle.Advance(h.now())
	}
}

// settles notes an event of a reservation at a subscription; nil: at none. It occurred at an
// instant, and is recorded now; where the plan of then has lost the feature, it counts where it was
// reserved. leads is as of Count.
func (h *projections) settles(
	v *projectionHold, of *enginetest.OracleSubscription, units decimal.Decimal, at, now int64,
) (e *recorded, leads bool) {
	e = &recorded{stamp: h.l.Stamp, held: true}
	if v.state != billing.ReservationExpired && !of.CarriesAt(v.feature, at) {
		at = v.madeAt
	}
	if of == nil {
		e.OracleEvent = &enginetest.OracleEvent{Feature: v.feature, Units: rat(units), At: at}
	} else {
		e.OracleEvent, leads = of.Count(v.feature, rat(units), at, now)
	}
	v.settled = plus(v.settled, units)
	v.p.events = append(v.p.events, e)
	return e, leads
}

// hold reserves, or does something with one of the newest reservations.
func (h *projections) hold(p *person) {
	h.advance()
	if len(h.holds) == 0 || rapid.IntRange(0, 2).Draw(h.t, "new") == 0 {
		h.reserve(p)
		return
	}
	v := h.holds[len(h.holds)-1-rapid.IntRange(0, min(3, len(h.holds)-1)).Draw(h.t, "hold")]
	id := enginetest.ID("reservation " + v.key)
	if _, kept := h.m.Reservation(enginetest.Sandbox, id, h.l.Stamp); !kept { // closed long ago
		require.NotEqual(h.t, billing.ReservationOpen, v.state)
		return
	}
	switch rapid.IntRange(0, 5).Draw(h.t, "with it") {
	case 0:
		r := h.l.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{
			Env: enginetest.Sandbox, ID: id,
		})
		switch v.state {
		case billing.ReservationSettled, billing.ReservationBilled:
			h.expect(engine.OutcomeReservationClosed, r)
		default:
			h.expect(engine.OutcomeDone, r)
			if v.state == billing.ReservationOpen {
				v.state = billing.ReservationReleased
			}
		}
	case 1:
		h.extend(v, id)
	default:
		h.settleHold(v, id)
	}
}

func (h *projections) reserve(p *person) {
	v := &projectionHold{
		p: p, key: h.mint(), feature: rapid.SampledFrom(projectionFeatures).Draw(h.t, "feature"),
		bills: rapid.Bool().Draw(h.t, "bills"), state: billing.ReservationOpen,
	}
	c := enginetest.Reservation(v.key, p.name, v.feature, 1)
	c.Items[0].Units, c.SettleOnExpiry = plus(h.units(), decimal.FromInt(1)), v.bills
	c.TTLMS = rapid.SampledFrom([]int64{60_000, 3_600_000, dayMS}).Draw(h.t, "ttl")
	held := map[*enginetest.OracleSubscription]decimal.Decimal{}
	for _, s := range p.oracle.Subscriptions {
		held[s] = h.heldOf(s, v.feature)
	}
	r := h.l.Do(billing.KindReserve, c)
	fits := func(s *enginetest.OracleSubscription) bool { // or it is not known
		room, _, known := s.Room(v.feature, rat(held[s]))
		return !known || room == nil || room.Cmp(rat(c.Items[0].Units)) >= 0
	}
	switch {
	case r.Outcome == engine.OutcomeReservationShort && h.limited:
		if len(p.ids) == 1 {
			room, _, known := p.oracle.Subscriptions[0].Room(v.feature, rat(held[p.oracle.Subscriptions[0]]))
			require.True(h.t, !known || room.Cmp(rat(c.Items[0].Units)) < 0, "%v are left", room)
		}
		return
	case r.Outcome != engine.OutcomeDone: // no subscription that is active has it
		h.expect(engine.OutcomeNotEntitled, r)
		return
	}
	view, ok := h.m.Reservation(enginetest.Sandbox, c.ID, h.l.Stamp)
	require.True(h.t, ok)
	v.subscription = view.Items[0].SubscriptionID
	v.of = p.oracle.Subscriptions[slices.Index(p.ids, v.subscription)]
	require.True(h.t, v.of.Carries(v.feature))
	require.True(h.t, fits(v.of), "used and held pass the limit")
	v.granted, v.madeAt, v.expiresAt = c.Items[0].Units, h.now(), h.now()+c.TTLMS
	v.row = billing.ReservationRow(h.m, enginetest.Sandbox, c.ID)
	h.holds = append(h.holds, v)
}

func (h *projections) extend(v *projectionHold, id [16]byte) {
	ttl := rapid.SampledFrom([]int64{60_000, dayMS}).Draw(h.t, "ttl")
	r := h.l.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: enginetest.Sandbox, ID: id, TTLMS: ttl,
	})
	if v.state != billing.ReservationOpen {
		h.expect(engine.OutcomeReservationClosed, r)
		return
	}
	h.expect(engine.OutcomeDone, r)
	view, ok := h.m.Reservation(enginetest.Sandbox, id, h.l.Stamp)
	require.True(h.t, ok)
	last := view.CreatedAt + dayMS // in all
	v.expiresAt = max(v.expiresAt, min(h.now()+ttl, last))
	require.Equal(h.t, v.expiresAt, view.ExpiresAt)
}

// settleHold settles a part or for good: an ordinary event once it has expired, an amendment of
// what expiry billed.
func (h *projections) settleHold(v *projectionHold, id [16]byte) {
	if h.limited && v.state == billing.ReservationExpired {
		return // an ordinary event, which chooses its subscription by what limits leave
	}
	c := &billing.SettleReservation{
		Env: enginetest.Sandbox, ID: id, Partial: rapid.Bool().Draw(h.t, "part"),
		Items: []billing.SettleItem{{Units: h.units()}},
	}
	if v.state == billing.ReservationBilled {
		for _, key := range h.m.ReservationEventKeys(c.Env, id) {
			ref, found, err := h.m.FindUsage(h.src, h.src, c.Env, key)
			require.NoError(h.t, err)
			if found {
				c.Originals = append(c.Originals, ref)
			}
		}
	}
	delta := plus(c.Items[0].Units, v.settled.Neg())
	if v.state == billing.ReservationBilled && c.Partial && delta.Sign() < 0 {
		delta = decimal.Decimal{} // a part takes nothing back
	}
	at := h.now()
	if rapid.Bool().Draw(h.t, "of another time") {
		at += rapid.OneOf(rapid.Int64Range(-6*dayMS, 0), rapid.Int64Range(-1000, 299_000)).Draw(
			h.t, "occurred")
		c.OccurredAt = at
	}
	late := h.chosen(v.p, v.feature, at)
	r := h.l.Do(billing.KindSettleReservation, c)
	final := func() {
		if !c.Partial {
			v.state = billing.ReservationSettled
		}
	}
	switch {
	case v.state == billing.ReservationReleased,
		v.state == billing.ReservationSettled && delta.Sign() > 0:
		h.expect(engine.OutcomeReservationClosed, r)
	case v.state == billing.ReservationSettled:
		h.expect(engine.OutcomeDone, r)
	case v.state == billing.ReservationBilled && r.Outcome == engine.OutcomeReservationPeriod:
		require.NotZero(h.t, c.OccurredAt)
	case v.state == billing.ReservationBilled:
		h.amendHold(v, r, delta, final)
	case delta.Sign() < 0 && !c.Partial && v.state == billing.ReservationOpen:
		h.expect(engine.OutcomeSettledMore, r)
	default:
		h.expect(engine.OutcomeDone, r)
		of := v.of
		if v.state == billing.ReservationExpired {
			of = late
		}
		if delta.Sign() > 0 {
			if _, leads := h.settles(v, of, delta, at, h.now()); leads {
				of.Above(h.now())
			}
		}
		final()
	}
}

// amendHold notes what became of a settlement of what expiry billed. Too old an event is final.
func (h *projections) amendHold(
	v *projectionHold, r engine.Result, delta decimal.Decimal, final func(),
) {
	e := v.billed
	units := new(big.Rat).Add(e.Units, rat(delta))
	if units.Sign() < 0 {
		require.True(h.t, r.Outcome.Refused())
		return
	}
	old := h.l.Stamp-e.stamp >= 7*dayMS || h.now()-e.At >= 7*dayMS
	if old && (r.Outcome == engine.OutcomeUsageFinal ||
		r.Outcome == engine.OutcomeReservationBilled) {
		return
	}
	h.expect(engine.OutcomeDone, r)
	if !delta.IsZero() {
		e.Correct(units, h.now())
		v.settled = plus(v.settled, delta)
	}
	final()
}

// compareHolds: what checks say is held is the sum of the open reservations, which are settled at
// what their events add up to.
func (h *projections) compareHolds() {
	require.NoError(h.t, billing.HeldAddsUp(h.m))
	require.NoError(h.t, billing.SettledAddsUp(h.m, h.src, nil))
	for _, v := range h.holds {
		view, ok := h.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation "+v.key), h.l.Stamp)
		if !ok { // closed long ago
			require.NotEqual(h.t, billing.ReservationOpen, v.state)
			continue
		}
		if view.State != billing.ReservationOpen || view.ExpiresAt > h.now() { // else a tick is to come
			require.Equal(h.t, v.settled, view.Items[0].Settled, v.key)
			require.Equal(h.t, v.held(), view.Items[0].Held, v.key)
			require.Equal(h.t, v.state.String(), view.State.String(), v.key)
		}
	}
}
