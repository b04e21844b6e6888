package billing_test

import (
	"fmt"
	"math/big"
	"reflect"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// projections is a sandbox to which things happen at random, on the machine and by the oracle.
type projections struct {
	t      *rapid.T
	m      *billing.Machine
	l      *enginetest.Log
	src    *enginetest.Source
	doc    billing.CatalogDocument
	places int
	plans  map[string]*enginetest.OraclePlan // the newest versions
	people []*person
	holds  []*projectionHold
	minted int
	// limited reports whether plans have limits. Usage names its subscription then.
	limited bool
	// snapshot is one that was taken after the entry before the cut-th.
	snapshot []byte
	cut      int
}

// person is a customer with what it has by the oracle.
type person struct {
	name   string
	oracle enginetest.OracleCustomer
	ids    [][16]byte // of its subscriptions
	events []*recorded
}

// recorded is a usage event with what correcting it needs.
type recorded struct {
	*enginetest.OracleEvent
	key   string
	stamp int64
	held  bool // it settles a reservation
}

var projectionFeatures = []string{"a", "b", "c"}

func newProjections(t *rapid.T) *projections {
	m := billing.New(billing.Config{})
	h := &projections{
		t: t, m: m, src: &enginetest.Source{Journal: m.Journal()}, places: 2,
		l: enginetest.NewLog(m, enginetest.Epoch), plans: map[string]*enginetest.OraclePlan{},
	}
	h.limited = rapid.IntRange(0, 2).Draw(t, "limited") == 0
	for _, key := range projectionFeatures {
		h.doc.Features = append(h.doc.Features, billing.FeatureDocument{Key: key})
	}
	currency := "USD"
	if rapid.IntRange(0, 4).Draw(t, "yen") == 0 {
		currency, h.places = "JPY", 0
	}
	for i := range 3 {
		p := h.drawPlan(fmt.Sprint("p", i))
		p.Currency = currency
		h.doc.Plans = append(h.doc.Plans, p)
	}
	h.l.Do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("demo"), Name: "demo"})
	h.apply()
	for _, name := range []string{"ada", "bob"} {
		enginetest.NewCustomer(h.l, name, "")
		h.people = append(h.people, &person{name: name})
		h.subscribe(h.people[len(h.people)-1])
	}
	h.wait()
	h.snapshot, h.cut = enginetest.Snapshot(t, m), len(h.l.Entries)
	return h
}

func (h *projections) mint() string {
	h.minted++
	return fmt.Sprint("minted ", h.minted)
}

func (h *projections) now() int64 { return h.m.EnvironmentNow(enginetest.Sandbox, h.l.Stamp) }

// expect carries a command out, whose outcome is known beforehand.
func (h *projections) expect(want engine.Outcome, r engine.Result) {
	h.t.Helper()
	require.Equal(h.t, want.String(), r.Outcome.String())
}

func (h *projections) drawPlan(key string) billing.PlanDocument {
	p := billing.PlanDocument{
		Key:            key,
		PriceAmount:    decimal.FromInt(rapid.Int64Range(0, 60).Draw(h.t, "price")),
		IntervalMonths: rapid.SampledFrom([]uint32{1, 1, 1, 3, 12}).Draw(h.t, "months"),
		BillingTiming: rapid.SampledFrom([]string{"IN_ADVANCE", "IN_ADVANCE", "IN_ARREARS"}).
			Draw(h.t, "timing"),
	}
	if rapid.Bool().Draw(h.t, "above") {
		p.InvoiceAbove = rapid.SampledFrom([]decimal.Decimal{
			decimal.FromInt(1), decimal.FromInt(3), decimal.FromInt(1000),
		}).Draw(h.t, "invoiceAbove")
	}
	for i, feature := range projectionFeatures {
		if i == 0 || rapid.IntRange(0, 3).Draw(h.t, "carried") > 0 {
			p.Features = append(p.Features, h.drawFeature(feature))
		}
	}
	return p
}

