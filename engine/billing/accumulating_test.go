package billing_test

import (
	"fmt"
	"math/big"
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

// TestAccumulatingCountersAddUp: random histories of one subscription whose plans have a feature
// that never resets: usage in time, late and ahead, corrections, upgrades, downgrades, new versions
// of a plan, cancellations, waiting invoices and crashes. Its oracle knows the events, which plan
// version was in force when, and prices in rational numbers; it asks the machine for nothing but
// answers.
// Whatever has happened so far, the lines of each plan version add up to the rounded price of the
// units on them; in the end these are all units that were used under it; and no hard limit was
// ever passed.
func TestAccumulatingCountersAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newSequences(t)
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			h.l.Stamp++ // no two things happen at one instant
			h.step()
			h.addUp()
		}
		h.finish()
	})
}

// sequences is a subscription to which things happen at random.
type sequences struct {
	t   *rapid.T
	m   *billing.Machine
	l   *enginetest.Log
	src *enginetest.Source
	doc billing.CatalogDocument
	// versions are all that there were of each plan, by their names: see versionName. newest are the
	// names of the last ones, by the plan's key.
	versions map[string]*planVersion
	newest   map[string]string
	id       [16]byte
	start    int64
	first    string // the version that it began with
	// events are those that count, by their key.
	events []*sequenceEvent
	minted int
}

// planVersion is a version of a plan as its document says it, and as the oracle reads that.
type planVersion struct {
	billing.PlanDocument
	oracle *enginetest.OraclePlan
}

func versionName(p *billing.PlanView) string { return fmt.Sprint(p.Key, " v", p.Version) }

type sequenceEvent struct {
	key    string
	units  decimal.Decimal
	at     int64
	voided bool
	// recorded is when it was recorded, if that was ahead of its period's end.
	recorded int64
}

func newSequences(t *rapid.T) *sequences {
	m := billing.New(billing.Config{})
	h := &sequences{
		t: t, m: m, src: &enginetest.Source{Journal: m.Journal()},
		l:        enginetest.NewLog(m, enginetest.Epoch),
		versions: map[string]*planVersion{}, newest: map[string]string{},
		id: enginetest.ID("subscription"),
	}
	h.do(billing.KindSetLimits, &billing.SetLimits{
		KeyRetentionMS: 90 * dayMS, WindowMS: 70 * dayMS,
	})
	h.doc.Features = []billing.FeatureDocument{{Key: "f"}}
	for i := range 3 {
		h.doc.Plans = append(h.doc.Plans, h.drawPlan(fmt.Sprint("p", i)))
	}
	if rapid.IntRange(0, 2).Draw(t, "a plan without the feature") == 0 {
		h.doc.Plans[2].Features = nil
	}
	h.do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("demo"), Name: "demo"})
	h.apply()
	enginetest.NewCustomer(h.l, "ada", "")
	h.start, h.first = h.l.Stamp, h.newest["p0"]
	h.do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: h.id, InvoiceID: enginetest.ID("invoice"), Customer: "ada",
		Plan: "p0", GraceDays: 365,
	})
	return h
}

// apply makes the catalog the document. A plan that it changes has a new version, which the
// subscription comes to by a plan change only.
func (h *sequences) apply() {
	h.do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, h.doc))
	for _, view := range h.m.Plans(enginetest.Sandbox) {
		name := versionName(&view)
		h.newest[view.Key] = name
		for i := range h.doc.Plans {
			if p := &h.doc.Plans[i]; p.Key == view.Key && h.versions[name] == nil {
				h.versions[name] = &planVersion{*p, enginetest.OracleOf(p, 2)}
			}
		}
	}
}

// revise gives a plan other prices, and perhaps all else.
func (h *sequences) revise() {
	i := rapid.IntRange(0, len(h.doc.Plans)-1).Draw(h.t, "revised")
	h.doc.Plans[i] = h.drawPlan(h.doc.Plans[i].Key)
	h.apply()
}

