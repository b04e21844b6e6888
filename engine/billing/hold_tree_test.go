package billing_test

import (
	"crypto/sha256"
	"slices"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

var (
	// heldZones are those of a heldHistory's limits: one begins its hours half an hour later.
	heldZones = []string{"", "Europe/Berlin", "Asia/Kolkata"}
	// heldBeginnings are when one begins: also the day before Berlin's clocks are changed.
	heldBeginnings = []int64{
		enginetest.Epoch, time.Date(2026, 3, 28, 15, 0, 0, 0, time.UTC).UnixMilli(),
		time.Date(2026, 10, 24, 15, 0, 0, 0, time.UTC).UnixMilli(),
	}
)

// Put makes a budget, or replaces what it limits, and whose it is.
func (h *heldHistory) Put(*rapid.T) {
	c := &billing.PutBudget{
		Env: enginetest.Sandbox, Key: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(h.T, "key"),
		Name: "n", Customer: rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(h.T, "owner"),
	}
	old := h.nodes[c.Key]
	if old == nil && len(h.order) > 0 {
		c.Parent = rapid.SampledFrom(append([]string{""}, h.order...)).Draw(h.T, "parent")
	}
	for _, d := range []billing.LimitDocument{
		{Of: billing.MeasureUnits, Feature: "words", Limit: decimal.FromInt(40)},
		{Of: billing.MeasureUnits, Feature: "videos", Limit: decimal.FromInt(70)},
		{Of: billing.MeasurePrice, Limit: decimal.FromInt(60)},
		{Of: billing.MeasureCost, Limit: decimal.FromInt(30)},
		{Of: billing.MeasurePrice, Feature: "lines", Limit: decimal.FromInt(25)},
	} {
		if rapid.Bool().Draw(h.T, "limits") {
			d.Window = rapid.SampledFrom([]billing.Window{
				billing.WindowHour, billing.WindowDay, billing.WindowLifetime,
			}).Draw(h.T, "window")
			if d.TimeZone = rapid.SampledFrom(heldZones).Draw(h.T, "zone"); d.TimeZone != "" {
				c.Zones = append(c.Zones, *enginetest.Zone(d.TimeZone))
			}
			d.Thresholds = heldThresholds
			d.Soft = rapid.IntRange(0, 3).Draw(h.T, "soft") == 0
			d.Limit = times(d.Limit, decimal.FromInt(rapid.Int64Range(1, 2).Draw(h.T, "times")))
			c.Limits = append(c.Limits, d)
		}
	}
	if r := h.do(billing.KindPutBudget, c); r.Outcome != engine.OutcomeDone {
		return
	}
	if old == nil {
		h.nodes[c.Key] = &heldNode{parent: c.Parent}
		h.order = append(h.order, c.Key)
	}
	if left := h.own(c.Customer); c.Customer != "" && left != "" {
		h.nodes[left].customer = ""
	}
	h.replace(c)
}

// replace gives a node the limits of a document: those that it had go on counting.
func (h *heldHistory) replace(c *billing.PutBudget) {
	n := h.nodes[c.Key]
	n.customer = c.Customer
	same := func(a, b *billing.LimitDocument) bool {
		zoned := a.Window != billing.WindowLifetime
		return a.Of == b.Of && a.Feature == b.Feature && a.Window == b.Window &&
			(!zoned || a.TimeZone == b.TimeZone)
	}
	was := n.limits
	n.limits, n.excused = c.Limits, make([]bool, len(c.Limits))
	n.quiet = make([]bool, len(c.Limits))
	for i := range n.excused {
		n.excused[i], n.quiet[i] = true, true // until what counts there is within it
	}
	h.putAnew(c.Key)
	for _, e := range h.events {
		if !slices.Contains(e.path, c.Key) {
			continue
		}
		// An event counts in a limit that was there when it was recorded, and ever since.
		counted := map[int]bool{}
		for i := range was {
			if e.since[c.Key]&(1<<i) != 0 {
				counted[i] = true
			}
		}
		e.since[c.Key] = 0
		for i := range n.limits {
			for j := range was {
				if counted[j] && same(&n.limits[i], &was[j]) {
					e.since[c.Key] |= 1 << i
				}
			}
		}
	}
}

func (h *heldHistory) Move(*rapid.T) {
	if len(h.order) == 0 {
		h.Skip()
	}
	c := &billing.MoveBudget{Env: enginetest.Sandbox}
	c.Key = rapid.SampledFrom(h.order).Draw(h.T, "key")
	c.Parent = rapid.SampledFrom(append([]string{""}, h.order...)).Draw(h.T, "parent")
	if h.do(billing.KindMoveBudget, c).Outcome == engine.OutcomeDone {
		h.nodes[c.Key].parent = c.Parent
	}
}

// Set freezes, unfreezes, or seldom archives a budget.
func (h *heldHistory) Set(*rapid.T) {
	if len(h.order) == 0 {
		h.Skip()
	}
	key := rapid.SampledFrom(h.order).Draw(h.T, "key")
	n := h.nodes[key]
	if rapid.IntRange(0, 5).Draw(h.T, "archives") == 0 {
		r := h.do(billing.KindArchiveBudget, &billing.ArchiveBudget{Env: enginetest.Sandbox, Key: key})
		require.Equal(h, engine.OutcomeDone, r.Outcome)
		n.archived = true
		return
	}
	frozen := rapid.IntRange(0, 3).Draw(h.T, "frozen") == 0
	r := h.do(billing.KindFreezeBudget, &billing.FreezeBudget{
		Env: enginetest.Sandbox, Key: key, Frozen: frozen,
	})
	if r.Outcome == engine.OutcomeDone {
		n.frozen = frozen
	}
}

// checkWindow: a limit's window has the present instant, and is an hour or a day of its time zone.
func (h *heldHistory) checkWindow(l *billing.LimitDocument, v *billing.BudgetLimitView) {
	if l.Window == billing.WindowLifetime {
		require.Zero(h, v.End)
		return
	}
	require.LessOrEqual(h, v.Start, h.l.Stamp)
	require.Less(h, h.l.Stamp, v.End)
	place, err := time.LoadLocation(l.TimeZone)
	require.NoError(h, err)
	start, end := time.UnixMilli(v.Start).In(place), time.UnixMilli(v.End).In(place)
	if l.Window == billing.WindowHour {
		require.Equal(h, 0, start.Minute()+start.Second())
		require.Equal(h, time.Hour, end.Sub(start))
		return
	}
	y, m, d := start.Date()
	require.Equal(h, time.Date(y, m, d, 0, 0, 0, 0, place), start)
	require.Equal(h, time.Date(y, m, d+1, 0, 0, 0, 0, place), end)
}

// heldSenders are API keys, by name, with what each is bound to, and what it said before it was
// bound to that.
type heldSenders struct {
	bound map[string]string
	old   map[string]heldSender
}

// heldSender is who sends a request: an API key that is bound to a budget, or to none. stale names
// a key of which the sender knows what it was bound to before.
type heldSender struct {
	billing.Principal
	bound, stale string
}

var heldKeyNames = []string{"first", "second"}

func (h *heldHistory) addSenders() {
	h.senders = heldSenders{map[string]string{}, map[string]heldSender{}}
	for _, name := range heldKeyNames {
		r := h.do(billing.KindCreateKey, &billing.CreateKey{
			Env: enginetest.Sandbox, ID: enginetest.ID(name), Hash: sha256.Sum256([]byte(name)),
			Scope: billing.ScopeFull, Label: name, Hint: "sk_test_",
		})
		require.Equal(h, engine.OutcomeDone, r.Outcome)
	}
}

// is returns what a node knows of a key now.
func (h *heldHistory) is(name string) heldSender {
	p, known := h.m.Authenticate(sha256.Sum256([]byte(name)))
	require.True(h, known)
	return heldSender{Principal: p, bound: h.senders.bound[name]}
}

// Bind binds a key to a budget, or to none.
func (h *heldHistory) Bind(*rapid.T) {
	name := rapid.SampledFrom(heldKeyNames).Draw(h.T, "key")
	budget := rapid.SampledFrom(append([]string{""}, h.order...)).Draw(h.T, "budget")
	was := h.is(name)
	r := h.do(billing.KindBindKey, &billing.BindKey{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Budget: budget,
	})
	require.Equal(h, engine.OutcomeDone, r.Outcome)
	if h.senders.bound[name] = budget; was.bound != budget {
		was.stale = name
		h.senders.old[name] = was
	}
}

// sender draws who sends a request: mostly a key that is bound to nothing.
func (h *heldHistory) sender() heldSender {
	if rapid.IntRange(0, 2).Draw(h.T, "bound") > 0 {
		return heldSender{}
	}
	name := rapid.SampledFrom(heldKeyNames).Draw(h.T, "sender")
	now := h.is(name)
	if old, had := h.senders.old[name]; had && rapid.IntRange(0, 5).Draw(h.T, "stale") == 0 &&
		old.Bindings != 0 && old.Bindings != now.Bindings {
		return old
	}
	return now
}

// rebound checks that the log refuses what a key was allowed before it was bound anew. It reports
// whether the sender is such.
func (h *heldHistory) rebound(r engine.Result, by heldSender) bool {
	if by.stale == "" {
		require.NotEqual(h, engine.OutcomeKeyRebound, r.Outcome)
		return false
	}
	require.Equal(h, engine.OutcomeKeyRebound.String(), r.Outcome.String())
	return true
}

func (h *heldHistory) within(budget, other string) bool {
	return slices.Contains(h.path(budget), other)
}

// choose is the budget at which a request of a customer counts that names one, by a key that is
// bound to one; both may be empty. False: they do not fit.
func (h *heldHistory) choose(customer, bound, named string) (node string, ok bool) {
	node = h.own(customer)
	switch {
	case bound == "":
	case node == "" || h.within(bound, node):
		node = bound
	case !h.within(node, bound):
		return "", false
	}
	if named == "" {
		return node, true
	}
	return named, node != "" && h.within(named, node)
}

// chooses checks that a request is let in where it fits the budgets, and returns the one at which
// it counts.
func (h *heldHistory) chooses(
	r engine.Result, by heldSender, customer, named string,
) (node string) {
	if h.rebound(r, by) {
		return ""
	}
	node, ok := h.choose(customer, by.bound, named)
	if !ok {
		require.True(h, r.Outcome.Refused(), "%q gets past %q: %s", named, by.bound, r.Outcome)
		return ""
	}
	require.NotEqual(h, engine.OutcomeBudgetUnknown, r.Outcome)
	return node
}

// reaches checks that a bound key changes reservations that are held at its budget or below it
// alone.
func (h *heldHistory) reaches(r engine.Result, by heldSender, held *heldReservation) {
	if h.rebound(r, by) || by.bound == "" {
		return
	}
	at := held.view.Budget
	require.Equal(h, at == "" || !h.within(at, by.bound), r.Outcome == engine.OutcomeBudgetUnknown,
		"%q of a key that is bound to %q: %s", at, by.bound, r.Outcome)
}

// corrects checks that a bound key corrects no event that counts elsewhere.
func (h *heldHistory) corrects(r engine.Result, by heldSender, e *heldEvent) {
	if h.rebound(r, by) || by.bound == "" || r.Outcome == engine.OutcomeBudgetUnknown {
		return
	}
	node, ok := h.choose(e.customer, by.bound, "")
	reached := ok && (len(e.path) == 0 || h.within(node, by.bound)) ||
		slices.Contains(e.path, by.bound)
	for _, at := range e.path {
		reached = reached || h.within(at, by.bound)
	}
	require.True(h, reached, "an event at %v of a key that is bound to %q", e.path, by.bound)
}
