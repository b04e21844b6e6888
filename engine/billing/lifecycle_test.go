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
	"tollgate/engine/decimal"
)

const dayMS = 86_400_000

// lifecyclePlans are two plans that count the same features in different ways.
func lifecyclePlans() billing.CatalogDocument {
	doc := enginetest.TokenPlan()
	grow := doc.Plans[0]
	grow.Key, grow.PriceAmount = "grow", decimal.MustParse("7.77")
	grow.Features = append([]billing.PlanFeatureDocument(nil), grow.Features...)
	grow.Features[1].Pricing.ResetMode = "accumulate"
	year := doc.Plans[0]
	year.Key, year.IntervalMonths, year.BillingTiming = "year", 12, "IN_ARREARS"
	doc.Plans = append(doc.Plans, grow, year)
	return doc
}

// TestInvoicesAreExplained: whatever happens to a subscription, each invoice's lines add up to its
// amount, and the journal alone gives the same lines; replaying the log gives the same snapshot.
func TestInvoicesAreExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := billing.New(billing.Config{})
		l := enginetest.NewLog(m, enginetest.Epoch)
		src := &enginetest.Source{Journal: m.Journal()}
		enginetest.NewAccount(l, lifecyclePlans())
		enginetest.NewCustomer(l, "ada", "llm-team")
		sub := enginetest.ID("subscription ada llm-team")
		for i := range rapid.IntRange(1, 40).Draw(t, "steps") {
			lifecycleStep(t, l, src, sub, i)
		}
		verified(t, m, src, 1)
		for _, v := range m.Invoices(enginetest.Sandbox, 1) {
			require.False(t, v.Amount.Sign() < 0)
		}
		twin := billing.New(billing.Config{})
		enginetest.Outcomes(t, twin, 1, l.Entries)
		require.True(t, bytes.Equal(enginetest.Snapshot(t, m), enginetest.Snapshot(t, twin)))
	})
}

func lifecycleStep(
	t *rapid.T, l *enginetest.Log, src *enginetest.Source, sub [16]byte, i int,
) {
	m := l.Machine.(*billing.Machine)
	key := billing.UsageKey(enginetest.Sandbox, fmt.Appendf(nil, "k%d",
		rapid.IntRange(0, 40).Draw(t, "key")))
	plan := rapid.SampledFrom([]string{"llm-team", "grow", "year"}).Draw(t, "plan")
	ref, found, err := m.FindUsage(src, src, enginetest.Sandbox, key)
	require.NoError(t, err)
	switch op := rapid.IntRange(0, 12).Draw(t, "op"); op {
	case 0, 1, 2, 3:
		feature := rapid.SampledFrom([]string{"input-tokens", "output-tokens"}).Draw(t, "feature")
		u := enginetest.Usage(l, fmt.Sprintf("k%d", i), "ada", feature,
			rapid.Int64Range(0, 200_000).Draw(t, "units"))
		u.OccurredAt += rapid.Int64Range(-7*dayMS, 250_000).Draw(t, "occurred")
		if rapid.Bool().Draw(t, "explicit") {
			u.SubscriptionID = sub
		}
		l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
	case 4:
		if found {
			l.Do(billing.KindVoidUsage, &billing.VoidUsage{
				Env: enginetest.Sandbox, Key: key, Original: ref,
			})
		}
	case 5:
		if found {
			l.Do(billing.KindAmendUsage, &billing.AmendUsage{
				Env: enginetest.Sandbox, Key: key, Original: ref, ID: enginetest.ID(fmt.Sprint(i)),
				Units: decimal.FromInt(rapid.Int64Range(0, 200_000).Draw(t, "amended")),
			})
		}
	case 6, 7:
		l.Do(billing.KindChangePlan, &billing.ChangePlan{
			Env: enginetest.Sandbox, ID: sub, ChangeID: enginetest.ID(fmt.Sprint("c", i)),
			Plan: plan, Type: billing.ChangeType(op - 5),
		})
	case 8:
		if rapid.IntRange(0, 5).Draw(t, "cancels") == 0 {
			l.Do(billing.KindCancelSubscription, &billing.CancelSubscription{
				Env: enginetest.Sandbox, ID: sub,
				Mode: rapid.SampledFrom([]billing.CancelMode{
					billing.CancelImmediate, billing.CancelAtPeriodEnd,
				}).Draw(t, "mode"),
			})
		}
	case 9:
		l.Do(billing.KindRevertCancellation, &billing.RevertCancellation{
			Env: enginetest.Sandbox, ID: sub,
		})
	default:
		l.Stamp += rapid.SampledFrom([]int64{60_000, dayMS, 6 * dayMS, 27 * dayMS, 100 * dayMS}).
			Draw(t, "later")
		l.DoPayload(engine.KindTick, nil)
	}
	src.Keep(&l.Applied)
}

// TestAListedInvoiceMayBePaid, and voided, although no tick has stored it yet.
func TestAListedInvoiceMayBePaid(t *testing.T) {
	m, l := opened()
	enginetest.NewCustomer(l, "grace", "llm-team")
	l.Stamp += 100 * dayMS
	l.Do(billing.KindSetLimits, &billing.SetLimits{}) // time passes, and nothing else
	c, ok := m.Customer(enginetest.Sandbox, "grace")
	require.True(t, ok)
	all := m.Invoices(enginetest.Sandbox, c.Row)
	require.Len(t, all, 4)
	require.Zero(t, all[2].Number)
	require.Equal(t, engine.OutcomeDone, l.Do(billing.KindMarkInvoicePaid, &billing.MarkInvoicePaid{
		Env: enginetest.Sandbox, ID: all[2].ID,
	}).Outcome)
	again := m.Invoices(enginetest.Sandbox, c.Row)
	require.Len(t, again, 4)
	require.Equal(t, billing.InvoicePaid, again[2].Status)
	require.NotZero(t, again[2].Number)
}
