//go:build planted_hold

package holds

// A planted bug that the torture must find: a reservation is not known by its key, so one that is
// asked for again holds again.
func forgets() bool { return true }
