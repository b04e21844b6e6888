package clustertest

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// maxOfAKeeper is the memory that a keeper may have for itself, in KiB. It has some 4,500.
const maxOfAKeeper = 8 << 10

// TestAKeeperIsSmall: each agent that runs has one, a process of the whole program.
func TestAKeeperIsSmall(t *testing.T) {
	var keepers []*exec.Cmd
	for range 3 { // so that what they share counts for none
		far, near, err := os.Pipe()
		require.NoError(t, err)
		keeper := exec.Command(program, "keep-agent", t.TempDir(), "0,0,0,0", "sleep", "600")
		keeper.ExtraFiles = []*os.File{far}
		require.NoError(t, keeper.Start())
		t.Cleanup(func() {
			require.NoError(t, near.Close())
			require.NoError(t, keeper.Wait())
		})
		require.NoError(t, far.Close())
		keepers = append(keepers, keeper)
	}
	for _, keeper := range keepers {
		pid := keeper.Process.Pid
		require.Eventually(t, func() bool {
			return strings.HasPrefix(childOf(pid), "sleep ")
		}, patience, 10*time.Millisecond)
		own := 0
		require.Eventually(t, func() bool {
			own = ownKiB(t, pid)
			return own <= maxOfAKeeper
		}, patience, 100*time.Millisecond, "it has more than %d KiB for itself", maxOfAKeeper)
		t.Logf("a keeper has %d KiB for itself", own)
	}
}

// childOf is the command line of a process' child.
func childOf(pid int) string {
	task := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, err := os.ReadDir(task)
	if err != nil {
		return ""
	}
	for _, thread := range threads {
		children, err := os.ReadFile(task + thread.Name() + "/children")
		if child := strings.Fields(string(children)); err == nil && len(child) > 0 {
			line, err := os.ReadFile("/proc/" + child[0] + "/cmdline")
			if err == nil {
				return strings.ReplaceAll(string(line), "\x00", " ")
			}
		}
	}
	return ""
}

// ownKiB is the memory that a process has written to, and shares with nobody. What it has read of
// the program is the file's, and goes when memory is short.
func ownKiB(t *testing.T, pid int) (own int) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] == "Private_Dirty:" {
			n, err := strconv.Atoi(fields[1])
			require.NoError(t, err)
			own += n
		}
	}
	return own
}
