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

// TestPreviewsSayWhatIsIssued: what each preview says is what its command then issues, and looking
// changes nothing.
func TestPreviewsSayWhatIsIssued(t *testing.T) {
	d := newDesk(t)
	env, id := uint32(enginetest.Sandbox), enginetest.ID("s")
	two := enginetest.TokenPlan()
	two.Plans[0].Key, two.Plans[0].PriceAmount = "large", decimal.FromInt(300)
	d.is(engine.OutcomeDone, billing.KindApplyCatalog, enginetest.ApplyCatalog(env, two))
	issued := func() billing.InvoiceView {
		list := d.m.Invoices(env, 1)
		return list[len(list)-1]
	}
	same := func(seen billing.InvoiceView) {
		t.Helper()
		made := issued()
		require.Equal(t, made.Amount.String(), seen.Amount.String())
		require.Equal(t, made.Items, seen.Items)
		require.Equal(t, made.DueDate, seen.DueDate)
		require.Equal(t, made.Type, seen.Type)
	}
	_, hash := d.m.StateHash()
	seen, outcome := d.m.PreviewSubscription(env, "ada", "llm-team", d.Stamp)
	require.Equal(t, engine.OutcomeDone, outcome)
	_, after := d.m.StateHash()
	require.Equal(t, hash, after)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	same(seen)

	usage := enginetest.Usage(d.Log, "k", "ada", "input-tokens", 1_000_000)
	require.True(t, d.Do(billing.KindRecordUsage, usage).Outcome.Recorded())
	d.Stamp += 10 * 24 * 3600 * 1000
	change := &billing.ChangePlan{
		Env: env, ID: id, ChangeID: enginetest.ID("up"), Plan: "large", Type: billing.ChangeUpgrade,
	}
	views, outcome := d.m.PreviewPlanChange(env, id, "large", billing.ChangeUpgrade, d.Stamp)
	require.Equal(t, engine.OutcomeDone, outcome)
	require.Len(t, views, 1)
	later, outcome := d.m.PreviewPlanChange(env, id, "large", billing.ChangeDowngrade, d.Stamp)
	require.Equal(t, engine.OutcomeDone, outcome)
	require.Empty(t, later, "a downgrade bills nothing now")
	d.is(engine.OutcomeDone, billing.KindChangePlan, change)
	same(views[0])

	d.Stamp += 24 * 3600 * 1000
	views, outcome = d.m.PreviewCancellation(env, id, billing.CancelImmediate, d.Stamp)
	require.Equal(t, engine.OutcomeDone, outcome)
	d.is(engine.OutcomeDone, billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: env, ID: id, Mode: billing.CancelImmediate,
	})
	require.Len(t, views, 1, "the usage before the change is not billed yet")
	same(views[0])

	_, outcome = d.m.PreviewCancellation(env, id, billing.CancelImmediate, d.Stamp)
	require.Equal(t, engine.OutcomeSubscriptionEnded, outcome)
	_, outcome = d.m.PreviewSubscription(env, "nobody", "llm-team", d.Stamp)
	require.Equal(t, engine.OutcomeCustomerUnknown, outcome)
	_, outcome = d.m.PreviewSubscription(env, "ada", "nothing", d.Stamp)
	require.Equal(t, engine.OutcomePlanUnknown, outcome)
}

// TestPreviewsRefuseAsCommandsDo: where a command lacks room, its preview promises nothing.
func TestPreviewsRefuseAsCommandsDo(t *testing.T) {
	d := newDesk(t)
	env, id := uint32(enginetest.Sandbox), enginetest.ID("s")
	d.is(engine.OutcomeDone, billing.KindApplyCatalog,
		enginetest.ApplyCatalog(env, enginetest.PrepaidPlan()))
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	for i := range billing.MaxPools {
		d.is(engine.OutcomeDone, billing.KindCreatePool, &billing.CreatePool{
			Env: env, ID: enginetest.ID(fmt.Sprint("pool ", i)), Customer: "ada",
			Name: fmt.Sprint("pool ", i), Denomination: "credits",
		})
	}
	_, seen := d.m.PreviewSubscription(env, "ada", "prepaid", d.Stamp)
	require.Equal(t, engine.OutcomePoolLimit, seen)
	subscribe := d.subscribe()
	subscribe.ID, subscribe.InvoiceID, subscribe.Plan = [16]byte{1}, [16]byte{2}, "prepaid"
	d.is(seen, billing.KindCreateSubscription, subscribe)
	_, seen = d.m.PreviewPlanChange(env, id, "prepaid", billing.ChangeUpgrade, d.Stamp)
	require.Equal(t, engine.OutcomePoolLimit, seen)
	change := &billing.ChangePlan{
		Env: env, ID: id, ChangeID: enginetest.ID("up"), Plan: "prepaid", Type: billing.ChangeUpgrade,
	}
	d.is(seen, billing.KindChangePlan, change)

	for i := 1; i < billing.MaxSubscriptions; i++ {
		subscribe := d.subscribe()
		subscribe.ID, subscribe.InvoiceID = [16]byte{3, byte(i)}, [16]byte{4, byte(i)}
		d.is(engine.OutcomeDone, billing.KindCreateSubscription, subscribe)
	}
	_, seen = d.m.PreviewSubscription(env, "ada", "llm-team", d.Stamp)
	require.Equal(t, engine.OutcomeSubscriptionLimit, seen)
	subscribe.Plan = "llm-team"
	d.is(seen, billing.KindCreateSubscription, subscribe)
}

