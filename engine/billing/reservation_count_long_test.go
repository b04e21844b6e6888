//go:build long

package billing_test

// expiringHolds is how many reservations expire in one instant, in the nightly run.
const expiringHolds = 100_000
