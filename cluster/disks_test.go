package cluster

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/bench/faultfs"
	"tollgate/wal"
)

// onDisks runs a test with three nodes, a journal each, whose files are on disks in memory.
func onDisks(t *testing.T, f func(c *nodes, disks map[string]*faultfs.Disk)) {
	disks := make(map[string]*faultfs.Disk)
	for _, id := range three {
		disks[id] = faultfs.New()
	}
	tune := func(id string, c *Config) {
		withJournal(c)
		c.FS, c.TrailingBytes, c.CommitTimeout = disks[id], 1, 100*time.Millisecond
	}
	inCluster(t, tune, func(c *nodes) { f(c, disks) })
}

// fileKind says what a path of a node is: "log", "manifest", "vote", "snapshot", "segment",
// "index", "keys" or "mark", and "" for folders.
func fileKind(name string) string {
	base, dir := filepath.Base(name), filepath.Base(filepath.Dir(name))
	switch {
	case strings.HasPrefix(base, "MANIFEST"):
		return "manifest"
	case strings.HasPrefix(base, voteName):
		return "vote"
	case strings.HasPrefix(base, pastName):
		return "past"
	case base == rebuildMark:
		return "mark"
	case dir == "log" && strings.Contains(base, "."):
		return "log"
	case strings.Contains(base, ".seg"):
		return "segment"
	case strings.Contains(base, ".idx"):
		return "index"
	case strings.Contains(base, ".keys"):
		return "keys"
	case dir == "snapshots" || base == "snapshots":
		return "snapshot"
	case base == "log":
		return "log"
	case base == "segments":
		return "segment"
	}
	return ""
}

// past gives a node a past in every kind of file: two snapshots, log behind them, segments.
func (c *nodes) past(leader string) {
	c.t.Helper()
	for round := range uint64(2) {
		c.audit(leader, fmt.Sprint("audit ", round))
		c.count(leader, keyRange(1000*round, 20)...)
		for i := range uint64(minTrailing + 4) {
			c.count(leader, 1000*round+100+i)
		}
		c.converge()
		for _, id := range three {
			require.NoError(c.t, c.billing(id).TakeSnapshot())
		}
	}
	c.count(leader, keyRange(5000, 5)...)
	c.converge()
}

// promises is what a group's files must give back.
type promises struct {
	term, last uint64
	candidate  string
}

// promisesOf opens a group's files as a node does, and looks at what they hold.
func promisesOf(disk *faultfs.Disk, dir string) (p promises, err error) {
	config := Config{Log: testLog(), FS: disk, Timeouts: Timeouts{StoreTimeout: time.Minute}}
	st, err := openStores(&config, dir, fileNotices{fatal: func(error) {}})
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if p.term, err = st.vote.GetUint64(termKey); err != nil {
		return p, err
	}
	who, err := st.vote.Get(candKey)
	if err != nil && !errors.Is(err, errNoValue) {
		return p, err
	}
	p.candidate = string(who)
	if p.last, err = st.log.LastIndex(); err != nil {
		return p, err
	}
	newest, err := st.newestSnapshot()
	if err != nil {
		return p, err
	}
	// All between the snapshot and the end can be read.
	for i := newest.Index + 1; i <= p.last; i++ {
		if err := st.log.GetLog(i, new(raft.Log)); err != nil {
			return p, err
		}
	}
	return p, nil
}

