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
	"tollgate/engine/wire"
)

// submitted is a command's record as servers propose it, under a name of its own.
func submitted(kind engine.Kind, payload []byte, name string) engine.Record {
	mint := func() [16]byte { return enginetest.ID(name) }
	return server.Repeatable(kind, payload, mint)
}

// server is a machine as a server asks it.
var server = billing.New(billing.Config{})

// TestRecordsAreSafeToSendAgainLater: the cluster proposes a record again whose answer was lost,
// and others' records may have come in between. What was carried out is not carried out again.
func TestRecordsAreSafeToSendAgainLater(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var records []engine.Record
		var stamps []int64
		for _, e := range enginetest.BillingEntries(t) {
			h, all, err := engine.ParseEntry(e)
			require.NoError(t, err)
			for r, ok := all.Next(); ok; r, ok = all.Next() {
				if r.Kind >= engine.FirstDomainKind {
					r = submitted(r.Kind, bytes.Clone(r.Payload), fmt.Sprint(len(records)))
				}
				records, stamps = append(records, r), append(stamps, h.Stamp)
			}
		}
		victim := rapid.IntRange(0, len(records)-1).Draw(t, "victim")
		again := rapid.IntRange(victim, len(records)-1).Draw(t, "again")
		m, twin := billing.New(billing.Config{}), billing.New(billing.Config{})
		index := uint64(0)
		apply := func(stamp int64, both, first []engine.Record) engine.Outcome {
			index++
			log := enginetest.Log{Stamp: stamp}
			entry := log.Entry(append(first, both...)...)
			got := enginetest.Outcomes(t, m, index, [][]byte{entry})
			enginetest.Outcomes(t, twin, index, [][]byte{log.Entry(both...)})
			if len(got[0]) == 0 {
				return engine.OutcomeNone
			}
			return got[0][0].Outcome
		}
		var did engine.Outcome
		for i, r := range records[:again+1] {
			// Whoever sends again gives up after seconds.
			o := apply(stamps[min(i, victim)], []engine.Record{r}, nil)
			if i == victim {
				did = o
			}
		}
		// What a moved clock has made fall due happens first: else the record sent again does it.
		for due := m.NextDue(); due != 0 && due <= stamps[victim]; due = m.NextDue() {
			apply(stamps[victim], []engine.Record{{Kind: engine.KindTick}}, nil)
		}
		r := records[victim]
		if !did.Refused() && r.Kind >= engine.FirstDomainKind {
			apply(stamps[victim], nil, []engine.Record{r})
			require.True(t, bytes.Equal(behindHeader(t, m), behindHeader(t, twin)),
				"kind %d, sent again after %d records, changed the state", r.Kind, again-victim)
			requireSameTails(t, m, twin)
		}
	})
}

