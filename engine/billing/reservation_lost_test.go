package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// pool is ada's first pool.
func (s *heldSandbox) pool() [16]byte { return s.m.Pools(1)[0].ID }

// overrun is what a reservation's first item has recorded beyond what fits.
func (s *heldSandbox) overrun(r engine.Result) string {
	s.t.Helper()
	return s.view(r).Items[0].Overrun.String()
}

// stops are the ways to stop a pool from paying.
func (s *heldSandbox) stops() map[string]func() engine.Result {
	return map[string]func() engine.Result{
		"frozen": func() engine.Result {
			return s.Do(billing.KindFreezePool, &billing.FreezePool{Env: 1, ID: s.pool()})
		},
		"archived": func() engine.Result {
			return s.Do(billing.KindArchivePool, &billing.ArchivePool{Env: 1, ID: s.pool()})
		},
	}
}

// TestAStoppedPoolPaysWhatItHolds: a pool that is frozen or archived under a hold takes no event
// and no new hold, and pays the settlement of what it held, also when the hold expires into usage.
func TestAStoppedPoolPaysWhatItHolds(t *testing.T) {
	for _, how := range []string{"frozen", "archived"} {
		t.Run(how, func(t *testing.T) {
			s := newHeldSandbox(t)
			s.view(s.reserve("r", "videos", 100)) // 50 credits of 100
			c := enginetest.Reservation("dies", "ada", "videos", 40)
			c.SettleOnExpiry = true
			s.view(s.Do(billing.KindReserve, c))
			first := s.pool()
			require.Equal(t, engine.OutcomeDone, s.stops()[how]().Outcome)
			require.Equal(t, "70", billing.StoppedHeld(s.m, first))
			s.Stamp++
			require.Equal(t, engine.OutcomeCreditsEmpty, s.event("e", "videos", 1))
			require.Equal(t, engine.OutcomeReservationShort, s.reserve("new", "videos", 1).Outcome)
			require.Equal(t, "100", s.balance())
			s.m = restored(t, enginetest.Snapshot(t, s.m))
			s.Machine = s.m

			part := func(c *billing.SettleReservation) { c.Partial = true }
			require.Equal(t, "0", s.overrun(s.settle("r", 30, part)))
			require.Equal(t, "85", s.balance())
			require.Equal(t, "0", s.overrun(s.settle("r", 100)))
			require.Equal(t, "50", s.balance())
			require.Equal(t, "20", billing.StoppedHeld(s.m, first))
			require.Zero(t, s.m.Stats().Overruns)

			s.Stamp += 600_000
			_, err := s.Apply(engine.Record{Kind: engine.KindTick})
			require.NoError(t, err)
			require.Equal(t, "30", s.balance())
			require.Zero(t, s.m.Stats().Overruns)
			s.m = restored(t, enginetest.Snapshot(t, s.m))
		})
	}
}

// TestAFrozenPoolThatIsArchivedPaysWhatItHeld when it was frozen, less what it has paid since.
func TestAFrozenPoolThatIsArchivedPaysWhatItHeld(t *testing.T) {
	s := newHeldSandbox(t)
	s.view(s.reserve("r", "videos", 100)) // 50 credits of 100
	require.Equal(t, engine.OutcomeDone, s.stops()["frozen"]().Outcome)
	s.Stamp++
	s.settle("r", 40, func(c *billing.SettleReservation) { c.Partial = true })
	require.Equal(t, "80", s.balance())
	require.Equal(t, engine.OutcomeDone, s.stops()["archived"]().Outcome)
	require.Equal(t, "30", billing.StoppedHeld(s.m, s.pool()))
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	require.Equal(t, "0", s.overrun(s.settle("r", 100)))
	require.Equal(t, "50", s.balance())
}

