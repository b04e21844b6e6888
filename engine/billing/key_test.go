package billing_test

import (
	"bytes"
	"runtime"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/period"
)

const hourMS = 60 * 60 * 1000

// roll is a command that replaces a key by one of a name.
func roll(name, replaces string, overlapMS int64) *billing.CreateKey {
	return &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID(name), Hash: [32]byte{1, name[0]}, Hint: name,
		Replaces: enginetest.ID(replaces), OverlapMS: overlapMS, Actor: "ops",
	}
}

// TestARolledKey: a new key has the scope, label, customer and budget of the one that it replaces,
// which ends after the overlap, in the log's time: with the first entry from then on, and not with
// the sandbox's clock. What is restored in between ends the same.
func TestARolledKey(t *testing.T) {
	d := newDesk(t)
	first := billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("first"), Hash: [32]byte{1, 'f'}, Label: "web",
		Hint: "first", Scope: billing.ScopeCustomer, Customer: "ada",
	}
	d.is(engine.OutcomeDone, billing.KindCreateKey, &first)
	d.is(engine.OutcomeDone, billing.KindPutBudget, &billing.PutBudget{
		Env: enginetest.Sandbox, Key: "team", Name: "Team",
	})
	d.is(engine.OutcomeDone, billing.KindBindKey, &billing.BindKey{
		Env: enginetest.Sandbox, ID: first.ID, Budget: "team",
	})
	due := d.m.NextDue()
	d.is(engine.OutcomeKeyUnknown, billing.KindCreateKey, roll("second", "nobody", hourMS))
	d.is(engine.OutcomeOverflow, billing.KindCreateKey,
		roll("second", "first", billing.MaxKeyOverlapMS+1))
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("second", "first", hourMS))
	end := d.Stamp + hourMS
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("second", "first", hourMS)) // again
	works := func(m *billing.Machine, hash byte) bool {
		_, known := m.Authenticate([32]byte{1, hash})
		return known
	}
	keys := d.m.Keys(enginetest.Sandbox)
	old, made := keys[len(keys)-2], keys[len(keys)-1]
	require.Equal(t, end, old.EndsAt)
	require.Equal(t, end, d.m.NextDue(), "a tick is asked for then; before it was %d", due)
	made.ID, made.Hash, made.Hint, made.CreatedAt = old.ID, old.Hash, old.Hint, old.CreatedAt
	require.Equal(t, "ops", made.CreatedBy)
	made.EndsAt, made.CreatedBy = old.EndsAt, old.CreatedBy
	require.Equal(t, old, made)
	d.is(engine.OutcomeDone, billing.KindAdvanceClock, &billing.AdvanceClock{
		Env: enginetest.Sandbox, To: d.Stamp + 48*hourMS,
	})
	require.True(t, works(d.m, 'f') && works(d.m, 's'))

	again := restored(t, enginetest.Snapshot(t, d.m))
	require.Equal(t, end, again.NextDue())
	tick := func(at int64) {
		d.Stamp = at
		d.DoPayload(engine.KindTick, nil)
		require.NoError(t, again.Apply(d.Index, d.Entries[len(d.Entries)-1], new(engine.Applied)))
		_, hash := d.m.StateHash()
		_, other := again.StateHash()
		require.Equal(t, hash, other)
	}
	tick(end - 1)
	require.True(t, works(d.m, 'f') && works(again, 'f'))
	tick(end)
	for _, m := range []*billing.Machine{d.m, again} {
		require.False(t, works(m, 'f'))
		require.True(t, works(m, 's'))
		require.NotEqual(t, end, m.NextDue())
	}
	require.Equal(t, end, d.m.Keys(enginetest.Sandbox)[len(keys)-2].RevokedAt)
	changes := d.changes(d.m, 0, 1)
	require.Equal(t, "key.ended", changes[0].Action)
	require.Equal(t, "engine", changes[0].Actor)
	d.is(engine.OutcomeKeyUnknown, billing.KindCreateKey, roll("third", "first", 0))
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("third", "second", 0))
	require.False(t, works(d.m, 's'), "without an overlap it ends at once")
	require.True(t, works(d.m, 't'))
}

