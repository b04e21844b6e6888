package billing_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// drawUsage draws a record that has the fields that most have, and some of the others.
func drawUsage(t *rapid.T) billing.RecordUsage {
	text := func(name string) []byte {
		return rapid.SliceOfN(rapid.Byte(), 0, rapid.SampledFrom([]int{0, 9, 127, 128, 200}).
			Draw(t, name+" at most")).Draw(t, name)
	}
	units := rapid.SampledFrom([]int64{0, 1, -1, 127, 128, -128, -129, 1 << 20, 1 << 62}).
		Draw(t, "units")
	c := billing.RecordUsage{
		Env: rapid.Uint32().Draw(t, "env"), Attempt: rapid.Uint32().Draw(t, "attempt"),
		KeyText: text("key"), Customer: text("customer"), EventName: text("event"),
		Units: decimal.FromBits(units>>63, uint64(units)), OccurredAt: rapid.Int64().Draw(t, "at"),
	}
	if rapid.Bool().Draw(t, "rare") {
		c.FeatureKey, c.Meta, c.FlowID = text("feature"), text("meta"), text("flow")
		c.CustomerID[3] = rapid.Byte().Draw(t, "customer id")
		c.InvoiceID[15] = rapid.Byte().Draw(t, "invoice id")
		c.Cost, c.HasCost = decimal.FromInt(int64(units>>20)), rapid.Bool().Draw(t, "has cost")
	}
	c.Key = billing.UsageKey(c.Env, c.KeyText)
	return c
}

// sameDecoded holds the decoder of events to Fields, for good bytes and bad ones.
func sameDecoded(t require.TestingT, payload []byte) {
	var want billing.RecordUsage
	failed := wire.Decode(payload, &want)
	got, err := billing.DecodeUsage(payload)
	if failed != nil {
		require.ErrorIs(t, err, wire.ErrField)
		return
	}
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestEventsDecodeAsTheirFieldsSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawUsage(t)
		payload := c.Seal(nil)
		sameDecoded(t, payload)
		at := rapid.IntRange(0, len(payload)-1).Draw(t, "place")
		sameDecoded(t, payload[:at])
		// Whatever a byte becomes, and whatever is left out or said twice.
		damaged := append([]byte(nil), payload...)
		damaged[at] = rapid.Byte().Draw(t, "byte")
		sameDecoded(t, damaged)
		length := rapid.IntRange(0, min(3, len(payload)-at)).Draw(t, "length")
		sameDecoded(t, append(append([]byte(nil), payload[:at]...), payload[at+length:]...))
		sameDecoded(t, append(append([]byte(nil), payload[:at+length]...), payload[at:]...))
	})
}

// TestDamagedEventsDecodeAsTheirFieldsSay puts other bytes at every place of usual events.
func TestDamagedEventsDecodeAsTheirFieldsSay(t *testing.T) {
	c := enginetest.Usage(&enginetest.Log{Stamp: enginetest.Epoch}, "key-1", "c-1", "requests", 3)
	c.FeatureKey, c.Meta = []byte("requests"), []byte(`{"a":1}`)
	for _, payload := range [][]byte{c.Seal(nil), wire.Encode(nil, &billing.RecordUsage{
		Env: 1, Key: [16]byte{1}, Attempt: 1, Fingerprint: 1, KeyText: []byte("k"),
		Customer: []byte("c"), EventName: []byte("e"), Units: decimal.FromBits(0, 1), OccurredAt: 1,
	})} {
		require.True(t, billing.UsualUsage(payload), "the decoder for usual events takes it")
		for at := range payload {
			for _, b := range []byte{0, 1, 0x7f, 0x80, 0xff} {
				damaged := append([]byte(nil), payload...)
				damaged[at] = b
				sameDecoded(t, damaged)
			}
			for bit := range 8 {
				damaged := append([]byte(nil), payload...)
				damaged[at] ^= 1 << bit
				sameDecoded(t, damaged)
			}
		}
	}
}

func FuzzDecodeUsage(f *testing.F) {
	c := enginetest.Usage(&enginetest.Log{Stamp: enginetest.Epoch}, "key-1", "c-1", "requests", 3)
	f.Add(c.Seal(nil))
	f.Fuzz(func(t *testing.T, payload []byte) { sameDecoded(t, payload) })
}
