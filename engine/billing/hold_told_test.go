package billing_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// heldThresholds are those of every limit of a heldHistory, in percent.
var heldThresholds = []byte{50, 100}

// heldTold is what an endpoint of a heldHistory was told.
type heldTold struct {
	seen map[[16]byte]bool
	// once has each threshold that was told in a window; most the highest of a window.
	once map[string]bool
	most map[string]uint8
}

func (h *heldHistory) listen() {
	h.told = heldTold{map[[16]byte]bool{}, map[string]bool{}, map[string]uint8{}}
	r := h.l.Do(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
		Env: enginetest.Sandbox, ID: enginetest.ID("hook"), URL: "https://a.example/hook",
		Secret: []byte("sealed"), Actor: "ops",
	})
	require.Equal(h, engine.OutcomeDone, r.Outcome)
}

// putAnew forgets which thresholds of a budget were told: those of a higher limit are told again.
func (h *heldHistory) putAnew(budget string) {
	for key := range h.told.once {
		if strings.HasPrefix(key, budget+" ") {
			delete(h.told.once, key)
		}
	}
}

// checkTold reads what was told since the step before: what is true, and each threshold once in a
// window.
func (h *heldHistory) checkTold() {
	page, _, ok := h.m.WebhookDeliveries(&billing.DeliveryQuery{
		Env: enginetest.Sandbox, Endpoint: enginetest.ID("hook"), Limit: 100,
	})
	require.True(h, ok)
	for i := range page {
		if m := &page[i].Message; !h.told.seen[page[i].ID] && m.Percent > 0 {
			h.told.seen[page[i].ID] = true
			require.False(h, times(m.Used, decimal.FromInt(100)).
				Less(times(m.Limit, decimal.FromInt(int64(m.Percent)))), "%s of %s", m.Used, m.Limit)
			of := m.Customer + " " + m.FeatureKey
			if m.Type == billing.WebhookBudgetThreshold {
				of = toldOf(m.BudgetKey, m.LimitOf, m.FeatureKey, m.Window, m.PeriodStart)
			}
			once := fmt.Sprint(of, " at ", m.Percent)
			require.False(h, h.told.once[once], "%s is told twice", once)
			h.told.once[once], h.told.most[of] = true, max(h.told.most[of], m.Percent)
		}
	}
}

// toldOf names a window of a budget's limit.
func toldOf(budget, of, feature, window string, start int64) string {
	return fmt.Sprintf("%s %s %s %s %d", budget, of, feature, window, start)
}

// hasTold: a threshold that usage has reached was told.
func (h *heldHistory) hasTold(of string, used, limit decimal.Decimal) {
	for _, percent := range heldThresholds {
		if !times(used, decimal.FromInt(100)).Less(times(limit, decimal.FromInt(int64(percent)))) {
			require.GreaterOrEqual(h, h.told.most[of], percent, "%s: %s of %s", of, used, limit)
		}
	}
}

// rightly checks that what a limit refuses goes beyond it, with what was used and is held.
func (h *heldHistory) rightly(r engine.Result, c *heldCharge) {
	if r.Outcome != engine.OutcomeBudgetExceeded {
		return
	}
	var x billing.Refusal
	require.NoError(h, wire.Decode(r.Value, &x))
	amount := takes(&billing.LimitDocument{Of: x.Of, Feature: x.Feature}, c)
	require.True(h, x.Limit.Less(plus(plus(x.Used, x.Held), amount)), "%+v refuses %s", x, amount)
	v, ok := h.m.Budget(enginetest.Sandbox, x.Budget, 0)
	require.True(h, ok)
	for i := range v.Limits {
		l := &v.Limits[i]
		if l.Of != x.Of || l.FeatureKey != x.Feature || l.Window != x.Window {
			continue
		}
		want := fmt.Sprint(l.Used, " ", l.Held)
		if x.Start < l.Start {
			want = fmt.Sprint(x.Used, " 0")
		}
		require.Equal(h, want, fmt.Sprint(x.Used, " ", x.Held))
	}
}

// heldShare is how much of the cost of some units falls to others.
func heldShare(cost, units, of decimal.Decimal) decimal.Decimal {
	if units.Less(of) {
		cost, _ = times(cost, units).FloorDiv(of)
	}
	return cost
}

// checkCalls: used and held calls of a customer are within the limit, but for recorded overruns.
func (h *heldHistory) checkCalls(customer string) {
	var d billing.Decision
	h.m.Check(&billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte(customer), Feature: []byte("calls"), Now: h.l.Stamp,
	}, &d)
	held := decimal.Decimal{}
	for _, r := range h.holds {
		for i := range r.view.Items {
			if r.customer == customer && r.view.State == billing.ReservationOpen &&
				r.view.Items[i].FeatureKey == "calls" {
				held = plus(held, r.view.Items[i].Held)
			}
		}
	}
	require.Equal(h, held, d.Held)
	h.hasTold(customer+" calls", d.Used, decimal.FromInt(heldLimit))
	bound := plus(decimal.FromInt(heldLimit), h.overrun[customer])
	require.False(h, bound.Less(plus(d.Used, d.Held)), "%s used, %s held", d.Used, d.Held)
}
