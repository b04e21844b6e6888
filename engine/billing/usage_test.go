package billing_test

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

func TestSealIsTheEncodingWithAFingerprint(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 0, 200)
		c := billing.RecordUsage{
			Env: rapid.Uint32().Draw(t, "env"), Attempt: rapid.Uint32().Draw(t, "attempt"),
			KeyText: text.Draw(t, "key"), Customer: text.Draw(t, "customer"),
			EventName: text.Draw(t, "event"), Meta: text.Draw(t, "meta"),
			Units:      decimal.FromInt(rapid.Int64().Draw(t, "units")),
			OccurredAt: rapid.Int64().Draw(t, "occurred"), HasCost: rapid.Bool().Draw(t, "cost"),
		}
		c.Key = billing.UsageKey(c.Env, c.KeyText)
		sealed := c.Seal([]byte("before"))
		require.Equal(t, "before", string(sealed[:6]))
		require.Equal(t, wire.Encode(nil, &c), sealed[6:], "Seal sets Fingerprint and encodes")
		require.Less(t, c.Fingerprint, uint32(1<<24))

		var got billing.RecordUsage
		require.NoError(t, wire.Decode(sealed[6:], &got))
		require.Equal(t, string(c.Meta), string(got.Meta))

		// Another attempt has the same fingerprint, another body another one.
		other := c
		other.Attempt++
		other.Seal(nil)
		require.Equal(t, c.Fingerprint, other.Fingerprint)
		other.OccurredAt++
		other.Seal(nil)
		require.NotEqual(t, c.Fingerprint, other.Fingerprint)
	})
}

func TestUsageKeyTellsEnvironmentsApart(t *testing.T) {
	long := bytes.Repeat([]byte{'k'}, 2000)
	seen := map[[16]byte]bool{}
	for env := range uint32(4) {
		for _, key := range [][]byte{nil, {'a'}, {'b'}, long, long[1:]} {
			k := billing.UsageKey(env, key)
			require.False(t, seen[k])
			seen[k] = true
		}
	}
}

// TestCustomerAndUsageInOneEntry: an event finds a customer that the same entry made.
func TestCustomerAndUsageInOneEntry(t *testing.T) {
	m, l := opened()
	create := &billing.CreateCustomer{
		Env: enginetest.Sandbox, ID: enginetest.ID("new"), ExternalID: "new",
	}
	subscribe := &billing.CreateSubscription{
		Env: enginetest.Sandbox, ID: enginetest.ID("s"), InvoiceID: enginetest.ID("i"),
		Customer: "new", Plan: "llm-team",
	}
	usage := enginetest.Usage(l, "k", "new", "requests", 3).Seal(nil)
	results, err := l.Apply(
		engine.Record{Kind: billing.KindRecordUsage, Payload: usage},
		engine.Record{Kind: billing.KindCreateCustomer, Payload: wire.Encode(nil, create)},
		engine.Record{Kind: billing.KindCreateSubscription, Payload: wire.Encode(nil, subscribe)},
		engine.Record{Kind: billing.KindRecordUsage, Payload: usage},
		engine.Record{Kind: billing.KindRecordUsage, Payload: usage},
	)
	require.NoError(t, err)
	want := []engine.Outcome{
		engine.OutcomeCustomerUnknown, engine.OutcomeDone, engine.OutcomeDone, engine.OutcomeDone,
		engine.OutcomeDone,
	}
	for i, r := range results {
		require.Equal(t, want[i], r.Outcome, "record %d", i)
	}
	require.Equal(t, "3", check(m, "new", "requests").Used.String())
}

// TestManyEventsInOneEntry: more than any scratch memory begins with, each counted once, and the
// entry's bytes may change afterwards.
func TestManyEventsInOneEntry(t *testing.T) {
	m, l := opened()
	src := &enginetest.Source{Journal: m.Journal()}
	entry := engine.AppendHeader(nil, 0)
	for i := range 1000 {
		u := enginetest.Usage(l, string(rune('a'+i%26))+string(rune('0'+i/26)), "ada", "requests", 1)
		entry = engine.AppendRecord(entry, engine.Record{
			Kind: billing.KindRecordUsage, Payload: u.Seal(nil),
		})
	}
	engine.SetStamp(entry, l.Stamp)
	_, err := l.ApplyEntry(entry)
	require.NoError(t, err)
	clear(entry)
	require.Equal(t, "1000", check(m, "ada", "requests").Used.String())
	c, _ := m.Customer(enginetest.Sandbox, "ada")
	events, next, err := m.Events(src, billing.EventQuery{
		Customer: c.Row, From: 0, To: 1 << 60, Limit: 5000,
	})
	require.NoError(t, err)
	require.Zero(t, next.Index)
	require.Len(t, events, 1000)
	require.Equal(t, "a0", events[0].Key)
}

