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
	"tollgate/engine/idempotency"
	"tollgate/engine/wire"
)

func demotion(through uint64) engine.Record {
	payload := wire.Encode(nil, &billing.DemoteKeys{Through: through})
	return engine.Record{Kind: billing.KindDemoteKeys, Payload: payload}
}

// probed is an entry of records whose usage events carry what src says of their keys.
func probed(t enginetest.TB, src idempotency.Finder, stamp int64, records ...engine.Record) []byte {
	t.Helper()
	made := engine.AppendHeader(nil, 0)
	engine.SetStamp(made, stamp)
	for _, r := range records {
		if r.Kind == billing.KindRecordUsage && src != nil {
			var c billing.RecordUsage
			require.NoError(t, wire.Decode(r.Payload, &c))
			v, err := src.FindKey(c.Key)
			require.NoError(t, err)
			r.Kind = billing.KindRecordProbedUsage
			r.Payload = billing.AppendProbedUsage(nil, r.Payload, &v)
		}
		made = engine.AppendRecord(made, r)
	}
	return made
}

// repeats are some of the usage events that were sent.
func repeats(t *rapid.T, sent []engine.Record) (again []engine.Record) {
	for _, r := range sent {
		if r.Kind == billing.KindRecordUsage && rapid.IntRange(0, 3).Draw(t, "again") == 0 {
			again = append(again, r)
		}
	}
	return again
}

// TestDemotionChangesNoOutcome: whatever the history and whatever leaves memory on the way, every
// command has the outcome that it has where all keys are in memory, and the journal is the same. A
// restored machine goes on alike.
func TestDemotionChangesNoOutcome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole, m := billing.New(billing.Config{}), billing.New(billing.Config{})
		src := &enginetest.Source{Journal: m.Journal()}
		nothing := engine.Record{Kind: billing.KindSetLimits}
		var out engine.Applied
		var sent []engine.Record
		for i, entry := range enginetest.BillingEntries(t) {
			index := uint64(i) + 1
			h, some, err := engine.ParseEntry(entry)
			require.NoError(t, err)
			records := repeats(t, sent)
			fresh := len(records)
			for r, ok := some.Next(); ok; r, ok = some.Next() {
				records = append(records, r)
			}
			sent = append(sent, records[fresh:]...)
			span, first := m.KeySpan(), nothing
			if rapid.Bool().Draw(t, "demotes") {
				first = demotion(rapid.Uint64Range(0, span.Next).Draw(t, "through"))
			}
			behind := func(first engine.Record) []engine.Record {
				return append([]engine.Record{first}, records...)
			}
			plain := probed(t, nil, h.Stamp, behind(nothing)...)
			want := enginetest.Outcomes(t, whole, index, [][]byte{plain})[0]
			require.NoError(t, m.Apply(index, probed(t, src, h.Stamp, behind(first)...), &out))
			src.Keep(&out)
			require.Equal(t, want[1:], out.Results[1:], "entry %d", index)
			require.Equal(t, whole.KeySpan().Base, m.KeySpan().Base)
			require.Equal(t, whole.KeySpan().Next, m.KeySpan().Next)
			require.Equal(t, whole.Stats().UsageEvents, m.KeySpan().Next, "keys are numbered as events")
			requireSameTails(t, whole, m)
			if rapid.IntRange(0, 3).Draw(t, "restore") == 0 {
				fixed, hash := enginetest.Snapshot(t, m), enginetest.StateHash(m)
				m = restored(t, fixed)
				require.True(t, bytes.Equal(fixed, enginetest.Snapshot(t, m)))
				require.Equal(t, hash, enginetest.StateHash(m))
				src.Journal = m.Journal()
			}
		}
	})
}

// demotable is a machine with three events, all of whose keys may leave memory.
func demotable(t *testing.T) (*billing.Machine, *enginetest.Log, *enginetest.Source) {
	t.Helper()
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	for _, key := range []string{"a", "b", "c"} {
		require.Equal(t, engine.OutcomeDone, l.DoPayload(billing.KindRecordUsage,
			enginetest.Usage(l, key, "ada", "requests", 1).Seal(nil)).Outcome)
	}
	return m, l, &enginetest.Source{Journal: m.Journal()}
}

// A record that was proposed before its keys left memory is told to look again, changes nothing,
// and is neither doubled nor lost then.
func TestARecordInFlightAcrossADemotion(t *testing.T) {
	m, l, src := demotable(t)
	usage := func(key string, units int64, attempt uint32) *billing.RecordUsage {
		u := enginetest.Usage(l, key, "ada", "requests", units)
		u.Attempt = attempt
		return u
	}
	send := func(u *billing.RecordUsage, v *idempotency.Verdict) string {
		record := u.Seal(nil)
		if v == nil {
			return l.DoPayload(billing.KindRecordUsage, record).Outcome.String()
		}
		record = billing.AppendProbedUsage(nil, record, v)
		return l.DoPayload(billing.KindRecordProbedUsage, record).Outcome.String()
	}
	probe := func(key string) *idempotency.Verdict {
		v, err := src.FindKey(billing.UsageKey(enginetest.Sandbox, []byte(key)))
		require.NoError(t, err)
		return &v
	}
	early, stale := probe("d"), &idempotency.Verdict{Through: 1}
	l.DoPayload(billing.KindDemoteKeys, demotion(2).Payload)
	require.Equal(t, idempotency.Span{Memory: 2, Next: 3}, m.KeySpan())
	for name, v := range map[string]*idempotency.Verdict{"none": nil, "too old": stale} {
		before := m.Stats().UsageEvents
		require.Equal(t, "key_unproven", send(usage("a", 1, 9), v), name)
		require.Equal(t, "key_unproven", send(usage("new", 1, 9), v), name)
		require.Equal(t, "duplicate", send(usage("c", 1, 9), v), "that is in memory: "+name)
		require.Equal(t, before, m.Stats().UsageEvents)
	}
	require.Equal(t, "done", send(usage("d", 1, 4), early), "made before, and looked far enough")
	require.Equal(t, "done", send(usage("d", 1, 4), early), "sent again: the first outcome")
	require.Equal(t, "duplicate", send(usage("a", 1, 9), probe("a")))
	require.Equal(t, "key_reused", send(usage("a", 2, 9), probe("a")))
	require.Equal(t, "done", send(usage("a", 1, 1), probe("a")), "the same attempt: the first outcome")
	require.EqualValues(t, 4, m.Stats().UsageEvents)

	l.DoPayload(billing.KindDemoteKeys, demotion(99).Payload)
	require.Zero(t, m.KeySpan().InMemory())
	require.Equal(t, "key_unproven", send(usage("d", 1, 4), early), "sent again after it left memory")
	require.Equal(t, "done", send(usage("d", 1, 4), probe("d")))
	require.EqualValues(t, 4, m.Stats().UsageEvents)
}

