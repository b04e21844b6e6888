//go:build !linux

package doctor

// ClockUnsynchronised reports whether, as far as the kernel knows, no program synchronizes the
// machine's clock; false where the kernel cannot be asked.
func ClockUnsynchronised() bool { return false }
