package clustertest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The leader is stopped, as an upgrade does, while clients write through another node: leadership
// goes over before it ends, every write is answered 201, and all of them count.
func TestALeaderThatIsStoppedHandsOver(t *testing.T) {
	d := startCluster(t)
	old := d.leader()
	through := d.followers()[0]
	client := d.client(through, d.SandboxKey)
	var stop atomic.Bool
	type load struct {
		written int
		longest time.Duration
		err     error
	}
	done := make(chan load, 1)
	go func() {
		var l load
		for l.err == nil && !stop.Load() {
			began := time.Now()
			answer, err := client.Try(context.Background(), usageEvent(fmt.Sprint("event-", l.written)))
			if l.err = err; err == nil && answer.Status != 201 {
				l.err = fmt.Errorf("%d: %s", answer.Status, answer.Body)
			}
			l.written++
			l.longest = max(l.longest, time.Since(began))
		}
		done <- l
	}()
	d.signal(old, syscall.SIGTERM)
	next := d.leader(old)
	require.Eventually(t, func() bool {
		return syscall.Kill(d.node(old).PID, 0) != nil
	}, patience, 20*time.Millisecond, "%s does not end", old)
	stop.Store(true)
	l := <-done
	require.NoError(t, l.err, "after %d writes", l.written)
	require.Equal(t, l.written, d.used(through))
	t.Logf("%s handed over to %s: the slowest of %d writes took %s", old, next, l.written, l.longest)
	text, err := os.ReadFile(d.folder.NodeLog(old))
	require.NoError(t, err)
	require.Contains(t, string(text), "leadership was handed over")
	require.NotContains(t, string(text), "stops as the leader")
	require.False(t, strings.Contains(string(text), "panic"))
	d.restart(old)
	d.ready(old)
}
