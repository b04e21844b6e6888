//go:build !planted_topup

package credits

// grantsAgain grants again in a program with a planted bug alone: see planted_topup.go.
func grantsAgain(*Burner, *Grant, string) {}