func (h *sequences) drawPlan(key string) billing.PlanDocument {
	pricing := billing.PricingDocument{ResetMode: "accumulate"}
	if rapid.IntRange(0, 3).Draw(h.t, "resets") == 0 {
		pricing.ResetMode = "reset"
	}
	price := func() decimal.Decimal {
		return decimal.MustParse(rapid.SampledFrom([]string{"0.333", "1", "5", "0"}).Draw(h.t, "price"))
	}
	f := billing.PlanFeatureDocument{Key: "f", PricingType: "graduated"}
	if rapid.IntRange(0, 3).Draw(h.t, "volume") == 0 {
		f.PricingType, pricing.Model = "usage_based", "volume"
	}
	pricing.Tiers = []billing.TierDocument{
		{UpTo: decimal.FromInt(10), PricePerUnit: price()},
		{UpTo: decimal.FromInt(25), PricePerUnit: price(), FlatFee: price()},
		{Infinite: true, PricePerUnit: price()},
	}
	switch rapid.IntRange(0, 4).Draw(h.t, "limit") {
	case 0:
		pricing.LimitMode = "hard"
		fallthrough
	case 1:
		pricing.HasMax, pricing.MaxUsage = true, decimal.FromInt(20)
	}
	f.Pricing = pricing
	return billing.PlanDocument{
		Key: key, Currency: "USD", Features: []billing.PlanFeatureDocument{f},
		IntervalMonths: rapid.SampledFrom([]uint32{1, 1, 3}).Draw(h.t, "months"),
		BillingTiming:  rapid.SampledFrom([]string{"IN_ADVANCE", "IN_ARREARS"}).Draw(h.t, "timing"),
	}
}

// do carries a command out that must succeed.
func (h *sequences) do(kind engine.Kind, c wire.Fielder) {
	h.t.Helper()
	require.Equal(h.t, engine.OutcomeDone.String(), h.l.Do(kind, c).Outcome.String())
}

func (h *sequences) mint() string {
	h.minted++
	return fmt.Sprint("minted ", h.minted)
}

func (h *sequences) now() int64 { return h.m.EnvironmentNow(enginetest.Sandbox, h.l.Stamp) }

func (h *sequences) step() {
	switch rapid.IntRange(0, 15).Draw(h.t, "step") {
	case 0, 1, 2, 3, 4, 5:
		h.use()
	case 6:
		h.correct()
	case 7:
		h.change(billing.ChangeUpgrade)
	case 8:
		h.change(billing.ChangeDowngrade)
	case 9:
		h.end()
	case 10:
		minutes := rapid.SampledFrom([]uint32{0, 90, 3 * 24 * 60}).Draw(h.t, "minutes")
		h.do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, KeepDays: true, SetSettle: true, SettleMinutes: minutes,
		})
	case 11:
		m := restored(h.t, enginetest.Snapshot(h.t, h.m))
		h.m, h.l.Machine, h.src.Journal = m, m, m.Journal()
	case 12:
		h.revise()
	default:
		h.later()
	}
}

// later lets time pass: some days, or up to 2 minutes before the period's end, where usage may be
// ahead of it.
func (h *sequences) later() {
	v, _ := h.m.Subscription(enginetest.Sandbox, h.id)
	near := v.PeriodEnd - 2*60_000
	if rapid.Bool().Draw(h.t, "near") && v.EndedAt == 0 && near > h.l.Stamp {
		h.l.Stamp = near
	} else {
		h.l.Stamp += rapid.SampledFrom([]int64{1, dayMS, 9 * dayMS, 28 * dayMS}).Draw(h.t, "later")
	}
	h.tick()
}

func (h *sequences) tick() {
	h.l.DoPayload(engine.KindTick, nil)
	for at := h.m.NextDue(); at != 0 && at <= h.l.Stamp; at = h.m.NextDue() {
		h.l.DoPayload(engine.KindTick, nil)
	}
}

// phase is a time under one plan version.
type phase struct {
	from int64
	plan string
}

// phases are the plan versions of the subscription, oldest first, by what the machine answers.
func (h *sequences) phases() []phase {
	all := []phase{{h.start, h.first}}
	changes, ok := h.m.PlanChanges(enginetest.Sandbox, h.id)
	require.True(h.t, ok)
	for _, c := range changes {
		if c.Status == billing.ChangeCompleted {
			all = append(all, phase{c.EffectiveAt, versionName(&c.To)})
		}
	}
	return all
}

// planAt is the plan that was in force at an instant; the first one before the subscription.
func (h *sequences) planAt(at int64) string {
	all := h.phases()
	plan := all[0].plan
	for _, p := range all {
		if p.from <= at {
			plan = p.plan
		}
	}
	return plan
}

// planOf is the plan that an event is of. What was ahead of its period's end goes on from plan to
// plan until the next period begins, but not to one that lacks the feature.
func (h *sequences) planOf(e *sequenceEvent) string {
	if e.recorded == 0 {
		return h.planAt(e.at)
	}
	plan := h.planAt(e.recorded)
	for _, p := range h.phases() {
		if p.from <= e.recorded || p.from > e.at {
			continue
		}
		if h.pricing(p.plan) == nil {
			break
		}
		cut := h.cuts(plan, p.plan)
		if plan = p.plan; cut {
			break
		}
	}
	return plan
}

// cuts reports whether an upgrade from one plan to the other ends the period.
func (h *sequences) cuts(from, to string) bool {
	a, b := h.versions[from], h.versions[to]
	return a.IntervalMonths != b.IntervalMonths || a.BillingTiming != b.BillingTiming
}

