package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// bothItems are images and videos of a reservation.
func bothItems(images, videos int64) []billing.ReserveItem {
	return []billing.ReserveItem{
		{FeatureKey: "images", Units: decimal.FromInt(images)},
		{FeatureKey: "videos", Units: decimal.FromInt(videos)},
	}
}

func settlesBoth(images, videos int64) func(*billing.SettleReservation) {
	return func(c *billing.SettleReservation) {
		c.Items = nil
		for _, i := range bothItems(images, videos) {
			c.Items = append(c.Items, billing.SettleItem{FeatureKey: i.FeatureKey, Units: i.Units})
		}
	}
}

// balance is what the customer's pool has.
func (s *heldSandbox) balance() string {
	return s.m.Pools(1)[0].Balance.String()
}

// TestItemsOfOnePoolBurnWhatTheyHold: 3 credits an image, half a one a video, 100 in all. What the
// one holds is not kept from the other once the reservation goes.
func TestItemsOfOnePoolBurnWhatTheyHold(t *testing.T) {
	for _, settles := range []bool{true, false} {
		s := newHeldSandbox(t)
		c := enginetest.Reservation("r", "ada", "images", 1)
		c.Items, c.SettleOnExpiry = bothItems(20, 80), true // 60 and 40
		s.view(s.Do(billing.KindReserve, c))
		require.Equal(t, "100", s.balance())
		if settles {
			s.view(s.settle("r", 0, settlesBoth(20, 80)))
		} else {
			s.Stamp += 600_000
			_, err := s.Apply(engine.Record{Kind: engine.KindTick})
			require.NoError(t, err)
		}
		require.Equal(t, "0", s.balance())
	}
}

// TestWhatOneItemLeavesTheOtherMayUse: of a reservation that goes; one that stays keeps it.
func TestWhatOneItemLeavesTheOtherMayUse(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "images", 1)
	c.Items, c.RefuseOverrun = bothItems(20, 80), true
	s.view(s.Do(billing.KindReserve, c))
	part := func(c *billing.SettleReservation) { c.Partial = true }
	r := s.settle("r", 0, settlesBoth(10, 81), part) // 30 and 40.5
	require.Equal(t, engine.OutcomeReservationShort.String(), r.Outcome.String())
	var lack billing.Shortage
	require.NoError(t, wire.Decode(r.Value, &lack))
	require.Equal(t, "pool videos 81 of 100", fmt.Sprint(
		lack.Level, " ", lack.FeatureKey, " ", lack.Asked, " of ", lack.Limit))
	require.Equal(t, engine.OutcomeReservationShort.String(),
		s.settle("r", 0, settlesBoth(10, 141)).Outcome.String())
	require.Equal(t, "100", s.balance())
	s.view(s.settle("r", 0, settlesBoth(10, 140)))
	require.Equal(t, "0", s.balance())
}

// TestASettlementByAnEventThatIsThereMayBeRepeated: with the same answer.
func TestASettlementByAnEventThatIsThereMayBeRepeated(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 75)
	require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 60))
	for range 2 {
		v := s.view(s.settle("r", 60, func(c *billing.SettleReservation) { c.EventKey = "mine" }))
		require.True(t, v.Recorded)
		require.Equal(t, "r", v.Key)
		s.used("calls", 60, 0)
	}
	require.Equal(t, engine.OutcomeReservationClosed, s.settle("r", 60).Outcome)
}

// TestAnEventUnderTheKeyTakesTheBilledOnesPlace: the client recorded it by itself, and the
// reservation was billed when it expired.
func TestAnEventUnderTheKeyTakesTheBilledOnesPlace(t *testing.T) {
	s := newHeldSandbox(t)
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
	require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 33))
	s.used("calls", 113, 0)
	settle := func() engine.Result {
		return s.settle("r", 33, s.originals("r"), func(c *billing.SettleReservation) { c.EventKey = "mine" })
	}
	for range 2 {
		require.True(t, s.view(settle()).Recorded)
		s.used("calls", 33, 0)
	}
}

