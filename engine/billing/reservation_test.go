package billing_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// heldSandbox is a sandbox with one customer, whose plan has a hard limit of 500 calls, a soft one
// of 100 seats, and credits for images and videos.
type heldSandbox struct {
	*enginetest.Log
	t *testing.T
	m *billing.Machine
}

func newHeldSandbox(t *testing.T) *heldSandbox {
	m := billing.New(billing.Config{})
	s := &heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}
	doc := enginetest.PrepaidPlan()
	doc.Features = append(doc.Features, billing.FeatureDocument{Key: "calls"},
		billing.FeatureDocument{
			Key: "seats", HasCost: true, CostPerUnit: decimal.MustParse("1000000000000"),
		})
	p := &doc.Plans[0]
	p.Features = append(p.Features, billing.PlanFeatureDocument{
		Key: "calls", PricingType: "usage_based", Pricing: billing.PricingDocument{
			PricePerUnit: decimal.FromInt(1), HasMax: true, MaxUsage: decimal.FromInt(500),
			LimitMode: "hard", Thresholds: []byte{50, 90},
		},
	}, billing.PlanFeatureDocument{
		Key: "seats", PricingType: "usage_based", Pricing: billing.PricingDocument{
			PricePerUnit: decimal.FromInt(1), HasMax: true, MaxUsage: decimal.FromInt(100),
		},
	})
	calls := p.Features[2]
	calls.Pricing.MaxUsage, calls.Pricing.Thresholds = decimal.FromInt(10), nil
	doc.Plans = append(doc.Plans, billing.PlanDocument{
		Key: "small", Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
		Features: []billing.PlanFeatureDocument{calls},
	}, billing.PlanDocument{
		Key: "bare", Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
		Features: p.Features[:1:1],
	})
	enginetest.NewAccount(s.Log, doc)
	enginetest.NewCustomer(s.Log, "ada", "prepaid")
	return s
}

func (s *heldSandbox) view(r engine.Result) (v billing.ReservationView) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone.String(), r.Outcome.String())
	require.NoError(s.t, wire.Decode(r.Value, &v))
	return v
}

func (s *heldSandbox) reserve(key, feature string, units int64) engine.Result {
	return s.Do(billing.KindReserve, enginetest.Reservation(key, "ada", feature, units))
}

func (s *heldSandbox) settle(
	key string, units int64, more ...func(*billing.SettleReservation),
) engine.Result {
	c := &billing.SettleReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key),
		Items: []billing.SettleItem{{Units: decimal.FromInt(units)}},
	}
	for _, f := range more {
		f(c)
	}
	if c.EventKey != "" {
		c.Key = billing.UsageKey(c.Env, []byte(c.EventKey))
	}
	return s.Do(billing.KindSettleReservation, c)
}

func (s *heldSandbox) event(key, feature string, units int64) engine.Outcome {
	return s.DoPayload(billing.KindRecordUsage,
		enginetest.Usage(s.Log, key, "ada", feature, units).Seal(nil)).Outcome
}

func (s *heldSandbox) check(feature string, track int64) (d billing.Decision) {
	s.m.Check(&billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte(feature), Now: s.Stamp,
		Track: track > 0, Units: decimal.FromInt(track),
	}, &d)
	return d
}

func (s *heldSandbox) used(feature string, used, held int64) {
	s.t.Helper()
	d := s.check(feature, 0)
	require.Equal(s.t, fmt.Sprint(used, " ", held), d.Used.String()+" "+d.Held.String())
}

