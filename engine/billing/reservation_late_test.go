package billing_test

import (
	"bytes"
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

// ownEvent finds the n-th event that a reservation has recorded, and its key.
func (s *heldSandbox) ownEvent(key string, n int) (ref billing.UsageRef, k [16]byte) {
	s.t.Helper()
	v, found := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation "+key), s.Stamp)
	require.True(s.t, found)
	own := fmt.Sprintf("reservation:%s:%d", uuid.Text(v.ID), n)
	k = billing.UsageKey(enginetest.Sandbox, []byte(own))
	src := &enginetest.Source{Journal: s.m.Journal()}
	ref, found, err := s.m.FindUsage(src, nil, enginetest.Sandbox, k)
	require.NoError(s.t, err)
	require.True(s.t, found)
	return ref, k
}

// amendOwn amends the n-th event that a reservation has recorded.
func (s *heldSandbox) amendOwn(key string, n int, units int64) {
	s.t.Helper()
	ref, k := s.ownEvent(key, n)
	require.Equal(s.t, engine.OutcomeDone, s.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: k, Original: ref, Units: decimal.FromInt(units),
		ID: enginetest.ID(fmt.Sprint("amendment ", key, n)),
	}).Outcome)
}

// voidOwn voids it.
func (s *heldSandbox) voidOwn(key string, n int) {
	s.t.Helper()
	ref, k := s.ownEvent(key, n)
	require.Equal(s.t, engine.OutcomeDone, s.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: k, Original: ref,
	}).Outcome)
}

// TestALateSettlementIsOfTheTotal: whatever the event that expiry has billed was amended to, the
// reservation is settled at the total, with the parts that were settled before.
func TestALateSettlementIsOfTheTotal(t *testing.T) {
	part := func(c *billing.SettleReservation) { c.Partial = true }
	for _, amended := range []int64{10, 33, 100} {
		for _, total := range []int64{33, 80} {
			s := newHeldSandbox(t)
			s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80), func() {
				s.view(s.settle("r", 20, part))
			})
			s.amendOwn("r", 2, amended)
			require.Equal(t, engine.OutcomeReservationBilled, s.settle("r", total).Outcome)
			v := s.view(s.settle("r", total, s.originals("r")))
			require.Equal(t, fmt.Sprint(total), v.Items[0].Settled.String())
			s.used("calls", total, 0)
		}
	}
}

// TestNothingIsTakenBackTwice: where another event has the units, an event that was amended before
// has none, and what is settled is what parts had. The state can be restored.
func TestNothingIsTakenBackTwice(t *testing.T) {
	for _, amended := range []int64{0, 10, 100} {
		s := newHeldSandbox(t)
		s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
		s.amendOwn("r", 1, amended)
		require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 33))
		mine := func(c *billing.SettleReservation) { c.EventKey = "mine" }
		require.Equal(t, engine.OutcomeReservationBilled, s.settle("r", 33, mine).Outcome,
			"the events are to be brought")
		v := s.view(s.settle("r", 33, s.originals("r"), mine))
		require.True(t, v.Recorded)
		require.True(t, v.Items[0].Settled.IsZero())
		s.used("calls", 33, 0)
		snapshot := enginetest.Snapshot(t, s.m)
		require.NoError(t, billing.New(billing.Config{}).Restore(bytes.NewReader(snapshot)))
	}
}

// TestAPartTakesNothingBack: of what expiry has billed, a repeated or a late part lowers nothing.
func TestAPartTakesNothingBack(t *testing.T) {
	part := func(c *billing.SettleReservation) { c.Partial = true }
	s := newHeldSandbox(t)
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80), func() {
		s.view(s.settle("r", 20, part))
	})
	for _, units := range []int64{20, 60, 40, 80} {
		s.view(s.settle("r", units, part, s.originals("r")))
		s.used("calls", 80, 0)
	}
	s.view(s.settle("r", 90, part, s.originals("r")))
	s.used("calls", 90, 0)
	s.amendOwn("r", 2, 100)
	s.view(s.settle("r", 95, part, s.originals("r")))
	s.used("calls", 120, 0)
	s.view(s.settle("r", 30, s.originals("r")))
	s.used("calls", 30, 0)
}

