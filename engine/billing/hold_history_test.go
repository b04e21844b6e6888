package billing_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/uuid"
	"tollgate/engine/wire"
)

// heldHistory is a history of reservations, events and budgets of two customers, with what was
// counted and is held in each budget kept by adding up what commands were answered.
type heldHistory struct {
	*rapid.T
	m    *billing.Machine
	l    *enginetest.Log
	src  *enginetest.Source
	made int
	// nodes are the budgets, by key, order their keys.
	nodes map[string]*heldNode
	order []string
	// events are what was counted, by key; holds the reservations, by key.
	events map[string]*heldEvent
	holds  map[string]*heldReservation
	keys   []string // of holds, in order
	// corrected are the reservations whose events callers have corrected.
	corrected map[[16]byte]bool
	// overrun is what was recorded of calls beyond the limit, by customer.
	overrun map[string]decimal.Decimal
	// overruns reports whether the step settled, billed or amended, which alone may go beyond a hard
	// limit; marked whether it said so, or had nothing to say it of.
	overruns, marked bool
	told             heldTold
	senders          heldSenders
	pool             heldPool
	began            int64 // log time
}

type heldNode struct {
	parent, customer string
	archived, frozen bool
	limits           []billing.LimitDocument
	// excused are the limits that were lowered below what counts there, or whose overrun was
	// recorded.
	excused []bool
	// quiet are those that may have been put at a threshold, which only usage reaches.
	quiet []bool
}

// heldCharge is what an event or a reservation counts of a feature.
type heldCharge struct {
	feature            string
	units, cost, price decimal.Decimal
}

type heldEvent struct {
	heldCharge
	// counted are the units and the cost of it that budgets count.
	counted  heldCharge
	at       int64
	path     []string       // the budgets in which it counts
	since    map[string]int // the limits there that have counted it, one bit for each
	stated   bool           // its cost
	customer string
	of       string // the reservation that it settles
	key      string // its key, where that settles and is known
	voided   bool
	// before is what parts had settled when it was billed, item what was held then, lates what late
	// settlements add to it.
	before decimal.Decimal
	item   billing.ReservationItemView
	lates  []heldLate
}

// heldLate is what one late settlement adds to a reservation's total, and costs the provider.
type heldLate struct {
	upTo, cost decimal.Decimal
	stated     bool
}

type heldReservation struct {
	customer string
	view     billing.ReservationView
	// charges are what the items hold, since they were held as they are.
	charges []heldCharge
}

const heldLimit = 60 // calls of a customer

// newHeldHistory makes a plan of words for 2 USD up to 15, 3 up to 30 and 1 behind that, lines for
// 1 USD that cost 0.25, calls, which are limited, boxes for 6 USD a package of 4, sheets for 3 USD
// up to 10, or 1 for all up to 20, or 2 for all, and images, which take 3 credits of 100.
func newHeldHistory(t *rapid.T) *heldHistory {
	m, began := billing.New(billing.Config{}), rapid.SampledFrom(heldBeginnings).Draw(t, "begins")
	h := &heldHistory{
		T: t, m: m, l: enginetest.NewLog(m, began), began: began, nodes: map[string]*heldNode{},
		src:    &enginetest.Source{Journal: m.Journal()},
		events: map[string]*heldEvent{}, holds: map[string]*heldReservation{},
		overrun: map[string]decimal.Decimal{}, corrected: map[[16]byte]bool{},
	}
	doc := enginetest.PrepaidPlan()
	doc.Plans[0].Features = doc.Plans[0].Features[1:] // videos
	for _, key := range []string{"words", "lines", "calls", "boxes", "sheets"} {
		f := billing.FeatureDocument{Key: key}
		if key == "lines" {
			f.HasCost, f.CostPerUnit = true, decimal.MustParse("0.25")
		}
		doc.Features = append(doc.Features, f)
		p := billing.PlanFeatureDocument{Key: key, PricingType: "usage_based"}
		tiers := func(first, price, second, behind, rest int64) []billing.TierDocument {
			return []billing.TierDocument{
				{UpTo: decimal.FromInt(first), PricePerUnit: decimal.FromInt(price)},
				{UpTo: decimal.FromInt(second), PricePerUnit: decimal.FromInt(behind)},
				{Infinite: true, PricePerUnit: decimal.FromInt(rest)},
			}
		}
		switch key {
		case "words":
			p.PricingType, p.Pricing.Tiers = "graduated", tiers(15, 2, 30, 3, 1)
		case "boxes":
			p.Pricing.Model, p.Pricing.PackageSize = "package", decimal.FromInt(4)
			p.Pricing.PricePerPackage = decimal.FromInt(6)
		case "sheets":
			p.Pricing.Model, p.Pricing.Tiers = "volume", tiers(10, 3, 20, 1, 2)
		case "lines":
			p.Pricing.PricePerUnit = decimal.FromInt(1)
		case "calls":
			p.Pricing.HasMax, p.Pricing.MaxUsage = true, decimal.FromInt(heldLimit)
			p.Pricing.LimitMode, p.Pricing.Thresholds = "hard", heldThresholds
		}
		doc.Plans[0].Features = append(doc.Plans[0].Features, p)
	}
	enginetest.NewAccount(h.l, doc)
	for _, name := range heldCustomers {
		enginetest.NewCustomer(h.l, name, "prepaid")
	}
	h.listen()
	h.addSenders()
	h.fund()
	return h
}

