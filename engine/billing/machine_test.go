package billing_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// opened is a machine with the account demo, the token plan, and the customer ada on it.
func opened() (*billing.Machine, *enginetest.Log) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	return m, l
}

func check(m *billing.Machine, customer, feature string) billing.Decision {
	var d billing.Decision
	m.Check(&billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte(customer), Feature: []byte(feature),
		Now: m.Stamp(),
	}, &d)
	return d
}

func TestWhatStopsTheReplicaChangesNothing(t *testing.T) {
	m, l := opened()
	good := engine.Record{
		Kind:    billing.KindRecordUsage,
		Payload: enginetest.Usage(l, "k", "ada", "requests", 1).Seal(nil),
	}
	index, hash := m.StateHash()
	wrongHash := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash + 1})
	otherShard := engine.AppendRecord(engine.AppendHeader(nil, 1), good)
	torn := l.Entry(good, good)
	with := func(kind engine.Kind, payload ...byte) []byte {
		return l.Entry(good, engine.Record{Kind: kind, Payload: payload})
	}
	tornBlock := goldenBlock().Encode(nil)
	for name, entry := range map[string][]byte{
		"unknown kind":     with(999),
		"malformed":        with(billing.KindCreateCustomer, 1),
		"malformed usage":  with(billing.KindRecordUsage, 9),
		"malformed audits": with(billing.KindRecordAudits, 1),
		"torn audits":      with(billing.KindRecordAudits, tornBlock[:len(tornBlock)-1]...),
		"tick with news":   with(engine.KindTick, 1),
		"short check":      with(engine.KindCheckState, 1),
		"short hand-over":  with(engine.KindHandOver, make([]byte, 8)...),
		"other hash":       with(engine.KindCheckState, wrongHash...),
		"other shard":      otherShard,
		"torn":             torn[:len(torn)-1],
		"no entry":         {1, 2, 3},
		"other version":    append([]byte{9}, torn[1:]...),
	} {
		before := enginetest.Snapshot(t, m)
		require.ErrorIs(t, m.Apply(l.Index+1, entry, &engine.Applied{}), engine.ErrHalt, name)
		require.True(t, bytes.Equal(before, enginetest.Snapshot(t, m)), name)
	}
	require.ErrorIs(t, m.Apply(l.Index, l.Entry(good), &engine.Applied{}), engine.ErrHalt, "again")

	right := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash})
	require.Equal(t, engine.OutcomeDone, l.DoPayload(engine.KindCheckState, right).Outcome)
	handOver := engine.AppendHandOver(nil, engine.HandOver{Term: 3, Target: "node2"})
	require.Equal(t, engine.OutcomeDone, l.DoPayload(engine.KindHandOver, handOver).Outcome)
	far := engine.AppendCheckState(nil, engine.CheckState{Index: 1 << 50, Hash: 1})
	require.Equal(t, engine.OutcomeDone, l.DoPayload(engine.KindCheckState, far).Outcome)
}

func TestHashTellsStatesApart(t *testing.T) {
	a, la := opened()
	b, lb := opened()
	require.Equal(t, enginetest.StateHash(a), enginetest.StateHash(b))
	la.DoPayload(billing.KindRecordUsage, enginetest.Usage(la, "k", "ada", "requests", 1).Seal(nil))
	lb.DoPayload(billing.KindRecordUsage, enginetest.Usage(lb, "k", "ada", "requests", 2).Seal(nil))
	require.NotEqual(t, enginetest.StateHash(a), enginetest.StateHash(b))

	// Two refusals that leave the same state are told apart by their outcomes.
	a, la = opened()
	b, lb = opened()
	first := enginetest.Usage(la, "k", "ada", "requests", 1)
	la.DoPayload(billing.KindRecordUsage, first.Seal(nil))
	lb.DoPayload(billing.KindRecordUsage, first.Seal(nil))
	require.Equal(t, enginetest.StateHash(a), enginetest.StateHash(b))
	again, other := *first, *first
	again.Attempt, other.Attempt = 2, 2
	other.Units = decimal.FromInt(9)
	require.Equal(t, engine.OutcomeDuplicate,
		la.DoPayload(billing.KindRecordUsage, again.Seal(nil)).Outcome)
	require.Equal(t, engine.OutcomeKeyReused,
		lb.DoPayload(billing.KindRecordUsage, other.Seal(nil)).Outcome)
	require.NotEqual(t, enginetest.StateHash(a), enginetest.StateHash(b))

	// A record that went wrong in memory is found when its page's turn comes.
	a, la = opened()
	b, lb = opened()
	b.SetInvoiceStatus(enginetest.ID("invoice ada llm-team"), billing.InvoiceVoid)
	require.Eventually(t, func() bool {
		la.DoPayload(engine.KindTick, nil)
		lb.DoPayload(engine.KindTick, nil)
		return enginetest.StateHash(a) != enginetest.StateHash(b)
	}, 1e9, 1)
}

