package billing_test

import (
	"fmt"
	"runtime"
	"testing"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
)

// BenchmarkWebhooks closes the period of 100,000 subscriptions with usage while endpoints listen,
// and then deletes the endpoints with everything that waits for them.
func BenchmarkWebhooks(b *testing.B) {
	for _, endpoints := range []int{0, 1, billing.MaxWebhookEndpoints} {
		b.Run(fmt.Sprint(endpoints), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			var closes, deletes longest
			entries, pending, bytes := 0, uint64(0), uint64(0)
			for b.Loop() {
				b.StopTimer()
				m, l := populated(100_000)
				used(l, 100_000, "output-tokens")
				for i := range endpoints {
					l.Do(billing.KindCreateWebhookEndpoint, &billing.CreateWebhookEndpoint{
						Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("hook", i)),
						URL: "https://a.example",
					})
				}
				l.Stamp += 28 * dayMS
				before := heap()
				b.StartTimer()
				entries = closes.settle(b, l)
				b.StopTimer()
				pending, bytes = m.Outbox().Pending, heap()-before
				for i := range endpoints {
					deletes.apply(b, l, record(billing.KindDeleteWebhookEndpoint,
						&billing.DeleteWebhookEndpoint{
							Env: enginetest.Sandbox, ID: enginetest.ID(fmt.Sprint("hook", i)),
						}))
				}
				b.StartTimer()
			}
			closes.report(b, entries)
			b.ReportMetric(float64(pending), "messages")
			b.ReportMetric(float64(bytes>>20), "MiB")
			b.ReportMetric(float64(deletes.processor.Microseconds()), "longest-delete-cpu-µs")
		})
	}
}
