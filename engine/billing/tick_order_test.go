package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestCreditsExpireInTurnWithHolds: a tick that comes late bills an expired hold from the credits
// of its instant, as a command of the customer does.
func TestCreditsExpireInTurnWithHolds(t *testing.T) {
	const hour = 3_600_000
	balance := func(command bool) string {
		s := newHeldSandbox(t)
		pool := s.m.Pools(1)[0].ID
		for name, g := range map[string]struct{ amount, hours int64 }{"soon": {10, 1}, "late": {50, 20}} {
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
				Env: 1, ID: enginetest.ID(name), Pool: pool, Amount: decimal.FromInt(g.amount),
				ExpiresAt: s.Stamp + g.hours*hour,
			}).Outcome)
		}
		c := enginetest.Reservation("r", "ada", "images", 10)
		c.SettleOnExpiry, c.TTLMS = true, 10*hour
		s.view(s.Do(billing.KindReserve, c))
		s.Stamp += 30 * hour
		if command {
			s.event("e", "calls", 1)
		}
		for at := s.m.NextDue(); at != 0 && at <= s.Stamp; at = s.m.NextDue() {
			s.DoPayload(engine.KindTick, nil)
		}
		return s.balance()
	}
	require.Equal(t, "100", balance(true))
	require.Equal(t, "100", balance(false))
}
