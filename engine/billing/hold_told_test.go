package billing_test

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
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