var (
	heldCustomers = []string{"ada", "bob"}
	heldFeatures  = []string{"words", "lines", "calls", "videos", "boxes", "sheets"}
)

// heldRated is what so many units of a feature cost.
func heldRated(feature string, units decimal.Decimal) decimal.Decimal {
	switch feature {
	case "words":
		second := decimal.Max(without(units, decimal.FromInt(15)), decimal.Decimal{})
		third := decimal.Max(without(units, decimal.FromInt(30)), decimal.Decimal{})
		return without(plus(times(units, decimal.FromInt(2)), second), times(third, decimal.FromInt(2)))
	case "lines":
		return units
	case "boxes":
		whole, _ := units.FloorDiv(decimal.FromInt(4))
		packages := whole.Round(0)
		if times(packages, decimal.FromInt(4)).Less(units) {
			packages = plus(packages, decimal.FromInt(1))
		}
		return times(packages, decimal.FromInt(6))
	case "sheets":
		for _, tier := range [][2]int64{{10, 3}, {20, 1}} {
			if !decimal.FromInt(tier[0]).Less(units) {
				return times(units, decimal.FromInt(tier[1]))
			}
		}
		return times(units, decimal.FromInt(2))
	}
	return decimal.Decimal{}
}

// added is what units add to the bill behind others.
func added(feature string, behind, units decimal.Decimal) decimal.Decimal {
	return without(heldRated(feature, plus(behind, units)), heldRated(feature, behind))
}

// billed is how many units of a feature a customer has used.
func (h *heldHistory) billed(customer, feature string) (sum decimal.Decimal) {
	for _, e := range h.events {
		if e.customer == customer && e.feature == feature {
			sum = plus(sum, e.units)
		}
	}
	return sum
}

// dearest is the most that units, or fewer, can cost behind what is billed, whatever comes between:
// prices change right behind whole numbers, and but for packages not behind 30.
func (h *heldHistory) dearest(
	customer, feature string, units decimal.Decimal,
) (most decimal.Decimal) {
	one, billed := decimal.FromInt(1), h.billed(customer, feature)
	last := plus(decimal.Max(billed, decimal.FromInt(30)), decimal.FromInt(4))
	for whole := billed; whole.Less(last); whole = plus(whole, one) {
		for _, from := range []decimal.Decimal{whole, plus(whole, decimal.FromBits(0, 1))} {
			most = decimal.Max(most, added(feature, from, units))
			for to := plus(whole, one); to.Less(plus(from, units)); to = plus(to, one) {
				most = decimal.Max(most, added(feature, from, without(to, from)))
			}
		}
	}
	return most
}

// holdsAnew notes what an item of a reservation holds from now on: after a part no more than that
// leaves, and where it only lives longer, no more than so far.
func (h *heldHistory) holdsAnew(r *heldReservation, i int, part *heldCharge) {
	for len(r.charges) < len(r.view.Items) {
		r.charges = append(r.charges, heldCharge{})
	}
	item := &r.view.Items[i]
	c := h.charge(item)
	c.price = h.dearest(r.customer, item.FeatureKey, item.Held)
	if was := &r.charges[i]; part != nil {
		left := func(held, counts decimal.Decimal) decimal.Decimal {
			return decimal.Max(without(held, counts), decimal.Decimal{})
		}
		c.price = decimal.Min(c.price, left(was.price, part.price))
		c.cost = decimal.Min(c.cost, left(was.cost, part.cost))
	}
	r.charges[i] = c
}

