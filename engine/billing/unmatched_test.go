package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestUnmatchedNamesAreRemembered: an event that no feature matches is recorded and never billed;
// its name is listed, the newest first, until the catalog has it. There are 50 at most.
func TestUnmatchedNamesAreRemembered(t *testing.T) {
	d := newDesk(t)
	env := uint32(enginetest.Sandbox)
	send := func(key, name string) {
		t.Helper()
		d.Stamp += 1000
		o := d.Do(billing.KindRecordUsage, enginetest.Usage(d.Log, key, "ada", name, 1)).Outcome
		require.True(t, o.Recorded(), "%v", o)
	}
	names := func(m *billing.Machine) (all []string) {
		for _, u := range m.Unmatched(env) {
			all = append(all, fmt.Sprint(u.Name, " ", u.Events))
		}
		return all
	}
	send("1", "tokens")
	send("2", "seats")
	send("3", "tokens")
	send("4", "input-tokens") // the catalog has it
	require.Equal(t, []string{"tokens 2", "seats 1"}, names(d.m))
	require.Equal(t, d.Stamp-1000, d.m.Unmatched(env)[0].LastAt)
	require.Equal(t, d.Stamp-3000, d.m.Unmatched(env)[0].FirstAt)
	d.Do(billing.KindRecordUsage, enginetest.Usage(d.Log, "1", "ada", "tokens", 1))
	require.Equal(t, "tokens 2", names(d.m)[0], "a repeated event counts once")
	require.Empty(t, d.m.Unmatched(env+1))

	d.is(engine.OutcomeDone, billing.KindApplyCatalog, enginetest.ApplyCatalog(env,
		billing.CatalogDocument{Features: []billing.FeatureDocument{{Key: "seats", Name: "Seats"}}}))
	require.Equal(t, []string{"tokens 2"}, names(d.m))
	for i := range billing.MaxUnmatched {
		send(fmt.Sprint("n", i), fmt.Sprint("name-", i))
	}
	require.Len(t, names(d.m), billing.MaxUnmatched)
	require.NotContains(t, names(d.m), "tokens 2", "the one seen longest ago made room")
	taken := enginetest.Snapshot(t, d.m)
	again := restored(t, taken)
	require.Equal(t, names(d.m), names(again))
	require.Equal(t, taken, enginetest.Snapshot(t, again))
}
