package billing_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
)

// TestTermsCountFromTheInstantTheyWereSet: what should have been issued before they changed is
// issued by the terms of then, however late the cluster comes to it.
func TestTermsCountFromTheInstantTheyWereSet(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	set := func(days uint32) {
		r := l.Do(billing.KindSetPaymentTerms, &billing.SetPaymentTerms{
			Env: enginetest.Sandbox, Days: days,
		})
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		stands, _ := m.PaymentTerms(enginetest.Sandbox)
		require.Equal(t, days, stands)
	}
	set(30)
	l.Stamp += 40 * dayMS // no tick: nobody led while a period ended
	set(14)
	set(0) // twice in a row: what fell due under the terms of 30 days has them all the same
	foreseen := m.Invoices(enginetest.Sandbox, 1)
	require.Len(t, foreseen, 2)
	l.Stamp += 30 * dayMS
	l.DoPayload(engine.KindTick, nil)
	var days []int64
	for i, v := range m.Invoices(enginetest.Sandbox, 1) {
		days = append(days, (v.DueDate-v.CreatedAt)/dayMS)
		if i < len(foreseen) {
			require.Equal(t, foreseen[i].DueDate, v.DueDate, "queries foresee the same")
		}
	}
	require.Equal(t, []int64{7, 30, 0}, days)

	restored := billing.New(billing.Config{})
	require.NoError(t, restored.Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
	days0, _ := restored.PaymentTerms(enginetest.Sandbox)
	require.Zero(t, days0)
	days7, _ := restored.PaymentTerms(enginetest.Sandbox + 1)
	require.Equal(t, uint32(7), days7)
	require.Equal(t, enginetest.Snapshot(t, m), enginetest.Snapshot(t, restored))
}