// TestAStoppedPoolPaysNoMoreThanItHolds: what goes beyond the hold is an overrun, and so is all of
// a hold that was made after the pool was stopped.
func TestAStoppedPoolPaysNoMoreThanItHolds(t *testing.T) {
	for _, how := range []string{"frozen", "archived"} {
		t.Run(how, func(t *testing.T) {
			s := newHeldSandbox(t)
			first := s.pool()
			s.view(s.reserve("r", "videos", 100))
			require.Equal(t, engine.OutcomeDone, s.stops()[how]().Outcome)
			s.Stamp++
			second := enginetest.ID("second")
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindCreatePool, &billing.CreatePool{
				Env: 1, ID: second, Customer: "ada", Name: "studio", HardLimit: true,
			}).Outcome)
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
				Env: 1, ID: enginetest.ID("g"), Pool: second, Amount: decimal.FromInt(80),
				ExpiresAt: s.Stamp + 1000,
			}).Outcome)
			// 50 of the second pool's stay for the first hold.
			s.view(s.reserve("later", "videos", 60))
			s.Stamp += 2000 // and have expired
			require.Equal(t, "60", s.overrun(s.settle("later", 60)))
			require.Equal(t, "10", s.overrun(s.settle("r", 110)))
			p, _ := s.m.Pool(enginetest.Sandbox, first)
			require.Equal(t, "50", p.Balance.String())
			require.EqualValues(t, 2, s.m.Stats().Overruns)
		})
	}
}

// TestAStoppedPoolWithoutALimitPaysWhatItHolds: what it held beyond its balance, too.
func TestAStoppedPoolWithoutALimitPaysWhatItHolds(t *testing.T) {
	s := newHeldSandbox(t)
	id := enginetest.ID("soft")
	require.Equal(t, engine.OutcomeDone, s.Do(billing.KindCreatePool, &billing.CreatePool{
		Env: 1, ID: id, Customer: "ada", Name: "studio",
	}).Outcome)
	s.view(s.reserve("r", "videos", 300)) // 150 credits of 100
	require.Equal(t, engine.OutcomeDone,
		s.Do(billing.KindFreezePool, &billing.FreezePool{Env: 1, ID: id}).Outcome)
	s.Stamp++
	require.Equal(t, "20", s.overrun(s.settle("r", 320)))
	p, _ := s.m.Pool(enginetest.Sandbox, id)
	require.Equal(t, "-50", p.Balance.String())
	require.Equal(t, "0", s.balance())
}

// TestAnArchivedPoolKeepsItsCredits: also where a reservation takes the last of a grant.
func TestAnArchivedPoolKeepsItsCredits(t *testing.T) {
	s := newHeldSandbox(t)
	for i := range int64(2) {
		require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
			Env: 1, ID: enginetest.ID(fmt.Sprint("g", i)), Pool: s.pool(), Amount: decimal.FromInt(10),
			ExpiresAt: s.Stamp + 1000*(i+1),
		}).Outcome)
	}
	s.view(s.reserve("r", "videos", 240))
	require.Equal(t, engine.OutcomeDone, s.stops()["archived"]().Outcome)
	part := func(c *billing.SettleReservation) { c.Partial = true }
	require.Equal(t, "0", s.overrun(s.settle("r", 20, part)))
	require.Equal(t, "0", s.overrun(s.settle("r", 200, part)))
	require.Equal(t, "20", s.balance())
	s.Stamp += 5000
	s.DoPayload(engine.KindTick, nil)
	require.Equal(t, "20", s.balance())
	s.m = restored(t, enginetest.Snapshot(t, s.m))
	s.Machine = s.m
	require.Equal(t, "0", s.overrun(s.settle("r", 240)))
	require.Equal(t, "0", s.balance())
}

