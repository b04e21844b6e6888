package billing

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/billing/internal/budgets"
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/decimal"
	"tollgate/engine/wire"
)

// TestReservationCommandsAreDecodedStraightAhead: quick decodes what Fields encodes, and nothing
// that Fields refuses, whatever byte is another one.
func TestReservationCommandsAreDecodedStraightAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Reserve{
			Env: rapid.Uint32().Draw(t, "env"), ID: drawID(t), Key: drawID(t), KeyText: drawText(t),
			Body: rapid.Uint64Max(1<<56-1).Draw(t, "body"), Customer: drawText(t), CustomerID: drawID(t),
			TTLMS: rapid.Int64Range(0, 1<<40).Draw(t, "ttl"), Partial: rapid.Bool().Draw(t, "partial"),
			RefuseOverrun: rapid.Bool().Draw(t, "refuse"), DryRun: rapid.Bool().Draw(t, "dry"),
			SettleOnExpiry: rapid.Bool().Draw(t, "settle"), Meta: []byte(drawText(t)),
			Budget: drawText(t), KeyBudget: rapid.Uint32().Draw(t, "node"),
		}
		s := SettleReservation{
			Env: r.Env, ID: r.ID, Partial: r.Partial, EventKey: r.KeyText, Key: r.Key,
			OccurredAt: r.TTLMS, Meta: r.Meta, Through: r.Body, Found: r.DryRun,
		}
		for range rapid.IntRange(1, 3).Draw(t, "items") {
			units := decimal.FromInt(rapid.Int64Range(1, 1e5).Draw(t, "units"))
			r.Items = append(r.Items, ReserveItem{drawText(t), drawID(t), units, units, r.Partial})
			s.Items = append(s.Items, SettleItem{r.Items[0].FeatureKey, r.ID, units, units, r.DryRun})
		}
		at, by := rapid.IntRange(0, 400).Draw(t, "at"), rapid.Byte().Draw(t, "by")
		spoil := func(payload []byte) []byte {
			payload = bytes.Clone(payload)
			payload[at%len(payload)] ^= by
			return payload
		}

		payload := wire.Encode(nil, &r)
		var quick Reserve
		require.True(t, quick.quick(payload))
		require.Equal(t, payload, wire.Encode(nil, &quick))
		payload = spoil(payload)
		if quick = (Reserve{}); quick.quick(payload) {
			var whole Reserve
			require.NoError(t, wire.Decode(payload, &whole))
			require.Equal(t, whole, quick)
		}

		payload = wire.Encode(nil, &s)
		var settle SettleReservation
		require.True(t, settle.quick(payload))
		require.Equal(t, payload, wire.Encode(nil, &settle))
		payload = spoil(payload)
		if settle = (SettleReservation{}); settle.quick(payload) {
			var whole SettleReservation
			require.NoError(t, wire.Decode(payload, &whole))
			require.Equal(t, whole, settle)
		}
	})
}

// TestReservationsAreEncodedStraightAhead: an answer has the bytes that Fields encodes.
func TestReservationsAreEncodedStraightAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := ReservationView{
			ID: drawID(t), Key: drawText(t), Customer: drawText(t), State: holds.ReservationSettled,
			DryRun: rapid.Bool().Draw(t, "dry"), CreatedAt: rapid.Int64().Draw(t, "at"),
			RemainingSeconds: rapid.Int64().Draw(t, "left"), Event: drawText(t),
			Meta: []byte(drawText(t)), LogIndex: rapid.Uint64().Draw(t, "index"), Budget: drawText(t),
			ReservedLimit: ReservedLimit{
				LimitBudget: drawText(t), LimitOf: budgets.MeasureCost, LimitFeature: drawText(t),
				LimitWindow: budgets.WindowDay, LimitLeft: decimal.FromInt(rapid.Int64().Draw(t, "of it")),
			},
		}
		for range rapid.IntRange(0, 3).Draw(t, "items") {
			v.Items = append(v.Items, ReservationItemView{
				FeatureKey: drawText(t), SubscriptionID: v.ID, Granted: decimal.FromInt(v.CreatedAt),
				Rule: drawText(t), HasLimit: v.DryRun, Overrun: decimal.FromInt(v.RemainingSeconds),
				HasCredits: v.DryRun, CreditsLeft: decimal.FromInt(v.RemainingSeconds),
			})
		}
		require.Equal(t, wire.Encode([]byte("before"), &v), v.append([]byte("before")))
	})
}

func drawID(t *rapid.T) (id [16]byte) {
	copy(id[:], rapid.SliceOfN(rapid.Byte(), 0, 16).Draw(t, "id"))
	return id
}

// drawText draws texts of which some are longer than what one byte counts.
func drawText(t *rapid.T) string {
	return rapid.StringMatching(`[a-z]{0,5}|[a-z]{120,150}`).Draw(t, "text")
}