// TestWhatOthersDidStands: one command of each kind that says how something is to be, another's in
// between, and the first again, as a record that was held up.
func TestWhatOthersDidStands(t *testing.T) {
	d := newDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	d.is(engine.OutcomeDone, billing.KindCreatePool, &billing.CreatePool{
		Env: enginetest.Sandbox, ID: enginetest.ID("p"), Customer: "ada", Name: "pool",
	})
	env, s := uint32(enginetest.Sandbox), enginetest.ID("s")
	provider := &billing.SetPaymentProvider{Env: env, Provider: "sandbox"} // which a top-up needs
	d.is(engine.OutcomeDone, billing.KindSetPaymentProvider, provider)
	customer := func(name string) *billing.UpdateCustomer {
		return &billing.UpdateCustomer{
			Env: env, ExternalID: "ada", Set: billing.CustomerFirstName, FirstName: name,
		}
	}
	catalog := func(price int64) *billing.ApplyCatalog {
		doc := enginetest.TokenPlan()
		doc.Plans[0].PriceAmount = decimal.FromInt(price)
		return enginetest.ApplyCatalog(env, doc)
	}
	send(t, d.Log, enginetest.Usage(d.Log, "used", "ada", "requests", 1))
	key, src := billing.UsageKey(env, []byte("used")), &enginetest.Source{Journal: d.m.Journal()}
	usage, found, err := d.m.FindUsage(src, src, env, key)
	require.True(t, found && err == nil)
	usage.Payload = bytes.Clone(usage.Payload)
	amendment := func(units int64, id string) *billing.AmendUsage {
		return &billing.AmendUsage{
			Env: env, Key: key, Original: usage, Units: decimal.FromInt(units), ID: enginetest.ID(id),
		}
	}
	type step struct {
		kind engine.Kind
		c    wire.Fielder
	}
	for name, row := range map[string][2]step{
		"limits": {
			{billing.KindSetLimits, &billing.SetLimits{WindowMS: 1000}},
			{billing.KindSetLimits, &billing.SetLimits{WindowMS: 2000}},
		},
		"catalog": {
			{billing.KindApplyCatalog, catalog(7)}, {billing.KindApplyCatalog, catalog(8)},
		},
		"customer": {
			{billing.KindUpdateCustomer, customer("Grace")}, {billing.KindUpdateCustomer, customer("Ida")},
		},
		"origins": {
			{billing.KindSetOrigins, &billing.SetOrigins{Env: env, Origins: []string{"https://a.example"}}},
			{billing.KindSetOrigins, &billing.SetOrigins{Env: env}},
		},
		"seller": {
			{billing.KindSetSeller, &billing.SetSeller{Env: env, Seller: billing.Seller{Name: "A"}}},
			{billing.KindSetSeller, &billing.SetSeller{Env: env}},
		},
		"portal": {
			{billing.KindSetPortal, &billing.SetPortal{Env: env, Portal: billing.Portal{Colour: "#000000"}}},
			{billing.KindSetPortal, &billing.SetPortal{Env: env}},
		},
		"provider": {
			{billing.KindSetPaymentProvider, &billing.SetPaymentProvider{Env: env, Provider: "none"}},
			{billing.KindSetPaymentProvider, provider},
		},
		"cancellation": {
			{billing.KindCancelSubscription, &billing.CancelSubscription{
				Env: env, ID: s, Mode: billing.CancelAtPeriodEnd,
			}},
			{billing.KindRevertCancellation, &billing.RevertCancellation{Env: env, ID: s}},
		},
		"pool": {
			{billing.KindFreezePool, &billing.FreezePool{Env: env, ID: enginetest.ID("p")}},
			{billing.KindUnfreezePool, &billing.UnfreezePool{Env: env, ID: enginetest.ID("p")}},
		},
		"low balance": {
			{billing.KindSetLowBalance, &billing.SetLowBalance{
				Env: env, ID: enginetest.ID("p"), LowBalance: decimal.FromInt(3),
			}},
			{billing.KindSetLowBalance, &billing.SetLowBalance{Env: env, ID: enginetest.ID("p")}},
		},
		"top-up": {
			{billing.KindSetTopUp, &billing.SetTopUp{
				Env: env, ID: enginetest.ID("p"), Below: decimal.FromInt(1), Amount: decimal.FromInt(1),
				Price: decimal.FromInt(1), MonthlyCap: decimal.FromInt(1), CooldownMS: 60_000, Method: "card",
			}},
			{billing.KindStopTopUp, &billing.StopTopUp{Env: env, ID: enginetest.ID("p")}},
		},
		"amendment": {
			{billing.KindAmendUsage, amendment(3, "a")}, {billing.KindAmendUsage, amendment(4, "b")},
		},
		"clock": {
			{billing.KindAdvanceClock, &billing.AdvanceClock{Env: env, To: d.Stamp + 1000}},
			{billing.KindAdvanceClock, &billing.AdvanceClock{Env: env, To: d.Stamp + 2000}},
		},
	} {
		send := func(i int) engine.Outcome {
			r := submitted(row[i].kind, wire.Encode(nil, row[i].c), fmt.Sprint(name, i))
			require.Equal(t, billing.KindSubmit, r.Kind, name)
			return d.DoPayload(r.Kind, r.Payload).Outcome
		}
		require.Equal(t, engine.OutcomeDone, send(0), name)
		require.Equal(t, engine.OutcomeDone, send(1), name)
		changes := len(d.changes(d.m, 0, 1000))
		again := restored(t, enginetest.Snapshot(t, d.m))
		twin := enginetest.NewLog(again, d.Stamp)
		_, err = twin.Apply()
		require.NoError(t, err)
		require.Equal(t, engine.OutcomeDone, send(0), "%s: the same success again", name)
		require.True(t, bytes.Equal(behindHeader(t, d.m), behindHeader(t, again)), name)
		require.Len(t, d.changes(d.m, 0, 1000), changes, name)

		restoredLog := enginetest.NewLog(restored(t, enginetest.Snapshot(t, d.m)), d.Stamp)
		r := submitted(row[0].kind, wire.Encode(nil, row[0].c), fmt.Sprint(name, 0))
		require.Equal(t, engine.OutcomeDone, restoredLog.DoPayload(r.Kind, r.Payload).Outcome)
	}
}