func TestStampsNeverGoBackwards(t *testing.T) {
	m, l := opened()
	l.Stamp -= 5000
	l.DoPayload(engine.KindTick, nil)
	require.Equal(t, int64(enginetest.Epoch), m.Stamp())
	require.Equal(t, int64(enginetest.Epoch), m.Clock(1))
	require.Equal(t, int64(enginetest.Epoch)+7, m.Clock(enginetest.Epoch+7))
	require.Equal(t, int64(enginetest.Epoch)+7, m.EnvironmentNow(1, enginetest.Epoch+7))
	require.Equal(t, int64(enginetest.Epoch)+7*86_400_000, m.NextDue(), "the invoice's due date")
}

func TestSuspendedAndCancelled(t *testing.T) {
	m, l := opened()
	sub := enginetest.ID("subscription ada llm-team")
	usage := func(key string, c billing.RecordUsage) engine.Outcome {
		u := enginetest.Usage(l, key, "ada", "output-tokens", 10)
		u.SubscriptionID = c.SubscriptionID
		return l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome
	}

	l.Stamp += 14 * 86_400_000 // seven days until the invoice is due, seven of grace
	l.DoPayload(engine.KindTick, nil)
	d := check(m, "ada", "output-tokens")
	require.Equal(t, billing.ReasonSuspended, d.Reason)
	require.True(t, d.HasUsage, "usage stands whenever a subscription carries the feature")
	require.Equal(t, engine.OutcomeDone, usage("a", billing.RecordUsage{}), "suspended ones count")
	v, ok := m.Subscription(enginetest.Sandbox, sub)
	require.True(t, ok)
	require.False(t, v.IsActive)

	// A suspended subscription without the feature: still suspended; an active one: not in plan.
	seats := billing.FeatureDocument{Key: "seats"}
	l.Do(billing.KindApplyCatalog, enginetest.ApplyCatalog(enginetest.Sandbox,
		billing.CatalogDocument{Features: []billing.FeatureDocument{seats}}))
	require.Equal(t, billing.ReasonSuspended, check(m, "ada", "seats").Reason)

	// Payment makes it active again.
	l.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: enginetest.ID("invoice ada llm-team"),
	})
	require.Equal(t, billing.ReasonAllowed, check(m, "ada", "output-tokens").Reason)
	require.Equal(t, billing.ReasonNotInPlan, check(m, "ada", "seats").Reason)

	l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
		Env: enginetest.Sandbox, ID: sub, Mode: billing.CancelImmediate,
	})
	require.Equal(t, billing.ReasonNoSubscription, check(m, "ada", "output-tokens").Reason)
	require.Equal(t, engine.OutcomeUnpriced, usage("b", billing.RecordUsage{}))
	require.Equal(t, engine.OutcomeDone, usage("c", billing.RecordUsage{SubscriptionID: sub}),
		"an explicit subscription is taken even when cancelled")
	eur := enginetest.TokenPlan()
	eur.Plans[0].Currency = "EUR"
	require.Empty(t, m.DiffCatalog(enginetest.Sandbox, &eur, false).Problems, "nobody is subscribed")
	m = restored(t, enginetest.Snapshot(t, m))
	require.Empty(t, m.DiffCatalog(enginetest.Sandbox, &eur, false).Problems, "nor after a restore")
}