func (h *heldHistory) do(kind engine.Kind, c wire.Fielder) engine.Result {
	r := h.l.Do(kind, c)
	h.src.Keep(&h.l.Applied)
	return r
}

func (h *heldHistory) name(kind string) string {
	h.made++
	return fmt.Sprint(kind, h.made)
}

func (h *heldHistory) number(label string, maximum int64) decimal.Decimal {
	return decimal.FromInt(rapid.Int64Range(0, maximum).Draw(h.T, label))
}

// own is the key of a customer's own budget; empty: it has none.
func (h *heldHistory) own(customer string) string {
	for _, key := range h.order {
		if h.nodes[key].customer == customer {
			return key
		}
	}
	return ""
}

func (h *heldHistory) path(key string) (path []string) {
	for ; key != ""; key = h.nodes[key].parent {
		path = append(path, key)
	}
	return path
}

func times(a, b decimal.Decimal) decimal.Decimal {
	product, _ := a.Mul(b)
	return product
}

func plus(a, b decimal.Decimal) decimal.Decimal {
	sum, _ := a.Add(b)
	return sum
}

func without(a, b decimal.Decimal) decimal.Decimal { return plus(a, b.Neg()) }

// counts notes an event at a budget; empty: at none.
func (h *heldHistory) counts(key, budget string, e heldEvent) {
	e.at, e.path, e.since = h.l.Stamp, h.path(budget), map[string]int{}
	e.price = added(e.feature, h.billed(e.customer, e.feature), e.units)
	for _, at := range e.path {
		e.since[at] = 1<<len(h.nodes[at].limits) - 1
	}
	e.counted = e.heldCharge
	h.events[key] = &e
}

// Event records a usage event.
func (h *heldHistory) Event(*rapid.T) {
	key := h.name("e")
	customer := rapid.SampledFrom(heldCustomers).Draw(h.T, "customer")
	c := enginetest.Usage(h.l, key, customer, rapid.SampledFrom(heldFeatures).Draw(h.T, "feature"), 0)
	c.Units = h.number("units", 20)
	e := heldEvent{customer: customer}
	e.feature, e.units = string(c.EventName), c.Units
	if e.feature == "lines" {
		e.cost = times(c.Units, decimal.MustParse("0.25"))
	}
	if rapid.Bool().Draw(h.T, "states") {
		c.Cost, c.HasCost, e.stated = h.number("cost", 9), true, true
		e.cost = c.Cost
	}
	budget, by := h.budget(customer), h.sender()
	c.Budget, c.KeyBudget, c.Bindings = []byte(budget), by.Budget, by.Bindings
	r := h.l.DoPayload(billing.KindRecordUsage, c.Seal(nil))
	h.src.Keep(&h.l.Applied)
	h.note()
	budget = h.chooses(r, by, customer, budget)
	if r.Outcome.Refused() {
		e.price = added(e.feature, h.billed(customer, e.feature), e.units)
		h.rightly(r, &e.heldCharge)
		return
	}
	h.counts(key, budget, e)
}

// budget draws one that a request names; mostly none.
func (h *heldHistory) budget(string) string {
	if len(h.order) == 0 || rapid.IntRange(0, 2).Draw(h.T, "names") > 0 {
		return ""
	}
	return rapid.SampledFrom(h.order).Draw(h.T, "budget")
}

// Correct voids or amends an event: one that settles, too, which leaves its reservation as it is.
func (h *heldHistory) Correct(*rapid.T) {
	var keys []string
	for key, e := range h.events {
		if (e.of == "" || e.key != "") && !e.voided {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		h.Skip()
	}
	slices.Sort(keys)
	name := rapid.SampledFrom(keys).Draw(h.T, "event")
	e := h.events[name]
	if e.key != "" {
		name = e.key
		h.corrected[enginetest.ID("reservation "+e.of)] = true
	}
	key := billing.UsageKey(enginetest.Sandbox, []byte(name))
	ref, found, err := h.m.FindUsage(h.src, h.src, enginetest.Sandbox, key)
	require.NoError(h, err)
	require.True(h, found)
	by := h.sender()
	if rapid.Bool().Draw(h.T, "void") {
		dearer := e.counted.price.Sign() < 0 // others cost less for it
		h.refresh()
		h.checkTold()
		told := len(h.told.seen)
		r := h.do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, KeyBudget: by.Budget, Bindings: by.Bindings,
		})
		if h.corrects(r, by, e); r.Outcome.Refused() {
			require.NotEmpty(h, by.bound+by.stale, r.Outcome)
			return
		}
		h.checkTold()
		require.True(h, dearer || len(h.told.seen) == told, "a void tells nothing")
		h.note()
		h.overruns, h.marked = h.overruns || dearer, h.marked || dearer
		e.voided, e.heldCharge = true, heldCharge{feature: e.feature}
		e.counted = e.heldCharge
	} else {
		units := h.number("units", 25)
		r := h.do(billing.KindAmendUsage, &billing.AmendUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref, Units: units, ID: enginetest.ID(h.name("a")),
			KeyBudget: by.Budget, Bindings: by.Bindings,
		})
		h.note()
		h.corrects(r, by, e)
		delta := without(units, e.units)
		if r.Outcome.Refused() {
			more := heldCharge{feature: e.feature, units: delta}
			more.price = added(e.feature, h.billed(e.customer, e.feature), delta)
			if !e.stated && e.feature == "lines" {
				more.cost = times(delta, decimal.MustParse("0.25"))
			}
			h.rightly(r, &more)
			return
		}
		h.amends(e, delta, nil, by.bound)
	}
}