// What files say of a key holds as long as the key is kept, and no longer.
func TestAVerdictOutlivesNoRetention(t *testing.T) {
	m, l, src := demotable(t)
	l.Stamp += 4 * 86_400_000
	require.Equal(t, engine.OutcomeDone, l.DoPayload(billing.KindRecordUsage,
		enginetest.Usage(l, "d", "ada", "requests", 1).Seal(nil)).Outcome)
	l.DoPayload(billing.KindDemoteKeys, demotion(4).Payload)
	key := billing.UsageKey(enginetest.Sandbox, []byte("a"))
	v, err := src.FindKey(key)
	require.NoError(t, err)
	l.Stamp += 4 * 86_400_000
	u := enginetest.Usage(l, "a", "ada", "requests", 1)
	u.Attempt = 5
	record := billing.AppendProbedUsage(nil, u.Seal(nil), &v)
	require.Equal(t, "done", l.DoPayload(billing.KindRecordProbedUsage, record).Outcome.String())
	require.EqualValues(t, 5, m.Stats().UsageEvents)
	require.Equal(t, idempotency.Span{Base: 3, Memory: 4, Next: 5}, m.KeySpan())

	// The key is used again now; what the files say of its first use must not hide that.
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 5, ref.Event)
	first := ref
	first.Event = 1
	require.Equal(t, engine.OutcomeUsageFinal, l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: key, Original: first,
	}).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: key, Original: ref,
	}).Outcome)
}

// Whoever corrects an event whose key left memory needs files that have it.
func TestCorrectionsFindEventsWhoseKeysLeftMemory(t *testing.T) {
	m, l, src := demotable(t)
	l.DoPayload(billing.KindDemoteKeys, demotion(2).Payload)
	key := billing.UsageKey(enginetest.Sandbox, []byte("b"))
	_, _, err := m.FindUsage(src, nil, enginetest.Sandbox, key)
	require.ErrorIs(t, err, billing.ErrKeysUncovered)
	_, _, err = m.FindUsage(src, blind{}, enginetest.Sandbox, key)
	require.ErrorIs(t, err, billing.ErrKeysUncovered)
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	require.True(t, found)
	require.EqualValues(t, 2, ref.Event)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindVoidUsage, &billing.VoidUsage{
		Env: enginetest.Sandbox, Key: key, Original: ref,
	}).Outcome)
	// What became of it is kept as long as its key, wherever that is.
	for _, other := range []string{"a", "c"} {
		key := billing.UsageKey(enginetest.Sandbox, []byte(other))
		ref, _, err := m.FindUsage(src, src, enginetest.Sandbox, key)
		require.NoError(t, err)
		require.Equal(t, engine.OutcomeDone, l.Do(billing.KindVoidUsage, &billing.VoidUsage{
			Env: enginetest.Sandbox, Key: key, Original: ref,
		}).Outcome)
	}
	require.Equal(t, engine.OutcomeUsageVoided, l.Do(billing.KindAmendUsage, &billing.AmendUsage{
		Env: enginetest.Sandbox, Key: key, Original: ref,
	}).Outcome)
	_, found, err = m.FindUsage(src, src, enginetest.Sandbox, [16]byte{1})
	require.NoError(t, err)
	require.False(t, found)
}

// blind are files that have nothing yet.
type blind struct{}

func (blind) FindKey([16]byte) (idempotency.Verdict, error) { return idempotency.Verdict{}, nil }

// Keys leave memory only when there are more than it may hold.
func TestDemotionIsDueWhenMemoryIsFull(t *testing.T) {
	m, l, _ := demotable(t)
	require.Zero(t, m.KeysToDemote(), "32 Mi keys fit")
	l.Do(billing.KindSetLimits, &billing.SetLimits{MaxKeysInMemory: 2})
	require.EqualValues(t, 2, m.KeysWanted())
	require.EqualValues(t, 1, m.KeysToDemote())
	r := m.Demotion(1)
	require.Equal(t, demotion(1), r)
	l.DoPayload(r.Kind, r.Payload)
	require.Zero(t, m.KeysToDemote(), "two fit")

	// Where no files come to it, memory does not grow without end.
	for i, want := range []string{"done", "done", "done", "done", "done", "done", "keys_full"} {
		u := enginetest.Usage(l, fmt.Sprint("more", i), "ada", "requests", 1)
		v := idempotency.Verdict{Through: 99}
		require.Equal(t, want, l.DoPayload(billing.KindRecordProbedUsage,
			billing.AppendProbedUsage(nil, u.Seal(nil), &v)).Outcome.String(), i)
	}
	require.EqualValues(t, 8, m.KeySpan().InMemory())
}
