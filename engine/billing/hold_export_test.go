package billing

import (
	"tollgate/engine/billing/internal/holds"
	"tollgate/engine/wire"
)

func goldenHold() *holds.Hold {
	return &holds.Hold{
		ID: [16]byte{1, 2}, Key: [16]byte{3, 4}, Body: 5, Customer: 6, FirstItem: 7, Newer: 8, Older: 9,
		Next: 10, Previous: 11, CreatedAt: 1769871600000, ExpiresAt: 1769872200000,
		ClosedAt: 1769871600001, Events: 12, State: holds.ReservationBilled, RefuseOverrun: true,
		SettleOnExpiry: true,
	}
}

func goldenHoldItem() *holds.Item {
	return &holds.Item{
		Subscription: 1, Feature: 2, Next: 3, Pool: 4, Credits: goldenDecimal("1.5"),
		Granted: goldenDecimal("75"), Settled: goldenDecimal("0.000000000001"),
		Cost: goldenDecimal("0.02"), HasCost: true,
	}
}

// goldenHoldWords are the text of a reservation.
func goldenHoldWords() []byte {
	return wire.Encode(nil, &holds.Words{
		Key: "call-1", Meta: []byte(`{"a":1}`), Answer: []byte{1, 2},
		Overruns: []holds.Overrun{{}, {Units: goldenDecimal("7")}}, Event: "mine", Recorded: true,
		Late: true,
	})
}