// amends changes an event by so many units, and to a cost that is stated. bound is the budget that
// the request's key is bound to.
func (h *heldHistory) amends(
	e *heldEvent, delta decimal.Decimal, stated *decimal.Decimal, bound string,
) {
	more, before := added(e.feature, h.billed(e.customer, e.feature), delta), e.cost
	if stated != nil {
		e.cost, e.stated = *stated, true
	}
	if e.units = plus(e.units, delta); !e.stated && e.feature == "lines" {
		e.cost = times(e.units, decimal.MustParse("0.25"))
	}
	c, cost := &e.counted, without(e.cost, before)
	anew := len(e.path) == 0
	if anew { // what it has more counts as usage of now, if the customer has a budget
		node, _ := h.choose(e.customer, bound, "")
		if delta.Sign() <= 0 && cost.Sign() <= 0 || node == "" {
			return
		}
		e.at, e.path, *c = h.l.Stamp, h.path(node), heldCharge{feature: e.feature}
		for _, at := range e.path {
			e.since[at] = 1<<len(h.nodes[at].limits) - 1
		}
	}
	zero := decimal.Decimal{}
	switch least := c.price.Neg(); {
	case anew && delta.Sign() >= 0: // as an event of so many units
	case least.Sign() <= 0: // it gives back no more than it counts
		more = decimal.Max(more, least)
	}
	c.price = plus(c.price, more)
	c.units = decimal.Max(plus(c.units, delta), zero)
	c.cost = decimal.Max(plus(c.cost, cost), zero)
}

// Reserve holds units of one or two features.
func (h *heldHistory) Reserve(*rapid.T) {
	key := h.name("r")
	customer := rapid.SampledFrom(heldCustomers).Draw(h.T, "customer")
	c := enginetest.Reservation(key, customer, rapid.SampledFrom(heldFeatures).Draw(h.T, "feature"), 1)
	if rapid.Bool().Draw(h.T, "two") {
		c.Items = append(c.Items, billing.ReserveItem{
			FeatureKey: rapid.SampledFrom(heldFeatures).Draw(h.T, "second"),
		})
	} else {
		c.Partial = rapid.Bool().Draw(h.T, "partial")
	}
	for i := range c.Items {
		c.Items[i].Units = plus(decimal.FromInt(1), h.number("units", 20))
		if rapid.Bool().Draw(h.T, "states") {
			c.Items[i].Cost, c.Items[i].HasCost = h.number("cost", 9), true
		}
	}
	c.TTLMS = rapid.SampledFrom([]int64{1000, 60_000, 600_000}).Draw(h.T, "ttl")
	c.Budget, c.DryRun = h.budget(customer), rapid.IntRange(0, 9).Draw(h.T, "dry") == 0
	c.RefuseOverrun = rapid.Bool().Draw(h.T, "refuses")
	c.SettleOnExpiry = rapid.Bool().Draw(h.T, "bills")
	by := h.sender()
	c.KeyBudget, c.Bindings = by.Budget, by.Bindings
	r := h.do(billing.KindReserve, c)
	h.note()
	want := h.chooses(r, by, customer, c.Budget)
	if len(c.Items) == 1 && !c.Partial {
		asked := &c.Items[0]
		i := billing.ReservationItemView{
			FeatureKey: asked.FeatureKey, Granted: asked.Units, Held: asked.Units,
			Cost: asked.Cost, HasCost: asked.HasCost,
		}
		charge := h.charge(&i)
		charge.price = h.dearest(customer, i.FeatureKey, i.Held)
		h.rightly(r, &charge)
	}
	if r.Outcome != engine.OutcomeDone || c.DryRun {
		return
	}
	v := h.decoded(r)
	require.Equal(h, want, v.Budget)
	for _, at := range h.path(v.Budget) {
		require.False(h, h.nodes[at].archived || h.nodes[at].frozen, "%s holds nothing new", at)
	}
	held := &heldReservation{customer: customer, view: v}
	for i := range v.Items {
		h.holdsAnew(held, i, nil)
	}
	h.holds[key] = held
	h.keys = append(h.keys, key)
}

