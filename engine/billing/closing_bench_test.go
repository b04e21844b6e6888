package billing_test

import (
	"testing"
	"time"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/enginetest"
)

// BenchmarkClosePeriods closes the period of 100,000 subscriptions with usage, and says
// how long the longest Apply took.
func BenchmarkClosePeriods(b *testing.B) {
	for b.Loop() {
		b.StopTimer()
		const n = 100_000
		m, l := populated(n)
		for i := range n {
			u := enginetest.Usage(l, customerName(i), customerName(i), "output-tokens", 100)
			l.DoPayload(billing.KindRecordUsage, u.Seal(nil))
		}
		l.Stamp += 28 * dayMS
		b.StartTimer()
		ticks, longest := 0, time.Duration(0)
		for at := m.NextDue(); at != 0 && at <= l.Stamp; at = m.NextDue() {
			began := time.Now()
			l.DoPayload(engine.KindTick, nil)
			longest = max(longest, time.Since(began))
			ticks++
		}
		b.ReportMetric(float64(ticks), "ticks")
		b.ReportMetric(float64(longest.Microseconds()), "longest-µs")
	}
}
