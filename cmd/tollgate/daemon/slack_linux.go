package daemon

import (
	"fmt"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ordinarySlack is what Linux gives a thread unless somebody says otherwise, nodeSlack what a node
// takes: how much later than due the kernel may wake one of its threads. Go's runtime has a thread
// that sleeps for 20 µs at a time as long as others are in system calls, as a node's are in fsync
// and on sockets; with 1 ms it wakes a fifteenth as often. No timer of a node is so exact.
const (
	ordinarySlack = 50 * time.Microsecond
	nodeSlack     = time.Millisecond
)

// The signal at the parent's death (process.go) belongs to a process's first thread, and is lost
// where another begins the program anew. So the main goroutine keeps that thread until then.
func init() { runtime.LockOSThread() }

// loosenTimers gives every thread of this process nodeSlack. Threads take it from the one that made
// them, and the one that matters is there before any code of ours: so the process becomes this
// program anew, once, under its own id. Slack that somebody has chosen (systemd's TimerSlackNSec)
// stays.
func loosenTimers() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer runtime.UnlockOSThread() // that of init, where this is the main goroutine
	slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
	if err != nil || time.Duration(slack) != ordinarySlack {
		return err
	}
	if err = unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(nodeSlack), 0, 0, 0); err != nil {
		return fmt.Errorf("timer slack: %w", err)
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, os.Args, os.Environ())
	}
	return fmt.Errorf("timer slack: start this program anew: %w", err)
}
