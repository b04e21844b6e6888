//go:build !linux

package prefetch

// Populate does nothing on this system.
func Populate([]byte) {}
