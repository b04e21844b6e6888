package billing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// TestUsageEntriesEncodeAsTheirFieldsSay holds the encoder and the quick decoder of journal records
// to Fields. The latter leaves what is too long or spoiled to Fields.
func TestUsageEntriesEncodeAsTheirFieldsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sum := func(name string) decimal.Decimal {
			high := rapid.SampledFrom([]int64{0, 0, -1, 1, 1 << 40, -1 << 50}).Draw(t, name+" high")
			low := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, -128, -129, 1 << 20, 1 << 62})
			return decimal.FromBits(high, uint64(low.Draw(t, name)))
		}
		number := rapid.SampledFrom([]uint32{0, 1, 127, 128, 16_384, 1<<32 - 1})
		text := func(name string) []byte {
			return make([]byte, rapid.SampledFrom([]int{0, 0, 1, 127, 128, 20_000}).Draw(t, name))
		}
		e := usageEntry{
			Subscription: number.Draw(t, "subscription"), Feature: number.Draw(t, "feature"),
			Period: number.Draw(t, "period"), Outcome: engine.Outcome(rapid.Byte().Draw(t, "outcome")),
			RecordedAt: rapid.Int64().Draw(t, "at"), HasCost: rapid.Bool().Draw(t, "has cost"),
			Cost: sum("cost"), Record: text("record"), Draws: text("draws"), Covered: sum("covered"),
			Budget: text("budget"), Span: number.Draw(t, "span"), Ahead: rapid.Bool().Draw(t, "ahead"),
			Overrun: sum("overrun"),
		}
		e.Reservation[15] = rapid.SampledFrom([]byte{0, 1}).Draw(t, "reservation")
		require.Equal(t, wire.Encode([]byte("before"), &e), e.append([]byte("before")))

		data := wire.Encode(nil, &e)
		decode := func() (accepted bool) {
			var quick, whole usageEntry
			if accepted = quick.quick(data); accepted {
				require.NoError(t, wire.Decode(data, &whole))
				require.Equal(t, whole, quick)
			}
			return accepted
		}
		long := func(d decimal.Decimal) bool { high, low := d.Bits(); return high != int64(low)>>63 }
		usual := len(e.Record)+len(e.Draws)+len(e.Budget) < 16_384 &&
			!long(e.Cost) && !long(e.Covered) && !long(e.Overrun)
		require.Equal(t, usual, decode())
		if len(data) > 0 {
			data[rapid.IntRange(0, len(data)-1).Draw(t, "spoiled")] ^= rapid.Byte().Draw(t, "by")
			decode()
		}
	})
}