func TestHotPathsAllocateNothing(t *testing.T) {
	m, l := opened()
	q := billing.CheckQuery{
		Env: enginetest.Sandbox, Customer: []byte("ada"), Feature: []byte("input-tokens"),
		Now: l.Stamp, Track: true, Units: decimal.FromInt(150000),
	}
	var d billing.Decision
	require.Zero(t, testing.AllocsPerRun(1000, func() { m.Check(&q, &d) }))
	require.True(t, d.HasCost)
	require.Equal(t, "0.4", d.ProjectedCost.String())

	long := string(bytes.Repeat([]byte{'x'}, 100))
	enginetest.NewCustomer(l, long, "llm-team")
	q.Customer = []byte(long)
	require.Zero(t, testing.AllocsPerRun(1000, func() { m.Check(&q, &d) }))
	require.True(t, d.Allowed())

	u := enginetest.Usage(l, "k", "ada", "requests", 1)
	buf := make([]byte, 0, 512)
	require.Zero(t, testing.AllocsPerRun(1000, func() { buf = u.Seal(buf[:0]) }))
	key := []byte("some key")
	require.Zero(t, testing.AllocsPerRun(1000, func() { u.Key = billing.UsageKey(1, key) }))
	var hash [32]byte
	require.Zero(t, testing.AllocsPerRun(1000, func() { m.Authenticate(hash) }))
}

func TestAnEventWhoseKeyIsDroppedMeanwhileIsFinal(t *testing.T) {
	m, l := opened()
	const day = 86_400_000
	l.Do(billing.KindSetLimits, &billing.SetLimits{KeyRetentionMS: day, WindowMS: day})
	l.DoPayload(billing.KindRecordUsage, enginetest.Usage(l, "k", "ada", "requests", 1).Seal(nil))
	src := &enginetest.Source{Journal: m.Journal()}
	key := billing.UsageKey(enginetest.Sandbox, []byte("k"))
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.True(t, found)
	_, found, err = m.FindUsage(src, src, enginetest.Sandbox+1, key)
	require.NoError(t, err)
	require.False(t, found, "of another environment")
	void := &billing.VoidUsage{Env: enginetest.Sandbox, Key: key, Original: ref}
	l.Stamp += 2 * day
	require.Equal(t, engine.OutcomeUsageFinal, l.Do(billing.KindVoidUsage, void).Outcome)
	_, found, err = m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.False(t, found)
}

// TestSelectedEventsAreLookedForPageByPage: in both orders a page that selects events is what all
// events hold of them, and looks at 10,000 at most.
func TestSelectedEventsAreLookedForPageByPage(t *testing.T) {
	m, l := opened()
	src := &enginetest.Source{Journal: m.Journal()}
	block := billing.AuditBlock{}
	c, _ := m.Customer(enginetest.Sandbox, "ada")
	const checks = 12_000
	for from := 0; from < checks; from += checks / 4 {
		block.Reset(1, 1, uint64(from)+1)
		for i := from; i < from+checks/4; i++ {
			check := billing.AuditCheck{
				Env: enginetest.Sandbox, CustomerRow: c.Row, FeatureNumber: 1, Reason: billing.ReasonAllowed,
				At: l.Stamp + int64(i), FlowID: []byte(strconv.Itoa(i)),
			}
			if i == 3 || i == 5 || i == 11_999 {
				check.Reason = billing.ReasonLimitReached
			}
			block.Add(&check)
		}
		l.DoPayload(billing.KindRecordAudits, block.Encode(nil))
	}
	list := func(q billing.EventQuery) (flows []string, short int) {
		q.Customer, q.To = c.Row, 1<<60
		for {
			events, next, err := m.Events(src, q)
			require.NoError(t, err)
			for i := range events {
				flows = append(flows, events[i].FlowID)
			}
			if next.Index == 0 {
				return flows, short
			}
			if len(events) < q.Limit {
				short++
			}
			q.After = next
		}
	}
	flows, short := list(billing.EventQuery{Denied: true, Limit: 50})
	require.Equal(t, []string{"3", "5", "11999"}, flows)
	require.Equal(t, 1, short, "10,000 were looked at")
	flows, _ = list(billing.EventQuery{Denied: true, Limit: 2, Descending: true})
	require.Equal(t, []string{"11999", "5", "3"}, flows)
	flows, _ = list(billing.EventQuery{Limit: 1000, Descending: true})
	require.Len(t, flows, checks)
	require.Equal(t, "11999", flows[0])
	require.Equal(t, "0", flows[checks-1])
	flows, _ = list(billing.EventQuery{Feature: "nothing", Limit: 50})
	require.Empty(t, flows)
}
