//go:build !planted_billed

package holds

// keepsTotal is true in a program with a planted bug alone: see planted_billed.go.
func keepsTotal(ReservationState) bool { return false }