// TestALateSettlementTakesItsKey: the billed event counts for it, so that none is recorded beside
// it under the key, also after a restore, as long as keys are kept.
func TestALateSettlementTakesItsKey(t *testing.T) {
	s := newHeldSandbox(t)
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
	settle := func(units int64, key string, partial bool) engine.Result {
		return s.settle("r", units, s.originals("r"), func(c *billing.SettleReservation) {
			c.EventKey, c.Partial = key, partial
		})
	}
	s.view(settle(40, "first", true))
	s.used("calls", 80, 0)
	s.view(settle(84, "first", true))
	s.used("calls", 84, 0)
	v := s.view(settle(33, "mine", false))
	require.Equal(t, "mine", v.Event)
	require.False(t, v.Recorded)
	s.view(settle(33, "mine", false))
	s.used("calls", 33, 0)
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	for _, key := range []string{"first", "mine"} {
		require.Equal(t, engine.OutcomeKeyReused, s.event(key, "calls", 33))
	}
	s.view(s.reserve("r2", "calls", 10))
	require.True(t, s.view(s.settle("r2", 5, func(c *billing.SettleReservation) {
		c.EventKey = "mine"
	})).Recorded, "another reservation's event is the answer")
	s.used("calls", 33, 0)

	s.Stamp += 90 * 86_400_000
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	for i := range 3 { // events, and new reservations, forget what is old
		s.event(fmt.Sprint("e", i), "calls", 1)
		s.view(s.Do(billing.KindReserve,
			enginetest.Reservation(fmt.Sprint("new", i), "bob", "calls", 1)))
	}
	require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 1))
}

// TestATakenKeyIsKeptAsLongAsEventKeys: from the late settlement on that took it, not from the
// expiry.
func TestATakenKeyIsKeptAsLongAsEventKeys(t *testing.T) {
	const day = 86_400_000
	s := newHeldSandbox(t)
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
	s.Stamp += 6 * day
	s.view(s.settle("r", 33, s.originals("r"), func(c *billing.SettleReservation) { c.EventKey = "mine" }))
	forget := func(round string) { // new reservations forget what is old
		for i := range 3 {
			s.view(s.reserve(fmt.Sprint(round, i), "calls", 1))
			s.release(fmt.Sprint(round, i))
		}
	}
	s.Stamp += 2 * day
	forget("early ")
	require.Equal(t, engine.OutcomeKeyReused, s.event("mine", "calls", 33))
	s.used("calls", 33, 0)
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	s.Stamp += 4 * day
	forget("later ")
	require.Equal(t, engine.OutcomeKeyReused, s.event("mine", "calls", 33))
	s.Stamp += 8 * day
	s.pay()
	forget("late ")
	require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 1))
}

// TestAReservationsKeysAreItsOwn: no event and no settlement takes a key under which the events of
// a reservation are recorded. Keys that only look alike are free.
func TestAReservationsKeysAreItsOwn(t *testing.T) {
	s := newHeldSandbox(t)
	v := s.view(s.reserve("r", "calls", 80))
	s.view(s.reserve("other", "calls", 10))
	own := func(n int) string { return fmt.Sprintf("reservation:%s:%d", uuid.Text(v.ID), n) }
	for range 2 {
		for n := range 4 {
			require.Equal(t, engine.OutcomeEventKeyReserved, s.event(own(n), "calls", 1))
			for _, key := range []string{"r", "other"} {
				for _, partial := range []bool{true, false} {
					require.Equal(t, engine.OutcomeEventKeyReserved,
						s.settle(key, 5, func(c *billing.SettleReservation) {
							c.EventKey, c.Partial = own(n), partial
						}).Outcome)
				}
			}
		}
		s.m = restored(t, enginetest.Snapshot(t, s.m))
		s.Machine = s.m
	}
	s.used("calls", 0, 90)
	for _, key := range []string{
		"reservation:42", "reservation:" + uuid.Text([16]byte{1}) + ":1", own(1)[:48], "r" + own(1),
	} {
		require.Equal(t, engine.OutcomeDone, s.event(key, "calls", 1), key)
	}
	s.view(s.settle("r", 5, func(c *billing.SettleReservation) { c.Partial = true }))
	require.Equal(t, engine.OutcomeKeyReused, s.event(own(1), "calls", 1))
	s.view(s.settle("r", 9))
	require.Equal(t, engine.OutcomeEventKeyReserved, s.event(own(3), "calls", 1))
	s.used("calls", 13, 10)
}

