package wal_test

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/wal"
)

// childEnv tells the test binary that it is a process under test: what to do, and where.
const childEnv = "TOLLGATE_WAL_TEST_CHILD"

const fileLimitBytes = 200 << 10

func TestMain(m *testing.M) {
	role, dir, child := strings.Cut(os.Getenv(childEnv), "=")
	if !child {
		os.Exit(m.Run())
	}
	if err := runChild(role, dir); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func runChild(role, dir string) error {
	switch role {
	case "write":
		return childWrite(dir, 1<<62)
	case "tmpfs":
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
		return childFill(dir, wal.Options{Logger: quiet(), SegmentBytes: 64 << 10, SpareBytes: 1 << 20})
	case "limit":
		signal.Ignore(syscall.SIGXFSZ)
		limit := syscall.Rlimit{Cur: fileLimitBytes, Max: fileLimitBytes}
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			return err
		}
		return childFill(dir, wal.Options{Logger: quiet()})
	}
	return fmt.Errorf("no role %q", role)
}

// payload is what the child writes at index.
func payload(index uint64) *raft.Log { return record(index, int(index%250), int(index*37%3000)) }

// childWrite appends until it is killed, sometimes deletes a prefix, and says on stdout what it
// is about to delete and what it was told is durable.
func childWrite(dir string, until uint64) error {
	l, err := wal.Open(dir, wal.Options{Logger: quiet(), SegmentBytes: 64 << 10, SpareBytes: 1 << 20})
	if err != nil {
		return err
	}
	first, err := l.FirstIndex()
	if err != nil {
		return err
	}
	next, err := l.LastIndex()
	if err != nil {
		return err
	}
	for next++; next < until; {
		n := 1 + next%9
		logs := make([]*raft.Log, n)
		for i := range logs {
			logs[i] = payload(next + uint64(i))
		}
		if err := l.StoreLogs(logs); err != nil {
			return err
		}
		next += n
		fmt.Println("acked", next-1)
		if next-max(first, 1) > 400 {
			fmt.Println("deleting", next-200)
			if err := l.DeleteRange(first, next-200); err != nil {
				return err
			}
			first = next - 199
		}
	}
	return l.Close()
}

// childFill writes until the disk is full and checks the aftermath in place.
func childFill(dir string, o wal.Options) error {
	sub, ballast := filepath.Join(dir, "log"), filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 64<<10), 0o600); err != nil {
		return err
	}
	l, err := wal.Open(sub, o)
	if err != nil {
		return err
	}
	last := uint64(0)
	for err == nil {
		if err = l.StoreLog(payload(last + 1)); err == nil {
			last++
		}
	}
	fmt.Println("full", err)
	if again := l.StoreLog(payload(last + 1)); again == nil {
		return fmt.Errorf("record %d was taken after the failure", last+1)
	} else if !strings.Contains(again.Error(), wal.ErrPoisoned.Error()) {
		return again
	}
	if err := l.Close(); err != nil {
		return err
	}
	// Make room, so that the restart can write its manifest.
	if err := os.Remove(ballast); err != nil {
		return err
	}
	var report strings.Builder
	if err := wal.Dump(&report, sub, wal.DumpOptions{SummaryOnly: true}); err != nil {
		return err
	}
	l, err = wal.Open(sub, o)
	if err != nil {
		return err
	}
	for i := uint64(1); i <= last; i++ {
		var got raft.Log
		if err := l.GetLog(i, &got); err != nil {
			return err
		}
		if !same([]*raft.Log{&got}, []*raft.Log{payload(i)}) {
			return fmt.Errorf("record %d came back changed", i)
		}
	}
	if err := l.Close(); err != nil {
		return err
	}
	fmt.Println("kept", last)
	return nil
}

// assert is require.NoError for another goroutine than the test's.
func assert(t *testing.T, err error) {
	if err != nil {
		t.Error(err)
	}
}

func child(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+role+"="+dir)
	return cmd
}

func TestKillNineLosesNothingAcknowledged(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	var acked, deleting uint64
	rounds := 0
	for seed := range uint64(14) {
		cmd := child("write", dir)
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		delay := time.Duration(rand.New(rand.NewPCG(seed, 9)).IntN(80)) * time.Millisecond
		started := false
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if !started { // the time runs from the first acknowledgement
				started = true
				time.AfterFunc(delay, func() { assert(t, cmd.Process.Kill()) })
			}
			word, number, _ := strings.Cut(lines.Text(), " ")
			n, err := strconv.ParseUint(number, 10, 64)
			require.NoError(t, err, lines.Text())
			switch word {
			case "acked":
				acked = n
			case "deleting":
				deleting = n
			default:
				require.Fail(t, "the child failed", lines.Text())
			}
		}
		require.NoError(t, lines.Err())
		require.ErrorContains(t, cmd.Wait(), "killed")
		rounds++
		l, err := wal.Open(dir, wal.Options{Logger: quiet(), SegmentBytes: 64 << 10, SpareBytes: 1 << 20})
		require.NoError(t, err)
		found, err := contents(l)
		require.NoError(t, err)
		require.NotEmpty(t, found)
		require.LessOrEqual(t, found[0].Index, deleting+1)
		require.GreaterOrEqual(t, found[len(found)-1].Index, acked)
		for _, got := range found {
			require.True(t, same([]*raft.Log{got}, []*raft.Log{payload(got.Index)}),
				"record %d", got.Index)
		}
		acked = found[len(found)-1].Index
		require.NoError(t, l.Close())
	}
	require.Equal(t, 14, rounds)
	require.GreaterOrEqual(t, acked, uint64(rounds), "each round has acknowledged something")
}

// A real file system that runs full: a tmpfs of 1 MiB in a mount namespace of the child's own,
// and, where the kernel grants no namespace, a limit on the file size, which fails in the middle
// of a write just the same.
func TestFullFileSystem(t *testing.T) {
	out, err := child("limit", t.TempDir()).Output()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "file too large")
	require.Contains(t, string(out), "kept")

	dir := t.TempDir()
	cmd := child("tmpfs", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err = cmd.Output()
	if err != nil && (len(out) == 0 || strings.HasPrefix(string(out), "error mount")) {
		t.Logf("no mount namespace here (%v %s), the file size limit has to do", err, out)
		return
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "no space left on device")
	require.Contains(t, string(out), "kept")
}
