package billing_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/journal"
)

// TestCreditsAddUp: whatever happens to credits, granted − consumed − expired − reversed is what
// the grants hold less the overdraft, and a hard limit holds. Replay and snapshot agree.
func TestCreditsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		entries := enginetest.CreditEntries(t)
		whole := billing.New(billing.Config{})
		cut := rapid.IntRange(0, len(entries)-1).Draw(t, "cut")
		var middle []byte
		for i, e := range entries {
			enginetest.Outcomes(t, whole, uint64(i)+1, [][]byte{e})
			require.NoError(t, billing.CheckCredits(whole), "after entry %d", i)
			if i == cut {
				middle = enginetest.Snapshot(t, whole)
			}
		}
		requireProved(t, whole, &enginetest.Source{Journal: whole.Journal()})
		m := restored(t, middle)
		require.NoError(t, billing.CheckCredits(m))
		enginetest.Outcomes(t, m, uint64(cut)+2, entries[cut+1:])
		require.Equal(t, enginetest.StateHash(whole), enginetest.StateHash(m))
		require.Equal(t, whole.NextDue(), m.NextDue())
		require.True(t, bytes.Equal(enginetest.Snapshot(t, whole), enginetest.Snapshot(t, m)))
	})
}

// requireProved reports whether the journal alone makes every total of the first customer's pools.
func requireProved(t require.TestingT, m *billing.Machine, src journal.Source) {
	proofs, err := m.VerifyPools(src, enginetest.Sandbox, 1)
	require.NoError(t, err)
	require.Len(t, proofs, len(m.Pools(1)))
	for i := range proofs {
		require.Empty(t, proofs[i].Problem, "pool %d", i)
	}
}

func prepaid(t *testing.T) (*billing.Machine, *enginetest.Log) {
	t.Helper()
	return prepaidIn(t, billing.Config{})
}

func prepaidIn(t *testing.T, config billing.Config) (*billing.Machine, *enginetest.Log) {
	t.Helper()
	m := billing.New(config)
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.PrepaidPlan())
	enginetest.NewCustomer(l, "ada", "prepaid")
	return m, l
}

func send(t *testing.T, l *enginetest.Log, c *billing.RecordUsage) {
	t.Helper()
	r := l.DoPayload(billing.KindRecordUsage, c.Seal(nil))
	require.Equal(t, engine.OutcomeDone, r.Outcome)
}

func onlyPool(t *testing.T, m *billing.Machine) billing.PoolView {
	t.Helper()
	c, ok := m.Customer(enginetest.Sandbox, "ada")
	require.True(t, ok)
	pools := m.Pools(c.Row)
	require.Len(t, pools, 1)
	return pools[0]
}

// TestPeriodEndsRollOver: the cap bounds what stays, the next allocation comes on top.
func TestPeriodEndsRollOver(t *testing.T) {
	m, l := prepaid(t)
	require.Equal(t, "100", onlyPool(t, m).Balance.String())
	send(t, l, enginetest.Usage(l, "a", "ada", "videos", 20))
	billing.EndCreditPeriod(m, 1, l.Stamp)
	p := onlyPool(t, m)
	require.Equal(t, "130", p.Balance.String())
	require.Equal(t, []string{"200", "10", "60", "0"}, []string{
		p.TotalGranted.String(), p.TotalConsumed.String(), p.TotalExpired.String(),
		p.TotalReversed.String(),
	})
	grants, ok := m.Grants(enginetest.Sandbox, p.ID)
	require.True(t, ok)
	require.Equal(t, "ROLLOVER", grants[0].Type)
	require.Equal(t, "30", grants[0].Remaining.String())
	require.NoError(t, billing.CheckCredits(m))
}

// TestUpgradeGrantsTheDifference of allocations, and nothing if there is none.
func TestUpgradeGrantsTheDifference(t *testing.T) {
	for amount, balance := range map[int64]string{100: "100", 250: "250", 40: "100"} {
		m, l := prepaid(t)
		doc := enginetest.PrepaidPlan()
		doc.Plans[0].PriceAmount = decimal.FromInt(11)
		doc.Plans[0].CreditAllocations[0].Amount = decimal.FromInt(amount)
		l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox, doc))
		billing.UpgradeCredits(m, 1, 2, l.Stamp)
		require.Equal(t, balance, onlyPool(t, m).Balance.String(), "%d", amount)
	}
}