// TestSixOfTwentyReservationsFit: 500 units have room for exactly 6 of 20 reservations of 75, also
// after a restore.
func TestSixOfTwentyReservationsFit(t *testing.T) {
	s := newHeldSandbox(t)
	granted := 0
	for i := range 20 {
		r := s.reserve(fmt.Sprint("r", i), "calls", 75)
		if r.Outcome == engine.OutcomeDone {
			granted++
			continue
		}
		require.Equal(t, engine.OutcomeReservationShort, r.Outcome)
		var lack billing.Shortage
		require.NoError(t, wire.Decode(r.Value, &lack))
		require.Equal(t, billing.Shortage{
			Level: "limit", FeatureKey: "calls", Asked: decimal.FromInt(75),
			Held: decimal.FromInt(450), Limit: decimal.FromInt(500), LogIndex: s.Index,
		}, lack)
	}
	require.Equal(t, 6, granted)
	s.used("calls", 0, 450)
	d := s.check("calls", 51)
	require.Equal(t, "50", d.Remaining.String())
	require.True(t, d.WouldExceed)
	require.Equal(t, engine.OutcomeHardLimit, s.event("e1", "calls", 51))
	require.Equal(t, engine.OutcomeDone, s.event("e2", "calls", 50))
	require.Equal(t, billing.ReasonLimitReached, s.check("calls", 0).Reason)

	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	s.used("calls", 50, 450)
	require.Equal(t, engine.OutcomeReservationShort, s.reserve("r99", "calls", 1).Outcome)
	require.Equal(t, engine.OutcomeDone, s.settle("r0", 70).Outcome)
	s.used("calls", 120, 375)
	require.Equal(t, engine.OutcomeDone, s.reserve("r99", "calls", 5).Outcome)
}

func TestTheSameKeyIsTheSameAnswer(t *testing.T) {
	s := newHeldSandbox(t)
	first := s.reserve("r", "calls", 75)
	s.Stamp += 5000
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindExtendReservation,
		&billing.ExtendReservation{
			Env: 1, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(80), TTLMS: 1000,
		}).Outcome)
	require.Equal(t, first.Value, s.reserve("r", "calls", 75).Value)
	other := enginetest.Reservation("r", "ada", "calls", 75)
	other.Body = 5
	require.Equal(t, engine.OutcomeReservationKeyReused, s.Do(billing.KindReserve, other).Outcome)
	s.used("calls", 0, 80)
	v := s.view(first)
	require.Equal(t, int64(600), v.RemainingSeconds)
	require.Equal(t, "limit", v.Items[0].Rule)
	require.Equal(t, "425", v.Items[0].Remaining.String())
}

func TestADryRunHoldsNothing(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 75)
	c.DryRun = true
	v := s.view(s.Do(billing.KindReserve, c))
	require.True(t, v.DryRun)
	require.Equal(t, "75", v.Items[0].Granted.String())
	s.used("calls", 0, 0)
	require.Equal(t, engine.OutcomeReservationUnknown, s.settle("r", 1).Outcome)
}

func TestPartOfWhatIsThereIsGranted(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 800)
	c.Partial = true
	v := s.view(s.Do(billing.KindReserve, c))
	require.Equal(t, "500", v.Items[0].Granted.String())
	again := enginetest.Reservation("again", "ada", "calls", 800)
	again.Partial = true
	require.Equal(t, engine.OutcomeReservationShort, s.Do(billing.KindReserve, again).Outcome)
}

// TestItemsAreGrantedAllOrNothing: one item that does not fit holds nothing of the other.
func TestItemsAreGrantedAllOrNothing(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 10)
	c.Items = append(c.Items, billing.ReserveItem{FeatureKey: "seats", Units: decimal.FromInt(101)})
	require.Equal(t, engine.OutcomeReservationShort, s.Do(billing.KindReserve, c).Outcome)
	s.used("calls", 0, 0)
	c.Items[1].Units = decimal.FromInt(100)
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindReserve, c).Outcome)
	s.used("calls", 0, 10)
	s.used("seats", 0, 100)
	require.Equal(t, engine.OutcomeLimitReached, s.event("e", "seats", 500), "the limit is soft")

	r := s.settle("r", 4, func(c *billing.SettleReservation) {
		c.Items[0].FeatureKey = "calls"
		c.Items = append(c.Items, billing.SettleItem{FeatureKey: "seats", Units: decimal.FromInt(90)})
	})
	v := s.view(r)
	require.Equal(t, billing.ReservationSettled, v.State)
	s.used("calls", 4, 0)
	s.used("seats", 590, 0)
}

