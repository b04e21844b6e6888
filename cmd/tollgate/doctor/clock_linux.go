package doctor

import "golang.org/x/sys/unix"

// staUnsync is STA_UNSYNC of adjtimex(2).
const staUnsync = 0x40

// ClockUnsynchronised reports whether, as far as the kernel knows, no program synchronizes the
// machine's clock; false where the kernel cannot be asked.
func ClockUnsynchronised() bool {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return err == nil && t.Status&staUnsync != 0
}
