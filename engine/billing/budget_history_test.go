package billing_test

import (
	"fmt"
	"math/rand/v2"
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

// agents share one budget of 100.00, each for one of 50 customers, and settle at most what they
// hold.
type agents struct {
	t      *testing.T
	l      *enginetest.Log
	m      *billing.Machine
	random *rand.Rand
	open   [1000][16]byte // the reservation of each agent; zero: it has none
	made   int
	// refused counts refusals, most is the most that was settled and held.
	refused int
	most    decimal.Decimal
}

const (
	agentCustomers = 50
	callPrice      = "0.25"
)

func newAgents(t *testing.T) *agents {
	a := &agents{t: t, m: billing.New(billing.Config{}), random: rand.New(rand.NewPCG(1, 2))}
	a.l = enginetest.NewLog(a.m, enginetest.Epoch)
	a.do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("a"), Name: "a"})
	a.do(billing.KindApplyCatalog, enginetest.ApplyCatalog(1, billing.CatalogDocument{
		Features: []billing.FeatureDocument{{Key: "calls", Name: "Calls"}},
		Plans: []billing.PlanDocument{{
			Key: "agents", Name: "Agents", Currency: "USD", IntervalMonths: 1,
			Features: []billing.PlanFeatureDocument{{
				Key: "calls", PricingType: "usage_based",
				Pricing: billing.PricingDocument{PricePerUnit: decimal.MustParse(callPrice)},
			}},
		}},
	}))
	a.do(billing.KindPutBudget, &billing.PutBudget{
		Env: 1, Key: "all", Name: "All", Limits: []billing.LimitDocument{{
			Of: billing.MeasurePrice, Limit: decimal.FromInt(100), Window: billing.WindowLifetime,
		}},
	})
	for i := range agentCustomers {
		id := fmt.Sprint("c", i)
		a.do(billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: 1, ID: enginetest.ID(id), ExternalID: id, FirstName: "A", LastName: "B", Email: "a@b.example",
		})
		a.do(billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: 1, ID: enginetest.ID("s" + id), InvoiceID: enginetest.ID("i" + id), Customer: id,
			Plan: "agents",
		})
		a.do(billing.KindPutBudget, &billing.PutBudget{
			Env: 1, Key: id, Name: id, Parent: "all", Customer: id,
		})
	}
	return a
}

func (a *agents) do(kind engine.Kind, c wire.Fielder) engine.Result {
	a.t.Helper()
	r := a.l.DoPayload(kind, wire.Encode(nil, c))
	if r.Outcome == engine.OutcomeBudgetExceeded {
		var refused billing.Refusal
		require.NoError(a.t, wire.Decode(r.Value, &refused))
		require.Equal(a.t, "all", refused.Budget)
		require.Equal(a.t, a.m.Applied(), refused.Index)
		a.refused++
		return r
	}
	require.Equal(a.t, engine.OutcomeDone, r.Outcome)
	return r
}

// step lets an agent reserve, or do something with what it holds.
func (a *agents) step() {
	agent := a.random.IntN(len(a.open))
	if a.open[agent] == ([16]byte{}) {
		a.made++
		key := fmt.Sprint("r", a.made)
		id := enginetest.ID(key)
		r := a.do(billing.KindReserve, &billing.Reserve{
			Env: 1, ID: id, Key: billing.ReservationKey(1, []byte(key)), KeyText: key,
			Customer: fmt.Sprint("c", agent%agentCustomers), TTLMS: 60_000,
			SettleOnExpiry: a.random.IntN(4) == 0,
			Items: []billing.ReserveItem{{
				FeatureKey: "calls", Units: decimal.FromInt(1 + a.random.Int64N(3)),
			}},
		})
		if r.Outcome == engine.OutcomeDone {
			a.open[agent] = id
		}
		return
	}
	id := a.open[agent]
	v, known := a.m.Reservation(1, id, a.l.Stamp)
	if !known || v.State.String() != "open" {
		a.open[agent] = [16]byte{}
		return
	}
	item := &v.Items[0]
	part := decimal.FromInt(a.random.Int64N(4))
	total := decimal.Min(item.Granted, decimal.Max(item.Settled, part))
	switch a.random.IntN(8) {
	case 0:
		a.do(billing.KindReleaseReservation, &billing.ReleaseReservation{Env: 1, ID: id})
		a.open[agent] = [16]byte{}
	case 1:
		more, _ := item.Granted.Add(decimal.FromInt(1))
		a.do(billing.KindExtendReservation, &billing.ExtendReservation{Env: 1, ID: id, Units: more})
	case 2, 3:
		a.settle(id, total, true)
	case 4:
		a.settle(id, total, false)
		a.open[agent] = [16]byte{}
	}
}