func TestInvoiceStates(t *testing.T) {
	m, l := opened()
	id := enginetest.ID("invoice ada llm-team")
	pay := func() engine.Outcome {
		return l.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
			Env: enginetest.Sandbox, ID: id,
		}).Outcome
	}
	upcoming, ok := m.Upcoming(enginetest.Sandbox, enginetest.ID("subscription ada llm-team"))
	require.True(t, ok)
	voided := l.Do(billing.KindVoidInvoice, &billing.VoidInvoice{Env: enginetest.Sandbox, ID: id})
	require.Equal(t, engine.OutcomeDone, voided.Outcome)
	require.Equal(t, engine.OutcomeInvoiceVoid, pay())
	id = upcoming.ID
	require.Equal(t, engine.OutcomeInvoicePending, pay())

	u := enginetest.Usage(l, "k", "ada", "requests", 1)
	u.InvoiceID = id
	require.Equal(t, engine.OutcomeDone,
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome, "PENDING takes usage")
	v, ok := m.Invoice(enginetest.Sandbox, id)
	require.True(t, ok)
	require.Equal(t, billing.InvoicePending, v.Status)
	_, ok = m.Invoice(2, id)
	require.False(t, ok)
}

func TestNextPeriodCountsApart(t *testing.T) {
	m, l := opened()
	sub, ok := m.Subscription(enginetest.Sandbox, enginetest.ID("subscription ada llm-team"))
	require.True(t, ok)
	l.Stamp = sub.PeriodEnd - 1000
	at := func(key string, occurred, units int64) engine.Outcome {
		u := enginetest.Usage(l, key, "ada", "output-tokens", units)
		u.OccurredAt = occurred
		return l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome
	}
	require.Equal(t, engine.OutcomeDone, at("a", sub.PeriodEnd-1, 4999))
	require.Equal(t, engine.OutcomeDone, at("b", sub.PeriodEnd, 4999), "its own period's limit")
	require.Equal(t, engine.OutcomeLimitReached, at("c", sub.PeriodEnd, 1))
	require.Equal(t, engine.OutcomeLimitReached, at("d", sub.PeriodEnd-1, 1))
	require.Equal(t, "5000", m.Next(3))
	require.Equal(t, "5000", check(m, "ada", "output-tokens").Used.String())
}

func TestOverflowChangesNothing(t *testing.T) {
	m, l := opened()
	record := func(key, feature string, units decimal.Decimal) engine.Outcome {
		u := enginetest.Usage(l, key, "ada", feature, 0)
		u.Units = units
		return l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome
	}
	require.Equal(t, engine.OutcomeDone, record("a", "requests", decimal.Largest()))
	require.Equal(t, engine.OutcomeOverflow, record("b", "requests", decimal.FromInt(1)))
	require.Equal(t, engine.OutcomeDone, record("b", "requests", decimal.FromInt(0)), "key not used")
	require.Equal(t, engine.OutcomeOverflow, record("c", "requests", decimal.FromInt(-1)))
	require.Equal(t, decimal.Largest(), check(m, "ada", "requests").Used)
}

func TestIdentifiersOfAnyLength(t *testing.T) {
	m, l := opened()
	for _, n := range []int{1, 38, 39, 40, 128, 512} {
		name := string(bytes.Repeat([]byte{'x'}, n))
		enginetest.NewCustomer(l, name, "")
		c, ok := m.Customer(enginetest.Sandbox, name)
		require.True(t, ok, "%d characters", n)
		require.Equal(t, name, c.ExternalID)
		require.Equal(t, "Lovelace", c.LastName)
		byID, ok := m.CustomerByID(enginetest.Sandbox, c.ID)
		require.True(t, ok)
		require.Equal(t, c, byID)
		require.Equal(t, billing.ReasonNoSubscription, check(m, name, "requests").Reason)
		_, ok = m.Customer(2, name)
		require.False(t, ok)
		_, ok = m.CustomerByID(2, c.ID)
		require.False(t, ok)
	}
	again := restored(t, enginetest.Snapshot(t, m))
	c, ok := again.Customer(enginetest.Sandbox, string(bytes.Repeat([]byte{'x'}, 512)))
	require.True(t, ok)
	require.Equal(t, "Ada", c.FirstName)
}