// TestALateOverrunIsMarked: as that of an open reservation is, of a limit of 500.
func TestALateOverrunIsMarked(t *testing.T) {
	s := newHeldSandbox(t)
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
	part := func(c *billing.SettleReservation) { c.Partial = true }
	overrun := func(units int64, more ...func(*billing.SettleReservation)) string {
		v := s.view(s.settle("r", units, append(more, s.originals("r"))...))
		return v.Items[0].Overrun.String()
	}
	require.Equal(t, "0", overrun(490, part))
	require.Equal(t, "200", overrun(700, part))
	require.Equal(t, "250", overrun(750, part))
	require.EqualValues(t, 1, s.m.Stats().Overruns)
	require.EqualValues(t, 1, s.margin("calls").Overruns)
	require.Equal(t, "30", overrun(530))
	s.used("calls", 530, 0)
	require.EqualValues(t, 1, s.margin("calls").Overruns)
	events, _, err := s.m.Events(&enginetest.Source{Journal: s.m.Journal()}, billing.EventQuery{
		Customer: 1, To: s.Stamp + 1, Kinds: []billing.EventKind{billing.EventAmend}, Limit: 10,
	})
	require.NoError(t, err)
	require.Equal(t, "30", events[len(events)-1].Overrun.String())

	s.amendOwn("r", 1, 500)
	require.Zero(t, s.margin("calls").Overruns)
}

// margin is a feature's row of the margin.
func (s *heldSandbox) margin(feature string) (row billing.MarginRow) {
	s.t.Helper()
	rows, err := s.m.Margin(&enginetest.Source{Journal: s.m.Journal()}, billing.MarginQuery{
		Env: enginetest.Sandbox, To: s.Stamp + 1, By: billing.MarginByFeature, MaxEvents: 100,
	})
	require.NoError(s.t, err)
	for _, r := range rows {
		if r.Key == feature {
			return r
		}
	}
	return row
}

// TestAVoidedOverrunIsNone: in the margin.
func TestAVoidedOverrunIsNone(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 50)
	require.Equal(t, engine.OutcomeDone, s.event("e", "calls", 450))
	s.view(s.settle("r", 60))
	require.EqualValues(t, 1, s.margin("calls").Overruns)
	s.voidOwn("r", 1)
	require.Zero(t, s.margin("calls").Overruns)
}

// TestALateSettlementStaysInItsPeriod: an occurredAt at which usage would count elsewhere than what
// expiry has billed is refused, and so is one that no event may have; meta is the amendment's.
func TestALateSettlementStaysInItsPeriod(t *testing.T) {
	s := newHeldSandbox(t)
	s.pay()
	s.Stamp += 28*dayMS - 300_000 // the period's end is near
	s.DoPayload(engine.KindTick, nil)
	before := s.Stamp
	s.expireBilled(enginetest.Reservation("r", "ada", "calls", 80))
	units := int64(30)
	settle := func(at int64) engine.Result {
		return s.settle("r", units, s.originals("r"), func(c *billing.SettleReservation) {
			c.OccurredAt, c.Meta = at, []byte(`{"a":1}`)
		})
	}
	view := func() billing.ReservationView {
		v, _ := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r"), s.Stamp)
		return v
	}
	for _, units = range []int64{80, 30} { // also of what it was billed at
		require.Equal(t, engine.OutcomeReservationPeriod.String(), settle(before).Outcome.String())
	}
	require.Equal(t, engine.OutcomeOccurredTooEarly, settle(1).Outcome)
	require.Equal(t, engine.OutcomeOccurredTooLate, settle(s.Stamp+dayMS).Outcome)
	require.Equal(t, billing.ReservationBilled, view().State)
	require.Equal(t, "80", view().Items[0].Settled.String())
	require.Equal(t, "30", s.view(settle(s.Stamp)).Items[0].Settled.String())
	events, _, err := s.m.Events(&enginetest.Source{Journal: s.m.Journal()}, billing.EventQuery{
		Customer: 1, To: s.Stamp + 1, Kinds: []billing.EventKind{billing.EventAmend}, Limit: 10,
	})
	require.NoError(t, err)
	require.Equal(t, `{"a":1}`, string(events[0].Meta))
}