// TestASettlementThatOverflowsRecordsNothing: not even of the items before the one that does.
func TestASettlementThatOverflowsRecordsNothing(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 5)
	c.Items = append(c.Items, billing.ReserveItem{FeatureKey: "seats", Units: decimal.FromInt(5)})
	s.view(s.Do(billing.KindReserve, c))
	settle := func(seats string) engine.Result {
		return s.settle("r", 3, func(c *billing.SettleReservation) {
			c.Items[0].FeatureKey = "calls"
			c.Items = append(c.Items, billing.SettleItem{
				FeatureKey: "seats", Units: decimal.MustParse(seats),
			})
		})
	}
	require.Equal(t, engine.OutcomeOverflow.String(), settle("900000000000000").Outcome.String())
	s.used("calls", 0, 5)
	s.used("seats", 0, 5)
	s.view(settle("4"))
	s.used("calls", 3, 0)
	s.used("seats", 4, 0)
}

// TestRunningTotalsNeverCountTwice: parts are totals, so a repeated or reordered one adds nothing.
func TestRunningTotalsNeverCountTwice(t *testing.T) {
	s := newHeldSandbox(t)
	part := func(c *billing.SettleReservation) { c.Partial = true }
	s.reserve("r", "calls", 75)
	for _, units := range []int64{20, 20, 50, 30} {
		require.Equal(t, engine.OutcomeDone, s.settle("r", units, part).Outcome)
	}
	s.used("calls", 50, 25)
	require.Equal(t, engine.OutcomeSettledMore, s.settle("r", 40).Outcome)
	require.Equal(t, engine.OutcomeDone, s.settle("r", 60).Outcome)
	s.used("calls", 60, 0)
	require.Equal(t, engine.OutcomeDone, s.settle("r", 60).Outcome)
	require.Equal(t, engine.OutcomeDone, s.settle("r", 55, part).Outcome)
	require.Equal(t, engine.OutcomeReservationClosed, s.settle("r", 61).Outcome)
	require.Equal(t, engine.OutcomeReservationClosed, s.release("r").Outcome)
	s.used("calls", 60, 0)
	require.Equal(t, uint64(3), s.m.Stats().UsageEvents)
}

func (s *heldSandbox) release(key string) engine.Result {
	return s.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key),
	})
}

func TestReleasingTwiceIsTheSame(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 75)
	s.settle("r", 5, func(c *billing.SettleReservation) { c.Partial = true })
	for range 2 {
		require.Equal(t, billing.ReservationReleased, s.view(s.release("r")).State)
		s.used("calls", 5, 0)
	}
	require.Equal(t, engine.OutcomeReservationClosed, s.settle("r", 6).Outcome)
	require.Equal(t, engine.OutcomeReservationUnknown, s.release("other").Outcome)
}

// TestSettlingWhatIsHeldIsNeverRefused: though others have used up the rest; what goes beyond
// follows overrun.
func TestSettlingWhatIsHeldIsNeverRefused(t *testing.T) {
	s := newHeldSandbox(t)
	refuses := enginetest.Reservation("refuses", "ada", "calls", 50)
	refuses.RefuseOverrun = true
	s.Do(billing.KindReserve, refuses)
	s.reserve("records", "calls", 50)
	require.Equal(t, engine.OutcomeDone, s.event("e", "calls", 400))

	require.Equal(t, engine.OutcomeReservationShort, s.settle("refuses", 51).Outcome)
	s.used("calls", 400, 100)
	require.Equal(t, engine.OutcomeDone, s.settle("refuses", 50).Outcome)
	v := s.view(s.settle("records", 57))
	require.Equal(t, "57", v.Items[0].Settled.String())
	require.Equal(t, "7", v.Items[0].Overrun.String())
	s.used("calls", 507, 0)
	require.EqualValues(t, 1, s.m.Stats().Overruns)

	rows, err := s.m.Margin(&enginetest.Source{Journal: s.m.Journal()}, billing.MarginQuery{
		Env: enginetest.Sandbox, To: s.Stamp + 1, By: billing.MarginByFeature, MaxEvents: 10,
	})
	require.NoError(t, err)
	at := slices.IndexFunc(rows, func(r billing.MarginRow) bool { return r.Key == "calls" })
	require.Equal(t, "3 1", fmt.Sprint(rows[at].Events, " ", rows[at].Overruns))
}