// TestAClockPreviewIsBounded: it looks no further than AdvanceClock goes, and does bounded work for
// each customer.
func TestAClockPreviewIsBounded(t *testing.T) {
	d := newDesk(t)
	const env = enginetest.Sandbox
	for i := range 40 {
		c := d.subscribe()
		c.ID, c.InvoiceID = [16]byte{1, byte(i)}, [16]byte{2, byte(i)}
		d.is(engine.OutcomeDone, billing.KindCreateSubscription, c)
		if i == 0 {
			p := d.m.PreviewClock(env, d.Stamp+5*365*24*3600*1000, d.Stamp)
			require.True(t, p.Whole)
			require.GreaterOrEqual(t, p.Invoices, 59, p)
		}
	}
	p := d.m.PreviewClock(env, d.Stamp+5*365*24*3600*1000, d.Stamp)
	require.False(t, p.Whole)
	require.NotZero(t, p.Invoices)
	require.Less(t, p.Invoices, 40*59)
	for to, outcome := range map[int64]engine.Outcome{
		253_370_764_800_000:          engine.OutcomeClockTooFar, // the year 9999
		d.Stamp + 6*365*24*3600*1000: engine.OutcomeClockTooFar,
		d.Stamp:                      engine.OutcomeClockBackwards,
		d.Stamp + 40*24*3600*1000:    engine.OutcomeDone,
	} {
		require.Equal(t, outcome, d.m.Advances(env, to, d.Stamp))
		require.Equal(t, outcome != engine.OutcomeDone, d.m.PreviewClock(env, to, d.Stamp).Invoices == 0)
	}
	live, _ := d.m.Environment("acme", billing.EnvironmentLive)
	require.Equal(t, engine.OutcomeClockLive, d.m.Advances(live, d.Stamp+1, d.Stamp))
	require.Equal(t, engine.OutcomeAccountUnknown, d.m.Advances(99, d.Stamp+1, d.Stamp))
}

// TestAGrantIsPreviewed: the balance and the outcome are those that the grant then has, and the
// features that it opens are those whose checks then are no longer denied for want of credits.
func TestAGrantIsPreviewed(t *testing.T) {
	m, l := prepaid(t)
	const env = enginetest.Sandbox
	pool, n := onlyPool(t, m), 0
	empty := func() (keys []string) {
		for _, key := range []string{"images", "videos"} {
			var d billing.Decision
			m.Check(&billing.CheckQuery{
				Env: env, Customer: []byte("ada"), Feature: []byte(key), Now: l.Stamp,
			}, &d)
			if d.Reason == billing.ReasonCreditsEmpty {
				keys = append(keys, key)
			}
		}
		return keys
	}
	grant := func(amount string, opens ...string) {
		t.Helper()
		n++
		seen, outcome := m.PreviewGrant(env, pool.ID, decimal.MustParse(amount), l.Stamp)
		before := empty()
		require.Equal(t, outcome, l.Do(billing.KindGrantCredits, &billing.GrantCredits{
			Env: env, ID: enginetest.ID(fmt.Sprint("grant ", n)), Pool: pool.ID,
			Amount: decimal.MustParse(amount),
		}).Outcome)
		if outcome != engine.OutcomeDone {
			require.Empty(t, seen.Opens)
			return
		}
		require.Equal(t, onlyPool(t, m).Balance.String(), seen.Balance.String())
		require.Equal(t, opens, seen.Opens)
		if len(opens) == 0 {
			require.Equal(t, before, empty())
		} else {
			require.Empty(t, empty())
		}
	}
	grant("5") // 105 are left: nothing was closed
	use := func(key string, videos int64) {
		send(t, l, enginetest.Usage(l, key, "ada", "videos", videos))
	}
	use("all", 210)
	require.Equal(t, []string{"videos"}, empty(), "images cost money then")
	grant("0.5", "videos")
	use("again", 1)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindFreezePool, &billing.FreezePool{
		Env: env, ID: pool.ID,
	}).Outcome)
	grant("3")
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindUnfreezePool, &billing.UnfreezePool{
		Env: env, ID: pool.ID,
	}).Outcome)
	require.Empty(t, empty())
	l.Stamp += 50 * 24 * 3600 * 1000 // some of it has expired
	l.DoPayload(engine.KindTick, nil)
	grant("1")
	grant(decimal.Largest().String())
	_, outcome := m.PreviewGrant(env, enginetest.ID("none"), decimal.FromInt(1), l.Stamp)
	require.Equal(t, engine.OutcomePoolUnknown, outcome)
}

// TestAGrantOpensNothingThatIsHeld: credits that reservations hold pay for nothing else, also those
// that have expired meanwhile.
func TestAGrantOpensNothingThatIsHeld(t *testing.T) {
	m, l := prepaid(t)
	const env = enginetest.Sandbox
	pool := onlyPool(t, m)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindGrantCredits, &billing.GrantCredits{
		Env: env, ID: enginetest.ID("short"), Pool: pool.ID, Amount: decimal.FromInt(5),
		ExpiresAt: l.Stamp + 1000,
	}).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindReserve,
		enginetest.Reservation("hold", "ada", "videos", 210)).Outcome)
	l.Stamp += 2000
	l.DoPayload(engine.KindTick, nil)
	for amount, opens := range map[int64][]string{3: nil, 6: {"videos"}} {
		seen, outcome := m.PreviewGrant(env, pool.ID, decimal.FromInt(amount), l.Stamp)
		require.Equal(t, engine.OutcomeDone, outcome)
		require.Equal(t, opens, seen.Opens)
		require.Equal(t, fmt.Sprint(100+amount), seen.Balance.String())
	}
}
