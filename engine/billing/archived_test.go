package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestArchivedCustomersTakeNoEvents: also after a restore, which finds it in the profile. One that
// was erased and has a subscription goes on.
func TestArchivedCustomersTakeNoEvents(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "")
	enginetest.NewCustomer(l, "bob", "llm-team")
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindArchiveCustomer, &billing.ArchiveCustomer{
		Env: enginetest.Sandbox, ExternalID: "ada",
	}).Outcome)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindEraseCustomer, &billing.EraseCustomer{
		Env: enginetest.Sandbox, ExternalID: "bob",
	}).Outcome)
	again := restored(t, enginetest.Snapshot(t, m))
	for _, m := range []*billing.Machine{m, again} {
		l.Machine = m
		for i, customer := range []string{"ada", "bob"} {
			u := enginetest.Usage(l, "key "+customer, customer, "input-tokens", 1)
			r := l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
			require.Equal(t, []engine.Outcome{engine.OutcomeCustomerArchived, engine.OutcomeDone}[i],
				r.Outcome)
		}
	}
}