// TestAClosedPeriodsLimitIsMarked: what is held of the present period settles in one whose limit
// has no room, and is an overrun there.
func TestAClosedPeriodsLimitIsMarked(t *testing.T) {
	s := newHeldSandbox(t)
	s.pay()
	s.Stamp += 28*dayMS - 60_000 // 31 January to 28 February
	require.Equal(t, engine.OutcomeDone, s.event("e", "calls", 480))
	s.Stamp += 120_000
	s.DoPayload(engine.KindTick, nil)
	s.used("calls", 0, 0)
	s.view(s.reserve("r", "calls", 50))
	v := s.view(s.settle("r", 50, func(c *billing.SettleReservation) { c.OccurredAt = s.Stamp - 90_000 }))
	require.Equal(t, "30", v.Items[0].Overrun.String())
	require.Equal(t, "50", v.Items[0].Settled.String())
	s.used("calls", 0, 0)
	require.EqualValues(t, 1, s.m.Stats().Overruns)
}

// pay pays ada's first invoice.
func (s *heldSandbox) pay() {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone, s.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: enginetest.ID("invoice ada prepaid"),
	}).Outcome)
}

// changePlan changes ada's plan at once.
func (s *heldSandbox) changePlan(plan string) {
	s.t.Helper()
	require.Equal(s.t, engine.OutcomeDone, s.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada prepaid"),
		ChangeID: enginetest.ID("to " + plan),
		Plan:     plan, Type: billing.ChangeUpgrade,
	}).Outcome)
}

// TestAPlanChangeLowersNoHold: what is held under the old limit settles under the new one.
func TestAPlanChangeLowersNoHold(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 50)
	c.RefuseOverrun = true
	s.Do(billing.KindReserve, c)
	s.Stamp++
	s.changePlan("small")
	require.Equal(t, engine.OutcomeHardLimit, s.event("e", "calls", 1))
	require.Equal(t, engine.OutcomeReservationShort, s.settle("r", 51).Outcome)
	require.Equal(t, "0", s.overrun(s.settle("r", 50)))
	s.used("calls", 50, 0)
}

// TestAPlanWithoutTheFeatureBillsTheHold: it counts in the span in which it was reserved, in parts,
// as a whole, and where it expires.
func TestAPlanWithoutTheFeatureBillsTheHold(t *testing.T) {
	s := newHeldSandbox(t)
	s.view(s.reserve("r", "calls", 30))
	s.view(s.reserve("parts", "calls", 20))
	c := enginetest.Reservation("dies", "ada", "calls", 5)
	c.SettleOnExpiry = true
	s.view(s.Do(billing.KindReserve, c))
	s.Stamp++
	s.changePlan("bare")
	s.Stamp++
	require.Equal(t, "0", s.overrun(s.settle("r", 30)))
	require.Equal(t, "0", s.overrun(s.settle("parts", 5,
		func(c *billing.SettleReservation) { c.Partial = true })))
	require.Equal(t, "0", s.overrun(s.settle("parts", 20)))
	s.Stamp += 600_000
	s.DoPayload(engine.KindTick, nil)
	ref, _ := s.ownEvent("dies", 1)
	s.view(s.settle("dies", 4, func(c *billing.SettleReservation) {
		c.OccurredAt, c.Originals = s.Stamp-1, []billing.UsageRef{ref} // of the plan without it
	}))
	events, _, err := s.m.Events(&enginetest.Source{Journal: s.m.Journal()}, billing.EventQuery{
		Customer: 1, To: s.Stamp + 1, Kinds: []billing.EventKind{billing.EventUsage}, Limit: 10,
	})
	require.NoError(t, err)
	require.Len(t, events, 4)
	for _, e := range events {
		require.False(t, e.Unbilled, "%s", e.Key)
	}
	s.Stamp += 31 * dayMS
	for range 3 {
		s.DoPayload(engine.KindTick, nil)
	}
	late := decimal.Decimal{}
	for _, v := range s.m.Invoices(enginetest.Sandbox, 1) {
		for _, line := range v.Items {
			if line.Kind == billing.LineUsage {
				late, _ = late.Add(line.Amount)
			}
		}
	}
	require.Equal(t, "54", late.String())
}