func (h *projections) drawFeature(key string) billing.PlanFeatureDocument {
	price := func() decimal.Decimal {
		return rapid.SampledFrom([]decimal.Decimal{
			decimal.MustParse("0.000015"), decimal.MustParse("0.005"), decimal.MustParse("0.333"),
			decimal.FromInt(2), decimal.FromInt(0),
		}).Draw(h.t, "price")
	}
	f := billing.PlanFeatureDocument{Key: key, PricingType: "usage_based"}
	if h.limited && rapid.IntRange(0, 2).Draw(h.t, "limit") > 0 {
		f.Pricing.HasMax = true
		f.Pricing.MaxUsage = decimal.FromInt(rapid.SampledFrom([]int64{5, 1000, 5000}).Draw(h.t, "of"))
		if rapid.IntRange(0, 3).Draw(h.t, "soft") > 0 {
			f.Pricing.LimitMode = "hard"
		}
	}
	model := rapid.SampledFrom([]string{"included", "per_unit", "graduated", "volume", "package"}).
		Draw(h.t, "model")
	switch model {
	case "included":
		f.PricingType = model
		return f
	case "per_unit":
		f.Pricing.PricePerUnit = price()
	case "package":
		f.Pricing.Model, f.Pricing.PricePerPackage = model, price()
		f.Pricing.PackageSize = decimal.FromInt(rapid.Int64Range(1, 700).Draw(h.t, "size"))
	default:
		if f.Pricing.Model = model; model == "graduated" {
			f.PricingType, f.Pricing.Model = model, ""
		}
		upTo := int64(0)
		for range rapid.IntRange(0, 2).Draw(h.t, "tiers") {
			upTo += rapid.Int64Range(1, 5000).Draw(h.t, "up to")
			f.Pricing.Tiers = append(f.Pricing.Tiers, billing.TierDocument{
				UpTo: decimal.FromInt(upTo), PricePerUnit: price(), FlatFee: price(),
			})
		}
		f.Pricing.Tiers = append(f.Pricing.Tiers, billing.TierDocument{
			Infinite: true, PricePerUnit: price(), FlatFee: price(),
		})
	}
	if rapid.IntRange(0, 3).Draw(h.t, "included") == 0 {
		f.Pricing.IncludedUnits = decimal.FromInt(1000)
	}
	if rapid.Bool().Draw(h.t, "accumulates") {
		f.Pricing.ResetMode = "accumulate"
	}
	return f
}

// apply makes the catalog the document; a plan that says something else than before has a new
// version.
func (h *projections) apply() {
	h.expect(engine.OutcomeDone, h.l.Do(billing.KindApplyCatalog,
		enginetest.ApplyCatalog(enginetest.Sandbox, h.doc)))
	for i := range h.doc.Plans {
		next := enginetest.OracleOf(&h.doc.Plans[i], h.places)
		if !reflect.DeepEqual(h.plans[next.Key], next) {
			h.plans[next.Key] = next
		}
	}
}

func (h *projections) archived(key string) bool {
	for i := range h.doc.Plans {
		if p := &h.doc.Plans[i]; p.Key == key {
			return p.Status == "ARCHIVED"
		}
	}
	return true
}

func (h *projections) plan() string {
	return rapid.SampledFrom([]string{"p0", "p1", "p2"}).Draw(h.t, "plan")
}

func (h *projections) subscribe(p *person) {
	plan := h.plan()
	name := h.mint()
	r := h.foretold(p, func() ([]billing.InvoiceView, engine.Outcome) {
		v, outcome := h.m.PreviewSubscription(enginetest.Sandbox, p.name, plan, h.l.Stamp)
		return []billing.InvoiceView{v}, outcome
	}, billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), InvoiceID: enginetest.ID("invoice " + name),
		Customer: p.name, Plan: plan, GraceDays: 7,
	})
	if h.archived(plan) {
		h.expect(engine.OutcomePlanInactive, r)
		return
	}
	h.expect(engine.OutcomeDone, r)
	p.oracle.Subscribe(h.plans[plan], h.now())
	p.ids = append(p.ids, enginetest.ID(name))
}

