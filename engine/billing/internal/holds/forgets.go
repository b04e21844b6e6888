//go:build !planted_hold

package holds

// forgets is true in a program with a planted bug alone: see planted_hold.go.
func forgets() bool { return false }