// TestALateEventGoesBesideWhatIsHeld: to the subscription that has room, as one of now does.
func TestALateEventGoesBesideWhatIsHeld(t *testing.T) {
	m := billing.New(billing.Config{})
	s := &heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}
	doc := billing.CatalogDocument{Features: []billing.FeatureDocument{{Key: "calls"}}}
	for _, key := range []string{"first", "second"} {
		doc.Plans = append(doc.Plans, billing.PlanDocument{
			Key: key, Currency: "USD", IntervalMonths: 1, PriceAmount: decimal.FromInt(10),
			Features: []billing.PlanFeatureDocument{{
				Key: "calls", PricingType: "usage_based", Pricing: billing.PricingDocument{
					PricePerUnit: decimal.FromInt(1), HasMax: true, MaxUsage: decimal.FromInt(10),
					LimitMode: "hard",
				},
			}},
		})
	}
	enginetest.NewAccount(s.Log, doc)
	enginetest.NewCustomer(s.Log, "ada", "first")
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindCreateSubscription,
		&billing.CreateSubscription{
			Env: 1, ID: enginetest.ID("other"), InvoiceID: enginetest.ID("other's"), Customer: "ada",
			Plan: "first", GraceDays: 7,
		}).Outcome)
	before := s.Stamp
	s.Stamp += 1000
	held := s.view(s.reserve("r", "calls", 10)).Items[0].SubscriptionID
	s.Stamp += 1000
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: 1, ID: held, ChangeID: enginetest.ID("change"), Plan: "second",
		Type: billing.ChangeUpgrade,
	}).Outcome)
	s.Stamp += 1000
	for i, want := range []string{"limit_reached", "hard_limit"} {
		c := enginetest.Usage(s.Log, fmt.Sprint("e", i), "ada", "calls", 10)
		c.OccurredAt = before
		require.Equal(t, want,
			s.DoPayload(billing.KindRecordUsage, c.Seal(nil)).Outcome.String())
	}
	require.Equal(t, "0", s.overrun(s.settle("r", 10)))
}

// TestAnExpiredHoldBlocksNobody: from its instant on, without a tick.
func TestAnExpiredHoldBlocksNobody(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 500)
	s.Stamp += 599_999
	require.Equal(t, billing.ReasonLimitReached, s.check("calls", 0).Reason)
	require.Equal(t, engine.OutcomeHardLimit, s.event("e1", "calls", 1))
	s.Stamp++
	s.used("calls", 0, 0)
	v, ok := s.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation r"), s.Stamp)
	require.True(t, ok)
	require.Equal(t, billing.ReservationExpired, v.State)
	require.Equal(t, engine.OutcomeDone, s.event("e2", "calls", 499))

	late := s.view(s.settle("r", 1))
	require.True(t, late.Late)
	require.Equal(t, billing.ReservationSettled, late.State)
	s.used("calls", 500, 0)
	require.Equal(t, engine.OutcomeDone, s.settle("r", 1).Outcome)
	s.used("calls", 500, 0)
}

// TestWhatADeadClientHeldIsBilled: once, and a late settlement amends that event.
func TestWhatADeadClientHeldIsBilled(t *testing.T) {
	s := newHeldSandbox(t)
	c := enginetest.Reservation("r", "ada", "calls", 80)
	c.SettleOnExpiry = true
	s.Do(billing.KindReserve, c)
	s.settle("r", 10, func(c *billing.SettleReservation) { c.Partial = true })
	s.Stamp += 600_000
	s.used("calls", 10, 70)
	_, err := s.Apply(engine.Record{Kind: engine.KindTick})
	require.NoError(t, err)
	s.used("calls", 80, 0)

	require.Equal(t, engine.OutcomeReservationBilled, s.settle("r", 33).Outcome)
	keys := s.m.ReservationEventKeys(enginetest.Sandbox, c.ID)
	src := &enginetest.Source{Journal: s.m.Journal()}
	ref, found, err := s.m.FindUsage(src, nil, enginetest.Sandbox, keys[0])
	require.NoError(t, err)
	require.True(t, found)
	brings := func(c *billing.SettleReservation) { c.Originals = []billing.UsageRef{ref} }
	for range 2 {
		v := s.view(s.settle("r", 33, brings))
		require.Equal(t, billing.ReservationSettled, v.State)
		require.True(t, v.Late)
		s.used("calls", 33, 0)
	}
	require.Equal(t, uint64(2), s.m.Stats().UsageEvents)
}