// Every file of a node is damaged in turn, in every way. Either what the node promised comes back,
// all of it, or the node refuses to start and says how to rejoin. Then it starts, and ends up as
// the others are, segments too.
func TestDamageToAnyFileIsRepairedOrRefused(t *testing.T) {
	onDisks(t, func(c *nodes, disks map[string]*faultfs.Disk) {
		leader := c.leader()
		c.past(leader)
		damaged := c.others(leader)[0]
		c.stop(damaged)
		pristine, dir := disks[damaged], filepath.Join(c.dir, damaged, "billing")
		want, err := promisesOf(pristine.Clone(), dir)
		require.NoError(t, err)
		seen := make(map[string]map[bool]int) // by kind: repaired, refused
		for _, name := range pristine.Files() {
			kind := fileKind(name)
			if kind == "" || !strings.HasPrefix(name, dir) || filepath.Base(name) == "LOCK" {
				continue
			}
			for what := range damages(len(fileBytes(t, pristine, name))) {
				if !slices.Contains(pristine.Files(), name) {
					break // the node has another one in its place by now
				}
				// A start may have rewritten the file, shorter: damage it as long as it is now.
				damage, fits := damages(len(fileBytes(t, pristine, name)))[what]
				if !fits {
					continue
				}
				disk := pristine.Clone()
				damage.to(t, disk, name)
				got, err := promisesOf(disk.Clone(), dir)
				if seen[kind] == nil {
					seen[kind] = make(map[bool]int)
				}
				seen[kind][err == nil]++
				if err != nil {
					require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, wal.ErrDamaged),
						"%s of %s: %v", what, name, err)
					require.ErrorContains(t, err, wal.Rejoin, "%s of %s", what, name)
					continue
				}
				require.Equal(t, want, got, "%s of %s", what, name)
				if kind == "log" || kind == "manifest" {
					continue // found to be whole
				}
				disks[damaged] = disk
				c.start(damaged)
				c.converge()
				c.eventually("it is ready", func() bool { return c.node[damaged].Status().Ready })
				require.Equal(t, c.audits(leader), c.audits(damaged), "%s of %s", what, name)
				require.Empty(t, c.fatals(damaged))
				c.stop(damaged)
				// The disk before this start would be refused: it is an older copy now.
				pristine = disks[damaged]
				want, err = promisesOf(pristine.Clone(), dir)
				require.NoError(t, err)
			}
		}
		disks[damaged] = pristine
		c.start(damaged)
		require.Positive(t, seen["log"][false], "%v", seen)
		require.Zero(t, seen["manifest"][true], "%v", seen)
		require.Positive(t, seen["vote"][false], "%v", seen)
		require.Positive(t, seen["vote"][true], "%v", seen)
		require.Positive(t, seen["snapshot"][false], "%v", seen)
		require.Positive(t, seen["snapshot"][true], "the one before the newest: %v", seen)
		require.Zero(t, seen["segment"][false]+seen["index"][false], "%v", seen)
		require.Positive(t, seen["segment"][true], "%v", seen)
	})
}

// fileDamage is a change of a file's bytes; nil removes it.
type fileDamage func([]byte) []byte

func (d fileDamage) to(t *testing.T, disk *faultfs.Disk, name string) {
	t.Helper()
	if d == nil {
		require.NoError(t, disk.Remove(name))
		return
	}
	require.NoError(t, disk.Corrupt(name, d))
}

func damages(size int) map[string]fileDamage {
	flip := func(at int) fileDamage {
		return func(b []byte) []byte { b[at] ^= 0x10; return b }
	}
	list := map[string]fileDamage{
		"loss":        nil,
		"emptying":    func([]byte) []byte { return []byte{} },
		"half a loss": func(b []byte) []byte { return b[:len(b)/2] },
		"zeroing":     func(b []byte) []byte { return make([]byte, len(b)) },
		"zeroed sector": func(b []byte) []byte {
			clear(b[:min(len(b), faultfs.SectorBytes)])
			return b
		},
	}
	for _, at := range []int{0, 9, 41, size / 2, size - 1} {
		if at >= 0 && at < size {
			list[fmt.Sprint("flipped bit at ", at)] = flip(at)
		}
	}
	return list
}

// A snapshot that is damaged is passed over when the log still reaches back to the one before it,
// and another takes its place.
func TestDamagedSnapshotIsPassedOver(t *testing.T) {
	onDisks(t, func(c *nodes, disks map[string]*faultfs.Disk) {
		leader := c.leader()
		id := c.others(leader)[0]
		for round := range uint64(2) {
			c.count(leader, keyRange(100*round, 10)...)
			c.converge()
			require.NoError(t, c.billing(id).TakeSnapshot())
		}
		newest := c.billing(id).Status().SnapshotIndex
		c.stop(id)
		var files []string
		for _, name := range disks[id].Files() {
			if fileKind(name) == "snapshot" {
				files = append(files, name)
			}
		}
		require.Len(t, files, 2)
		cut := func(b []byte) []byte { return b[:len(b)-1] }
		require.NoError(t, disks[id].Corrupt(files[1], cut))
		c.start(id)
		require.Less(t, c.billing(id).Status().SnapshotIndex, newest)
		c.converge()
		require.True(t, c.ledgers[id].has(109))
		c.eventually("there is a good one in its place", func() bool {
			return c.billing(id).Status().SnapshotIndex >= newest
		})
		require.NoError(t, c.node[id].stores[0].snapshots.anyDamage())
	})
}