// TestWhatWasRefusedMayBeSubmittedAgain: only what was carried out is remembered.
func TestWhatWasRefusedMayBeSubmittedAgain(t *testing.T) {
	d := newDesk(t)
	c := wire.Encode(nil, &billing.RevertCancellation{
		Env: enginetest.Sandbox, ID: enginetest.ID("s"),
	})
	send := func() engine.Outcome {
		r := submitted(billing.KindRevertCancellation, c, "revert")
		return d.DoPayload(r.Kind, r.Payload).Outcome
	}
	require.Equal(t, engine.OutcomeSubscriptionUnknown, send())
	d.is(engine.OutcomeDone, billing.KindCreateSubscription, d.subscribe())
	require.Equal(t, engine.OutcomeNothingToRevert, send())
	cancel := &billing.CancelSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID("s"), Mode: billing.CancelAtPeriodEnd,
	}
	d.is(engine.OutcomeDone, billing.KindCancelSubscription, cancel)
	require.Equal(t, engine.OutcomeDone, send())
	d.is(engine.OutcomeDone, billing.KindCancelSubscription, cancel)
	require.Equal(t, engine.OutcomeDone, send())
	v, _ := d.m.Subscription(enginetest.Sandbox, enginetest.ID("s"))
	require.Equal(t, billing.CancelAtPeriodEnd, v.CancelMode, "cancelled again since")
}

// TestTheNewestSubmissionsAreKnown: a new one takes the place of the oldest, here and after a
// restore.
func TestTheNewestSubmissionsAreKnown(t *testing.T) {
	d := newDesk(t)
	same := wire.Encode(nil, &billing.SetOrigins{Env: enginetest.Sandbox})
	const some = 2000
	submit := func(l *enginetest.Log, from, to int) {
		var records []engine.Record
		for n := from; n < to; n++ {
			records = append(records, submitted(billing.KindSetOrigins, same, fmt.Sprint(n)))
			if len(records) == some || n == to-1 {
				results, err := l.Apply(records...)
				require.NoError(t, err)
				for _, r := range results {
					require.Equal(t, engine.OutcomeDone, r.Outcome)
				}
				records = records[:0]
			}
		}
	}
	set := func(l *enginetest.Log, name string, origins ...string) {
		r := submitted(billing.KindSetOrigins, wire.Encode(nil, &billing.SetOrigins{
			Env: enginetest.Sandbox, Origins: origins,
		}), name)
		require.Equal(t, engine.OutcomeDone, l.DoPayload(r.Kind, r.Payload).Outcome)
	}
	d.Keep = false
	set(d.Log, "first", "https://a.example")
	set(d.Log, "clear")
	submit(d.Log, 0, billing.MaxSubmissions-2)
	set(d.Log, "first", "https://a.example")
	require.Empty(t, d.m.Origins(enginetest.Sandbox), "the oldest is still known")
	again := restored(t, enginetest.Snapshot(t, d.m))
	log := enginetest.NewLog(again, d.Stamp)
	submit(log, billing.MaxSubmissions, billing.MaxSubmissions+1)
	set(log, "clear", "https://b.example")
	require.Empty(t, again.Origins(enginetest.Sandbox))
	set(log, "first", "https://a.example")
	require.Equal(t, []string{"https://a.example"}, again.Origins(enginetest.Sandbox),
		"forgotten, and carried out as a new one")
	restored(t, enginetest.Snapshot(t, again))
}