// units are drawn such that sums stay exact in both.
func (h *projections) units() decimal.Decimal {
	return rapid.SampledFrom([]decimal.Decimal{
		decimal.FromInt(0), decimal.FromInt(1), decimal.MustParse("0.5"),
		decimal.MustParse("3.333333333333"), decimal.FromInt(999), decimal.FromInt(4000),
	}).Draw(h.t, "units")
}

func rat(d decimal.Decimal) *big.Rat { return enginetest.Rat(d.String()) }

func (h *projections) use(p *person) {
	key := h.mint()
	feature := rapid.SampledFrom(projectionFeatures).Draw(h.t, "feature")
	u := enginetest.Usage(h.l, key, p.name, feature, 0)
	u.Units = h.units()
	u.OccurredAt = h.now() + rapid.OneOf(rapid.Int64Range(-6*dayMS, 0),
		rapid.Int64Range(-1000, 299_000)).Draw(h.t, "occurred")
	var of *enginetest.OracleSubscription
	if h.limited || rapid.Bool().Draw(h.t, "explicit") {
		i := rapid.IntRange(0, len(p.ids)-1).Draw(h.t, "of")
		u.SubscriptionID, of = p.ids[i], p.oracle.Subscriptions[i]
	} else {
		of = h.chosen(p, feature, u.OccurredAt)
	}
	r := h.l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	if h.refusedRightly(of, feature, u.Units, u.OccurredAt, r) {
		return
	}
	e := &recorded{key: key, stamp: h.l.Stamp}
	if of == nil {
		e.OracleEvent = &enginetest.OracleEvent{Feature: feature, Units: rat(u.Units), At: u.OccurredAt}
	} else {
		e.OracleEvent = of.Use(feature, rat(u.Units), u.OccurredAt, h.now())
	}
	p.events = append(p.events, e)
}

// refusedRightly reports whether an event was refused, which a hard limit alone does: of usage that
// counts at present, where used and held units would pass it.
func (h *projections) refusedRightly(
	of *enginetest.OracleSubscription, feature string, units decimal.Decimal, at int64,
	r engine.Result,
) bool {
	refused := r.Outcome.Refused()
	if refused {
		require.True(h.t, h.limited, r.Outcome)
		h.expect(engine.OutcomeHardLimit, r)
	}
	if h.limited && of.Present(at) {
		room, hard, known := of.Room(feature, rat(h.heldOf(of, feature)))
		if known {
			passes := hard && units.Sign() > 0 && room.Cmp(rat(units)) < 0
			require.Equal(h.t, passes, refused, "%s of %s, of which %v are left", units, feature, room)
		}
	}
	return refused
}

// heldOf is what reservations hold of a feature at a subscription.
func (h *projections) heldOf(
	of *enginetest.OracleSubscription, feature string,
) (sum decimal.Decimal) {
	for _, v := range h.holds {
		if v.of == of && v.feature == feature {
			sum = plus(sum, v.held())
		}
	}
	return sum
}

// chosen is the subscription that usage which names none is of: of those that carried the feature
// when it occurred the active ones before the suspended before the ended ones, each oldest first;
// where none had begun by then, of those that began afterwards. None of these plans has limits.
func (h *projections) chosen(p *person, feature string, at int64) *enginetest.OracleSubscription {
	for _, since := range []bool{false, true} {
		for _, life := range []string{"active", "suspended", "ended"} {
			for i, s := range p.oracle.Subscriptions {
				v, ok := h.m.Subscription(enginetest.Sandbox, p.ids[i])
				require.True(h.t, ok)
				is := "suspended"
				if v.IsActive {
					is = "active"
				} else if v.EndedAt != 0 {
					is = "ended"
				}
				candidate, began := s.Candidate(feature, at)
				if candidate && is == life && began != since {
					return s
				}
			}
		}
	}
	return nil
}

