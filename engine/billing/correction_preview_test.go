package billing_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// TestAPreviewOfACorrectionIsWhatItDoes: to the invoices to come, in the present period and in one
// that was invoiced, again and again; and it changes nothing.
func TestAPreviewOfACorrectionIsWhatItDoes(t *testing.T) {
	m := billing.New(billing.Config{})
	l := enginetest.NewLog(m, enginetest.Epoch)
	enginetest.NewAccount(l, enginetest.TokenPlan())
	enginetest.NewCustomer(l, "ada", "llm-team")
	customer, _ := m.Customer(enginetest.Sandbox, "ada")
	src := &enginetest.Source{Journal: m.Journal()}
	toCome := func() (sum decimal.Decimal) {
		for _, v := range m.PendingInvoices(enginetest.Sandbox, customer.Row) {
			sum, _ = sum.Add(v.Amount)
		}
		return sum
	}
	var keys [][16]byte
	use := func(n int) {
		u := enginetest.Usage(l, fmt.Sprint("k", n), "ada", "input-tokens", 100_000*int64(n+1))
		keys = append(keys, u.Key)
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	}
	for n := range 2 {
		use(n)
	}
	changed := 0
	correct := func(key [16]byte, units *decimal.Decimal) {
		ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
		require.True(t, found && err == nil)
		index, hash := m.StateHash()
		p, outcome := m.PreviewCorrection(enginetest.Sandbox, key, &ref, units, l.Stamp)
		require.Equal(t, engine.OutcomeDone, outcome)
		again, after := m.StateHash()
		require.Equal(t, []uint64{index, hash}, []uint64{again, after}, "a preview has changed something")
		require.True(t, p.Billed)
		require.Equal(t, "USD", p.Currency)
		before := toCome()
		if units == nil {
			l.Do(billing.KindVoidUsage, &billing.VoidUsage{
				Env: enginetest.Sandbox, Key: key, Original: ref,
			})
		} else {
			require.Equal(t, *units, p.NewUnits)
			l.Do(billing.KindAmendUsage, &billing.AmendUsage{
				Env: enginetest.Sandbox, Key: key, Original: ref, Units: *units,
				ID: enginetest.ID(fmt.Sprint("amend ", changed)),
			})
		}
		delta, _ := toCome().Sub(before)
		require.Equal(t, delta, p.Invoices, "event %x to %v", key, units)
		if changed++; !delta.IsZero() {
			changed++
		}
	}
	units := func(n int64) *decimal.Decimal { return new(decimal.FromInt(n)) }
	correct(keys[0], units(1_500_000))
	correct(keys[0], units(20))
	correct(keys[1], nil)
	l.Stamp += 28 * dayMS
	use(2)
	use(3)
	l.Stamp += 5 * dayMS
	l.DoPayload(engine.KindTick, nil)
	use(4)
	correct(keys[2], units(2_000_000)) // of the period before
	correct(keys[3], nil)
	correct(keys[4], units(1))
	require.Greater(t, changed, 8, "money moved")

	ref, _, err := m.FindUsage(src, src, enginetest.Sandbox, keys[3])
	require.NoError(t, err)
	preview := func(key [16]byte, units *decimal.Decimal) engine.Outcome {
		_, outcome := m.PreviewCorrection(enginetest.Sandbox, key, &ref, units, l.Stamp)
		return outcome
	}
	require.Equal(t, engine.OutcomeDone, preview(keys[3], nil), "voided before")
	require.Equal(t, engine.OutcomeUsageVoided, preview(keys[3], units(1)))
	require.Equal(t, engine.OutcomeUsageUnknown, preview(keys[2], units(1)), "another event's record")
}
