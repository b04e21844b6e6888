package doctor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// slowFile is a file whose fsyncs take what they are told to, by a clock of its own.
type slowFile struct {
	at    time.Time
	times func(n int) time.Duration
	syncs int
	fails error
}

func (f *slowFile) now() time.Time { return f.at }

func (f *slowFile) Write(p []byte) (int, error) { return len(p), nil }

func (f *slowFile) Sync() error {
	f.at = f.at.Add(f.times(f.syncs))
	f.syncs++
	return f.fails
}

// TestSlowDisksAreMeasured: the middle of all times, the longest, and no more than a second in all.
func TestSlowDisksAreMeasured(t *testing.T) {
	var d Disk
	f := &slowFile{times: func(n int) time.Duration {
		if n == 7 {
			return 90 * time.Millisecond
		}
		return 3 * time.Millisecond
	}}
	require.NoError(t, d.measure(f, f.now))
	require.Equal(t, Disk{Syncs: syncRounds, SyncMedianUS: 3000, SyncLongestUS: 90_000}, d)

	d, f = Disk{}, &slowFile{times: func(int) time.Duration { return 300 * time.Millisecond }}
	require.NoError(t, d.measure(f, f.now))
	require.Equal(t, Disk{Syncs: 4, SyncMedianUS: 300_000, SyncLongestUS: 300_000}, d)

	f.fails = errors.New("input/output error")
	require.ErrorContains(t, d.measure(f, f.now), "input/output error")
}

// TestLookingAtADiskLeavesNothing: what a real disk says is plausible, and no file stays.
func TestLookingAtADiskLeavesNothing(t *testing.T) {
	folder := t.TempDir()
	d := LookAtDisk(folder, 7)
	require.Empty(t, d.Problem)
	require.Positive(t, d.Syncs)
	require.Positive(t, d.SyncLongestUS)
	require.GreaterOrEqual(t, d.TotalBytes, d.FreeBytes)
	require.EqualValues(t, 7, d.ReserveBytes)
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Empty(t, left)

	file := filepath.Join(folder, "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	require.Contains(t, LookAtDisk(file, 0).Problem, "not a directory")
	require.Contains(t, LookAtDisk(filepath.Join(folder, "none"), 0).Problem, "no such file")
}

// TestWhoseAFolderIs: what another user than the node's finds may not be so for the node.
func TestWhoseAFolderIs(t *testing.T) {
	folder := t.TempDir()
	c := &chart{}
	c.owned(folder, os.Geteuid())
	c.owned(filepath.Join(folder, "none"), os.Geteuid()+1)
	require.Empty(t, c.list)
	c.owned(folder, os.Geteuid()+1)
	require.Len(t, c.list, 1)
	require.Equal(t, LevelWarn, c.list[0].Level)
	require.Contains(t, c.list[0].Says, "belongs to")
	require.Contains(t, c.list[0].Do, "runuser")
}