func (h *heldHistory) decoded(r engine.Result) (v billing.ReservationView) {
	require.Equal(h, engine.OutcomeDone.String(), r.Outcome.String())
	require.NoError(h, wire.Decode(r.Value, &v))
	return v
}

// hold draws one of the newest reservations.
func (h *heldHistory) hold() (string, *heldReservation) {
	if len(h.keys) == 0 {
		h.Skip()
	}
	newest := h.keys[max(0, len(h.keys)-6):]
	key := rapid.SampledFrom(newest).Draw(h.T, "reservation")
	return key, h.holds[key]
}

// Settle settles a part, or for good: what is billed already is amended.
func (h *heldHistory) Settle(*rapid.T) {
	key, held := h.hold()
	c := &billing.SettleReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key),
		Partial: rapid.Bool().Draw(h.T, "part"),
	}
	for i := range held.view.Items {
		item := &held.view.Items[i]
		if len(held.view.Items) > 1 && rapid.IntRange(0, 3).Draw(h.T, "leaves") == 0 {
			continue
		}
		s := billing.SettleItem{FeatureKey: item.FeatureKey, Units: h.number("total", 26)}
		if rapid.IntRange(0, 2).Draw(h.T, "states") == 0 {
			s.Cost, s.HasCost = h.number("cost", 9), true
		}
		c.Items = append(c.Items, s)
	}
	if len(c.Items) == 0 {
		return
	}
	if rapid.IntRange(0, 3).Draw(h.T, "names its event") == 0 {
		c.EventKey = rapid.SampledFrom([]string{"k1", "k2", h.name("k")}).Draw(h.T, "key")
		c.Key = billing.UsageKey(c.Env, []byte(c.EventKey))
	}
	if rapid.Bool().Draw(h.T, "of another time") { // of the same period
		earliest := max(h.began-h.l.Stamp, -6*dayMS)
		c.OccurredAt = h.l.Stamp + rapid.Int64Range(earliest, 299_000).Draw(h.T, "occurred")
	}
	h.refresh() // what is due is billed before
	billed := held.view.State == billing.ReservationBilled
	if billed {
		for _, key := range h.m.ReservationEventKeys(c.Env, c.ID) {
			ref, found, err := h.m.FindUsage(h.src, h.src, c.Env, key)
			require.NoError(h, err)
			if found {
				c.Originals = append(c.Originals, ref)
			}
		}
	}
	before, by := held.view, h.sender()
	c.KeyBudget, c.Bindings = by.Budget, by.Bindings
	r := h.do(billing.KindSettleReservation, c)
	if h.reaches(r, by, held); r.Outcome != engine.OutcomeDone {
		return
	}
	held.view = h.decoded(r)
	h.overruns = h.overruns || billed && !held.view.RefuseOverrun
	for i := range held.view.Items {
		was, is := &before.Items[i], &held.view.Items[i]
		delta := without(is.Settled, was.Settled)
		h.marked = h.marked || was.Overrun.Less(is.Overrun) || billed && delta.Sign() <= 0
		if billed {
			h.amend(key, is, delta, c)
			continue
		}
		if delta.IsZero() {
			continue
		}
		e := heldEvent{customer: held.customer, of: key, stated: true}
		e.feature, e.units = is.FeatureKey, delta
		if e.feature == "lines" {
			e.cost, e.stated = times(delta, decimal.MustParse("0.25")), false
		} else if was.HasCost {
			e.cost = heldShare(was.Cost, delta, was.Granted)
		}
		for _, s := range c.Items {
			if s.FeatureKey == is.FeatureKey && s.HasCost {
				e.cost, e.stated = s.Cost, true
			}
		}
		if is.FeatureKey == "calls" {
			h.overrun[held.customer] = plus(h.overrun[held.customer], without(is.Overrun, was.Overrun))
		}
		if c.EventKey == "" && len(held.view.Items) == 1 {
			e.key = fmt.Sprintf("reservation:%s:%d", uuid.Text(c.ID),
				billing.EventsOf(h.m, c.Env, c.ID))
		}
		name := h.name("settled")
		h.counts(name, h.heldAt(held), e)
		part := &h.events[name].heldCharge
		if before.State == billing.ReservationOpen && !(before.RefuseOverrun && before.Budget != "") {
			h.settledBeyond(held, i, part)
		}
		h.holdsAnew(held, i, part)
	}
}