// TestItemsAreSettledLateAsAWhole: items that budgets or credits admit one by one, and not
// together, are refused together.
func TestItemsAreSettledLateAsAWhole(t *testing.T) {
	refuses := func(c *billing.Reserve) { c.RefuseOverrun, c.SettleOnExpiry = true, true }
	s := newBudgetSandbox(t, inUSD("40"))
	s.reserveBoth("r", 10, 10, refuses)
	s.Stamp += 600_000
	s.DoPayload(engine.KindTick, nil)
	settle := func(units int64) engine.Outcome {
		return s.settle("r", 0, s.originals("r"), func(c *billing.SettleReservation) {
			c.Items = nil
			for _, i := range both(units, units) {
				c.Items = append(c.Items, billing.SettleItem{FeatureKey: i.FeatureKey, Units: i.Units})
			}
		}).Outcome
	}
	require.Equal(t, engine.OutcomeBudgetExceeded, settle(25))
	require.Equal(t, engine.OutcomeDone, settle(20))

	h := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "videos", 20)
	c.Items = bothItems(5, 20)
	c.RefuseOverrun = true
	h.expireBilled(c)
	before := h.balance()
	require.Equal(t, engine.OutcomeReservationShort,
		h.settle("r", 0, h.originals("r"), settlesBoth(30, 170)).Outcome)
	require.Equal(t, before, h.balance())
}

// TestALateSettlementStatesTheCost: what expiry has billed costs the provider what the settlement
// says, in budgets and in margins, also where the units stay; later amendments keep it, a void
// takes all of it back, and where another event has the units it has the cost.
func TestALateSettlementStatesTheCost(t *testing.T) {
	costs := func(cost string) func(*billing.SettleReservation) {
		return func(c *billing.SettleReservation) {
			c.Items[0].Cost, c.Items[0].HasCost = decimal.MustParse(cost), true
		}
	}
	part := func(c *billing.SettleReservation) { c.Partial = true }
	for _, expected := range []bool{false, true} {
		s := newBudgetSandbox(t, ofCost("100"))
		want := func(cost string) {
			t.Helper()
			s.counts("all", cost, "0")
			margin, err := s.m.Margin(&enginetest.Source{Journal: s.m.Journal()}, billing.MarginQuery{
				Env: enginetest.Sandbox, To: s.Stamp + 1, By: billing.MarginByCustomer, MaxEvents: 100,
			})
			require.NoError(t, err)
			require.Equal(t, cost, margin[0].Cost.String())
		}
		billed := func(key string) {
			t.Helper()
			c := enginetest.Reservation(key, "ada", "words", 4)
			c.Items[0].Cost, c.Items[0].HasCost = decimal.FromInt(8), expected
			s.expireBilled(c)
		}
		billed("r")
		most := map[bool]string{false: "3", true: "8"}[expected] // parts take nothing back
		s.view(s.settle("r", 3, part, costs("3"), s.originals("r")))
		want(most)
		s.view(s.settle("r", 2, part, costs("50"), s.originals("r"))) // out of order
		s.view(s.settle("r", 3, part, costs("50"), s.originals("r"))) // a repeat
		want(most)
		s.amendOwn("r", 1, 5)
		want(most)
		s.view(s.settle("r", 5, part, costs("2"), s.originals("r")))
		want(map[bool]string{false: "5", true: "8"}[expected])
		s.view(s.settle("r", 6, costs("1.5"), s.originals("r"))) // 3, 2 and 1.5 add up
		want("6.5")
		s.view(s.settle("r", 6, costs("7"), s.originals("r"))) // a repeat
		want("6.5")
		s.m = restored(t, enginetest.Snapshot(t, s.m))
		s.Machine = s.m
		s.voidOwn("r", 1)
		want("0")

		billed("r2")
		c := enginetest.Usage(s.Log, "mine", "ada", "words", 4)
		c.Cost, c.HasCost = decimal.FromInt(9), true
		require.Equal(t, engine.OutcomeDone, s.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome)
		s.view(s.settle("r2", 4, costs("9"), s.originals("r2"),
			func(c *billing.SettleReservation) { c.EventKey = "mine" }))
		want("9")

		refuses := enginetest.Reservation("r3", "ada", "words", 4)
		refuses.RefuseOverrun = true
		s.expireBilled(refuses)
		s.refuses(engine.OutcomeBudgetExceeded, s.settle("r3", 4, costs("92"), s.originals("r3")))
		s.view(s.settle("r3", 4, costs("91"), s.originals("r3")))
		want("100")
	}
}