func (a *agents) settle(id [16]byte, total decimal.Decimal, partial bool) {
	a.do(billing.KindSettleReservation, &billing.SettleReservation{
		Env: 1, ID: id, Partial: partial, Items: []billing.SettleItem{{Units: total}},
	})
}

// check holds the budget against 100 at the log index that was applied last.
func (a *agents) check() {
	v, ok := a.m.Budget(1, "all", 0)
	require.True(a.t, ok)
	sum, ok := v.Limits[0].Used.Add(v.Limits[0].Held)
	require.True(a.t, ok)
	require.False(a.t, decimal.FromInt(100).Less(sum), "%s at index %d", sum, a.m.Applied())
	require.False(a.t, v.Limits[0].Overrun)
	a.most = decimal.Max(a.most, sum)
}

// audit compares the budget with what the reservations and the customers' usage say.
func (a *agents) audit() {
	a.l.DoPayload(engine.KindTick, nil)
	var held, used decimal.Decimal
	for i := range a.open {
		if a.open[i] == ([16]byte{}) {
			continue
		}
		if v, _ := a.m.Reservation(1, a.open[i], a.l.Stamp); v.State.String() == "open" {
			held, _ = held.Add(v.Items[0].Held)
		}
	}
	for i := range agentCustomers {
		d := billing.Decision{}
		a.m.Check(&billing.CheckQuery{
			Env: 1, Customer: []byte(fmt.Sprint("c", i)), Feature: []byte("calls"), Now: a.l.Stamp,
		}, &d)
		used, _ = used.Add(d.Used)
	}
	price := decimal.MustParse(callPrice)
	held, _ = held.Mul(price)
	used, _ = used.Mul(price)
	v, _ := a.m.Budget(1, "all", 0)
	require.Equal(a.t, []string{used.String(), held.String()},
		[]string{v.Limits[0].Used.String(), v.Limits[0].Held.String()})
}

// TestAThousandAgentsShareABudget: what is settled and what is held never exceed it at any log
// index, both are the sums of what the agents did, and each refusal names the level and the index.
func TestAThousandAgentsShareABudget(t *testing.T) {
	a := newAgents(t)
	for n := range 6000 {
		a.step()
		a.check()
		if a.l.Stamp += a.random.Int64N(50); n%200 == 0 {
			a.audit()
			a.check()
		}
	}
	require.Positive(t, a.refused)
	require.Equal(t, "100", a.most.String(), "all of it was in use")
	again := restored(t, enginetest.Snapshot(t, a.m))
	want, _ := a.m.Budget(1, "all", 0)
	got, _ := again.Budget(1, "all", 0)
	require.Equal(t, want, got)
}

// otherPeriods is a history of one customer whose prices fall and rise, in calls that are settled
// as usage of the present period or another one, up to what is held of them.
type otherPeriods struct {
	*heldSandbox
	r    *rapid.T
	open []string
	made int
}

func newOtherPeriods(t *testing.T, r *rapid.T) *otherPeriods {
	m := billing.New(billing.Config{})
	h := &otherPeriods{&heldSandbox{enginetest.NewLog(m, enginetest.Epoch), t, m}, r, nil, 0}
	p := billing.PlanDocument{Key: "tiers", Currency: "USD", IntervalMonths: 1}
	var doc billing.CatalogDocument
	for i, prices := range [][2]string{{"1", "0.1"}, {"0.1", "1"}} {
		key := []string{"falling", "rising"}[i]
		f := billing.PlanFeatureDocument{Key: key, PricingType: "graduated"}
		f.Pricing.Tiers = []billing.TierDocument{
			{UpTo: decimal.FromInt(10), PricePerUnit: decimal.MustParse(prices[0])},
			{Infinite: true, PricePerUnit: decimal.MustParse(prices[1])},
		}
		doc.Features = append(doc.Features, billing.FeatureDocument{Key: key})
		p.Features = append(p.Features, f)
	}
	doc.Plans = append(doc.Plans, p)
	enginetest.NewAccount(h.Log, doc)
	enginetest.NewCustomer(h.Log, "ada", "")
	for kind, c := range map[engine.Kind]wire.Fielder{
		billing.KindCreateSubscription: &billing.CreateSubscription{
			Env: 1, ID: enginetest.ID("s"), InvoiceID: enginetest.ID("i"), Customer: "ada", Plan: "tiers",
			GraceDays: 365, // it is never suspended
		},
		billing.KindPutBudget: &billing.PutBudget{
			Env: 1, Key: "all", Name: "All", Customer: "ada", Limits: []billing.LimitDocument{inUSD("60")},
		},
	} {
		require.Equal(t, engine.OutcomeDone, h.Do(kind, c).Outcome)
	}
	return h
}

