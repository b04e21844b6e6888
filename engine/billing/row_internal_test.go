package billing

import (
	"fmt"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/rows"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

func TestRowsAreSmall(t *testing.T) {
	require.EqualValues(t, 16, unsafe.Sizeof(counterRow{}))
	require.EqualValues(t, 96, unsafe.Sizeof(subscriptionRow{}))
	require.EqualValues(t, 80, unsafe.Sizeof(invoiceRow{}))
}

func TestEqualTextsShareTheirBytes(t *testing.T) {
	s := rows.NewSharedTexts()
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	first := s.Of([]byte("a line"))
	require.True(t, same(first, s.Of([]byte("a line"))))
	var restored rows.Text
	rest, err := s.Codec().Read(rows.TextCodec.Append(nil, &rows.Text{Data: "a line"}), &restored)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.True(t, same(first, restored.Data))

	long := make([]byte, rows.SharedBytes+1)
	require.False(t, same(s.Of(long), s.Of(long)), "what is long is not kept")
	for i := range 3 * rows.SharedPlaces { // more than there are places
		want := fmt.Sprint(i)
		require.Equal(t, want, s.Of([]byte(want)))
	}
	_, err = s.Codec().Read([]byte{9, 0, 0, 0, 1}, &restored)
	require.ErrorIs(t, err, rows.ErrRecord)
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
		c := openCounters(page.NewStore())
		first := appendRows(c.rows, 4)
		var want [4]counter
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			i := rapid.IntRange(0, 3).Draw(t, "counter")
			want[i] = counter{used: drawnDecimal(t, "used")}
			if rapid.Bool().Draw(t, "ahead") {
				want[i].next = drawnDecimal(t, "next")
			}
			c.Write(first+uint32(i), &want[i])
			for i := range want {
				require.Equal(t, want[i], c.Read(first+uint32(i)))
				for _, f := range []*planFeature{{}, {accumulate: true}} {
					require.Equal(t, want[i].reading(f), c.Reading(first+uint32(i), f))
				}
			}
		}
	})
}

func TestACounterWithoutUsageAheadNeedsNoPart(t *testing.T) {
	c := openCounters(page.NewStore())
	row := appendRows(c.rows, 1)
	c.Write(row, &counter{used: decimal.Largest()})
	require.Zero(t, c.whole.Bytes())
	c.Write(row, &counter{used: decimal.FromInt(1), next: decimal.FromInt(2)})
	require.Positive(t, c.whole.Bytes())
}

func TestNumbersOutOfRangeAreNoCounter(t *testing.T) {
	for _, c := range []counter{
		{used: decimal.FromBits(partMark, 1)}, {next: decimal.FromBits(partMark, 1)},
	} {
		_, err := counterCodec.Read(counterCodec.Append(nil, &c), new(counter))
		require.ErrorIs(t, err, rows.ErrRecord)
	}
}

func drawnInvoice(t *rapid.T) invoice {
	start := rapid.Int64Range(1_700_000_000_000, 1_900_000_000_000).Draw(t, "start")
	v := invoice{
		id: [16]byte{1, 2}, number: rapid.Uint64Range(1, 1<<34).Draw(t, "number"), customer: 3,
		subscription: 4, version: rapid.Uint32Range(1, 70_000).Draw(t, "version"),
		periodStart: start, periodEnd: start + rapid.Int64Range(28, 366).Draw(t, "days")*dayMS,
		next: 5, nextUnpaid: 6, amount: drawnDecimal(t, "amount"), kind: InvoiceRegular,
		status: InvoiceDue, paidAt: odd(t, "paid"),
	}
	v.createdAt = v.periodStart + odd(t, "after the start")
	if rapid.Bool().Draw(t, "in arrears") {
		v.createdAt = v.periodEnd + rapid.Int64Range(0, 100_000).Draw(t, "waited")*minuteMS
	}
	v.dueAt = v.createdAt + rapid.Int64Range(0, 400).Draw(t, "due")*dayMS + odd(t, "due at")
	v.graceEnd = v.dueAt + rapid.Int64Range(0, 400).Draw(t, "grace")*dayMS + odd(t, "grace end")
	return v
}

func TestInvoicesAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := openInvoices(page.NewStore())
		first, second := drawnInvoice(t), drawnInvoice(t)
		n.Append(&second)
		row := n.Append(&first)
		require.Equal(t, first, n.Read(row))
		n.Write(row, &second)
		n.Link(row, 77)
		second.next = 77
		require.Equal(t, second, n.Read(row))
		require.Equal(t, second.id, n.ID(row))
		require.Equal(t, second.customer, n.Owner(row))
	})
}

func TestAnInvoiceLikeMostNeedsNoPart(t *testing.T) {
	start := int64(1_788_000_000_123)
	for _, settleMinutes := range []int64{0, 60, 72 * 60} {
		for _, inAdvance := range []bool{true, false} {
			v := invoice{
				number: 9, periodStart: start, periodEnd: start + 31*dayMS, version: 3,
				amount: decimal.MustParse("1234.56"), createdAt: start + settleMinutes*minuteMS,
			}
			if !inAdvance {
				v.createdAt = v.periodEnd + settleMinutes*minuteMS
			}
			v.dueAt = v.createdAt + 30*dayMS
			v.graceEnd = v.dueAt + 7*dayMS
			n := openInvoices(page.NewStore())
			row := n.Append(&v)
			require.Zero(t, n.whole.Bytes())
			require.Equal(t, v, n.Read(row))
		}
	}
}

func TestSubscriptionsAreWhatWasWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := openSubscriptions(page.NewStore())
		var want [3]subscription
		for i := range want {
			want[i].id, want[i].createdAt, want[i].counters = [16]byte{byte(i + 1)}, 5, 3
			want[i].subscriptionRest = want[i].usual()
			require.EqualValues(t, i+1, s.Append(&want[i]))
		}
		require.Zero(t, s.rests.Bytes(), "what goes on as usual needs no part")
		for range rapid.IntRange(1, 20).Draw(t, "writes") {
			i := rapid.IntRange(0, 2).Draw(t, "subscription")
			b := &want[i]
			b.periodStart, b.period = rapid.Int64().Draw(t, "start"), rapid.Uint32().Draw(t, "period")
			b.subscriptionRest = b.usual()
			b.endedAt, b.adjustAt, b.anchor = odd(t, "ended"), odd(t, "adjust"), b.anchor+odd(t, "anchor")
			s.Write(uint32(i+1), b)
			s.Link(uint32(i+1), 9)
			b.next = 9
			for i := range want {
				require.Equal(t, want[i], s.Whole(uint32(i+1)))
				require.Equal(t, want[i].subscriptionRest, s.Rest(uint32(i+1)))
			}
		}
	})
}
