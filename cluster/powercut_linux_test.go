package cluster

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/engine/workspace"
)

// powerEnv tells the test binary that it is a process of the power cut test: which, and where.
const powerEnv = "TOLLGATE_POWER_CUT"

const (
	powerRounds = 4
	// powerWait bounds everything that one process of the test waits for.
	powerWait = 60 * time.Second
)

func TestMain(m *testing.M) {
	role, dir, child := strings.Cut(os.Getenv(powerEnv), "=")
	if !child {
		os.Exit(m.Run())
	}
	var err error
	switch role {
	case "stage":
		err = stagePowerCuts(dir)
	case "write":
		err = writeUntilTheEnd(dir)
	case "vote":
		err = voteUntilTheEnd(dir)
	case "full":
		err = voteUntilFull(dir)
	}
	if err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func powerChild(role, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), powerEnv+"="+role+"="+dir)
	return cmd
}

// A whole node, the only one of its cluster, writes to an ext4 of its own, which loses its power
// over and over: what is in the page cache and in the file system's journal is gone. After each cut
// everything acknowledged is there. It takes a loop device; where the kernel does not let this
// process have one, the simulated disks, which are less kind, have to do, and the test says so.
func TestPowerCutOnARealFileSystem(t *testing.T) {
	cmd := powerChild("stage", t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS} // mounts end with it
	out, err := cmd.CombinedOutput()
	if err != nil && (len(out) == 0 || strings.Contains(string(out), errNoMount.Error())) {
		t.Logf("NOT RUN, no file system can be mounted here: %v %s", err, out)
		require.False(t, os.Getuid() == 0 && loopDevices(), "root with loop devices can mount: %s", out)
		return
	}
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), fmt.Sprintf("cut %d times", powerRounds))
	t.Logf("%s", out)
}

var errNoMount = errors.New("cannot mount")

// loopDevices reports whether there is a loop device to be had.
func loopDevices() bool {
	f, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	_, err = exec.LookPath("mkfs.ext4")
	return err == nil
}

func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}

// stagePowerCuts runs in a mount namespace of its own.
func stagePowerCuts(dir string) error {
	image, folder := filepath.Join(dir, "image"), filepath.Join(dir, "mounted")
	mount := func() error { return run("mount", "-o", "loop", image, folder) }
	err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(image, nil, 0o600),
		os.Truncate(image, 1<<30), syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""),
		run("mkfs.ext4", "-q", "-F", image), mount())
	if err != nil {
		return fmt.Errorf("%w: %w", errNoMount, err)
	}
	for _, w := range []struct {
		role  string
		count func(folder string) (uint64, error)
	}{{"write", countKeys}, {"vote", countVotes}} {
		acked := uint64(0)
		for round := range powerRounds {
			after := time.Duration(200+rand.IntN(500)) * time.Millisecond
			last, err := cutPower(w.role, folder, after)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", w.role, round, err)
			}
			acked = max(acked, last)
			if err := errors.Join(run("umount", folder), mount()); err != nil {
				return err
			}
			found, err := w.count(folder)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", w.role, round, err)
			}
			if found < acked {
				return fmt.Errorf("%s, round %d: %d were acknowledged, %d are there",
					w.role, round, acked, found)
			}
			acked = found
		}
		fmt.Printf("%s: the power was cut %d times, %d are there\n", w.role, powerRounds, acked)
	}
	if err := freezeVotes(folder); err != nil {
		return fmt.Errorf("freeze: %w", err)
	}
	return run("umount", folder)
}

// cutPower lets a node write for a while, takes the file system away from under it, and returns the
// last key that it said was acknowledged before that. What it says later does not count: while ext4
// is shut down, an fdatasync may report success for what is lost (of 451 shutdowns under a loop of
// write and fdatasync alone, 50 did), and a process whose machine has no power says nothing.
func cutPower(role, folder string, after time.Duration) (acked uint64, err error) {
	cmd := powerChild(role, folder)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() { _ = cmd.Wait() }() // it was killed
	guard := time.AfterFunc(powerWait, func() { _ = cmd.Process.Kill() })
	defer guard.Stop()
	cut := make(chan error, 1)
	var said, before atomic.Uint64
	var dark atomic.Bool // from then on, what fails fails for lack of power
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		key, err := strconv.ParseUint(lines.Text(), 10, 64)
		if err != nil && dark.Load() {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("the node said: %s", lines.Text())
		}
		if said.Swap(key) == 0 {
			time.AfterFunc(after, func() {
				before.Store(said.Load())
				dark.Store(true)
				cut <- errors.Join(shutDown(folder), cmd.Process.Kill())
			})
		}
	}
	if said.Load() == 0 {
		return 0, errors.New("the node acknowledged nothing")
	}
	err = errors.Join(lines.Err(), <-cut)
	return before.Load(), err
}