// TestAKeyThatIsRevokedBeforeItsEnd: nothing ends twice, a second replacement does not prolong, an
// earlier one shortens, and what is due is what a restored machine finds due.
func TestAKeyThatIsRevokedBeforeItsEnd(t *testing.T) {
	d := newDesk(t)
	d.is(engine.OutcomeDone, billing.KindCreateKey, &billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("first"), Hash: [32]byte{1, 'f'},
		Scope: billing.ScopeFull, Hint: "first",
	})
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("second", "first", hourMS))
	end := d.Stamp + hourMS
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("third", "first", 9*hourMS))
	require.Contains(t, d.changes(d.m, 0, 1)[0].Values,
		billing.FieldChange{Name: "replacedEnds", After: period.Format(end)})
	keys := d.m.Keys(enginetest.Sandbox)
	require.Equal(t, end, keys[len(keys)-3].EndsAt)
	due := func(want int64) {
		t.Helper()
		require.Equal(t, want, d.m.NextDue())
		require.Equal(t, want, restored(t, enginetest.Snapshot(t, d.m)).NextDue())
	}
	due(end)
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("4th", "second", 5*hourMS))
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("5th", "second", 3*hourMS))
	d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("first"),
	})
	due(d.Stamp + 3*hourMS)
	d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("second"),
	})
	due(0)
	d.Stamp = end
	d.DoPayload(engine.KindTick, nil)
	due(0)
	require.Equal(t, "key.revoked", d.changes(d.m, 0, 1)[0].Action)
	require.Less(t, d.m.Keys(enginetest.Sandbox)[len(keys)-3].RevokedAt, end)
}

// TestAFullAccountRollsItsKeys: a key that replaces another one at once is not one more.
func TestAFullAccountRollsItsKeys(t *testing.T) {
	d := newDesk(t)
	first := billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("first"), Hash: [32]byte{1, 'f'}, Hint: "first",
		Scope: billing.ScopeFull,
	}
	d.is(engine.OutcomeDone, billing.KindCreateKey, &first)
	d.is(engine.OutcomeDone, billing.KindSetLimits, &billing.SetLimits{AccountKeys: 1})
	d.is(engine.OutcomeKeyLimit, billing.KindCreateKey, roll("second", "first", hourMS))
	d.is(engine.OutcomeKeyUnknown, billing.KindCreateKey, roll("second", "nobody", 0))
	d.is(engine.OutcomeDone, billing.KindCreateKey, roll("second", "first", 0))
	_, works := d.m.Authenticate([32]byte{1, 's'})
	require.True(t, works)
	_, works = d.m.Authenticate(first.Hash)
	require.False(t, works)
	d.is(engine.OutcomeKeyLimit, billing.KindCreateKey, roll("third", "second", 1))
}

// TestAFullEnvironmentRollsItsKeys: also where as many keys are in use as an environment may have.
func TestAFullEnvironmentRollsItsKeys(t *testing.T) {
	d := newDesk(t)
	key := func(n int) *billing.CreateKey {
		return &billing.CreateKey{
			Env: enginetest.Sandbox, ID: [16]byte{2, byte(n), byte(n >> 8)}, Scope: billing.ScopeFull,
			Hash: [32]byte{2, byte(n), byte(n >> 8)},
		}
	}
	n := 0
	for ; d.Do(billing.KindCreateKey, key(n)).Outcome == engine.OutcomeDone; n++ {
		require.LessOrEqual(t, n, billing.MaxAPIKeys)
	}
	require.Equal(t, engine.OutcomeAccountLimit, d.Do(billing.KindCreateKey, key(n)).Outcome)
	for range billing.MaxAPIKeys + 3 { // more than are listed
		c := key(n)
		c.Replaces = key(n - 1).ID
		d.is(engine.OutcomeDone, billing.KindCreateKey, c)
		n++
	}
	require.Len(t, d.m.Keys(enginetest.Sandbox), billing.MaxListedKeys)
	_, works := d.m.Authenticate(key(n - 1).Hash)
	require.True(t, works)
	_, works = d.m.Authenticate(key(n - 2).Hash)
	require.False(t, works)
}