// TestAnEventThatIsThereIsTheAnswer: whoever recorded it, the hold goes and nothing is added.
func TestAnEventThatIsThereIsTheAnswer(t *testing.T) {
	s := newHeldSandbox(t)
	s.reserve("r", "calls", 75)
	require.Equal(t, engine.OutcomeDone, s.event("mine", "calls", 60))
	v := s.view(s.settle("r", 60, func(c *billing.SettleReservation) { c.EventKey = "mine" }))
	require.True(t, v.Recorded)
	s.used("calls", 60, 0)

	s.reserve("r2", "calls", 75)
	for range 2 {
		v = s.view(s.settle("r2", 60, func(c *billing.SettleReservation) { c.EventKey = "other" }))
		require.False(t, v.Recorded)
		require.Equal(t, "other", v.Event)
		s.used("calls", 120, 0)
	}
	require.Equal(t, engine.OutcomeKeyReused, s.event("other", "calls", 60))
}

// TestCreditsAreHeld: 100 credits, of which videos take half a credit each and have no price.
func TestCreditsAreHeld(t *testing.T) {
	s := newHeldSandbox(t)
	require.Equal(t, engine.OutcomeDone, s.reserve("r", "videos", 120).Outcome) // 60 credits
	r := s.reserve("r2", "videos", 81)
	require.Equal(t, engine.OutcomeReservationShort, r.Outcome)
	var lack billing.Shortage
	require.NoError(t, wire.Decode(r.Value, &lack))
	require.Equal(t, "pool 100", lack.Level+" "+lack.Limit.String())
	require.Equal(t, engine.OutcomeCreditsEmpty, s.event("e", "videos", 81))
	require.Equal(t, engine.OutcomeDone, s.event("e", "videos", 80))
	require.Equal(t, billing.ReasonCreditsEmpty, s.check("videos", 1).Reason)
	require.Equal(t, engine.OutcomeDone, s.settle("r", 100).Outcome)
	require.Equal(t, billing.ReasonAllowed, s.check("videos", 20).Reason)
	require.Equal(t, billing.ReasonCreditsEmpty, s.check("videos", 21).Reason)
}

// TestOpenReservationsAreBounded: of a customer, by a setting.
func TestOpenReservationsAreBounded(t *testing.T) {
	s := newHeldSandbox(t)
	s.Do(billing.KindSetLimits, &billing.SetLimits{CustomerHolds: 2, HoldMS: 700_000})
	require.Equal(t, engine.OutcomeDone, s.reserve("r1", "calls", 1).Outcome)
	require.Equal(t, engine.OutcomeDone, s.reserve("r2", "calls", 1).Outcome)
	require.Equal(t, engine.OutcomeHoldLimit, s.reserve("r3", "calls", 1).Outcome)
	require.Equal(t, engine.OutcomeDone, s.release("r1").Outcome)
	require.Equal(t, engine.OutcomeDone, s.reserve("r3", "calls", 1).Outcome)
	s.Stamp += 500_000
	v := s.view(s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation r2"), TTLMS: 86_400_000,
	}))
	require.Equal(t, int64(200), v.RemainingSeconds, "the setting bounds it in all")
}