// correct voids or amends an event. Too old a one may be final.
func (h *projections) correct(p *person) {
	if len(p.events) == 0 {
		return
	}
	e := p.events[len(p.events)-1-rapid.IntRange(0, min(5, len(p.events)-1)).Draw(h.t, "event")]
	if e.held {
		return
	}
	key := billing.UsageKey(enginetest.Sandbox, []byte(e.key))
	ref, found, err := h.m.FindUsage(h.src, h.src, enginetest.Sandbox, key)
	require.NoError(h.t, err)
	old := h.l.Stamp-e.stamp >= 7*dayMS || h.now()-e.At >= 7*dayMS
	if !found {
		require.True(h.t, old, "forgotten too soon")
		return
	}
	units, want := decimal.Decimal{}, engine.OutcomeDone
	var r engine.Result
	void := rapid.IntRange(0, 2).Draw(h.t, "void") == 0
	if void {
		r = h.l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref,
		})
	} else {
		units = h.units()
		r = h.l.Do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: units,
			ID: enginetest.ID(h.mint()),
		})
		if e.Voided {
			want = engine.OutcomeUsageVoided
		}
	}
	switch {
	case r.Outcome == engine.OutcomeUsageFinal:
		require.True(h.t, old, "final too soon")
		return
	case r.Outcome == engine.OutcomeHardLimit && h.limited:
		require.Positive(h.t, rat(units).Cmp(e.Units), "the amendment takes something back")
		return
	}
	h.expect(want, r)
	if !e.Voided {
		e.Correct(rat(units), h.now())
		e.Voided = void
	}
}

// change upgrades or downgrades.
func (h *projections) change(p *person) {
	i := rapid.IntRange(0, len(p.ids)-1).Draw(h.t, "of")
	s, key := p.oracle.Subscriptions[i], h.plan()
	kind := rapid.SampledFrom([]billing.ChangeType{
		billing.ChangeUpgrade, billing.ChangeDowngrade,
	}).Draw(h.t, "kind")
	r := h.foretold(p, func() ([]billing.InvoiceView, engine.Outcome) {
		return h.m.PreviewPlanChange(enginetest.Sandbox, p.ids[i], key, kind, h.l.Stamp)
	}, billing.KindChangePlan, &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: p.ids[i], ChangeID: enginetest.ID(h.mint()), Plan: key,
		Type: kind,
	})
	switch {
	case s.EndedAt != 0:
		h.expect(engine.OutcomeSubscriptionEnded, r)
	case h.archived(key):
		h.expect(engine.OutcomePlanInactive, r)
	case s.Plan == h.plans[key]:
		h.expect(engine.OutcomePlanUnchanged, r)
	case kind == billing.ChangeDowngrade && s.Ends:
		h.expect(engine.OutcomeCancellationScheduled, r)
	case kind == billing.ChangeUpgrade:
		h.expect(engine.OutcomeDone, r)
		s.Upgrade(h.plans[key], h.now())
	default:
		h.expect(engine.OutcomeDone, r)
		s.To = func() *enginetest.OraclePlan {
			if h.archived(key) {
				return nil
			}
			return h.plans[key]
		}
	}
}

// end cancels, reverts, or takes a downgrade back.
func (h *projections) end(p *person) {
	i := rapid.IntRange(0, len(p.ids)-1).Draw(h.t, "of")
	s, id := p.oracle.Subscriptions[i], p.ids[i]
	want := engine.OutcomeDone
	switch rapid.IntRange(0, 6).Draw(h.t, "end") {
	case 0:
		r := h.cancel(p, id, billing.CancelImmediate)
		if h.expect(want, r); s.EndedAt == 0 {
			s.Cancel(h.now())
		}
	case 1, 2:
		r := h.cancel(p, id, billing.CancelAtPeriodEnd)
		if s.EndedAt != 0 {
			want = engine.OutcomeSubscriptionEnded
		} else if !s.Ends {
			s.Ends, s.To = true, nil
		}
		h.expect(want, r)
	case 3, 4:
		v, ok := h.m.Subscription(enginetest.Sandbox, id)
		require.True(h.t, ok)
		r := h.l.Do(billing.KindRevertCancellation, &billing.RevertCancellation{
			Env: enginetest.Sandbox, ID: id,
		})
		switch {
		case !s.Ends:
			want = engine.OutcomeNothingToRevert
		case !v.IsActive:
			want = engine.OutcomeRevertSuspended
		default:
			s.Ends = false
		}
		h.expect(want, r)
	default:
		r := h.l.Do(billing.KindCancelPlanChange, &billing.CancelPlanChange{
			Env: enginetest.Sandbox, ID: id,
		})
		if s.To == nil {
			want = engine.OutcomeNoChangePending
		}
		h.expect(want, r)
		s.To = nil
	}
}

