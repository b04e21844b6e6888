package rollups

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/bench/faultfs"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
)

// TestBillingIsCounted: in any history of the billing machine, customers are ranked as by reading
// the whole journal, whichever of its segments have a file.
func TestBillingIsCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := billing.New(billing.Config{})
		src := &enginetest.Source{Journal: m.Journal()}
		var out engine.Applied
		for i, e := range enginetest.BillingEntries(t) {
			require.NoError(t, m.Apply(uint64(i)+1, e, &out))
			src.Keep(&out)
		}
		// A check that is denied to the first customer, in a segment that is sealed for its age.
		l := enginetest.NewLog(m, enginetest.Epoch)
		var b billing.AuditBlock
		b.Reset(99, 1, 1)
		b.Add(&billing.AuditCheck{
			Env: enginetest.Sandbox, CustomerRow: 1, FeatureNumber: 1,
			Reason: billing.ReasonLimitReached, At: l.Stamp,
		})
		require.Equal(t, engine.OutcomeDone,
			l.DoPayload(billing.KindRecordAudits, b.Encode(nil)).Outcome)
		src.Keep(&l.Applied)
		l.Stamp += 2 * 24 * rollup.HourMS
		l.DoPayload(engine.KindTick, nil)
		src.Keep(&l.Applied)

		counts := Open("rollups", Options{
			FS: faultfs.New(), Journal: m.Journal(),
			Count: billing.CountRecord, CountVersions: billing.CountVersions,
			Lend: func(part journal.Part, number uint64, use func([]byte) error) error {
				at := slices.IndexFunc(src.Sealed, func(s journal.Segment) bool {
					return s.Part == part && s.Number == number
				})
				return use(src.Sealed[at].Data)
			},
		})
		for range rapid.IntRange(0, 3).Draw(t, "steps") {
			_, err := counts.Step(hurried())
			require.NoError(t, err)
		}
		for env := range uint32(12) {
			q := billing.UsageQuery{Env: env, By: billing.ByMonth, To: 4 * enginetest.Epoch}
			want, _, err := m.UsageByCustomer(src, &q, 1000)
			require.NoError(t, err)
			got, _, err := m.UsageByCustomer(counts, &q, 1000)
			require.NoError(t, err)
			require.Equal(t, want, got)

			d := billing.DenialQuery{UsageQuery: q, Max: 1000}
			denied, _, err := m.DeniedByCustomer(src, &d)
			require.NoError(t, err)
			counted, _, err := m.DeniedByCustomer(counts, &d)
			require.NoError(t, err)
			require.Equal(t, denied, counted)
		}
	})
}