// TestAProposersEventKeyIsTheEngines: whether a proposer makes the key of the first event or Apply
// does, is the same; the others' keys Apply makes.
func TestAProposersEventKeyIsTheEngines(t *testing.T) {
	v := enginetest.ID("reservation r")
	first := billing.FirstEventKey(enginetest.Sandbox, v)
	require.Equal(t, first, billing.UsageKey(enginetest.Sandbox,
		[]byte("reservation:"+uuid.Text(v)+":1")))
	hash := map[bool][2]uint64{}
	for _, proposed := range []bool{false, true} {
		s := newHeldSandbox(t)
		s.view(s.reserve("r", "calls", 80))
		for n := range int64(3) {
			s.view(s.settle("r", n+1, func(c *billing.SettleReservation) {
				if c.Partial = n < 2; proposed {
					c.Own = first
				}
			}))
		}
		hash[proposed] = enginetest.StateHash(s.m)
	}
	require.Equal(t, hash[false], hash[true])
}

// TestCarriedCommandsArePrefetchedAround: one that an operator gives ends no prefetching of those
// behind it.
func TestCarriedCommandsArePrefetchedAround(t *testing.T) {
	s := newHeldSandbox(t)
	var records []engine.Record
	for _, key := range []string{"a", "b", "c"} {
		s.view(s.reserve(key, "calls", 5))
		usage := enginetest.Usage(s.Log, key, "ada", "calls", 1)
		records = append(records,
			engine.Record{Kind: billing.KindRecordUsage, Payload: usage.Seal(nil)},
			record(billing.KindSettleReservation, &billing.SettleReservation{
				Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key),
				Items: []billing.SettleItem{{Units: decimal.FromInt(5)}},
			}))
	}
	for i := range 2 {
		var err error
		records[i], err = s.m.Administered("ops", records[i])
		require.NoError(t, err)
	}
	results, err := s.Apply(records...)
	require.NoError(t, err)
	for i := range results {
		require.Equal(t, engine.OutcomeDone, results[i].Outcome, "%d", i)
	}
	usages, settlements := s.m.Prefetched()
	require.Equal(t, []int{2, 2}, []int{usages, settlements})
}

// TestPartsMayShareAnEventKey: it names the first of them, and all are billed.
func TestPartsMayShareAnEventKey(t *testing.T) {
	for _, bills := range []bool{false, true} {
		s := newHeldSandbox(t)
		c := enginetest.Reservation("r", "ada", "calls", 80)
		c.SettleOnExpiry = true
		s.view(s.Do(billing.KindReserve, c))
		settle := func(units int64, partial bool) engine.Result {
			return s.settle("r", units, s.originals("r"), func(c *billing.SettleReservation) {
				c.EventKey, c.Partial = "mine", partial
			})
		}
		s.view(settle(20, true))
		s.view(settle(30, true))
		s.used("calls", 30, 50)
		s.m = restored(t, enginetest.Snapshot(t, s.m))
		s.Machine = s.m
		if bills {
			s.Stamp += 600_000
			s.DoPayload(engine.KindTick, nil)
			s.used("calls", 80, 0)
		}
		for range 2 {
			require.False(t, s.view(settle(60, false)).Recorded)
			s.used("calls", 60, 0)
		}
		require.Equal(t, engine.OutcomeKeyReused, s.event("mine", "calls", 60))
	}
}

