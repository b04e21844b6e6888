package billing_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
)

// alternating is a subscription that may change between two plans of so many features each, which
// have none in common, with usage of all of them.
type alternating struct {
	l       *enginetest.Log
	n       int
	changes int
}

func newAlternating(n int, mode string) *alternating {
	doc := billing.CatalogDocument{}
	for p := range 2 {
		plan := billing.PlanDocument{Key: fmt.Sprint("p", p), Currency: "USD", IntervalMonths: 12}
		for i := range n {
			key := fmt.Sprint("f", p, "-", i)
			doc.Features = append(doc.Features, billing.FeatureDocument{Key: key})
			plan.Features = append(plan.Features, billing.PlanFeatureDocument{
				Key: key, PricingType: "usage_based", Pricing: billing.PricingDocument{
					PricePerUnit: decimal.FromInt(1), ResetMode: mode,
				},
			})
		}
		doc.Plans = append(doc.Plans, plan)
	}
	a := &alternating{n: n, l: enginetest.NewLog(billing.New(billing.Config{}), enginetest.Epoch)}
	a.l.Keep = false
	enginetest.NewAccount(a.l, doc)
	enginetest.NewCustomer(a.l, "ada", "p0")
	return a
}

// change uses every feature of the present plan, then changes to the other one, and says how much
// processor time that took: what else runs on the machine does not count.
func (a *alternating) change(t testing.TB) time.Duration {
	for i := range a.n {
		u := enginetest.Usage(a.l, fmt.Sprint(a.changes, "-", i), "ada",
			fmt.Sprint("f", a.changes%2, "-", i), 1)
		require.True(t, a.l.DoPayload(billing.KindRecordUsage, u.Seal(nil)).Outcome.Recorded())
	}
	a.l.Stamp += 3_600_000
	a.changes++
	change := &billing.ChangePlan{
		Env: enginetest.Sandbox, ID: enginetest.ID("subscription ada p0"),
		ChangeID: enginetest.ID(fmt.Sprint("change ", a.changes)),
		Plan:     fmt.Sprint("p", a.changes%2), Type: billing.ChangeUpgrade,
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	began := threadTime(t)
	outcome := a.l.Do(billing.KindChangePlan, change).Outcome
	took := threadTime(t) - began
	require.Equal(t, engine.OutcomeDone, outcome)
	return took
}

// BenchmarkLeave changes between two plans of 500 features, 20 times within a period.
func BenchmarkLeave(b *testing.B) {
	for _, mode := range []string{"reset", "accumulate"} {
		b.Run(mode, func(b *testing.B) {
			var sum, most time.Duration
			for range b.N {
				a := newAlternating(500, mode)
				for range 20 {
					took := a.change(b)
					sum, most = sum+took, max(most, took)
				}
			}
			b.ReportMetric(float64(sum.Microseconds())/float64(20*b.N), "µs/change")
			b.ReportMetric(float64(most.Microseconds()), "longest-µs")
		})
	}
}

// TestAPlanChangeIsLinearInFeatures: eight times as many features cost no more than some twenty
// times as much; comparing each with each would be sixty-four times.
func TestAPlanChangeIsLinearInFeatures(t *testing.T) {
	for _, mode := range []string{"reset", "accumulate"} {
		cost := func(features int) time.Duration {
			best := time.Hour
			for range 3 {
				a := newAlternating(features, mode)
				for range 12 {
					a.change(t)
				}
				for range 4 {
					best = min(best, a.change(t))
				}
			}
			return best
		}
		few, many := cost(62), cost(500)
		require.Less(t, many, 20*few, mode)
	}
}