// keyDesk is an environment with as many keys as are listed, of which half are in use.
func keyDesk(t testing.TB) (d *desk, inUse []*billing.NoteKeyUse) {
	t.Helper()
	d = newDesk(t)
	for n := range billing.MaxListedKeys {
		id := [16]byte{2, byte(n), byte(n >> 8)}
		d.is(engine.OutcomeDone, billing.KindCreateKey, &billing.CreateKey{
			Env: enginetest.Sandbox, ID: id, Scope: billing.ScopeFull,
			Hash: [32]byte{2, byte(n), byte(n >> 8)},
		})
		if n < billing.MaxListedKeys/2 {
			d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{
				Env: enginetest.Sandbox, ID: id,
			})
			continue
		}
		inUse = append(inUse, &billing.NoteKeyUse{Env: enginetest.Sandbox, ID: id, Requests: 1})
	}
	return d, inUse
}

func notes(uses []*billing.NoteKeyUse) (records []engine.Record) {
	for _, use := range uses {
		records = append(records, record(billing.KindNoteKeyUse, use))
	}
	return records
}

// TestNotedUsesAreBounded: an entry of notes does its share, and leaves the rest to the next ones.
// A note costs the same however many keys the environment has.
func TestNotedUsesAreBounded(t *testing.T) {
	d, inUse := keyDesk(t)
	all := notes(inUse)
	require.Equal(t, 1, bounded(t, d.Log, 0, all...), "those of a node go at once")
	require.Equal(t, 3, bounded(t, d.Log, 0, slices.Concat(all, all, all)...))
	views := d.m.KeysUsed(enginetest.Sandbox, d.Stamp)
	for _, v := range views[len(views)-len(all):] {
		require.EqualValues(t, 4, v.DayRequests)
	}

	entry := d.Entry(all...)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := d.ApplyEntry(entry)
	runtime.ReadMemStats(&after)
	require.NoError(t, err)
	const perNote = 2 << 10 // bytes; a list of all keys has 16 KiB
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(perNote*len(all)))
}

// TestASnapshotHasKeysAsTheyWere: what is noted and bound while it is written is not in it.
func TestASnapshotHasKeysAsTheyWere(t *testing.T) {
	d := newDesk(t)
	first := billing.CreateKey{
		Env: enginetest.Sandbox, ID: enginetest.ID("first"), Hash: [32]byte{1, 'f'}, Hint: "first",
		Scope: billing.ScopeFull,
	}
	d.is(engine.OutcomeDone, billing.KindCreateKey, &first)
	use := &billing.NoteKeyUse{Env: enginetest.Sandbox, ID: first.ID, Requests: 1}
	d.is(engine.OutcomeDone, billing.KindNoteKeyUse, use)
	want, at := d.m.KeysUsed(enginetest.Sandbox, d.Stamp), d.Stamp
	sn, err := d.m.Snapshot()
	require.NoError(t, err)
	defer sn.Release()
	d.Stamp += hourMS
	d.is(engine.OutcomeDone, billing.KindNoteKeyUse, use)
	d.is(engine.OutcomeDone, billing.KindRevokeKey, &billing.RevokeKey{
		Env: enginetest.Sandbox, ID: first.ID,
	})
	var b bytes.Buffer
	_, err = sn.WriteTo(&b)
	require.NoError(t, err)
	require.Equal(t, want, restored(t, b.Bytes()).KeysUsed(enginetest.Sandbox, at))
}

// BenchmarkNoteKeyUse notes the uses of all keys of a full environment, which have been used each
// hour and day.
func BenchmarkNoteKeyUse(b *testing.B) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	d, inUse := keyDesk(b)
	d.Keep = false
	all := notes(inUse)
	var w longest
	for range 60 {
		d.Stamp += 12 * hourMS
		w.apply(b, d.Log, all...)
	}
	w = longest{}
	entries := 0
	for b.Loop() {
		entries = w.apply(b, d.Log, all...)
	}
	w.report(b, entries)
}