// TestCorrectionsGiveCreditsBack to the grants that paid, and the counter's cover follows.
func TestCorrectionsGiveCreditsBack(t *testing.T) {
	m, l := prepaid(t)
	send(t, l, enginetest.Usage(l, "a", "ada", "images", 40)) // 120 credits, 100 are there
	require.Equal(t, "0", onlyPool(t, m).Balance.String())
	require.Equal(t, "DEPLETED", onlyPool(t, m).Status)
	event := billing.LastBurn(m)
	require.Equal(t, "33.333333333334", event.Covered().String())

	fewer := event.Correct(m, decimal.FromInt(35), l.Stamp)
	require.Equal(t, "0", onlyPool(t, m).Balance.String(), "units without credits go first")
	fewer = fewer.Correct(m, decimal.FromInt(30), l.Stamp)
	require.Equal(t, "10.000000000002", onlyPool(t, m).Balance.String())
	moreUnits := fewer.Correct(m, decimal.FromInt(31), l.Stamp)
	require.Equal(t, "31", moreUnits.Covered().String())
	require.Equal(t, "7.000000000002", onlyPool(t, m).Balance.String())
	require.NoError(t, billing.CheckCredits(m))

	moreUnits.Correct(m, decimal.Decimal{}, l.Stamp)
	p := onlyPool(t, m)
	require.Equal(t, "100", p.Balance.String())
	require.True(t, p.TotalConsumed.IsZero())
	require.NoError(t, billing.CheckCredits(m))
	grants, _ := m.Grants(enginetest.Sandbox, p.ID)
	require.Len(t, grants, 1)
}

// TestCreditsThatComeBackTooLateExpire: the grant is over, so is what returns to it.
func TestCreditsThatComeBackTooLateExpire(t *testing.T) {
	m, l := prepaid(t)
	send(t, l, enginetest.Usage(l, "a", "ada", "videos", 200))
	event := billing.LastBurn(m)
	l.Stamp += 41 * 86_400_000
	event.Correct(m, decimal.Decimal{}, l.Stamp)
	p := onlyPool(t, m)
	require.Equal(t, []string{"0", "0", "100"}, []string{
		p.Balance.String(), p.TotalConsumed.String(), p.TotalExpired.String(),
	})
	require.NoError(t, billing.CheckCredits(m))
}

// TestChecksWithCreditsAllocateNothing, not even where they look through pools and grants.
func TestChecksWithCreditsAllocateNothing(t *testing.T) {
	m, l := prepaid(t)
	q := &billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte("images"), Now: l.Stamp,
		Track: true, Units: decimal.FromInt(40),
	}
	var d billing.Decision
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Check(q, &d) }))
	require.True(t, d.Allowed())
	require.Equal(t, "0.133333333333", d.ProjectedCost.String())
}

// TestArchivedPoolsMakeRoom: a customer whose pools are all archived can have others, as long as
// the walk over all of them stays short.
func TestArchivedPoolsMakeRoom(t *testing.T) {
	m, l := prepaid(t) // the plan has made one
	create := func(i int) engine.Outcome {
		return l.Do(billing.KindCreatePool, &billing.CreatePool{
			Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("pool ", i)), Customer: "ada",
			Name: "p",
		}).Outcome
	}
	archive := func(i int) {
		require.Equal(t, engine.OutcomeDone, l.Do(billing.KindArchivePool, &billing.ArchivePool{
			Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("pool ", i)),
		}).Outcome)
	}
	for i := 1; i < billing.MaxPools; i++ {
		require.Equal(t, engine.OutcomeDone, create(i))
	}
	require.Equal(t, engine.OutcomePoolLimit, create(9000))
	for i := billing.MaxPools; i < billing.MaxPoolRows; i++ {
		archive(i - 1)
		require.Equal(t, engine.OutcomeDone, create(i))
		require.Equal(t, engine.OutcomePoolLimit, create(9000), "31 of them are in use, and the plan's")
	}
	archive(1)
	require.Equal(t, engine.OutcomePoolLimit, create(9000), "there are too many to walk")
	c, _ := m.Customer(enginetest.Sandbox, "ada")
	require.Len(t, m.Pools(c.Row), billing.MaxPoolRows)
	send(t, l, enginetest.Usage(l, "a", "ada", "videos", 1))
	require.NoError(t, billing.CheckCredits(m))
}
