package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/enginetest"
)

// TestWhatIsChangedByHandIsFound: invoices are explained from the journal alone, so a number that
// was changed in memory, whichever it is, makes one differ.
func TestWhatIsChangedByHandIsFound(t *testing.T) {
	differing := func(fault func(*billing.Machine)) (count int) {
		m := billing.New(billing.Config{})
		l := enginetest.NewLog(m, enginetest.Epoch)
		src := &enginetest.Source{Journal: m.Journal()}
		enginetest.NewAccount(l, lifecyclePlans())
		enginetest.NewCustomer(l, "ada", "llm-team")
		use := func(key string, at int64) {
			u := enginetest.Usage(l, key, "ada", "output-tokens", 3000)
			u.OccurredAt = at
			r := l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
			require.False(t, r.Outcome.Refused())
		}
		use("a", l.Stamp)
		l.Stamp += 14 * dayMS
		// To a cheaper plan: the rest of the old price is the customer's credit.
		r := l.Do(billing.KindChangePlan, &billing.ChangePlan{
			Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada llm-team"), Plan: "grow",
			Type: billing.ChangeUpgrade, ChangeID: enginetest.ID("change"),
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		use("b", l.Stamp)
		l.Stamp = enginetest.Epoch + 28*dayMS - 60_000
		use("c", l.Stamp+120_000) // ahead
		fault(m)
		for range 3 {
			l.Stamp += 31 * dayMS
			l.DoPayload(engine.KindTick, nil)
		}
		all, err := m.VerifyInvoices(src, enginetest.Sandbox, 1)
		require.NoError(t, err)
		require.Len(t, all, 6)
		for i := range all {
			if !all[i].Equal {
				count++
			}
		}
		return count
	}
	require.Zero(t, differing(func(*billing.Machine) {}))
	for what, fault := range billing.Faults {
		require.Positive(t, differing(fault), what)
	}
}
