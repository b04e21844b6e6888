package doctor

import "golang.org/x/sys/unix"

// staUnsync is STA_UNSYNC of adjtimex(2).
const staUnsync = 0x40

// ClockUnsynchronised reports whether the kernel knows of nobody who keeps the machine's clock
// right; false where it cannot be asked.
func ClockUnsynchronised() bool {
	var t unix.Timex
	_, err := unix.Adjtimex(&t)
	return err == nil && t.Status&staUnsync != 0
}