// settledBeyond notes that what a settlement counts may go beyond a hard limit where it is more
// than budgets have held. One that refuses is asked, if it is held there.
func (h *heldHistory) settledBeyond(r *heldReservation, item int, counts *heldCharge) {
	held := &r.charges[item]
	h.overruns = h.overruns || r.view.Budget == "" || held.units.Less(counts.units) ||
		held.cost.Less(counts.cost) || held.price.Less(counts.price)
}

// heldAt is the budget where what a reservation settles counts.
func (h *heldHistory) heldAt(held *heldReservation) string {
	if held.view.Budget != "" {
		return held.view.Budget
	}
	return h.own(held.customer)
}

// amend changes the newest event of a reservation's feature, as its late settlement does.
func (h *heldHistory) amend(
	key string, is *billing.ReservationItemView, delta decimal.Decimal, c *billing.SettleReservation,
) {
	e := h.newest(key, is.FeatureKey)
	stated := h.costsLate(e, c)
	if h.holds[key].view.Recorded {
		stated = nil
		if e != nil && e.stated {
			stated = new(decimal.Decimal) // the other event has it
		}
	}
	if delta.IsZero() && stated == nil {
		return
	}
	require.NotNil(h, e, "%s was not billed %s", key, is.FeatureKey)
	h.amends(e, delta, stated, "")
	if e.feature == "calls" && delta.Sign() > 0 {
		h.overrun[e.customer] = plus(h.overrun[e.customer], delta)
	}
}

// costsLate is what late settlements make an event cost: each adds the cost of its units, once,
// which it states, or the feature, or which is a share of what was expected. A final one that is
// lower than those states the cost of all, or leaves it in proportion. Where none has stated any,
// it is a share of what was billed. Nil: it follows from units, or a part would take something
// back.
func (h *heldHistory) costsLate(
	e *heldEvent, c *billing.SettleReservation,
) (stated *decimal.Decimal) {
	at := -1
	if e != nil {
		at = slices.IndexFunc(c.Items, func(s billing.SettleItem) bool {
			return s.FeatureKey == e.feature
		})
	}
	if at < 0 {
		return nil
	}
	s, last := &c.Items[at], e.before
	for _, late := range e.lates {
		last = late.upTo
	}
	unstated := func(units decimal.Decimal) (cost decimal.Decimal) {
		if e.feature == "lines" {
			return times(units, decimal.MustParse("0.25"))
		}
		return heldShare(e.item.Cost, units, e.item.Granted)
	}
	_, before := e.costLate()
	switch {
	case last.Less(s.Units) && !s.HasCost && !before: // as one
		e.lates = []heldLate{{s.Units, unstated(without(s.Units, e.before)), false}}
	case last.Less(s.Units):
		cost := s.Cost
		if !s.HasCost {
			cost = unstated(without(s.Units, last))
		}
		e.lates = append(e.lates, heldLate{s.Units, cost, s.HasCost})
	case c.Partial || !s.Units.Less(last):
	case s.HasCost:
		e.lates = []heldLate{{s.Units, s.Cost, true}}
	default:
		sum, said := e.costLate()
		share, _ := times(sum, without(s.Units, e.before)).FloorDiv(without(last, e.before))
		e.lates = []heldLate{{s.Units, share, said}}
	}
	sum, said := e.costLate()
	switch {
	case !said && !e.item.HasCost:
		return nil
	case !said:
		held := h.charge(&e.item)
		units := decimal.Max(without(s.Units, e.before), decimal.Decimal{})
		sum = heldShare(held.cost, units, held.units)
	}
	if !c.Partial || e.cost.Less(sum) {
		return &sum
	}
	return nil
}

// costLate adds up what late settlements cost, and reports whether any stated it.
func (e *heldEvent) costLate() (sum decimal.Decimal, stated bool) {
	for _, late := range e.lates {
		sum, stated = plus(sum, late.cost), stated || late.stated
	}
	return sum, stated
}