// usedUnder is what the events that count add up to under each plan.
func (h *sequences) usedUnder() map[string]*big.Rat {
	used := map[string]*big.Rat{}
	for _, e := range h.events {
		add(used, h.planOf(e), rat(e.units))
	}
	return used
}

func (h *sequences) pricing(plan string) *billing.PricingDocument {
	if p := h.versions[plan]; len(p.Features) > 0 {
		return &p.Features[0].Pricing
	}
	return nil
}

func (h *sequences) use() {
	v, _ := h.m.Subscription(enginetest.Sandbox, h.id)
	e := &sequenceEvent{key: h.mint(), at: h.now()}
	switch rapid.IntRange(0, 3).Draw(h.t, "when") {
	case 0, 1:
		e.at = max(e.at-rapid.Int64Range(0, 69*dayMS).Draw(h.t, "late"), h.start-6*dayMS)
	case 2:
		if v.EndedAt == 0 && v.PeriodEnd < e.at+4*60_000 {
			e.at, e.recorded = v.PeriodEnd+1, h.now()
		}
	}
	e.units = rapid.SampledFrom([]decimal.Decimal{
		decimal.FromInt(1), decimal.FromInt(8), decimal.MustParse("0.5"), decimal.FromInt(5),
	}).Draw(h.t, "units")
	d := h.check(e.units)
	u := enginetest.Usage(h.l, e.key, "ada", "f", 0)
	u.Units, u.OccurredAt, u.SubscriptionID = e.units, e.at, h.id
	r := h.l.DoPayload(billing.KindRecordUsage, u.Seal(nil))

	plan := h.planAt(e.at)
	pricing := h.pricing(plan)
	if pricing == nil {
		require.Equal(h.t, engine.OutcomeUnpriced.String(), r.Outcome.String())
		return
	}
	if v.EndedAt == 0 && e.at >= v.PeriodStart && e.at == h.now() {
		h.agrees(&d, r.Outcome)
	}
	if pricing.ResetMode == "reset" {
		if !r.Outcome.Refused() {
			h.events = append(h.events, e)
		}
		return
	}
	own := new(big.Rat).Set(rat(e.units))
	if before := h.usedUnder()[plan]; before != nil {
		own.Add(own, before)
	}
	passed := pricing.HasMax && own.Cmp(rat(pricing.MaxUsage)) > 0
	switch r.Outcome {
	case engine.OutcomeHardLimit:
		require.Equal(h.t, "hard", pricing.LimitMode)
		if len(h.phases()) == 1 { // no counter was carried on
			require.True(h.t, passed, "refused %s units, at the limit it would be %s", e.units, own)
		}
		return
	case engine.OutcomeDone:
		require.False(h.t, pricing.HasMax && own.Cmp(rat(pricing.MaxUsage)) >= 0,
			"%s says nothing of the limit", plan)
	default:
		require.Equal(h.t, engine.OutcomeLimitReached.String(), r.Outcome.String())
	}
	require.False(h.t, passed && pricing.LimitMode == "hard", "%s of 20 in %s", own, plan)
	h.events = append(h.events, e)
}

// check asks whether units may be used now. No counter is ever below zero.
func (h *sequences) check(units decimal.Decimal) (d billing.Decision) {
	h.m.Check(&billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte("f"), Track: true,
		Units: units, Now: h.l.Stamp,
	}, &d)
	require.GreaterOrEqual(h.t, d.Used.Sign(), 0, "used %s", d.Used)
	return d
}

// agrees: an event of now is refused exactly where a check says that it would pass a hard limit.
func (h *sequences) agrees(d *billing.Decision, came engine.Outcome) {
	require.Equal(h.t, d.HardLimit && d.WouldExceed, came == engine.OutcomeHardLimit,
		"%s of %s used, and the event is %s", d.Used, d.Limit, came)
}

// correct voids or amends an event.
func (h *sequences) correct() {
	if len(h.events) == 0 {
		return
	}
	e := h.events[rapid.IntRange(0, len(h.events)-1).Draw(h.t, "event")]
	key := billing.UsageKey(enginetest.Sandbox, []byte(e.key))
	ref, found, err := h.m.FindUsage(h.src, h.src, enginetest.Sandbox, key)
	require.NoError(h.t, err)
	if !found || e.voided {
		return
	}
	units := decimal.Decimal{}
	r := engine.Result{}
	if rapid.Bool().Draw(h.t, "void") {
		r = h.l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref,
		})
	} else {
		units = decimal.MustParse(rapid.SampledFrom([]string{"3", "12", "0.25"}).Draw(h.t, "units"))
		r = h.l.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: units,
			ID: enginetest.ID(h.mint()),
		})
	}
	if r.Outcome == engine.OutcomeDone {
		e.units, e.voided = units, units.IsZero()
		plan := h.planOf(e)
		p := h.pricing(plan)
		if p != nil && p.ResetMode == "accumulate" && p.LimitMode == "hard" && !e.voided {
			require.LessOrEqual(h.t, h.usedUnder()[plan].Cmp(rat(p.MaxUsage)), 0)
		}
		return
	}
	require.Contains(h.t, []engine.Outcome{
		engine.OutcomeHardLimit, engine.OutcomeUsageFinal,
	}, r.Outcome)
}