// TestNoAccountTakesAllReservations: the last eighth of those that are kept, closed ones included,
// is for accounts with few, also after a restore; what leaves makes room.
func TestNoAccountTakesAllReservations(t *testing.T) {
	const maximum = 64
	s := newHeldSandbox(t)
	other := uint32(3)
	doc := enginetest.PrepaidPlan()
	s.Do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("other"), Name: "other"})
	s.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(other, doc))
	s.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: other, ID: enginetest.ID("customer of other"), ExternalID: "ada",
	})
	s.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: other, ID: enginetest.ID("subscription of other"), Customer: "ada", Plan: "prepaid",
		InvoiceID: enginetest.ID("invoice of other"), GraceDays: 9,
	})
	reserve := func(env uint32, n int) engine.Result {
		key := fmt.Sprint(env, "-", n)
		c := enginetest.Reservation(key, "ada", "videos", 1)
		c.Env, c.Key = env, billing.ReservationKey(env, []byte(key))
		r := s.Do(billing.KindReserve, c)
		if r.Outcome == engine.OutcomeDone {
			s.Do(billing.KindReleaseReservation, &billing.ReleaseReservation{Env: env, ID: c.ID})
		}
		return r
	}
	fill := func(env uint32) (kept int) {
		for reserve(env, kept).Outcome == engine.OutcomeDone {
			require.Less(t, kept, maximum)
			kept++
		}
		return kept
	}
	s.Do(billing.KindSetLimits, &billing.SetLimits{MaxReservations: maximum})
	first := s.Stamp
	require.Equal(t, maximum-maximum/8+1, fill(enginetest.Sandbox))
	r := reserve(enginetest.Sandbox, maximum)
	require.Equal(t, engine.OutcomeReservationsFull.String(), r.Outcome.String())
	var lacks billing.Shortage
	require.NoError(t, wire.Decode(r.Value, &lacks))
	require.Equal(t, "account 57", lacks.Level+" "+lacks.Limit.String())
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	require.Equal(t, engine.OutcomeReservationsFull, reserve(enginetest.Sandbox, maximum).Outcome)
	require.Equal(t, 4, fill(other), "half of what is left")
	s.Stamp = first + s.m.Limits().KeyRetentionMS + 1
	for tries := 0; reserve(enginetest.Sandbox, maximum).Outcome != engine.OutcomeDone; tries++ {
		require.Less(t, tries, 3, "each makes room for others")
	}
	require.Equal(t, engine.OutcomeDone, reserve(other, maximum).Outcome)
}

// TestManyHoldsExpireInBoundedEntries: what expires in one instant is spread over entries, none of
// which is longer than any other; half of it becomes usage.
func TestManyHoldsExpireInBoundedEntries(t *testing.T) {
	s := newHeldSandbox(t)
	s.Keep = false
	const customers = 20
	for i := range customers {
		name := fmt.Sprint("c", i)
		enginetest.NewCustomer(s.Log, name, "prepaid")
		s.Do(billing.KindSetLimits, &billing.SetLimits{CustomerHolds: expiringHolds})
		for j := range expiringHolds / customers {
			c := enginetest.Reservation(fmt.Sprint(name, "-", j), name, "calls", 1)
			c.Items[0].Units = decimal.MustParse("0.01")
			c.SettleOnExpiry = j%2 == 0
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindReserve, c).Outcome)
		}
	}
	s.Stamp += 600_000
	require.Greater(t, settled(t, s.Log, oneStep), expiringHolds/2000)
	require.Equal(t, uint64(expiringHolds/2), s.m.Stats().UsageEvents)
	c := enginetest.Reservation("last", "c0", "calls", 1)
	c.Partial, c.Items[0].Units = true, decimal.FromInt(500)
	v := s.view(s.Do(billing.KindReserve, c))
	used := float64(expiringHolds/customers/2) / 100
	require.Equal(t, fmt.Sprint(500-used), v.Items[0].Granted.String())
}