func TestSubscriptionLimit(t *testing.T) {
	m, l := opened()
	subscribe := func(i byte) engine.Outcome {
		return l.Do(billing.KindCreateSubscription, &billing.CreateSubscription{
			Env: enginetest.Sandbox, ID: [16]byte{1, i}, InvoiceID: [16]byte{2, i},
			Customer: "ada", Plan: "llm-team",
		}).Outcome
	}
	for i := range billing.MaxSubscriptions - 1 {
		require.Equal(t, engine.OutcomeDone, subscribe(byte(i)))
	}
	require.Equal(t, engine.OutcomeSubscriptionLimit, subscribe(200))
	c, _ := m.Customer(enginetest.Sandbox, "ada")
	require.Len(t, m.Subscriptions(c.Row), billing.MaxSubscriptions)
	require.Len(t, m.Invoices(enginetest.Sandbox, c.Row), billing.MaxSubscriptions)
	require.Empty(t, m.Invoices(2, c.Row))
	require.Empty(t, m.Subscriptions(99))
}

func TestCatalogDocumentRoundTrip(t *testing.T) {
	m, _ := opened()
	doc := m.Catalog(enginetest.Sandbox)
	require.Len(t, doc.Plans, 1)
	require.Empty(t, m.DiffCatalog(enginetest.Sandbox, &doc, true).Changes)
	require.Empty(t, m.DiffCatalog(enginetest.Sandbox, &doc, true).Problems)
	require.Equal(t, engine.OutcomeAccountUnknown, m.DiffCatalog(77, &doc, false).Outcome)
	require.Empty(t, m.Plans(77))
	require.Empty(t, m.Features(77))
}

func TestCatalogSharesNoMemoryWithTheEntry(t *testing.T) {
	m, l := opened()
	doc := enginetest.TokenPlan()
	doc.Plans[0].Metadata = []byte(`{"a":1}`)
	entry := l.Entry(engine.Record{
		Kind:    billing.KindApplyCatalog,
		Payload: wire.Encode(nil, enginetest.ApplyCatalog(enginetest.Sandbox, doc)),
	})
	_, err := l.ApplyEntry(entry)
	require.NoError(t, err)
	clear(entry)
	require.Equal(t, `{"a":1}`, string(m.Plans(enginetest.Sandbox)[0].Metadata))
}

// TestRestoreRefusesDamage: every cut and every flipped bit of a snapshot is an error, and leaves
// the machine as it was.
func TestRestoreRefusesDamage(t *testing.T) {
	m, l := opened()
	l.DoPayload(billing.KindRecordUsage, enginetest.Usage(l, "k", "ada", "requests", 1).Seal(nil))
	good := enginetest.Snapshot(t, m)
	require.NoError(t, billing.New(billing.Config{}).Restore(bytes.NewReader(good)))
	require.ErrorIs(t, billing.New(billing.Config{Shard: 3}).Restore(bytes.NewReader(good)),
		billing.ErrSnapshot)

	target := billing.New(billing.Config{})
	for n := 0; n < len(good); n += 1 + n/16 {
		require.Error(t, target.Restore(bytes.NewReader(good[:n])), "cut at %d", n)
		damaged := bytes.Clone(good)
		damaged[n] ^= 1
		require.Error(t, target.Restore(bytes.NewReader(damaged)), "bit flipped at %d", n)
		require.Zero(t, target.Applied())
	}
}

// Nothing is applied while a snapshot begins, so that may not grow with the state. The shortest of
// some is what it costs; the others have waited for a processor.
func TestASnapshotBeginsAtOnce(t *testing.T) {
	m, _ := populated(20_000)
	shortest := time.Hour
	for range 20 {
		begin := time.Now()
		s, err := m.Snapshot()
		shortest = min(shortest, time.Since(begin))
		require.NoError(t, err)
		s.Release()
	}
	require.Less(t, shortest, time.Millisecond)
}

func TestOneSnapshotAtATime(t *testing.T) {
	m, _ := opened()
	first, err := m.Snapshot()
	require.NoError(t, err)
	_, err = m.Snapshot()
	require.ErrorIs(t, err, billing.ErrSnapshotRunning)
	require.ErrorIs(t, m.Restore(bytes.NewReader(nil)), billing.ErrSnapshotRunning)
	first.Release()
	first.Release()
	second, err := m.Snapshot()
	require.NoError(t, err)
	second.Release()
}