func (h *otherPeriods) name() string {
	h.made++
	return fmt.Sprint("n", h.made)
}

// occurred is a time at which usage of now may have occurred.
func (h *otherPeriods) occurred() int64 {
	return max(enginetest.Epoch, h.Stamp+rapid.OneOf(
		rapid.Int64Range(-6*dayMS, 0), rapid.Int64Range(-1000, 299_000),
	).Draw(h.r, "occurred"))
}

func (h *otherPeriods) feature() string {
	return rapid.SampledFrom([]string{"falling", "rising"}).Draw(h.r, "feature")
}

func (h *otherPeriods) units() int64 { return rapid.Int64Range(1, 12).Draw(h.r, "units") }

func (h *otherPeriods) Event(*rapid.T) {
	c := enginetest.Usage(h.Log, h.name(), "ada", h.feature(), h.units())
	c.OccurredAt = h.occurred()
	h.DoPayload(billing.KindRecordUsage, c.Seal(nil))
}

func (h *otherPeriods) Reserve(*rapid.T) {
	key := h.name()
	c := enginetest.Reservation(key, "ada", h.feature(), h.units())
	c.TTLMS, c.SettleOnExpiry = rapid.Int64Range(1000, dayMS).Draw(h.r, "ttl"),
		rapid.Bool().Draw(h.r, "bills")
	if h.Do(billing.KindReserve, c).Outcome == engine.OutcomeDone {
		h.open = append(h.open, key)
	}
}

// Settle settles what is held, or less.
func (h *otherPeriods) Settle(*rapid.T) {
	if len(h.open) == 0 {
		h.r.Skip()
	}
	i := rapid.IntRange(0, len(h.open)-1).Draw(h.r, "which")
	id := enginetest.ID("reservation " + h.open[i])
	v, ok := h.m.Reservation(1, id, h.Stamp)
	if h.open = slices.Delete(h.open, i, i+1); !ok || v.State != billing.ReservationOpen {
		return
	}
	units := v.Items[0].Held
	if rapid.Bool().Draw(h.r, "less") {
		units = decimal.FromInt(1)
	}
	h.check() // what is due is billed before
	before := h.taken()
	r := h.Do(billing.KindSettleReservation, &billing.SettleReservation{
		Env: 1, ID: id, OccurredAt: h.occurred(), Items: []billing.SettleItem{{Units: units}},
	})
	require.Equal(h.r, engine.OutcomeDone.String(), r.Outcome.String())
	after := h.taken()
	require.False(h.r, before.Less(after), "%s becomes %s", before, after)
}

// taken is what the budget has used and holds.
func (h *otherPeriods) taken() decimal.Decimal {
	v, ok := h.m.Budget(1, "all", 0)
	require.True(h.r, ok)
	require.False(h.r, v.Limits[0].Overrun)
	return plus(v.Limits[0].Used, v.Limits[0].Held)
}

func (h *otherPeriods) Extend(*rapid.T) {
	if len(h.open) == 0 {
		h.r.Skip()
	}
	h.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: 1, ID: enginetest.ID("reservation " + rapid.SampledFrom(h.open).Draw(h.r, "which")),
		Units: decimal.FromInt(h.units()), TTLMS: rapid.Int64Range(1000, dayMS).Draw(h.r, "ttl"),
	})
}

// Wait moves the time on, over the end of a period, too.
func (h *otherPeriods) Wait(*rapid.T) {
	h.Stamp += rapid.SampledFrom([]int64{
		1000, 3_600_000, dayMS, 29 * dayMS,
	}).Draw(h.r, "later")
}

func (h *otherPeriods) check() {
	for at := h.m.NextDue(); at != 0 && at <= h.Stamp; at = h.m.NextDue() {
		h.DoPayload(engine.KindTick, nil)
	}
	require.NoError(h.r, billing.HeldAddsUp(h.m))
	require.False(h.r, decimal.FromInt(60).Less(h.taken()), "%s used and held", h.taken())
}

// TestSettlementsOfOtherPeriodsStayWithinABudget: whatever period one is of, it takes used and held
// no further.
func TestSettlementsOfOtherPeriodsStayWithinABudget(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := newOtherPeriods(t, r)
		r.Repeat(map[string]func(*rapid.T){
			"event": h.Event, "reserve": h.Reserve, "reserve ": h.Reserve, "settle": h.Settle,
			"settle ": h.Settle, "extend": h.Extend, "wait": h.Wait, "wait ": h.Wait,
			"": func(*rapid.T) { h.check() },
		})
	})
}