// newest is the event by which a reservation's expiry has billed a feature; nil: there is none.
func (h *heldHistory) newest(key, feature string) *heldEvent {
	for n := h.made; n > 0; n-- {
		e := h.events[fmt.Sprint("billed", n)]
		if e != nil && e.of == key && e.feature == feature {
			return e
		}
	}
	return nil
}

// Extend makes a reservation hold more, or for longer.
func (h *heldHistory) Extend(*rapid.T) {
	key, held := h.hold()
	c := &billing.ExtendReservation{Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key)}
	if len(held.view.Items) == 1 {
		c.Units = h.number("units", 30)
	}
	c.TTLMS = rapid.SampledFrom([]int64{0, 1000, 900_000}).Draw(h.T, "ttl")
	before, by := held.view, h.sender()
	c.KeyBudget, c.Bindings = by.Budget, by.Bindings
	r := h.do(billing.KindExtendReservation, c)
	h.note()
	if h.reaches(r, by, held); r.Outcome != engine.OutcomeDone {
		return
	}
	held.view = h.decoded(r)
	for i := range held.view.Items {
		switch {
		case held.view.Items[i].Granted != before.Items[i].Granted:
			h.holdsAnew(held, i, nil)
		case held.view.ExpiresAt != before.ExpiresAt:
			h.holdsAnew(held, i, &heldCharge{})
		}
	}
}

func (h *heldHistory) Release(*rapid.T) {
	key, held := h.hold()
	by := h.sender()
	r := h.do(billing.KindReleaseReservation, &billing.ReleaseReservation{
		Env: enginetest.Sandbox, ID: enginetest.ID("reservation " + key), KeyBudget: by.Budget,
		Bindings: by.Bindings,
	})
	h.note()
	if h.reaches(r, by, held); r.Outcome == engine.OutcomeDone {
		held.view = h.decoded(r)
	}
}

// Wait moves the time on, within the first period.
func (h *heldHistory) Wait(*rapid.T) {
	later := []int64{1, 1000, 59_000, 600_000, 3_600_000, 13 * 3_600_000}
	if h.l.Stamp-h.began > 26*dayMS {
		later = later[:2]
	}
	h.l.Stamp += rapid.SampledFrom(later).Draw(h.T, "later")
}

// Restore goes on with a machine that was restored.
func (h *heldHistory) Restore(*rapid.T) {
	m := restored(h, enginetest.Snapshot(h, h.m))
	require.Equal(h, enginetest.StateHash(h.m), enginetest.StateHash(m))
	h.m, h.l.Machine, h.src.Journal = m, m, m.Journal()
}

// refresh lets what is due expire, and notes what was billed.
func (h *heldHistory) refresh() {
	for at := h.m.NextDue(); at != 0 && at <= h.l.Stamp; at = h.m.NextDue() {
		h.l.DoPayload(engine.KindTick, nil)
		h.src.Keep(&h.l.Applied)
	}
	h.note()
}

// note notes what was billed of reservations that have expired, in the order in which they did.
func (h *heldHistory) note() {
	keys := slices.Clone(h.keys)
	slices.SortStableFunc(keys, func(a, b string) int {
		return cmp.Compare(h.holds[a].view.ExpiresAt, h.holds[b].view.ExpiresAt)
	})
	for _, key := range keys {
		held := h.holds[key]
		if held.view.State != billing.ReservationOpen {
			continue
		}
		v, ok := h.m.Reservation(enginetest.Sandbox, enginetest.ID("reservation "+key), h.l.Stamp)
		require.True(h, ok)
		if v.State == billing.ReservationBilled {
			for i := range held.view.Items {
				h.bill(key, held, i, &v.Items[i])
			}
		}
		held.view = v
	}
}

// bill notes what expiry billed of an item.
func (h *heldHistory) bill(
	key string, held *heldReservation, item int, is *billing.ReservationItemView,
) {
	was := &held.view.Items[item]
	delta := without(is.Settled, was.Settled)
	if delta.IsZero() {
		return
	}
	require.Equal(h, was.Held, delta, "what was held is billed")
	e := heldEvent{
		customer: held.customer, of: key, stated: was.HasCost, heldCharge: h.charge(was),
		before: was.Settled, item: *was,
	}
	name := h.name("billed")
	h.counts(name, h.heldAt(held), e)
	h.settledBeyond(held, item, &h.events[name].heldCharge)
	h.marked = h.marked || was.Overrun.Less(is.Overrun)
}