// TestHeldCreditsStayInThePool draws histories of reservations and events of one pool: its balance
// is never below what open reservations hold of it, as long as no grant goes away.
func TestHeldCreditsStayInThePool(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newHeldSandbox(&testing.T{})
		units := func() int64 { return rapid.Int64Range(0, 90).Draw(t, "units") }
		for n := range rapid.IntRange(1, 40).Draw(t, "commands") {
			name := fmt.Sprint("r", rapid.IntRange(0, 5).Draw(t, "reservation"))
			switch rapid.IntRange(0, 7).Draw(t, "command") {
			case 0, 1:
				c := enginetest.Reservation(name, "ada", "videos", 1+units())
				if rapid.Bool().Draw(t, "two") {
					c.Items = append(c.Items, bothItems(1+units()/4, 0)[:1]...)
				} else {
					c.Partial = rapid.Bool().Draw(t, "partial")
				}
				c.SettleOnExpiry = rapid.Bool().Draw(t, "bills")
				c.RefuseOverrun = rapid.Bool().Draw(t, "refuses")
				s.Do(billing.KindReserve, c)
			case 2, 3, 4:
				s.settle(name, units(), func(c *billing.SettleReservation) {
					c.Items[0].FeatureKey = "videos"
					c.Partial = rapid.Bool().Draw(t, "part")
					if rapid.Bool().Draw(t, "two") {
						c.Items = append(c.Items, billing.SettleItem{
							FeatureKey: "images", Units: decimal.FromInt(units() / 4),
						})
					}
				})
			case 5:
				s.release(name)
			case 6:
				s.event(fmt.Sprint("e", n), rapid.SampledFrom([]string{"videos", "images"}).
					Draw(t, "feature"), units())
			default:
				s.Stamp += rapid.Int64Range(1, 700_000).Draw(t, "later")
				_, err := s.Apply(engine.Record{Kind: engine.KindTick})
				require.NoError(t, err)
			}
			list, _, _ := s.m.Reservations(&billing.ReservationQuery{
				Env: enginetest.Sandbox, Customer: "ada", Limit: 100, Now: s.Stamp,
			})
			held := decimal.Decimal{} // half a credit a video; images have a price, too
			for _, v := range list {
				if v.Items[0].FeatureKey == "videos" {
					half, _ := v.Items[0].Held.Mul(decimal.MustParse("0.5"))
					held, _ = held.Add(half)
				}
			}
			balance := s.m.Pools(1)[0].Balance
			require.False(t, balance.Less(held), "%s held of %s", held, balance)
		}
	})
}

// TestUsedAndHeldStayWithinTheLimit draws histories of reservations and events of one customer: at
// every index used + held stays within the hard limit but for recorded overruns, and what is held
// is the sum of the open reservations.
func TestUsedAndHeldStayWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newHeldSandbox(&testing.T{})
		overrun := decimal.Decimal{}
		for n := range rapid.IntRange(1, 40).Draw(t, "commands") {
			name := fmt.Sprint("r", rapid.IntRange(0, 5).Draw(t, "reservation"))
			units := rapid.Int64Range(1, 200).Draw(t, "units")
			var r engine.Result
			switch rapid.IntRange(0, 6).Draw(t, "command") {
			case 0, 1:
				c := enginetest.Reservation(name, "ada", "calls", units)
				c.SettleOnExpiry = rapid.Bool().Draw(t, "bills")
				c.RefuseOverrun = rapid.Bool().Draw(t, "refuses")
				c.Partial = rapid.Bool().Draw(t, "partial")
				r = s.Do(billing.KindReserve, c)
			case 2, 3:
				r = s.settle(name, units, func(c *billing.SettleReservation) {
					c.Partial = rapid.Bool().Draw(t, "part")
				})
			case 4:
				r = s.release(name)
			case 5:
				s.event(fmt.Sprint("e", n), "calls", units)
			default:
				s.Stamp += rapid.Int64Range(1, 700_000).Draw(t, "later")
			}
			if r.Outcome == engine.OutcomeDone {
				var v billing.ReservationView
				require.NoError(t, wire.Decode(r.Value, &v))
			}
			s.m = restored(t, enginetest.Snapshot(t, s.m))
			s.Machine = s.m
			overrun = decimal.Decimal{}
			held := decimal.Decimal{}
			list, _, _ := s.m.Reservations(&billing.ReservationQuery{
				Env: enginetest.Sandbox, Customer: "ada", Limit: 100, Now: s.Stamp,
			})
			for _, v := range list {
				overrun, _ = overrun.Add(v.Items[0].Overrun)
				held, _ = held.Add(v.Items[0].Held)
			}
			d := s.check("calls", 0)
			require.Equal(t, held.String(), d.Held.String())
			taken, _ := d.Used.Add(d.Held)
			bound, _ := decimal.FromInt(500).Add(overrun)
			require.False(t, bound.Less(taken), "%s used, %s held", d.Used, d.Held)
		}
	})
}