// TestLateSettlementsAddTheirCosts: each settlement costs what it states for the units that it
// adds, else what the feature says, as parts before the expiry do, though none has stated a cost
// before.
func TestLateSettlementsAddTheirCosts(t *testing.T) {
	type step struct {
		units int64
		cost  string // empty: none
	}
	for _, x := range []struct {
		want  string
		steps []step // the last one is final
	}{
		{"7", []step{{12, ""}, {16, "4"}}},
		{"5", []step{{12, "4"}, {16, ""}}},
		{"5.5", []step{{6, ""}, {10, "4"}}}, // less than is billed
		{"3", []step{{6, "2"}, {10, ""}}},
		{"7", []step{{6, "2"}, {10, ""}, {16, "4"}}},
		{"7", []step{{6, ""}, {12, ""}, {12, "9"}, {5, "9"}, {16, "4"}}}, // repeats
		{"4", []step{{16, "4"}, {12, ""}, {12, "7"}, {16, ""}}},          // out of order
		{"4", []step{{12, ""}, {16, ""}}},
		{"8", []step{{12, ""}, {16, "4"}, {20, ""}}},
		// A lower final total states the cost of all, or leaves it in proportion.
		{"3", []step{{12, "4"}, {8, "3"}}},
		{"3", []step{{12, ""}, {8, "3"}}},
		{"2", []step{{12, ""}, {8, ""}}},
		{"2", []step{{12, "3"}, {8, ""}}},
		{"3.5", []step{{12, "4"}, {16, "3"}, {8, ""}}},
		{"0", []step{{12, "4"}, {0, ""}}},
		{"4", []step{{12, "4"}, {12, "6"}}},
	} {
		s := newBudgetSandbox(t, ofCost("100"))
		s.expireBilled(enginetest.Reservation("r", "ada", "costly", 10))
		for i, at := range x.steps {
			s.view(s.settle("r", at.units, s.originals("r"), func(c *billing.SettleReservation) {
				if c.Partial = i < len(x.steps)-1; at.cost != "" {
					c.Items[0].Cost, c.Items[0].HasCost = decimal.MustParse(at.cost), true
				}
			}))
			s.m = restored(t, enginetest.Snapshot(t, s.m))
			s.Machine = s.m
		}
		v, ok := s.m.Budget(enginetest.Sandbox, "all", 0)
		require.True(t, ok)
		require.Equal(t, x.want, v.Limits[0].Used.String(), "%v", x.steps)
	}
}

// TestALateShortageSaysWhatThereIs: of the limit, or of credits.
func TestALateShortageSaysWhatThereIs(t *testing.T) {
	for feature, want := range map[string]string{
		"calls": "limit, 100 used, 30 held of 500", "videos": "pool, 0 used, 15 held of 50",
	} {
		s := newHeldSandbox(t)
		c := enginetest.Reservation("r", "ada", feature, 100) // 50 of 100 credits
		c.SettleOnExpiry, c.RefuseOverrun = true, true
		s.view(s.Do(billing.KindReserve, c))
		s.Stamp += 600_000
		s.DoPayload(engine.KindTick, nil)
		s.view(s.reserve("q", feature, 30))
		ref, _ := s.ownEvent("r", 1)
		r := s.settle("r", 501, func(c *billing.SettleReservation) {
			c.Originals = []billing.UsageRef{ref}
		})
		require.Equal(t, engine.OutcomeReservationShort.String(), r.Outcome.String())
		var lack billing.Shortage
		require.NoError(t, wire.Decode(r.Value, &lack))
		require.Equal(t, want, lackOf(&lack))
		require.Equal(t, "401", lack.Asked.String())
	}
}

// lackOf is what a shortage names.
func lackOf(s *billing.Shortage) string {
	return fmt.Sprintf("%s, %s used, %s held of %s", s.Level, s.Used, s.Held, s.Limit)
}

// TestAShortageOfCreditsSaysWhatIsHeld: by whatever it is refused.
func TestAShortageOfCreditsSaysWhatIsHeld(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "videos", 100)
	c.RefuseOverrun = true
	s.view(s.Do(billing.KindReserve, c)) // holds 50 of 100
	for want, r := range map[string]engine.Result{
		"pool, 0 used, 50 held of 100": s.reserve("q", "videos", 101),
		"pool, 0 used, 0 held of 100":  s.settle("r", 201),
	} {
		require.Equal(t, engine.OutcomeReservationShort.String(), r.Outcome.String())
		var lack billing.Shortage
		require.NoError(t, wire.Decode(r.Value, &lack))
		require.Equal(t, want, lackOf(&lack))
	}
}
