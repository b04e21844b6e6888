package billingview

import "slices"

// ReservationStates are the states of reservations, in the order of their numbers.
var ReservationStates = []string{"open", "settled", "released", "expired", "billed"}

// ReservationState is the bit of a state in a query; false where there is no such state.
func ReservationState(name string) (bit uint8, ok bool) {
	n := slices.Index(ReservationStates, name)
	return 2 << max(n, 0), n >= 0
}