// TestAStoppedPoolPaysNoLaterHold: what a reservation holds since it was extended, of another pool,
// the stopped one does not pay, whatever it was granted since, and whatever others held of it that
// have ended.
func TestAStoppedPoolPaysNoLaterHold(t *testing.T) {
	for _, how := range []string{"frozen", "archived"} {
		t.Run(how, func(t *testing.T) {
			s := newHeldSandbox(t)
			first := s.pool()
			grants := func(name string, pool [16]byte, amount, expires int64) engine.Outcome {
				return s.Do(billing.KindGrantCredits, &billing.GrantCredits{
					Env: 1, ID: enginetest.ID(name), Pool: pool, Amount: decimal.FromInt(amount),
					ExpiresAt: expires,
				}).Outcome
			}
			s.view(s.reserve("r", "videos", 4)) // 2 credits of 100
			for _, name := range []string{"released", "settled", "part"} {
				s.view(s.reserve(name, "videos", 40)) // 20 credits
			}
			expires := enginetest.Reservation("expires", "ada", "videos", 40)
			expires.TTLMS = 1000
			s.view(s.Do(billing.KindReserve, expires))
			require.Equal(t, engine.OutcomeDone, s.stops()[how]().Outcome)
			require.Equal(t, "82", billing.StoppedHeld(s.m, first))
			s.release("released")
			require.Equal(t, "62", billing.StoppedHeld(s.m, first))
			s.view(s.settle("settled", 10)) // 5 credits
			require.Equal(t, "42", billing.StoppedHeld(s.m, first))
			s.Stamp += 1000
			s.view(s.settle("part", 10, func(c *billing.SettleReservation) { c.Partial = true }))
			require.Equal(t, "17", billing.StoppedHeld(s.m, first))
			s.release("part")
			require.Equal(t, "2", billing.StoppedHeld(s.m, first))
			grants("more", first, 500, 0) // refused of an archived one
			second := enginetest.ID("second")
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindCreatePool, &billing.CreatePool{
				Env: 1, ID: second, Customer: "ada", Name: "studio", HardLimit: true,
			}).Outcome)
			require.Equal(t, engine.OutcomeDone, grants("g", second, 600, s.Stamp+2000))
			s.Stamp++
			s.view(s.Do(billing.KindExtendReservation, &billing.ExtendReservation{
				Env: 1, ID: enginetest.ID("reservation r"), Units: decimal.FromInt(1000),
			}))
			before, _ := s.m.Pool(enginetest.Sandbox, first)
			s.Stamp += 2000
			part := func(c *billing.SettleReservation) { c.Partial = true }
			require.Equal(t, "0", s.overrun(s.settle("r", 2, part)))
			require.Equal(t, "96", s.overrun(s.settle("r", 100, part)))
			require.Equal(t, "996", s.overrun(s.settle("r", 1000)))
			p, _ := s.m.Pool(enginetest.Sandbox, first)
			require.Equal(t, "2", without(before.Balance, p.Balance).String())
		})
	}
}

// TestWhatCreditsLackIsAnOverrun: grants that expire under a hold pay nothing, and what has no
// price is marked, whatever the reservation says of overruns. Reserved credits are not reversed.
func TestWhatCreditsLackIsAnOverrun(t *testing.T) {
	for _, refuses := range []bool{false, true} {
		t.Run(fmt.Sprint(refuses), func(t *testing.T) {
			s := newHeldSandbox(t)
			grant := enginetest.ID("g")
			require.Equal(t, engine.OutcomeDone, s.event("e", "videos", 200)) // what the plan gave
			require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
				Env: 1, ID: grant, Pool: s.pool(), Amount: decimal.FromInt(60), ExpiresAt: s.Stamp + 1000,
			}).Outcome)
			c := enginetest.Reservation("r", "ada", "videos", 100)
			c.RefuseOverrun = refuses
			s.view(s.Do(billing.KindReserve, c))
			s.view(s.reserve("small", "videos", 10))
			reverse := &billing.ReverseTransaction{Env: 1, ID: enginetest.ID("back"), Transaction: grant}
			require.Equal(t, engine.OutcomeCreditsEmpty,
				s.Do(billing.KindReverseTransaction, reverse).Outcome)
			require.Equal(t, "0", s.overrun(s.settle("small", 10)))
			require.Equal(t, "55", s.balance())

			s.Stamp += 1000
			v := s.view(s.settle("r", 100))
			require.Equal(t, "100", v.Items[0].Overrun.String())
			require.Equal(t, "100", v.Items[0].Settled.String())
			require.EqualValues(t, 1, s.m.Stats().Overruns)
		})
	}
}

// TestAReversalTakesWhatIsFree: once the hold has gone, or where the pool has more than is held.
func TestAReversalTakesWhatIsFree(t *testing.T) {
	s := newHeldSandbox(t)
	grant := func(name string, amount int64) [16]byte {
		id := enginetest.ID(name)
		require.Equal(t, engine.OutcomeDone, s.Do(billing.KindGrantCredits, &billing.GrantCredits{
			Env: 1, ID: id, Pool: s.pool(), Amount: decimal.FromInt(amount),
		}).Outcome)
		return id
	}
	reverse := func(id [16]byte) engine.Outcome {
		return s.Do(billing.KindReverseTransaction, &billing.ReverseTransaction{
			Env: 1, ID: enginetest.ID(fmt.Sprint("back ", id)), Transaction: id,
		}).Outcome
	}
	a, b := grant("a", 30), grant("b", 30)
	s.view(s.reserve("r", "videos", 240)) // 120 of 160
	require.Equal(t, engine.OutcomeDone, reverse(a))
	require.Equal(t, engine.OutcomeCreditsEmpty, reverse(b))
	s.release("r")
	require.Equal(t, engine.OutcomeDone, reverse(b))
	require.Equal(t, "100", s.balance())
}
