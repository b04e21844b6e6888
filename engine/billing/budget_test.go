package billing_test

import (
	"bytes"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// budgeted is a machine whose customer ada has a budget of five levels.
func budgeted(t testing.TB, limit int64) (*enginetest.Log, *billing.Machine) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	do := func(kind engine.Kind, c wire.Fielder) {
		t.Helper()
		require.Equal(t, engine.OutcomeDone, l.DoPayload(kind, wire.Encode(nil, c)).Outcome)
	}
	do(billing.KindCreateAccount, &billing.CreateAccount{ID: enginetest.ID("a"), Name: "a"})
	do(billing.KindApplyCatalog, enginetest.ApplyCatalog(1, enginetest.TokenPlan()))
	do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: 1, ID: enginetest.ID("ada"), ExternalID: "ada", FirstName: "Ada", LastName: "Lovelace",
		Email: "ada@example.com",
	})
	do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: 1, ID: enginetest.ID("s"), InvoiceID: enginetest.ID("i"), Customer: "ada",
		Plan: "llm-team",
	})
	parent := ""
	for level := range 5 {
		c := &billing.PutBudget{
			Env: 1, Key: fmt.Sprint("level ", level), Name: "n", Parent: parent,
			Limits: []billing.LimitDocument{{
				Of: billing.MeasureUnits, Feature: "requests", Limit: decimal.FromInt(limit),
				Window: billing.WindowDay,
			}},
		}
		if parent = c.Key; level == 4 {
			c.Customer = "ada"
		}
		do(billing.KindPutBudget, c)
	}
	return l, m
}

// request is an event of one request of ada.
func request(l *enginetest.Log, key string) []byte {
	return (&billing.RecordUsage{
		Env: 1, Key: billing.UsageKey(1, []byte(key)), KeyText: []byte(key), Attempt: 1,
		Customer: []byte("ada"), EventName: []byte("requests"), Units: decimal.FromInt(1),
		OccurredAt: l.Stamp,
	}).Seal(nil)
}

// TestABudgetIsCountedOnce: of the events of one entry exactly as many fit as the budget has, the
// refusal says which limit of which log entry, and a refused key may be used again.
func TestABudgetIsCountedOnce(t *testing.T) {
	l, m := budgeted(t, 100)
	passed := 0
	for i := range 150 {
		r := l.DoPayload(billing.KindRecordUsage, request(l, fmt.Sprint("key ", i)))
		if r.Outcome == engine.OutcomeDone {
			passed++
			continue
		}
		require.Equal(t, engine.OutcomeBudgetExceeded, r.Outcome)
		var refused billing.Refusal
		require.NoError(t, wire.Decode(r.Value, &refused))
		require.Equal(t, "level 4", refused.Budget, "the nearest one")
		require.Equal(t, "requests", refused.Feature)
		require.Equal(t, decimal.FromInt(100), refused.Used)
		require.Equal(t, m.Applied(), refused.Index)
	}
	require.Equal(t, 100, passed)
	l.Stamp += 86_400_000
	require.Equal(t, engine.OutcomeDone,
		l.DoPayload(billing.KindRecordUsage, request(l, "key 149")).Outcome, "another day")
}

// TestAnEventBesideExpiredReservations: what is over no longer counts against an event, and what is
// billed at its end does not mix with what the event counts.
func TestAnEventBesideExpiredReservations(t *testing.T) {
	l, m := budgeted(t, 100)
	do := func(kind engine.Kind, c wire.Fielder) {
		t.Helper()
		require.Equal(t, engine.OutcomeDone, l.DoPayload(kind, wire.Encode(nil, c)).Outcome)
	}
	do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: 1, ID: enginetest.ID("bob"), ExternalID: "bob", FirstName: "Bob", LastName: "Bell",
		Email: "bob@example.com",
	})
	do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: 1, ID: enginetest.ID("s2"), InvoiceID: enginetest.ID("i2"), Customer: "bob",
		Plan: "llm-team",
	})
	do(billing.KindPutBudget, &billing.PutBudget{
		Env: 1, Key: "bob", Name: "Bob", Parent: "level 3", Customer: "bob",
	})
	for units, billed := range map[int64]bool{20: true, 60: false} { // any order: of one instant
		key := fmt.Sprint("hold ", units)
		do(billing.KindReserve, &billing.Reserve{
			Env: 1, ID: enginetest.ID(key), Key: billing.ReservationKey(1, []byte(key)), KeyText: key,
			Customer: "bob", TTLMS: 1000, SettleOnExpiry: billed,
			Items: []billing.ReserveItem{{FeatureKey: "requests", Units: decimal.FromInt(units)}},
		})
	}
	l.Stamp += 2000
	e := billing.RecordUsage{
		Env: 1, Key: billing.UsageKey(1, []byte("k")), KeyText: []byte("k"), Attempt: 1,
		Customer: []byte("ada"), EventName: []byte("requests"), Units: decimal.FromInt(50),
		OccurredAt: l.Stamp,
	}
	r := l.DoPayload(billing.KindRecordUsage, e.Seal(nil))
	require.Equal(t, engine.OutcomeDone, r.Outcome, "of 100, 20 are used and none are held")
	used := func(budget string) (used, held decimal.Decimal) {
		v, ok := m.Budget(1, budget, 0)
		require.True(t, ok)
		return v.Limits[0].Used, v.Limits[0].Held
	}
	ada, _ := used("level 4")
	require.Equal(t, decimal.FromInt(50), ada)
	all, held := used("level 0")
	require.Equal(t, decimal.FromInt(70), all)
	require.Zero(t, held)
}

