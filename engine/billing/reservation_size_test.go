package billing_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestTheTextOfAReservationIsBounded: of one with the longest key and meta, of eight features, that
// was extended, and settled in parts which named event keys, it takes 16 KiB at most.
func TestTheTextOfAReservationIsBounded(t *testing.T) {
	keys := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	for i := range keys {
		keys[i] = strings.Repeat(keys[i], 128)
	}
	s := newPricedSandbox(t, packages(keys...))
	c := enginetest.Reservation(strings.Repeat("\U0001F980", 255), "ada", keys[0], 1000)
	c.Items = nil
	for _, key := range keys {
		c.Items = append(c.Items, billing.ReserveItem{
			FeatureKey: key, Units: decimal.MustParse("123456789.123456789012"),
			Cost: decimal.MustParse("123456789.123456789012"), HasCost: true,
		})
	}
	c.Meta = []byte(`{"m":"` + strings.Repeat("x", 8<<10-8) + `"}`)
	v := s.view(s.Do(billing.KindReserve, c))
	s.view(s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
		Env: enginetest.Sandbox, ID: v.ID, TTLMS: 900_000,
	}))
	for n := range 40 {
		name := fmt.Sprintf("%d%s", n, strings.Repeat("e", 253))
		part := &billing.SettleReservation{
			Env: enginetest.Sandbox, ID: v.ID, Partial: n < 39, EventKey: name,
			Key: billing.UsageKey(enginetest.Sandbox, []byte(name)),
			Items: []billing.SettleItem{{
				FeatureKey: keys[0], Units: decimal.FromInt(int64(n) + 1), Cost: decimal.FromInt(1),
				HasCost: true,
			}},
		}
		require.Equal(t, engine.OutcomeDone, s.Do(billing.KindSettleReservation, part).Outcome)
	}
	longest := billing.MaxHoldText(s.m)
	require.Greater(t, longest, 12<<10)
	require.LessOrEqual(t, longest, 16<<10)
}