// expireBilled makes a reservation that becomes usage when it expires.
func (s *heldSandbox) expireBilled(c *billing.Reserve, before ...func()) {
	c.SettleOnExpiry = true
	s.view(s.Do(billing.KindReserve, c))
	for _, f := range before {
		f()
	}
	s.Stamp += 600_000
	_, err := s.Apply(engine.Record{Kind: engine.KindTick})
	require.NoError(s.t, err)
}

// originals brings the events by which a reservation was billed, as servers do.
func (s *heldSandbox) originals(key string) func(*billing.SettleReservation) {
	src := &enginetest.Source{Journal: s.m.Journal()}
	return func(c *billing.SettleReservation) {
		for _, key := range s.m.ReservationEventKeys(c.Env, enginetest.ID("reservation "+key)) {
			ref, found, err := s.m.FindUsage(src, nil, c.Env, key)
			require.NoError(s.t, err)
			require.True(s.t, found)
			c.Originals = append(c.Originals, ref)
		}
	}
}

// TestALateSettlementFindsTheBilledEvents: though parts were settled before by events of their own.
func TestALateSettlementFindsTheBilledEvents(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "images", 1)
	c.Items = bothItems(10, 80)
	s.expireBilled(c, func() {
		for _, videos := range []int64{0, 5, 8} {
			s.view(s.settle("r", 0, settlesBoth(10, videos), func(c *billing.SettleReservation) {
				c.Partial = true
			}))
		}
	})
	s.used("videos", 80, 0)
	require.Equal(t, engine.OutcomeReservationClosed.String(),
		s.settle("r", 0, settlesBoth(11, 60), s.originals("r")).Outcome.String())
	s.used("videos", 80, 0)
	s.view(s.settle("r", 0, settlesBoth(10, 60), s.originals("r")))
	s.used("videos", 60, 0)
	s.used("images", 10, 0)
	require.Equal(t, "40", s.balance())
}

// TestALateSettlementLeavesPartsAsTheyAre: also those that are among the newest events.
func TestALateSettlementLeavesPartsAsTheyAre(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "images", 1)
	c.Items = bothItems(10, 80)
	s.expireBilled(c, func() {
		s.view(s.settle("r", 0, settlesBoth(10, 0), func(c *billing.SettleReservation) { c.Partial = true }))
	})
	require.Equal(t, engine.OutcomeReservationClosed.String(),
		s.settle("r", 0, settlesBoth(9, 60), s.originals("r")).Outcome.String())
	s.view(s.settle("r", 0, settlesBoth(10, 60), s.originals("r")))
	s.used("images", 10, 0)
	s.used("videos", 60, 0)
}

// TestWhatExpiryBillsIsInTheInvoiceBehindIt: the journal explains it, although one tick makes both.
func TestWhatExpiryBillsIsInTheInvoiceBehindIt(t *testing.T) {
	s := newHeldSandbox(t)
	s.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: 1, ID: enginetest.ID("invoice ada prepaid"),
	})
	for _, key := range []string{"r1", "r2"} {
		c := enginetest.Reservation(key, "ada", "calls", 80)
		c.SettleOnExpiry = true
		s.view(s.Do(billing.KindReserve, c))
	}
	s.Stamp += 40 * 86_400_000
	for at := s.m.NextDue(); at != 0 && at <= s.Stamp; at = s.m.NextDue() {
		s.DoPayload(engine.KindTick, nil)
	}
	src := &enginetest.Source{Journal: s.m.Journal()}
	v, err := s.m.VerifyInvoices(src, enginetest.Sandbox, []uint32{1})
	require.NoError(t, err)
	require.Empty(t, v.Differences)
	require.Greater(t, v.Invoices, uint64(1))
}

// TestARefusedOverrunIsBilledAtExpiry: the cost has arisen, as much of it as is held.
func TestARefusedOverrunIsBilledAtExpiry(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 450)
	c.RefuseOverrun = true
	s.view(s.Do(billing.KindReserve, c))
	r := s.settle("r", 501)
	require.Equal(t, engine.OutcomeReservationShort, r.Outcome)
	var lack billing.Shortage
	require.NoError(t, wire.Decode(r.Value, &lack))
	require.Equal(t, billing.Shortage{
		Level: "limit", FeatureKey: "calls", Asked: decimal.FromInt(501), Limit: decimal.FromInt(500),
		LogIndex: s.Index, Stays: true,
	}, lack)
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	s.Stamp += 600_000
	_, err := s.Apply(engine.Record{Kind: engine.KindTick})
	require.NoError(t, err)
	s.used("calls", 450, 0)
}