func TestACheckWithABudgetAllocatesNothing(t *testing.T) {
	l, m := budgeted(t, 100)
	q := billing.CheckQuery{
		Env: 1, Customer: []byte("ada"), Feature: []byte("requests"), Now: l.Stamp, Track: true,
		Units: decimal.FromInt(101),
	}
	var d billing.Decision
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Check(&q, &d) }))
	require.Equal(t, billing.ReasonBudgetExceeded, d.Reason)
	require.Equal(t, "level 4", d.Refused.Budget)
	q.Units = decimal.FromInt(100)
	require.Zero(t, testing.AllocsPerRun(100, func() { m.Check(&q, &d) }))
	require.True(t, d.Allowed())
}

// TestABindingAfterASnapshotIsNotInIt: a binding that came after a snapshot began is not in it.
func TestABindingAfterASnapshotIsNotInIt(t *testing.T) {
	l, m := budgeted(t, 100)
	do := func(kind engine.Kind, c wire.Fielder) {
		require.Equal(t, engine.OutcomeDone, l.DoPayload(kind, wire.Encode(nil, c)).Outcome)
	}
	do(billing.KindCreateKey, &billing.CreateKey{
		Env: 1, ID: enginetest.ID("k"), Hash: [32]byte{1}, Scope: billing.ScopeFull,
	})
	before := enginetest.Snapshot(t, m)
	sn, err := m.Snapshot()
	require.NoError(t, err)
	do(billing.KindBindKey, &billing.BindKey{Env: 1, ID: enginetest.ID("k"), Budget: "level 2"})
	var late bytes.Buffer
	_, err = sn.WriteTo(&late)
	require.NoError(t, err)
	sn.Release()
	require.Equal(t, before, late.Bytes())
	p, ok := m.Authenticate([32]byte{1})
	require.True(t, ok)
	require.NotZero(t, p.Budget)
	again := restored(t, enginetest.Snapshot(t, m))
	same, _ := again.Authenticate([32]byte{1})
	require.Equal(t, p, same)
	require.Equal(t, "level 2", again.Keys(1)[0].Budget)
}

