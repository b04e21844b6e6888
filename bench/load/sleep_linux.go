package load

import (
	"syscall"
	"time"
)

// sleep sleeps in the kernel. It may end early, which its caller looks after.
func sleep(d time.Duration) {
	pause := syscall.NsecToTimespec(int64(d))
	if syscall.Nanosleep(&pause, nil) != nil {
		return
	}
}