// change asks for another plan. That a downgrade is scheduled changes nothing of what is to come,
// but where the plan, or the one that was scheduled before, lacks the feature: then what is ahead
// of the period's end is billed with the period.
func (h *sequences) change(kind billing.ChangeType) {
	plan := rapid.SampledFrom([]string{"p0", "p1", "p2"}).Draw(h.t, "plan")
	before, lacked := h.upcoming(), h.lacks()
	h.l.Do(billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: h.id, ChangeID: enginetest.ID(h.mint()), Plan: plan, Type: kind,
	})
	if kind == billing.ChangeDowngrade && !lacked && !h.lacks() {
		require.Equal(h.t, before, h.upcoming())
	}
}

// lacks reports whether the plan of a scheduled change lacks the feature.
func (h *sequences) lacks() bool {
	changes, _ := h.m.PlanChanges(enginetest.Sandbox, h.id)
	return slices.ContainsFunc(changes, func(c billing.PlanChangeView) bool {
		return c.Status == billing.ChangePending && len(c.To.Features) == 0
	})
}

// upcoming is what the PENDING invoice bills of usage.
func (h *sequences) upcoming() (lines []string) {
	v, _ := h.m.Upcoming(enginetest.Sandbox, h.id)
	for i := range v.Items {
		if item := &v.Items[i]; item.FeatureKey != "" {
			lines = append(lines, fmt.Sprint(item.Quantity, " = ", item.Amount))
		}
	}
	return lines
}

func (h *sequences) end() {
	switch rapid.IntRange(0, 5).Draw(h.t, "end") {
	case 0:
		h.cancel(billing.CancelImmediate)
	case 1, 2:
		h.cancel(billing.CancelAtPeriodEnd)
	case 3, 4:
		h.l.Do(billing.KindRevertCancellation, &billing.RevertCancellation{
			Env: enginetest.Sandbox, ID: h.id,
		})
	default:
		h.l.Do(billing.KindCancelPlanChange, &billing.CancelPlanChange{
			Env: enginetest.Sandbox, ID: h.id,
		})
	}
}

func (h *sequences) cancel(mode billing.CancelMode) {
	h.l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: enginetest.Sandbox, ID: h.id, Mode: mode,
	})
}

// addUp: the lines of each plan add up to the rounded price of the units that are on them. It
// returns these units.
func (h *sequences) addUp() (lined map[string]*big.Rat) {
	lined = map[string]*big.Rat{}
	amounts := map[string]*big.Rat{}
	c, _ := h.m.Customer(enginetest.Sandbox, "ada")
	for _, v := range h.m.Invoices(enginetest.Sandbox, c.Row) {
		for i := range v.Items {
			if item := &v.Items[i]; item.FeatureKey != "" {
				plan := h.planAt(item.PeriodStart)
				add(lined, plan, rat(item.Quantity))
				add(amounts, plan, rat(item.Amount))
			}
		}
	}
	for plan, units := range lined {
		if h.pricing(plan).ResetMode == "reset" {
			continue // each period begins anew
		}
		want := h.versions[plan].oracle.Features[0].Model.Line(units, 2)
		require.Zero(h.t, want.Cmp(amounts[plan]), "%s: %s units cost %s, %s is invoiced", plan,
			units.FloatString(2), want.FloatString(2), amounts[plan].FloatString(2))
	}
	return lined
}

// finish ends the subscription: then all units are on lines, and the journal explains them.
func (h *sequences) finish() {
	h.cancel(billing.CancelImmediate)
	h.l.Stamp += 9 * dayMS // an invoice may wait, and late usage is billed at the end of a day
	h.tick()
	lined := h.addUp()
	for plan, units := range h.usedUnder() {
		add(lined, plan, new(big.Rat))
		require.Zero(h.t, units.Cmp(lined[plan]), "%s: used %s, %s are invoiced", plan,
			units.FloatString(2), lined[plan].FloatString(2))
	}
	c, _ := h.m.Customer(enginetest.Sandbox, "ada")
	verified(h.t, h.m, h.src, c.Row)
}