// TestABindingOnTheWay: an API key is bound to another budget between the lookup of the key and the
// entry of its event or reservation. Neither counts where the key was bound before, or at none; a
// repeat is recognized, whatever was bound since.
func TestABindingOnTheWay(t *testing.T) {
	l, m := budgeted(t, 100)
	do := func(kind engine.Kind, c wire.Fielder) {
		require.Equal(t, engine.OutcomeDone, l.DoPayload(kind, wire.Encode(nil, c)).Outcome)
	}
	create := func(n byte) {
		do(billing.KindCreateKey, &billing.CreateKey{
			Env: 1, ID: enginetest.ID(fmt.Sprint("k", n)), Hash: [32]byte{n}, Scope: billing.ScopeFull,
		})
	}
	bind := func(n byte, budget string) {
		do(billing.KindBindKey, &billing.BindKey{
			Env: 1, ID: enginetest.ID(fmt.Sprint("k", n)), Budget: budget,
		})
	}
	lookup := func() billing.Principal {
		p, ok := m.Authenticate([32]byte{1})
		require.True(t, ok)
		return p
	}
	id := func(key string) [16]byte { return enginetest.ID("reservation " + key) }
	changes := func(key string, p billing.Principal) (outcomes [3]engine.Outcome) {
		for i, c := range []struct {
			kind engine.Kind
			wire.Fielder
		}{
			{billing.KindExtendReservation, &billing.ExtendReservation{
				Env: 1, ID: id(key), TTLMS: 60_000, KeyBudget: p.Budget, Bindings: p.Bindings,
			}},
			{billing.KindSettleReservation, &billing.SettleReservation{
				Env: 1, ID: id(key), Partial: true, KeyBudget: p.Budget, Bindings: p.Bindings,
				Items: []billing.SettleItem{{Units: decimal.FromInt(1)}},
			}},
			{billing.KindReleaseReservation, &billing.ReleaseReservation{
				Env: 1, ID: id(key), KeyBudget: p.Budget, Bindings: p.Bindings,
			}},
		} {
			outcomes[i] = l.Do(c.kind, c.Fielder).Outcome
		}
		return outcomes
	}
	all := func(o engine.Outcome) [3]engine.Outcome { return [3]engine.Outcome{o, o, o} }
	tries := func(key string, p billing.Principal) (used, reserved engine.Outcome) {
		u := enginetest.Usage(l, key, "ada", "requests", 1)
		u.KeyBudget, u.Bindings = p.Budget, p.Bindings
		used = l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome
		c := enginetest.Reservation(key, "ada", "requests", 1)
		c.KeyBudget, c.Bindings = p.Budget, p.Bindings
		return used, l.Do(billing.KindReserve, c).Outcome
	}
	create(1)
	create(2)
	unbound := lookup()
	require.NotZero(t, unbound.Bindings)
	bind(1, "level 2")
	used, reserved := tries("a", unbound)
	require.Equal(t, engine.OutcomeKeyRebound, used)
	require.Equal(t, engine.OutcomeKeyRebound, reserved)

	bound := lookup()
	used, reserved = tries("a", bound)
	require.Equal(t, engine.OutcomeDone, used)
	require.Equal(t, engine.OutcomeDone, reserved)
	require.Equal(t, all(engine.OutcomeKeyRebound), changes("a", unbound))
	bind(1, "level 3")
	require.Equal(t, all(engine.OutcomeKeyRebound), changes("a", bound))
	used, reserved = tries("b", bound)
	require.Equal(t, engine.OutcomeKeyRebound, used)
	require.Equal(t, engine.OutcomeKeyRebound, reserved)
	repeat := bound
	repeat.Bindings = lookup().Bindings
	used, reserved = tries("a", repeat)
	require.Equal(t, engine.OutcomeDone, used)
	require.Equal(t, engine.OutcomeDone, reserved)

	// A key reaches what is held at its budget or below it, and nothing beside that.
	below := lookup()
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindPutBudget, &billing.PutBudget{
		Env: 1, Key: "beside", Name: "n", Parent: "level 3",
	}).Outcome)
	beside := below
	beside.Budget = billing.BudgetRow(m, 1, "beside")
	require.Equal(t, all(engine.OutcomeBudgetUnknown), changes("a", beside))
	require.Equal(t, all(engine.OutcomeDone), changes("a", below))
	require.Equal(t, all(engine.OutcomeBudgetUnknown), changes("a", beside), "once it has ended, too")

	// The number follows from the keys: it is the same after a restore, and when all is as before.
	again := restored(t, enginetest.Snapshot(t, m))
	same, _ := again.Authenticate([32]byte{1})
	require.Equal(t, lookup(), same)
	bind(2, "level 2")
	require.NotEqual(t, same.Bindings, lookup().Bindings)
	bind(2, "")
	require.Equal(t, same.Bindings, lookup().Bindings)
	bind(1, "")
	require.Equal(t, unbound, lookup())
}

func BenchmarkCheckWithBudget(b *testing.B) {
	l, m := budgeted(b, 1e9)
	for _, units := range []int64{0, 1} {
		q := billing.CheckQuery{
			Env: 1, Customer: []byte("ada"), Feature: []byte("requests"), Now: l.Stamp,
			Track: units > 0, Units: decimal.FromInt(units),
		}
		b.Run(fmt.Sprint("units=", units), func(b *testing.B) {
			b.ReportAllocs()
			var d billing.Decision
			for b.Loop() {
				m.Check(&q, &d)
			}
		})
	}
}

// BenchmarkApplyBudgetedUsage is BenchmarkApplyUsage of a thousand customers whose events count at
// so many levels of budgets, each with a limit of price, and without any.
func BenchmarkApplyBudgetedUsage(b *testing.B) {
	for _, levels := range []int{0, 5} {
		b.Run(fmt.Sprint("levels=", levels), func(b *testing.B) {
			m, l := populated(1000)
			put := func(key, parent, customer string) {
				c := billing.PutBudget{
					Env: enginetest.Sandbox, Key: key, Name: key, Parent: parent, Customer: customer,
					Limits: []billing.LimitDocument{{
						Of: billing.MeasurePrice, Limit: decimal.FromInt(1e12), Window: billing.WindowMonth,
					}},
				}
				r := l.DoPayload(billing.KindPutBudget, wire.Encode(nil, &c))
				require.Equal(b, engine.OutcomeDone, r.Outcome)
			}
			parent := ""
			for i := 1; i < levels; i++ {
				key := fmt.Sprint("level ", i)
				put(key, parent, "")
				parent = key
			}
			for i := 0; levels > 0 && i < 1000; i++ {
				put(customerName(i), parent, customerName(i))
			}
			applyUsage(b, m, l, 1000)
		})
	}
}