// shutDown takes the power from a mounted ext4, without letting it flush its journal.
func shutDown(folder string) error {
	const request, withoutFlush = 0x8004587d, 2
	f, err := os.Open(folder)
	if err != nil {
		return err
	}
	err = unix.IoctlSetPointerInt(int(f.Fd()), request, withoutFlush)
	return errors.Join(err, f.Close())
}

// lone opens a node that is a cluster by itself, and waits until it leads.
func lone(folder string) (*Node, *ledger, error) {
	m := newLedger(ShardBilling)
	c := Config{
		NodeID: "a", Members: []Member{{ID: "a", Raft: "a:1"}}, Listen: "127.0.0.1:0",
		Dir: filepath.Join(folder, "node"), Billing: Shard{Machine: m},
		Workspace: Shard{Machine: workspace.New(workspace.Config{Shard: ShardWorkspace})},
		Timeouts:  Timeouts{HeartbeatTimeout: 100 * time.Millisecond},
		Limits:    Limits{TrailingBytes: 1, DiskLowBytes: 1},
		Log:       testLog(), logSegment: 64 << 10,
	}
	withJournal(&c)
	n, err := Open(c)
	if err != nil {
		return nil, nil, err
	}
	for end := time.Now().Add(powerWait); ; {
		if _, leads := n.Billing().Leads(); leads {
			return n, m, nil
		}
		if time.Now().After(end) {
			return nil, nil, errors.Join(errors.New("it does not lead"), n.Close())
		}
		select {
		case <-n.Billing().RouteChanged():
		case <-time.After(powerWait / 100):
		}
	}
}

// countKeys starts a node on what a cut left, and looks whether it has all keys up to the last one,
// and in its journal, too.
func countKeys(folder string) (last uint64, err error) {
	n, m, err := lone(folder)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, n.Close()) }()
	for m.has(last + 1) {
		last++
	}
	if uint64(m.keys()) != last {
		return 0, fmt.Errorf("of %d keys there is none after %d", m.keys(), last)
	}
	items, err := n.Billing().Events().List(journal.Query{
		Owner: 1, To: time.Now().Add(time.Hour).UnixMilli(), Limit: 1 << 20,
		Kinds: journal.Kinds(journal.KindUsage),
	})
	if err != nil {
		return 0, err
	}
	listed := make(map[uint64]bool)
	for _, item := range items {
		listed[binary.LittleEndian.Uint64(item.Payload)] = true
	}
	if uint64(len(listed)) != last {
		return 0, fmt.Errorf("the journal has %d of %d keys", len(listed), last)
	}
	return last, nil
}

// writeUntilTheEnd counts key after key, says which are acknowledged, and takes snapshots, until it
// is killed.
func writeUntilTheEnd(folder string) error {
	n, m, err := lone(folder)
	if err != nil {
		return err
	}
	go func() {
		for n.Billing().TakeSnapshot() == nil {
			time.Sleep(time.Millisecond)
		}
	}()
	payload := make([]byte, 100<<10) // so that there are whole segments soon
	for key := uint64(m.keys()) + 1; ; key++ {
		binary.LittleEndian.PutUint64(payload, key)
		results := make([]engine.Result, 1)
		one := []engine.Record{{Kind: kindCount, Payload: payload}}
		n.Billing().Propose(time.Now().Add(powerWait), one, results)
		if results[0].Outcome != engine.OutcomeDone {
			return fmt.Errorf("key %d: outcome %d", key, results[0].Outcome)
		}
		fmt.Println(key)
	}
}