// A snapshot that rots on a leader's disk is found when a follower needs it, and another takes its
// place.
func TestLeadersDamagedSnapshotIsReplaced(t *testing.T) {
	onDisks(t, func(c *nodes, disks map[string]*faultfs.Disk) {
		leader := c.leader()
		lagging := c.others(leader)[0]
		c.count(leader, 1)
		c.converge()
		c.stop(lagging)
		for i := range uint64(minTrailing + 10) {
			c.count(leader, 100+i)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		for _, name := range disks[leader].Files() {
			if strings.HasPrefix(name, filepath.Join(c.dir, leader, "billing", "snapshots")) {
				flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
				require.NoError(t, disks[leader].Corrupt(name, flip))
			}
		}
		c.start(lagging)
		c.eventually("it has caught up", func() bool { return c.ledgers[lagging].has(100 + minTrailing) })
		require.NoError(t, c.node[leader].stores[0].snapshots.anyDamage())
		c.eventually("raft has taken note of it", func() bool {
			return c.billing(lagging).Status().SnapshotIndex > 0
		})
	})
}

// diskFault is what happens, once, to an operation on a kind of file of a node's billing group.
type diskFault struct {
	kind string
	op   faultfs.Kind
	what string
	met  atomic.Bool
}

func (f *diskFault) String() string { return fmt.Sprintf("%s of a %s %s", f.op, f.kind, f.what) }

// inject lets the first operation of the fault's kind from now on meet it.
func (f *diskFault) inject(disk *faultfs.Disk) {
	disk.Inject(func(op faultfs.Op) error {
		if op.Kind != f.op || !ofBilling(op.Name) || fileKind(op.Name) != f.kind ||
			!f.met.CompareAndSwap(false, true) {
			return nil
		}
		switch f.what {
		case "finds no room":
			return syscall.ENOSPC
		case "takes half":
			return &faultfs.ShortWrite{Keep: op.Bytes / 2, Err: syscall.ENOSPC}
		}
		return errIO
	})
}

func ofBilling(name string) bool { return strings.Contains(name, "/billing") }

// exits reports whether the process has to end: after a failed snapshot it need not, nothing rests
// on it, and the next one is another file.
func (f *diskFault) exits() bool { return f.kind != "snapshot" }

// busy lets a node change every kind of file: entries, a new log segment, a vote, a snapshot with
// its journal segments.
func (c *nodes) busy(id, leader string, round uint64, helpers *sync.WaitGroup) {
	c.audit(leader, fmt.Sprint("audit ", round))
	c.count(leader, keyRange(10_000*round, 20)...)
	for i := range uint64(minTrailing + 4) {
		c.count(leader, 10_000*round+100+i)
	}
	g := c.billing(id)
	helpers.Go(func() {
		if err := g.TakeSnapshot(); err != nil {
			testLog().Info("no snapshot", "error", err)
		}
	})
	time.Sleep(time.Second)
	c.net.isolate(addressOf(leader))
	time.Sleep(4 * time.Second)
	c.net.mend()
}

// Every kind of operation on every kind of file fails, finds no room, or takes half, on one node of
// three. The process ends, or it does without and makes the file anew later; the others go on
// meanwhile; nothing acknowledged is lost, also when the power goes after it.
func TestAnyFileThatFailsEndsTheProcessOrIsMadeAgain(t *testing.T) {
	points := make(map[string]map[faultfs.Kind]bool)
	var mu sync.Mutex
	breakDisk(t, nil, func(op faultfs.Op) error {
		mu.Lock()
		defer mu.Unlock()
		kind := fileKind(op.Name)
		if kind == "" || !ofBilling(op.Name) || op.Kind == faultfs.KindRead ||
			op.Kind == faultfs.KindOpen || op.Kind == faultfs.KindList {
			return nil
		}
		if points[kind] == nil {
			points[kind] = make(map[faultfs.Kind]bool)
		}
		points[kind][op.Kind] = true
		return nil
	})
	require.Len(t, points, 6, "%v", points)
	for kind, ops := range points {
		for op := range ops {
			for _, what := range []string{"fails", "finds no room", "takes half"} {
				f := &diskFault{kind: kind, op: op, what: what}
				if what == "takes half" && op != faultfs.KindWrite {
					continue
				}
				t.Run(strings.ReplaceAll(f.String(), " ", "_"), func(t *testing.T) {
					t.Parallel()
					breakDisk(t, f, nil)
				})
			}
		}
	}
}

// TestAFileOfEachKindThatFails is the part of it that the race detector sees every time: each kind
// of file is written by a way of its own, and all operations on it fail alike.
func TestAFileOfEachKindThatFails(t *testing.T) {
	for kind, op := range map[string]faultfs.Kind{
		"log": faultfs.KindSync, "manifest": faultfs.KindSync, "vote": faultfs.KindSync,
		"snapshot": faultfs.KindSync, "segment": faultfs.KindSync,
		"index": faultfs.KindWrite, // an index that is lost is made again: it is not synced
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			breakDisk(t, &diskFault{kind: kind, op: op, what: "fails"}, nil)
		})
	}
}