func (h *projections) cancel(p *person, id [16]byte, mode billing.CancelMode) engine.Result {
	return h.foretold(p, func() ([]billing.InvoiceView, engine.Outcome) {
		v, ok := h.m.Subscription(enginetest.Sandbox, id)
		require.True(h.t, ok)
		views, outcome := h.m.PreviewCancellation(enginetest.Sandbox, id, mode, h.l.Stamp)
		if v.EndedAt != 0 && mode == billing.CancelImmediate { // done again, where the preview refuses
			require.Equal(h.t, engine.OutcomeSubscriptionEnded, outcome)
			return nil, engine.OutcomeDone
		}
		return views, outcome
	}, billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: enginetest.Sandbox, ID: id, Mode: mode,
	})
}

// foretold carries a command out of which a preview says beforehand whether it is refused, and
// which invoices it issues at once.
func (h *projections) foretold(p *person, preview func() ([]billing.InvoiceView, engine.Outcome),
	kind engine.Kind, c wire.Fielder,
) engine.Result {
	before := len(h.m.Invoices(enginetest.Sandbox, h.row(p)))
	seen, outcome := preview()
	r := h.l.Do(kind, c)
	h.expect(outcome, r)
	if r.Outcome.Refused() {
		return r
	}
	made := h.m.Invoices(enginetest.Sandbox, h.row(p))[before:]
	require.Len(h.t, seen, len(made))
	for i := range made {
		v := seen[i]
		v.ID, v.SubscriptionID, v.Number = made[i].ID, made[i].SubscriptionID, made[i].Number
		require.Equal(h.t, made[i], v)
	}
	return r
}

// settle pays or voids an invoice.
func (h *projections) settle(p *person) {
	all := h.m.Invoices(enginetest.Sandbox, h.row(p))
	i := rapid.IntRange(0, len(all)-1).Draw(h.t, "invoice")
	v, want := p.oracle.Invoices[i], engine.OutcomeDone
	status := v.Status(h.now())
	if rapid.Bool().Draw(h.t, "pay") {
		r := h.l.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: enginetest.Sandbox, ID: all[i].ID,
		})
		if status == billing.InvoiceVoid {
			want = engine.OutcomeInvoiceVoid
		} else if status != billing.InvoicePaid {
			v.PaidAt = h.now()
		}
		h.expect(want, r)
		return
	}
	seen, outcome := h.m.PreviewVoid(enginetest.Sandbox, all[i].ID, h.l.Stamp)
	credit := p.oracle.Credit()
	r := h.l.Do(billing.KindVoidInvoice, &billing.VoidInvoice{
		Env: enginetest.Sandbox, ID: all[i].ID,
	})
	if status == billing.InvoicePaid {
		want = engine.OutcomeInvoicePaid
	} else if status != billing.InvoiceVoid && !p.oracle.VoidInvoice(v) {
		want = engine.OutcomeCreditUsed
	}
	h.expect(want, r)
	switch {
	case outcome == engine.OutcomeInvoiceUnknown: // issued, and not stored yet
	case status == billing.InvoiceVoid:
		require.Equal(h.t, engine.OutcomeInvoiceVoid, outcome)
	default:
		require.Equal(h.t, want, outcome, "the preview")
		gained := new(big.Rat).Sub(p.oracle.Credit(), credit)
		if want == engine.OutcomeDone {
			require.Zero(h.t, gained.Cmp(rat(seen.Credit)), "the preview of the credit")
		}
	}
}
