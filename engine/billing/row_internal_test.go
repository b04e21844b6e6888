package billing

import (
	"math"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/billing/internal/book"
	"tollgate/engine/billing/internal/catalogs"
	"tollgate/engine/billing/internal/lifecycle"
	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

func TestRowsAreSmall(t *testing.T) {
	require.EqualValues(t, 8, unsafe.Sizeof(book.CounterRow{}))
	require.EqualValues(t, 88, unsafe.Sizeof(book.CustomerRow{}))
	require.EqualValues(t, 96, unsafe.Sizeof(book.SubscriptionRow{}))
	require.EqualValues(t, 72, unsafe.Sizeof(book.InvoiceRow{}))
}

func TestADueIsItselfWhenUnpacked(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := rows.Due{At: rapid.Int64().Draw(t, "at"), Row: rapid.Uint32().Draw(t, "row")}
		require.Equal(t, d, d.Packed().Due())
	})
	require.EqualValues(t, 12, unsafe.Sizeof(rows.PackedDue{}))
}

// odd draws 0 mostly, else any number: what is mostly 0 may be anything.
func odd(t *rapid.T, name string) int64 {
	if rapid.IntRange(0, 9).Draw(t, name+" is odd") > 0 {
		return 0
	}
	return rapid.Int64().Draw(t, name)
}

func drawnDecimal(t *rapid.T, name string) decimal.Decimal {
	d := decimal.FromInt(rapid.Int64Range(-9_000_000, 9_000_000).Draw(t, name))
	if odd(t, name) != 0 {
		return decimal.Largest()
	}
	return d
}

// TestCountersAreWhatWasWritten writes one counter over another, among others with parts.
func TestCountersAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := book.OpenCounters(page.NewStore())
		first := lifecycle.AppendRows(c.Rows, 4)
		var want [4]book.Counter
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			i := rapid.IntRange(0, 3).Draw(t, "counter")
			want[i] = book.Counter{Used: drawnDecimal(t, "used")}
			if rapid.Bool().Draw(t, "ahead") {
				want[i].Next = drawnDecimal(t, "next")
			}
			c.Write(first+uint32(i), &want[i])
			for i := range want {
				require.Equal(t, want[i], c.Read(first+uint32(i)))
				for _, f := range []*catalogs.PlanFeature{{}, {Accumulate: true}} {
					require.Equal(t, want[i].Reading(f), c.Reading(first+uint32(i), f))
				}
			}
		}
	})
}

func TestACounterWithoutUsageAheadNeedsNoPart(t *testing.T) {
	c := book.OpenCounters(page.NewStore())
	row := lifecycle.AppendRows(c.Rows, 1)
	for _, usual := range []string{"0.000000000001", "-7", "123456789012.345678", "1000000000000000000"} {
		c.Write(row, &book.Counter{Used: decimal.MustParse(usual)})
	}
	require.Zero(t, c.Whole.Bytes())
	c.Write(row, &book.Counter{Used: decimal.FromInt(1), Next: decimal.FromInt(2)})
	require.Positive(t, c.Whole.Bytes())
}

func TestNumbersOutOfRangeAreNoCounter(t *testing.T) {
	for _, c := range []book.Counter{
		{Used: decimal.FromBits(math.MaxInt64, 1)}, {Next: decimal.FromBits(math.MaxInt64, 1)},
	} {
		_, err := book.CounterCodec.Read(book.CounterCodec.Append(nil, &c), new(book.Counter))
		require.ErrorIs(t, err, rows.ErrRecord)
	}
}

func drawnInvoice(t *rapid.T) book.Invoice {
	start := rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000).Draw(t, "start")
	v := book.Invoice{
		ID: [16]byte{1, 2}, Number: rapid.Uint64Range(1, 1<<34).Draw(t, "number"), Customer: 3,
		Subscription: 4, Version: rapid.Uint32Range(1, 70_000).Draw(t, "version"),
		PeriodStart: start, PeriodEnd: start + rapid.Int64Range(28, 366).Draw(t, "days")*accounts.DayMS,
		Next: 5, NextUnpaid: 6, Amount: drawnDecimal(t, "amount"), Kind: book.InvoiceRegular,
		Status: book.InvoiceStatus(rapid.IntRange(0, 2).Draw(t, "status")), PaidAt: odd(t, "paid"),
	}
	v.PeriodEnd += odd(t, "end")
	v.CreatedAt = v.PeriodStart + odd(t, "after the start")
	if rapid.Bool().Draw(t, "in arrears") {
		v.CreatedAt = v.PeriodEnd + rapid.Int64Range(0, 100_000).Draw(t, "waited")*book.MinuteMS
	}
	v.DueAt = v.CreatedAt + rapid.Int64Range(0, 400).Draw(t, "due")*accounts.DayMS + odd(t, "due at")
	v.GraceEnd = v.DueAt + rapid.Int64Range(0, 400).Draw(t, "grace")*accounts.DayMS + odd(t, "grace end")
	return v
}

func TestInvoicesAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := book.OpenInvoices(page.NewStore())
		first, second := drawnInvoice(t), drawnInvoice(t)
		n.Append(&second)
		row := n.Append(&first)
		require.Equal(t, first, n.Read(row))
		n.Write(row, &second)
		n.Link(row, 77)
		second.Next = 77
		require.Equal(t, second, n.Read(row))
		require.Equal(t, second.ID, n.ID(row))
		require.Equal(t, second.Customer, n.Owner(row))
	})
}

func TestAnInvoiceLikeMostNeedsNoPart(t *testing.T) {
	start := int64(1_788_000_000_123)
	for _, settleMinutes := range []int64{0, 60, 72 * 60} {
		for _, inAdvance := range []bool{true, false} {
			v := book.Invoice{
				Number: 9, PeriodStart: start, PeriodEnd: start + 31*accounts.DayMS, Version: 3,
				Amount: decimal.MustParse("1234.56"), CreatedAt: start + settleMinutes*book.MinuteMS,
				Status: book.InvoiceDue,
			}
			if !inAdvance {
				v.CreatedAt = v.PeriodEnd + settleMinutes*book.MinuteMS
			}
			v.DueAt = v.CreatedAt + 30*accounts.DayMS
			v.GraceEnd = v.DueAt + 7*accounts.DayMS
			n := book.OpenInvoices(page.NewStore())
			row := n.Append(&v)
			require.Zero(t, n.Whole.Bytes())
			require.Equal(t, v, n.Read(row))
		}
	}
}

func TestCustomersAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := book.OpenCustomers(page.NewStore())
		var want [3]book.Customer
		for i := range want {
			want[i].ID, want[i].CreatedAt, want[i].ModifiedAt = [16]byte{byte(i + 1)}, 5, 5
			row, r := s.Append()
			require.EqualValues(t, i+1, row)
			r.HotCustomer = want[i].HotCustomer
		}
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			i := rapid.IntRange(0, 2).Draw(t, "customer")
			row, c := uint32(i+1), &want[i]
			if rapid.Bool().Draw(t, "first subscription") {
				c.FirstSubscription = rapid.Uint32().Draw(t, "subscription")
				s.Write(row).FirstSubscription = c.FirstSubscription
			}
			c.ColdCustomer = c.DefaultCold()
			c.ModifiedAt += odd(t, "modified")
			c.FirstBalance, c.Subscriptions = uint32(odd(t, "balance")), c.Subscriptions+uint32(odd(t, "more"))
			s.SetCold(row, c.ColdCustomer)
			for i := range want {
				require.Equal(t, want[i], s.Whole(uint32(i+1)))
			}
		}
	})
}

func TestACustomerWithOneSubscriptionNeedsNoPart(t *testing.T) {
	s := book.OpenCustomers(page.NewStore())
	row, c := s.Append()
	c.CreatedAt = 7
	require.Equal(t, book.ColdCustomer{ModifiedAt: 7}, s.Cold(row))
	c.FirstSubscription = 9
	s.SetCold(row, book.ColdCustomer{ModifiedAt: 7, LastSubscription: 9, Subscriptions: 1})
	require.Zero(t, s.ColdParts.Bytes())
	s.SetCold(row, book.ColdCustomer{ModifiedAt: 8, LastSubscription: 9, Subscriptions: 1})
	require.Positive(t, s.ColdParts.Bytes())
}

func TestSubscriptionsAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := book.OpenSubscriptions(page.NewStore())
		var want [3]book.Subscription
		for i := range want {
			want[i].ID, want[i].CreatedAt, want[i].Counters = [16]byte{byte(i + 1)}, 5, 3
			want[i].ColdSubscription = want[i].DefaultCold()
			require.EqualValues(t, i+1, s.Append(&want[i]))
		}
		require.Zero(t, s.ColdParts.Bytes(), "what goes on as usual needs no part")
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			i := rapid.IntRange(0, 2).Draw(t, "subscription")
			b := &want[i]
			b.PeriodStart, b.Period = rapid.Int64().Draw(t, "start"), rapid.Uint32().Draw(t, "period")
			b.ColdSubscription = b.DefaultCold()
			b.EndedAt, b.AdjustAt, b.Anchor = odd(t, "ended"), odd(t, "adjust"), b.Anchor+odd(t, "anchor")
			s.Write(uint32(i+1), b)
			s.Link(uint32(i+1), 9)
			b.Next = 9
			for i := range want {
				require.Equal(t, want[i], s.Whole(uint32(i+1)))
				require.Equal(t, want[i].ColdSubscription, s.Cold(uint32(i+1)))
			}
		}
	})
}
