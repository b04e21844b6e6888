//go:build !long

package billing_test

// expiringHolds is how many reservations expire in one instant in
// TestManyHoldsExpireInBoundedEntries.
const expiringHolds = 10_000