// TestChecksBesideBudgetsThatChange: checks and queries of one environment, where holds are over,
// run while budgets of it and of another one are moved, bound to customers, given zones, and hold.
// The race detector has nothing to say.
func TestChecksBesideBudgetsThatChange(t *testing.T) {
	l, m := budgeted(t, 1000)
	l.Keep = false
	put := func(env uint32, key, parent, customer, zone string) {
		c := &billing.PutBudget{
			Env: env, Key: key, Name: "n", Parent: parent, Customer: customer,
			Limits: []billing.LimitDocument{{
				Of: billing.MeasureCost, Limit: decimal.FromInt(9), Window: billing.WindowDay,
				TimeZone: zone,
			}},
		}
		if zone != "" {
			c.Zones = append(c.Zones, *enginetest.Zone(zone))
		}
		l.DoPayload(billing.KindPutBudget, wire.Encode(nil, c))
	}
	put(1, "zoned", "level 0", "", "Europe/Berlin")
	reserve := func(env uint32, budget string, n int) {
		c := enginetest.Reservation(fmt.Sprint(budget, n), "ada", "requests", 1)
		c.Env, c.Budget, c.TTLMS = env, budget, 600_000+int64(n)
		c.Key = billing.ReservationKey(env, []byte(c.KeyText))
		require.Equal(t, engine.OutcomeDone.String(), l.Do(billing.KindReserve, c).Outcome.String())
	}
	put(2, "other", "", "", "")
	l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(2, enginetest.TokenPlan()))
	l.Do(billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: 2, ID: enginetest.ID("other ada"), ExternalID: "ada", FirstName: "Ada",
		LastName: "Lovelace", Email: "ada@example.com",
	})
	l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: 2, ID: enginetest.ID("other s"), InvoiceID: enginetest.ID("other i"), Customer: "ada",
		Plan: "llm-team",
	})
	put(2, "other", "", "ada", "")
	const holds = 200
	for i := range holds {
		reserve(1, "level 4", i)
	}
	l.Stamp += 600_000
	stamp := l.Stamp
	zones := []string{
		"Europe/Paris", "Asia/Tokyo", "America/New_York", "Asia/Kathmandu", "Africa/Casablanca",
	}
	var stop atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var d billing.Decision
			for !stop.Load() {
				m.Check(&billing.CheckQuery{
					Env: 1, Customer: []byte("ada"), Feature: []byte("requests"), Now: stamp,
					Budget: []byte("level 4"), KeyBudget: 2,
				}, &d)
				m.Budget(1, "zoned", 0)
				m.BudgetWindows(1, "zoned", 0)
			}
		})
	}
	for i := range holds { // one after the other is over
		l.Stamp++
		reserve(2, "other", i)
	}
	for i := range 200 {
		parent := []string{"level 2", "level 3"}[i%2]
		l.Do(billing.KindMoveBudget, &billing.MoveBudget{Env: 1, Key: "level 4", Parent: parent})
		put(1, "level 4", "", []string{"", "ada"}[i%2], "")
		put(2, fmt.Sprint("b", i), "", "", zones[i%len(zones)])
	}
	stop.Store(true)
	readers.Wait()
}

// TestAWindowEndsWithoutAnEntry: what a query shows of a budget is of the reader's instant, as a
// check is, and of the newest entry's where the reader's clock is behind.
func TestAWindowEndsWithoutAnEntry(t *testing.T) {
	l := inUSD("40")
	l.Window = billing.WindowDay
	s := newBudgetSandbox(t, l)
	require.Equal(t, engine.OutcomeDone, s.event("e", "words", 40))
	const day = 86_400_000
	for now, used := range map[int64]string{0: "40", s.Stamp: "40", s.Stamp + day: "0"} {
		v, ok := s.m.Budget(enginetest.Sandbox, "all", now)
		require.True(t, ok)
		require.Equal(t, used, v.Limits[0].Used.String(), now)
		list, _, _ := s.m.Budgets(enginetest.Sandbox, "", "", 10, now)
		require.Equal(t, used, list[0].Limits[0].Used.String(), now)
		_, count := s.m.BudgetsRunningOut(enginetest.Sandbox, 80, 10, now)
		require.Equal(t, used == "40", count == 1, now)
	}
}
