package book

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/decimal"
	"tollgate/engine/rollup"
)

// TestRevenueOfARange: in whatever order invoices are issued, paid, voided and taken away, an
// answer has the sums of all that are unpaid, and the hours that were asked for, in order, and no
// more.
func TestRevenueOfARange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r Revenue
		var kept []Invoice
		add := func(a *Amount, v *Invoice) {
			a.Invoices++
			a.Sum, _ = a.Sum.Add(v.Amount)
		}
		const env, currency = 7, "EUR"
		for range rapid.IntRange(0, 40).Draw(t, "changes") {
			if n := len(kept); n > 0 && rapid.IntRange(0, 3).Draw(t, "take away") == 0 {
				i := rapid.IntRange(0, n-1).Draw(t, "which")
				r.tally(env, currency, &kept[i], -1)
				kept = slices.Delete(kept, i, i+1)
				continue
			}
			at := func(name string) int64 {
				return rapid.Int64Range(-3, 20).Draw(t, name)*rollup.HourMS + rollup.HourMS/2
			}
			v := Invoice{
				CreatedAt: at("created"), PaidAt: at("paid"),
				Amount: decimal.FromInt(rapid.Int64Range(-5, 5).Draw(t, "amount")),
				Status: rapid.SampledFrom([]InvoiceStatus{
					InvoiceDue, InvoicePastDue, InvoicePaid, InvoiceVoid, InvoicePending,
				}).Draw(t, "status"),
			}
			r.tally(env, currency, &v, 1)
			r.tally(env+1, currency, &v, 1)
			kept = append(kept, v)
		}
		from := rapid.Int64Range(-5, 22).Draw(t, "from")
		to := rapid.Int64Range(-5, 22).Draw(t, "to")

		var due, pastDue Amount
		hours := map[int32]RevenueHour{}
		in := func(at int64, v *Invoice, part func(*RevenueHour) *Amount) {
			h := RevenueHour{Hour: rollup.HourOf(at)}
			if int64(h.Hour) < from || int64(h.Hour) >= to {
				return
			}
			if before, ok := hours[h.Hour]; ok {
				h = before
			}
			add(part(&h), v)
			hours[h.Hour] = h
		}
		for i := range kept {
			v := &kept[i]
			if v.Status == InvoiceVoid {
				continue
			}
			in(v.CreatedAt, v, func(h *RevenueHour) *Amount { return &h.Billed })
			switch v.Status {
			case InvoiceDue:
				add(&due, v)
			case InvoicePastDue:
				add(&pastDue, v)
			case InvoicePaid:
				in(v.PaidAt, v, func(h *RevenueHour) *Amount { return &h.Collected })
			}
		}
		for _, s := range r.Of(env, from*rollup.HourMS, to*rollup.HourMS) {
			require.Equal(t, currency, s.Currency)
			require.Equal(t, due, s.Due)
			require.Equal(t, pastDue, s.PastDue)
			require.LessOrEqual(t, int64(len(s.Hours)), max(to-from, 0))
			require.True(t, slices.IsSortedFunc(s.Hours, func(a, b RevenueHour) int {
				return int(a.Hour) - int(b.Hour)
			}))
			for _, h := range s.Hours {
				if h != (RevenueHour{Hour: h.Hour}) { // nothing is left of one that was taken away
					require.Equal(t, hours[h.Hour], h)
					delete(hours, h.Hour)
				}
			}
		}
		for _, h := range hours {
			require.Equal(t, RevenueHour{Hour: h.Hour}, h)
		}
	})
}
