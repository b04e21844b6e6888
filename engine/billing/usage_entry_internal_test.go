package billing

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// drawDecimal draws sums of few and of many bytes.
func drawDecimal(t *rapid.T, name string) decimal.Decimal {
	high := rapid.SampledFrom([]int64{0, 0, -1, 1, 1 << 40, -1 << 50}).Draw(t, name+" high")
	low := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, -128, -129, 1 << 20, 1 << 62})
	return decimal.FromBits(high, uint64(low.Draw(t, name)))
}

func drawUsageEntry(t *rapid.T, record []byte) usageEntry {
	number := rapid.SampledFrom([]uint32{0, 1, 127, 128, 16_384, 1<<32 - 1})
	text := func(name string) []byte {
		return make([]byte, rapid.SampledFrom([]int{0, 0, 1, 127, 128, 20_000}).Draw(t, name))
	}
	e := usageEntry{
		Subscription: number.Draw(t, "subscription"), Feature: number.Draw(t, "feature"),
		Period: number.Draw(t, "period"), Outcome: engine.Outcome(rapid.Byte().Draw(t, "outcome")),
		RecordedAt: rapid.Int64().Draw(t, "at"), HasCost: rapid.Bool().Draw(t, "has cost"),
		Cost: drawDecimal(t, "cost"), Record: record, Draws: text("draws"),
		Covered: drawDecimal(t, "covered"), Budget: text("budget"), Span: number.Draw(t, "span"),
		Ahead: rapid.Bool().Draw(t, "ahead"), Overrun: drawDecimal(t, "overrun"),
	}
	e.Reservation[15] = rapid.SampledFrom([]byte{0, 1}).Draw(t, "reservation")
	return e
}

// TestUsageEntriesEncodeAsTheirFieldsSay holds the encoder of journal records to Fields.
func TestUsageEntriesEncodeAsTheirFieldsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawUsageEntry(t, make([]byte, rapid.SampledFrom([]int{0, 1, 127, 128}).Draw(t, "record")))
		require.Equal(t, wire.Encode([]byte("before"), &e), e.append([]byte("before")))
	})
}

// TestCountedFieldsAreThoseThatAreDecoded holds what is counted of an event, straight ahead, to
// what decoding it says. Long texts and sums are left to that.
func TestCountedFieldsAreThoseThatAreDecoded(t *testing.T) {
	long := func(d decimal.Decimal) bool { high, low := d.Bits(); return high != int64(low)>>63 }
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.SampledFrom([]uint32{0, 1, 127, 128, 16_384, 1<<32 - 1})
		text := func(name string) []byte {
			return make([]byte, rapid.SampledFrom([]int{0, 1, 20, 127, 128, 20_000}).Draw(t, name))
		}
		c := RecordUsage{
			Env: number.Draw(t, "env"), Attempt: number.Draw(t, "attempt"),
			Fingerprint: number.Draw(t, "fingerprint"), KeyText: text("key"),
			Customer: text("customer"), EventName: text("name"), FeatureKey: text("feature key"),
			Units: drawDecimal(t, "units"), OccurredAt: rapid.Int64().Draw(t, "occurred"),
			Cost: drawDecimal(t, "event's cost"), Meta: text("meta"),
		}
		for i, id := range []*[16]byte{&c.Key, &c.CustomerID, &c.FeatureID, &c.SubscriptionID} {
			id[0] = rapid.SampledFrom([]byte{0, byte(i + 1)}).Draw(t, "id")
		}
		e := drawUsageEntry(t, wire.Encode(nil, &c))
		data := wire.Encode(nil, &e)
		feature, env, units, ok := decodeCounted(data)
		require.Equal(t, len(e.Record) > 0, ok)
		quickFeature, quickEnv, quickUnits, quick := quickCounted(data)
		require.Equal(t, ok && len(e.Record) < 16_384 && !long(c.Units), quick)
		if quick {
			require.Equal(t, []any{feature, env, units}, []any{quickFeature, quickEnv, quickUnits})
		}
		if ok {
			require.Equal(t, []any{e.Feature, c.Env, c.Units}, []any{feature, env, units})
		}
		for len(data) > 0 { // cut short, it is read no further than it goes
			data = data[:rapid.IntRange(0, len(data)-1).Draw(t, "length")]
			quickCounted(data)
		}
	})
}