// TestOldRequestsAreForgottenHoweverMany: one entry forgets a thousand of them at most; those
// beyond are as old.
func TestOldRequestsAreForgottenHoweverMany(t *testing.T) {
	d := newDesk(t)
	request := func(n int) *billing.Once {
		return once(fmt.Sprint("k", n), "b", billing.KindCreateCustomer, &billing.CreateCustomer{
			Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("c", n)), ExternalID: fmt.Sprint("c", n),
		})
	}
	const many = 1500
	for n := range many {
		d.is(engine.OutcomeDone, billing.KindOnce, request(n))
	}
	d.Stamp += billing.RequestRetentionMS
	last := once(fmt.Sprint("k", many-1), "another body", billing.KindCreateCustomer,
		&billing.CreateCustomer{Env: enginetest.Sandbox, ID: enginetest.ID("new"), ExternalID: "new"})
	require.False(t, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, last)).Repeated)
}

// TestKeptRequestsAreBoundedForEachEnvironment: one that uses up its room is refused new keys, and
// nobody else is; answers are kept their time all the same, and the oldest make room first.
func TestKeptRequestsAreBoundedForEachEnvironment(t *testing.T) {
	d := newDesk(t)
	mark := func(env uint32, key string) *billing.Once {
		c := once(fmt.Sprint(env, key), "b", billing.KindCreateAccount, &billing.CreateAccount{
			ID: enginetest.ID(fmt.Sprint(env, key)), Name: fmt.Sprint("a", env, "-", key),
		})
		c.Env = env
		return c
	}
	keep := func(m *billing.Machine, at int64, rooms ...int) {
		for env, count := range rooms {
			m.KeepRequests(uint32(env), count, at)
		}
	}
	d.is(engine.OutcomeDone, billing.KindOnce, mark(1, "first"))
	began := d.Stamp
	d.Stamp += 1000
	keep(d.m, d.Stamp, 0, billing.MaxEnvironmentRequests-2)
	d.is(engine.OutcomeDone, billing.KindOnce, mark(1, "last"))
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(1, "more"))
	d.is(engine.OutcomeDone, billing.KindOnce, mark(0, "operator"))
	d.is(engine.OutcomeDone, billing.KindOnce, mark(2, "other"))
	require.True(t, reply(t, d.is(engine.OutcomeDone, billing.KindOnce, mark(1, "first"))).Repeated)
	d.m = restored(t, enginetest.Snapshot(t, d.m))
	d.Log = enginetest.NewLog(d.m, d.Stamp)
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(1, "more"))
	d.Stamp = began + billing.RequestRetentionMS
	d.is(engine.OutcomeDone, billing.KindOnce, mark(1, "more"))
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(1, "beyond"))

	// The last third is shared out: those that keep much get nothing of it, and all are bounded.
	d = newDesk(t)
	const maximum = billing.MaxEnvironmentRequests
	keep(d.m, d.Stamp, 0, maximum-1, maximum-1, maximum-1, 1)
	d.is(engine.OutcomeDone, billing.KindOnce, mark(1, "k"))
	keep(d.m, d.Stamp, 0, 0, 0, 0, 0, 10)
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(2, "k"))
	d.is(engine.OutcomeDone, billing.KindOnce, mark(5, "k"))
	d.is(engine.OutcomeDone, billing.KindOnce, mark(6, "k"))
	keep(d.m, d.Stamp, 0, 0, 0, 0, 0, 0, maximum, maximum/2-30)
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(7, "much"))
	for n := 0; d.Do(billing.KindOnce, mark(8, fmt.Sprint(n))).Outcome == engine.OutcomeDone; n++ {
		require.Less(t, n, 20)
	}
	d.is(engine.OutcomeKeysFull, billing.KindOnce, mark(9, "new"))
	restored(t, enginetest.Snapshot(t, d.m))
}
