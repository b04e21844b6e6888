//go:build planted_billed

package holds

// A planted bug that the torture must find: what an expiry bills is in events, and not in the total
// at which the reservation is settled.
func keepsTotal(next ReservationState) bool { return next == ReservationBilled }