// breakDisk runs three nodes, of which one meets a fault; without one, look sees its operations.
func breakDisk(t *testing.T, f *diskFault, look func(faultfs.Op) error) {
	onDisks(t, func(c *nodes, disks map[string]*faultfs.Disk) {
		var helpers sync.WaitGroup
		defer helpers.Wait()
		leader := c.leader()
		id := c.others(leader)[0]
		c.past(leader)
		if f == nil {
			disks[id].Inject(look)
		} else {
			f.inject(disks[id])
		}
		c.busy(id, leader, 1, &helpers)
		if f == nil {
			return
		}
		require.True(t, f.met.Load())
		if f.exits() {
			c.eventually("it ends", func() bool { return len(c.fatals(id)) > 0 })
			if err := c.node[id].Close(); err != nil {
				testLog().Info("closed", "error", err)
			}
			helpers.Wait()
			disks[id].Crash(rand.New(rand.NewPCG(uint64(len(f.what)), 1)).IntN)
			c.mu.Lock()
			delete(c.fatal, id)
			c.mu.Unlock()
			c.start(id)
		}
		leader = c.leader()
		c.busy(id, leader, 2, &helpers)
		helpers.Wait()
		c.leader()
		c.converge()
		require.Empty(t, c.fatals(id))
		require.NoError(t, c.billing(id).TakeSnapshot())
		for round := range uint64(3) {
			require.True(t, c.ledgers[id].has(10_000*round+10), "round %d", round)
		}
		c.eventually("it is ready", func() bool { return c.node[id].Status().Ready })
		require.Equal(t, c.audits(leader), c.audits(id))
	})
}

// A snapshot that was installed a moment ago is all that a node has: with it damaged, the one
// before it would be a step back behind what was acknowledged.
func TestDamagedSnapshotBeforeAnEmptyLogIsRefused(t *testing.T) {
	disk, dir := newVoteDisk(t), voteDir
	config := Config{Log: testLog(), FS: disk, Timeouts: Timeouts{StoreTimeout: time.Minute}}
	st, err := openStores(&config, dir,
		fileNotices{fatal: func(err error) { require.NoError(t, err) }})
	require.NoError(t, err)
	require.NoError(t, st.vote.SetUint64(termKey, 3))
	for _, index := range []uint64{10, 20} {
		require.NoError(t, save(st.snapshots, index, stateAt(index, 100)))
	}
	found, err := st.snapshots.List()
	require.NoError(t, err)
	flip := func(b []byte) []byte { b[50] ^= 1; return b }
	require.NoError(t, disk.Corrupt(st.snapshots.path(found[0].ID), flip))
	require.NoError(t, st.Close())
	_, err = openStores(&config, dir,
		fileNotices{fatal: func(err error) { require.NoError(t, err) }})
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorContains(t, err, wal.Rejoin)
}