// TestExtendingAsksForWhatIsMissing: not for what was settled beyond the hold.
func TestExtendingAsksForWhatIsMissing(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 100)
	s.settle("r", 480, func(c *billing.SettleReservation) { c.Partial = true })
	extend := func(units int64) engine.Result {
		return s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
			Env: enginetest.Sandbox, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(units),
		})
	}
	require.Equal(t, "r", s.view(extend(470)).Key)
	s.used("calls", 480, 0)
	s.view(extend(500))
	s.used("calls", 480, 20)
	require.Equal(t, engine.OutcomeReservationShort, extend(501).Outcome)
}

// TestWhatHasExpiredTakesNoRoom: though no tick has come, of another customer's reservations too.
func TestWhatHasExpiredTakesNoRoom(t *testing.T) {
	s := newHeldSandbox(t)
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	s.Do(billing.KindSetLimits, &billing.SetLimits{EnvironmentHolds: 1})
	s.view(s.Do(billing.KindReserve, enginetest.Reservation("b", "bob", "calls", 1)))
	require.Equal(t, engine.OutcomeHoldLimit, s.reserve("r", "calls", 1).Outcome)
	s.Stamp += 600_000
	s.view(s.reserve("r", "calls", 1))
}

// TestAClosedReservationIsReadWhileOthersClose: it leads to the one that is closed after it, which
// is another customer's.
func TestAClosedReservationIsReadWhileOthersClose(t *testing.T) {
	s := newHeldSandbox(t)
	enginetest.NewCustomer(s.Log, "bob", "prepaid")
	s.view(s.reserve("r0", "calls", 1))
	for i := range 50 {
		s.view(s.Do(billing.KindReserve, enginetest.Reservation(fmt.Sprint("b", i), "bob", "calls", 1)))
	}
	s.view(s.release("r0"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 1000 {
			s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r0"), s.Stamp)
		}
	}()
	for i := range 50 {
		s.view(s.release(fmt.Sprint("b", i)))
	}
	<-done
}

// TestTheFirstAnswerStays: a repeat of the request gets the bytes of its answer, whatever became of
// the reservation, and after a restore.
func TestTheFirstAnswerStays(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 75)
	c.RefuseOverrun, c.Items[0].HasCost, c.Items[0].Cost = true, true, decimal.FromInt(3)
	first := s.Do(billing.KindReserve, c)
	require.Equal(t, engine.OutcomeDone, first.Outcome)
	require.Equal(t, "limit", s.view(first).Items[0].Rule)
	repeated := func() {
		t.Helper()
		require.Equal(t, s.view(first), s.view(s.Do(billing.KindReserve, c)))
		m := restored(t, enginetest.Snapshot(t, s.m))
		again := heldSandbox{enginetest.NewLog(m, s.Stamp), t, m}
		again.Index = s.Index
		require.Equal(t, first.Value, again.Do(billing.KindReserve, c).Value)
	}
	s.Stamp += 60_000
	repeated()
	part := func(c *billing.SettleReservation) { c.Partial = true }
	require.Equal(t, engine.OutcomeDone, s.settle("r", 20, part).Outcome)
	repeated()
	require.Equal(t, engine.OutcomeReservationShort, s.settle("r", 600).Outcome)
	repeated() // it is billed at its expiry now
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindExtendReservation,
		&billing.ExtendReservation{
			Env: enginetest.Sandbox, ID: c.ID, Units: decimal.FromInt(90), TTLMS: 3_600_000,
		}).Outcome)
	repeated()
	require.Equal(t, engine.OutcomeDone, s.settle("r", 80).Outcome)
	repeated()
}