// charge is what the held units of an item may cost the provider.
func (h *heldHistory) charge(i *billing.ReservationItemView) heldCharge {
	c := heldCharge{feature: i.FeatureKey, units: i.Held}
	switch {
	case i.HasCost:
		c.cost = heldShare(i.Cost, i.Held, i.Granted)
	case c.feature == "lines":
		c.cost = times(c.units, decimal.MustParse("0.25"))
	}
	return c
}

// takes is what a limit counts of a charge.
func takes(l *billing.LimitDocument, c *heldCharge) (amount decimal.Decimal) {
	switch {
	case l.Feature != "" && l.Feature != c.feature:
		return amount
	case l.Of == billing.MeasureUnits:
		return c.units
	case l.Of == billing.MeasurePrice:
		return c.price
	}
	return c.cost
}

// check compares everything at the index that was applied last.
func (h *heldHistory) check() {
	h.refresh()
	require.NoError(h, billing.HeldAddsUp(h.m))
	require.NoError(h, billing.HeldCreditsAreThere(h.m))
	require.NoError(h, billing.SettledAddsUp(h.m, h.src, h.corrected))
	h.checkTold()
	h.checkPool()
	for _, name := range heldCustomers {
		h.checkCalls(name)
	}
	for _, key := range h.order {
		v, ok := h.m.Budget(enginetest.Sandbox, key, h.l.Stamp)
		require.True(h, ok)
		for i := range h.nodes[key].limits {
			h.checkLimit(key, i, &v.Limits[i])
		}
	}
	h.overruns, h.marked = false, false
}

func (h *heldHistory) checkLimit(key string, i int, v *billing.BudgetLimitView) {
	n := h.nodes[key]
	l := &n.limits[i]
	var used, held decimal.Decimal
	for _, e := range h.events {
		if slices.Contains(e.path, key) && e.since[key]&(1<<i) != 0 &&
			e.at >= v.Start && (v.End == 0 || e.at < v.End) {
			used = plus(used, takes(l, &e.counted))
		}
	}
	for _, x := range h.keys {
		r := h.holds[x]
		if r.view.State == billing.ReservationOpen && slices.Contains(h.path(r.view.Budget), key) {
			for j := range r.view.Items {
				held = plus(held, takes(l, &r.charges[j]))
			}
		}
	}
	require.Equal(h, fmt.Sprint(used, " ", held), fmt.Sprint(v.Used, " ", v.Held), "%s %s", key, l.Of)
	h.checkWindow(l, v)
	if times(used, decimal.FromInt(2)).Less(l.Limit) {
		n.quiet[i] = false
	}
	if !n.quiet[i] {
		of := toldOf(key, l.Of.String(), l.Feature, l.Window.String(), v.Start)
		h.hasTold(of, used, l.Limit)
	}
	within := !l.Limit.Less(plus(used, held))
	if within || v.Overrun && h.overruns {
		require.True(h, l.Soft || within || n.excused[i] || h.marked, "%s, %s: in no overrun", key, l.Of)
		n.excused[i] = !within
	}
	require.True(h, l.Soft || n.excused[i] || !l.Limit.Less(plus(used, held)),
		"%s, %s: %s used, %s held of %s", key, l.Of, used, held, l.Limit)
}

// actions are the steps of a history, the usual ones several times.
func (h *heldHistory) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"event": h.Event, "event ": h.Event, "correct": h.Correct, "reserve": h.Reserve,
		"reserve ": h.Reserve, "reserve  ": h.Reserve, "settle": h.Settle, "settle ": h.Settle,
		"settle  ": h.Settle, "extend": h.Extend, "release": h.Release, "wait": h.Wait,
		"put": h.Put, "put ": h.Put, "move": h.Move, "set": h.Set, "restore": h.Restore,
		"bind": h.Bind, "buy": h.Buy,
	}
}

// TestHistoriesOfHoldsAndBudgets: at every index of a history of reservations, partial and late
// settlements, expiry, corrections and budgets that are moved, frozen, archived, given to others,
// used and held stay within hard limits but for recorded overruns, hard pools have what is held of
// them, what is held is the sum of the open reservations, a reservation's events add up to what it
// is settled at, each limit has used and holds the sum of what lies below it, in windows of its
// time zone, each threshold that usage reaches is told, once in a window, keys that are bound to a
// budget reach what lies at it or below it and nothing else, and a pool that is low says so and
// buys.
func TestHistoriesOfHoldsAndBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHeldHistory(t)
		actions := h.actions()
		actions[""] = func(*rapid.T) { h.check() }
		t.Repeat(actions)
	})
}
