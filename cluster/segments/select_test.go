package segments_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/cluster/segments"
	"tollgate/engine/billing"
)

// TestEventsFromSegments: a customer's checks, in both orders and selected, are the same from
// segments on disk as from reading the whole journal.
func TestEventsFromSegments(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	store, err := segments.Open(t.TempDir(), m.Journal(), billing.IndexRecord, segments.Options{
		Fatal: func(err error) { panic(err) },
	})
	require.NoError(t, err)
	plain := &enginetest.Source{Journal: m.Journal()}
	sealed := 0
	keep := func() {
		plain.Keep(&l.Applied)
		for _, s := range l.Applied.Sealed {
			store.Put(s)
			sealed++
		}
	}
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	c, _ := m.Customer(enginetest.Sandbox, "ada")
	var block billing.AuditBlock
	for n := range 8 {
		l.Stamp += 2 * 24 * 3600 * 1000 // so that the tail is cut, and never dropped
		block.Reset(1, 1, uint64(n)+1)
		for i := range 400 {
			check := billing.AuditCheck{
				Env: enginetest.Sandbox, CustomerRow: c.Row, FeatureNumber: 1,
				Reason: billing.ReasonAllowed, At: l.Stamp + int64(i/3), FlowID: []byte(strconv.Itoa(i)),
			}
			if i%97 == n {
				check.Reason = billing.ReasonLimitReached
			}
			block.Add(&check)
		}
		require.False(t, l.DoPayload(billing.KindRecordAudits, block.Encode(nil)).Outcome.Refused())
		keep()
	}
	require.Greater(t, sealed, 2)
	require.NoError(t, store.WaitDurable(t.Context(), m.Journal().Manifest()))
	for _, q := range []billing.EventQuery{
		{Limit: 130},
		{Limit: 130, Descending: true},
		{Limit: 7, Denied: true},
		{Limit: 7, Denied: true, Descending: true},
		{Limit: 1000, Descending: true},
	} {
		q.Customer, q.To = c.Row, 1<<60
		total := 0
		for {
			want, to, err := m.Events(plain, q)
			require.NoError(t, err)
			got, next, err := m.Events(store, q)
			require.NoError(t, err)
			require.Equal(t, want, got)
			require.Equal(t, to, next)
			if total += len(got); next.Index == 0 {
				break
			}
			q.After = next
		}
		require.NotZero(t, total)
	}
	require.NoError(t, store.Close())
}
