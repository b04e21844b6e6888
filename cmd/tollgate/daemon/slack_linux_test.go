package daemon

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// A node's threads may be woken late, all of them: its process begins anew for that, once, and
// keeps its id and its arguments. What somebody else has chosen stays.
func TestANodesThreadsSleepLong(t *testing.T) {
	const child = "TOLLGATE_TEST_SLACK"
	if chosen := os.Getenv(child); chosen != "" {
		require.NoError(t, loosenTimers())
		fmt.Printf("slack of %d: %s\n", os.Getpid(), slackOfThreads(t, 4))
		return
	}
	for _, c := range []struct{ before, after uintptr }{{50_000, 1_000_000}, {70_000, 70_000}} {
		command := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		command.Env = append(os.Environ(), child+"=1")
		started := make(chan error, 1)
		var said strings.Builder
		command.Stdout, command.Stderr = &said, &said
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with its slack
			if err := unix.Prctl(unix.PR_SET_TIMERSLACK, c.before, 0, 0, 0); err != nil {
				started <- err
				return
			}
			started <- command.Start()
		}()
		require.NoError(t, <-started)
		require.NoError(t, command.Wait(), said.String())
		want := fmt.Sprintf("slack of %d: %s\n", command.Process.Pid,
			strings.Repeat(fmt.Sprintf("%d ", c.after), 4))
		require.Contains(t, said.String(), want)
	}
}

// slackOfThreads is what each of so many threads has.
func slackOfThreads(t *testing.T, count int) string {
	slacks := make([]int, count)
	var ready, done sync.WaitGroup
	ready.Add(count)
	for i := range slacks {
		done.Go(func() {
			runtime.LockOSThread()
			ready.Done()
			ready.Wait() // so each has a thread of its own
			slack, err := unix.PrctlRetInt(unix.PR_GET_TIMERSLACK, 0, 0, 0, 0)
			if err == nil {
				slacks[i] = slack
			}
			runtime.UnlockOSThread()
		})
	}
	done.Wait()
	var said strings.Builder
	for _, slack := range slacks {
		require.NotZero(t, slack)
		fmt.Fprintf(&said, "%d ", slack)
	}
	return said.String()
}
