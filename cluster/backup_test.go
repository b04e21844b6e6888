package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cluster/backup"
	"tollgate/cluster/segments"
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// save makes a backup through a node.
func (c *nodes) save(id string) []byte {
	c.t.Helper()
	var b bytes.Buffer
	m, err := c.node[id].Backup(context.Background(), &b, BackupOptions{Program: "test"})
	require.NoError(c.t, err)
	require.Equal(c.t, id, m.Node)
	return b.Bytes()
}

// emptyMachine makes the machines of a backup of these clusters.
func emptyMachine(shard uint16) engine.Machine {
	if shard == ShardWorkspace {
		return workspace.New(workspace.Config{Shard: shard})
	}
	l := newLedger(shard)
	l.journal = shortSegments()
	return l
}

// restoreAll makes the folders of a new cluster from a backup, and starts it.
func (c *nodes) restoreAll(dir, identity string, data []byte) {
	c.t.Helper()
	c.restoreUntil(dir, identity, data, nil)
}

// restoreUntil is restoreAll that goes on behind the backup.
func (c *nodes) restoreUntil(dir, identity string, data []byte, until func() *Until) {
	c.t.Helper()
	c.dir = dir
	before := c.tune
	c.tune = func(id string, config *Config) {
		before(id, config)
		config.Cluster = identity
	}
	for _, id := range three {
		var behind *Until
		if until != nil {
			behind = until()
		}
		m, err := RestoreUntil(c.config(id), bytes.NewReader(data), nil, behind)
		require.NoError(c.t, err)
		require.Len(c.t, m.Groups, 2)
		c.start(id)
	}
}

func (c *nodes) stopAll() {
	c.t.Helper()
	for _, id := range three {
		if c.node[id] != nil {
			c.stop(id)
		}
	}
}

// A backup that a follower makes while clients write holds all that was acknowledged before it; a
// cluster that is restored from it goes on from there, journal included, and still knows keys.
func TestBackupWhileClientsWrite(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		follower := c.others(leader)[0]
		c.fill(leader, 2)
		c.count(leader, keyRange(1, 100)...)

		var written, stop atomic.Uint64
		done := make(chan struct{})
		go func() {
			defer close(done)
			for key := uint64(1000); stop.Load() == 0; key++ {
				if c.propose(leader, 10*time.Second, key)[0] == engine.OutcomeDone {
					written.Store(key)
				}
				time.Sleep(time.Millisecond)
			}
		}()
		time.Sleep(100 * time.Millisecond)
		before := written.Load()
		data := c.save(follower)
		after := written.Load()
		stop.Store(1)
		<-done
		require.Greater(t, before, uint64(1000))

		m, err := backup.Check(bytes.NewReader(data), nil, emptyMachine)
		require.NoError(t, err)
		require.Len(t, m.Groups[0].Segments, 2)
		c.stopAll()
		c.restoreAll(t.TempDir(), NewIdentity(), data)
		leader = c.leader()
		c.converge()
		for _, id := range three {
			require.True(t, c.ledgers[id].has(50))
			require.True(t, c.ledgers[id].has(before), "what was acknowledged before it")
			require.False(t, c.ledgers[id].has(after+1), "what was written after it")
			c.eventually("it is ready", func() bool { return c.node[id].Status().Ready })
			require.Equal(t, c.ledgers[id].keys(), c.listed(id), "the journal has each of them")
			require.GreaterOrEqual(t, c.billing(id).Status().AppliedIndex, m.Groups[0].Applied)
		}
		c.count(leader, 5_000_000)
		require.Greater(t, c.billing(leader).Status().AppliedIndex, m.Groups[0].Index)
		again := c.save(leader)
		_, err = backup.Check(bytes.NewReader(again), nil, emptyMachine)
		require.NoError(t, err)
	})
}

// Nodes of the cluster that was backed up do not mix with the restored one: their log is longer.
func TestNodesOfTheTimeBeforeARestoreGetNothing(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		c.count(leader, keyRange(1, 10)...)
		data := c.save(leader)
		for key := range uint64(30) {
			c.count(leader, 100+key)
		}
		old, plain := c.dir, c.tune
		c.stopAll()
		c.restoreAll(t.TempDir(), NewIdentity(), data)
		leader = c.leader()
		c.converge()

		comeback := c.others(leader)[0]
		restored := c.tune
		c.stop(comeback)
		inNew := c.dir
		c.dir, c.tune = old, plain
		c.start(comeback)
		time.Sleep(20 * time.Second)
		require.False(t, c.node[comeback].Status().Ready)
		require.Greater(t, c.billing(comeback).Status().LastIndex,
			c.billing(leader).Status().LastIndex, "its log is longer than that of the restored cluster")
		require.False(t, c.ledgers[leader].has(120))
		c.dir, c.tune = inNew, restored
		c.count(c.leader(comeback), 7_000)

		c.stop(comeback)
		c.start(comeback)
		c.converge()
		require.True(t, c.ledgers[comeback].has(7_000))
		require.False(t, c.ledgers[comeback].has(120))

		c.stop(comeback)
		c.tune = func(id string, config *Config) {
			restored(id, config)
			config.Cluster = NewIdentity()
		}
		_, err := Open(c.config(comeback))
		require.ErrorIs(t, err, ErrOtherCluster)
		c.tune = restored
		c.start(comeback)
	})
}

// savedAlone is a backup of a cluster with a journal of two segments.
func savedAlone(t *testing.T) (data []byte) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		c.fill(leader, 2)
		data = c.save(leader)
	})
	return data
}

// aConfig is that of node a in a folder.
func aConfig(dir string) Config {
	c := Config{
		NodeID: "a", Members: members(), Dir: dir, Cluster: NewIdentity(), Log: testLog(),
		Billing:   Shard{Machine: newLedger(ShardBilling)},
		Workspace: Shard{Machine: workspace.New(workspace.Config{Shard: ShardWorkspace})},
		Network:   newMemNetwork().host(addressOf("a")), Limits: Limits{DiskLowBytes: 1},
		Fatal: func(error) {},
	}
	withJournal(&c)
	return c
}

// TestABackupWithItsSegmentsApart: the second asks for no segment that is kept, and either is
// restored with the files, and not without them.
func TestABackupWithItsSegmentsApart(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		files, reads := map[string][]byte{}, 0
		save := func() []byte {
			var b bytes.Buffer
			_, err := c.node[leader].Backup(context.Background(), &b, BackupOptions{
				Apart: func(file string, read func() ([]byte, error)) (err error) {
					if files[file] == nil {
						reads++
						files[file], err = read()
					}
					return err
				},
			})
			require.NoError(t, err)
			return b.Bytes()
		}
		open := func(file string) (io.ReadCloser, error) {
			if files[file] == nil {
				return nil, os.ErrNotExist
			}
			return io.NopCloser(bytes.NewReader(files[file])), nil
		}
		c.fill(leader, 2)
		first := save()
		require.Equal(t, 2, reads)
		c.count(leader, 4_000_000)
		data := save()
		require.Equal(t, 2, reads)
		require.Less(t, len(data), len(files[slices.Sorted(maps.Keys(files))[0]]))
		for _, each := range [][]byte{first, data} {
			_, err := backup.Check(bytes.NewReader(each), open, emptyMachine)
			require.NoError(t, err)
			_, err = backup.Check(bytes.NewReader(each), nil, emptyMachine)
			require.ErrorIs(t, err, backup.ErrApart)
		}
		keys := c.ledgers[leader].keys()
		c.stopAll()
		name := slices.Sorted(maps.Keys(files))[1]
		whole := files[name]
		files[name] = flipped(whole, len(whole)/2)
		_, err := Restore(aConfig(t.TempDir()), bytes.NewReader(data), open)
		require.ErrorIs(t, err, backup.ErrDamaged)
		files[name] = whole
		machine := aConfig(t.TempDir())
		_, err = Restore(machine, bytes.NewReader(data), open)
		require.NoError(t, err)
		require.Equal(t, keys, machine.Billing.Machine.(*ledger).keys())
	})
}

// A backup that is damaged anywhere leaves a folder in which no node starts.
func TestDamagedBackupsAreNotRestored(t *testing.T) {
	whole := savedAlone(t)
	for name, damaged := range map[string][]byte{
		"empty":              nil,
		"cut off in its end": whole[:len(whole)-1],
		"cut off in half":    whole[:len(whole)/2],
		"followed by more":   append(bytes.Clone(whole), 0),
		"a bit of the head":  flipped(whole, 30),
		"a bit of a segment": flipped(whole, len(whole)/2),
		"a bit of the end":   flipped(whole, len(whole)-10),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			_, err := Restore(aConfig(dir), bytes.NewReader(damaged), nil)
			require.ErrorIs(t, err, backup.ErrDamaged)
			if name != "empty" && name != "a bit of the head" { // then nothing was begun
				_, err = Open(aConfig(dir))
				require.ErrorIs(t, err, ErrHalfRestored)
				_, err = Restore(aConfig(dir), bytes.NewReader(whole), nil)
				require.ErrorIs(t, err, ErrNotEmpty)
			}
			require.NoError(t, os.RemoveAll(dir))
			_, err = Restore(aConfig(dir), bytes.NewReader(whole), nil)
			require.NoError(t, err)
		})
	}
}

func flipped(data []byte, at int) []byte {
	changed := bytes.Clone(data)
	changed[at] ^= 4
	return changed
}

func TestBackupsAreRestoredIntoEmptyFoldersOnly(t *testing.T) {
	whole := savedAlone(t)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LOCK"), nil, 0o600))
	c := aConfig(dir)
	_, err := Restore(c, bytes.NewReader(whole), nil)
	require.NoError(t, err)
	for range 2 {
		again := aConfig(dir)
		_, err = Restore(again, bytes.NewReader(whole), nil)
		require.ErrorIs(t, err, ErrNotEmpty)
	}
	require.NoError(t, os.WriteFile(filepath.Join(t.TempDir(), "x"), nil, 0o600))
	other := aConfig(t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(other.Dir, "notes.txt"), nil, 0o600))
	_, err = Restore(other, bytes.NewReader(whole), nil)
	require.ErrorIs(t, err, ErrNotEmpty)
	require.ErrorContains(t, err, "notes.txt")

	nameless := aConfig(t.TempDir())
	nameless.Cluster = ""
	_, err = Restore(nameless, bytes.NewReader(whole), nil)
	require.ErrorIs(t, err, ErrConfig)
	nameless.Cluster = "short"
	_, err = Restore(nameless, bytes.NewReader(whole), nil)
	require.ErrorIs(t, err, ErrConfig)
}

// A folder with a past of its own is not taken for one of a cluster that is named later.
func TestFolderIsOfOneCluster(t *testing.T) {
	c := aConfig(t.TempDir())
	require.NoError(t, os.Mkdir(filepath.Join(c.Dir, "billing"), 0o700))
	_, err := Open(c)
	require.ErrorIs(t, err, ErrOtherCluster)

	c = aConfig(t.TempDir())
	for text, refused := range map[string]error{
		`{"format":7}`: ErrNewerData, `{"format":5,"version":1}`: ErrOlderData,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, folderFile), []byte(text), 0o600))
		_, err = Open(c)
		require.ErrorIs(t, err, refused)
		require.True(t, RefusesFolder(err), "another start finds the same")
		require.ErrorContains(t, err, "start the ")
	}
	for _, text := range []string{"", "{", `{"format":0}`, `{"format":6,"cluster":"xy"}`} {
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, folderFile), []byte(text), 0o600))
		_, err = Open(c)
		require.ErrorContains(t, err, "cannot be read", text)
	}
}

// brokenPipe fails after some bytes.
type brokenPipe struct{ left int }

var errPipe = errors.New("broken pipe")

func (p *brokenPipe) Write(b []byte) (int, error) {
	if p.left -= len(b); p.left < 0 {
		return 0, errPipe
	}
	return len(b), nil
}

func TestBackupsThatCannotBeMade(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		c.fill(leader, 8)
		n := c.node[leader]
		_, err := n.Backup(context.Background(), &brokenPipe{2 << 20}, BackupOptions{})
		require.ErrorIs(t, err, errPipe)

		ended, end := context.WithCancel(context.Background())
		end()
		_, err = n.Backup(ended, &brokenPipe{1 << 40}, BackupOptions{BytesPerSecond: 1})
		require.ErrorIs(t, err, context.Canceled)

		var slow bytes.Buffer
		first := make(chan error)
		go func() {
			_, err := n.Backup(context.Background(), &slow, BackupOptions{BytesPerSecond: 1 << 20})
			first <- err
		}()
		time.Sleep(time.Second)
		_, err = n.Backup(context.Background(), &brokenPipe{1 << 40}, BackupOptions{})
		require.ErrorIs(t, err, ErrBackupRunning)
		begun := time.Now()
		require.NoError(t, <-first)
		require.Greater(t, time.Since(begun), 5*time.Second, "8 MiB at 1 MiB/s")

		c.net.isolate(addressOf(leader))
		time.Sleep(time.Second) // its lease ends
		_, err = n.Backup(context.Background(), &brokenPipe{1 << 40}, BackupOptions{})
		require.ErrorIs(t, err, ErrNotCurrent)
		var alone bytes.Buffer
		m, err := n.Backup(context.Background(), &alone, BackupOptions{Stale: true})
		require.NoError(t, err)
		require.True(t, m.Stale)
		_, err = backup.Check(&alone, nil, emptyMachine)
		require.NoError(t, err)
		c.net.mend()
	})
}

// holding lets a test do something when a backup has its snapshot and before it reads segments.
type holding struct {
	strings.Builder
	then func()
}

func (h *holding) Write(p []byte) (int, error) {
	if h.then != nil {
		h.then()
		h.then = nil
	}
	return h.Builder.Write(p)
}

// Audit segments that the log drops while a backup is written are in it all the same: its state
// lists them.
func TestSegmentsDroppedMeanwhileAreInTheBackup(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader := c.leader()
		c.fill(leader, 1) // the first block leaves before the audit segments are read
		c.audit(leader, "one")
		c.audit(leader, "two")
		store := c.billing(leader).segments.(*segments.Store)
		listed := c.ledgers[leader].journal.Manifest()
		require.NotEmpty(t, listed)
		out := &holding{then: func() {
			time.Sleep(ledgerRetention + time.Second)
			c.count(leader, 1)
			require.NotEqual(t, listed, c.ledgers[leader].journal.Manifest(), "it was dropped")
			time.Sleep(2 * segmentsLook)
		}}
		m, err := c.node[leader].Backup(context.Background(), out, BackupOptions{})
		require.NoError(t, err)
		require.Len(t, m.Groups[0].Segments, len(listed))
		_, err = backup.Check(strings.NewReader(out.String()), nil, emptyMachine)
		require.NoError(t, err)
		c.eventually("the files are deleted when it is done", func() bool {
			_, err := store.Copy(listed[len(listed)-1])
			return errors.Is(err, segments.ErrMissing)
		})
	})
}

// keptFiles are kept logs by their names.
type keptFiles map[string][]byte

// keepLog keeps the log of both groups through a node.
func (c *nodes) keepLog(id string, files keptFiles) {
	c.t.Helper()
	for _, shard := range []uint16{ShardBilling, ShardWorkspace} {
		after := uint64(0)
		for _, l := range files.logs() {
			if l.Shard == shard && l.Cluster == c.node[id].Identity() {
				after = max(after, l.Last)
			}
		}
		kept, err := c.node[id].KeepLog(context.Background(), shard, after,
			func(l backup.Log, write func(io.Writer) error) error {
				var b bytes.Buffer
				err := write(&b)
				files[l.File()] = b.Bytes()
				return err
			})
		require.NoError(c.t, err)
		require.True(c.t, kept.Lost == 0 || after == 0, kept.Lost)
		require.Greater(c.t, kept.Last, after, "a quiet log, too, says how far it comes")
		require.LessOrEqual(c.t, kept.Until, time.Now().UnixMilli())
	}
}

func (f keptFiles) logs() (list []backup.Log) {
	for _, name := range slices.Sorted(maps.Keys(f)) {
		l, ok := backup.ParseLog(name)
		if !ok {
			panic(name)
		}
		list = append(list, l)
	}
	return list
}

func (f keptFiles) open(file string) (io.ReadCloser, error) {
	if f[file] == nil {
		return nil, os.ErrNotExist
	}
	return io.NopCloser(bytes.NewReader(f[file])), nil
}

// behind is how a restore of a backup goes on to an instant.
func (f keptFiles) behind(data []byte, at time.Time) (*Until, error) {
	r, err := backup.NewReader(bytes.NewReader(data), nil)
	if err != nil {
		return nil, err
	}
	u := &Until{At: at, Logs: map[uint16][]backup.Log{}, Open: f.open}
	for i := range r.Manifest().Groups {
		g := &r.Manifest().Groups[i]
		if u.Logs[g.Shard], err = backup.Chain(f.logs(), g, r.Manifest().Cluster, at); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// TestRestoreToAMoment: what was there at an instant between two backups, and nothing of after it.
// The new cluster goes on, and keeps its own log.
func TestRestoreToAMoment(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader, files := c.leader(), keptFiles{}
		c.fill(leader, 1)
		c.keepLog(c.others(leader)[0], files)
		before := time.Now()
		time.Sleep(time.Second)
		c.count(leader, 999)
		data := c.save(leader)
		time.Sleep(time.Second)
		c.count(leader, keyRange(1000, 50)...)
		c.fill(leader, 2) // a segment is cut behind the backup
		c.kill(leader)    // the log has another term, and raft's own entries
		old := leader
		leader = c.leader(old)
		c.count(leader, 2000)
		c.start(old)
		c.converge()
		keys, listed := c.ledgers[leader].keys(), c.listed(leader)
		index, hash := c.ledgers[leader].StateHash()
		at := time.Now()
		time.Sleep(time.Second)
		c.count(leader, 3000)
		c.keepLog(old, files)
		c.keepLog(leader, files)
		end := time.Now().Add(time.Millisecond)

		_, err := files.behind(data, before)
		require.NoError(t, err, "the backup itself is what is of a later time")
		u, err := files.behind(data, at)
		require.NoError(t, err)
		_, err = files.behind(data, end)
		require.ErrorIs(t, err, backup.ErrNotKept)
		require.ErrorContains(t, err, "the log of group billing of cluster first ends at")
		_, err = RestoreUntil(aConfig(t.TempDir()), bytes.NewReader(data), nil,
			&Until{At: before, Logs: u.Logs, Open: files.open})
		require.ErrorContains(t, err, "group billing of the backup is of a later time")
		machine := aConfig(t.TempDir())
		_, err = RestoreUntil(machine, bytes.NewReader(data), nil, u)
		require.NoError(t, err)
		require.Equal(t, []string{"billing", "workspace"}, []string{u.Reached[0].Group, u.Reached[1].Group})
		require.LessOrEqual(t, u.Reached[0].Stamp, at.UnixMilli())
		i, h := machine.Billing.Machine.StateHash()
		require.Equal(t, []uint64{index, hash}, []uint64{i, h})
		c.stopAll()
		c.restoreUntil(t.TempDir(), NewIdentity(), data, func() *Until {
			u, err := files.behind(data, at)
			require.NoError(t, err)
			return u
		})
		leader = c.leader()
		c.converge()
		for _, id := range three {
			require.True(t, c.ledgers[id].has(1049))
			require.True(t, c.ledgers[id].has(2000), "of the time just before")
			require.False(t, c.ledgers[id].has(3000), "of after it")
			c.eventually("it is ready", func() bool { return c.node[id].Status().Ready })
			require.Equal(t, keys, c.ledgers[id].keys())
			require.Equal(t, listed, c.listed(id), "the journal has each of them")
		}
		c.count(leader, 5000)
		data = c.save(leader)
		c.keepLog(leader, files)
		time.Sleep(time.Second)
		at = time.Now()
		c.count(leader, 6000)
		time.Sleep(time.Second)
		c.keepLog(leader, files)
		c.stopAll()
		c.restoreUntil(t.TempDir(), NewIdentity(), data, func() *Until {
			u, err := files.behind(data, at)
			require.NoError(t, err)
			return u
		})
		leader = c.leader()
		c.converge()
		require.True(t, c.ledgers[leader].has(5000))
		require.False(t, c.ledgers[leader].has(3000), "of the cluster of before")
	})
}

// TestDamagedLogsAreNotRestored: also of what was kept before a leader was killed.
func TestDamagedLogsAreNotRestored(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { withJournal(c) }, func(c *nodes) {
		leader, files := c.leader(), keptFiles{}
		c.count(leader, 1)
		c.keepLog(c.others(leader)[0], files)
		c.count(leader, 999) // the next piece of the log begins before the backup
		data := c.save(leader)
		c.count(leader, keyRange(1000, 50)...)
		c.kill(leader)
		leader = c.leader(leader)
		c.count(leader, 2000)
		at := time.Now()
		time.Sleep(time.Second)
		c.count(leader, 3000)
		c.keepLog(leader, files)
		u, err := files.behind(data, at)
		require.NoError(t, err)
		c.refuseDamagedLogs(data, files, u)
	})
}

// refuseDamagedLogs: a folder gets no node where a kept log is missing, or not what was written.
func (c *nodes) refuseDamagedLogs(data []byte, files keptFiles, u *Until) {
	c.t.Helper()
	for _, l := range u.Logs[ShardBilling] {
		name := l.File()
		whole := files[name]
		for what, bad := range map[string][]byte{
			"missing": nil, "cut": whole[:len(whole)-1], "flipped": flipped(whole, len(whole)/2),
			"another": files[u.Logs[ShardWorkspace][0].File()],
		} {
			files[name] = bad
			config := aConfig(c.t.TempDir())
			_, err := RestoreUntil(config, bytes.NewReader(data), nil,
				&Until{At: u.At, Logs: u.Logs, Open: files.open})
			require.ErrorContains(c.t, err, name, what)
			if what != "missing" {
				require.ErrorIs(c.t, err, backup.ErrDamaged, what)
			}
			_, err = Open(aConfig(config.Dir))
			require.ErrorIs(c.t, err, ErrHalfRestored)
		}
		delete(files, name)
		_, err := files.behind(data, u.At)
		require.ErrorIs(c.t, err, backup.ErrNotKept, "without %s", name)
		files[name] = whole
	}
	m, err := backup.NewReader(bytes.NewReader(data), nil)
	require.NoError(c.t, err)
	index := m.Manifest().Groups[0].Index
	for _, from := range []uint64{index, index + 2} { // of another term, and with one entry too few
		l := u.Logs[ShardBilling][0]
		forged := keptFiles{}
		entries := map[uint64]backup.LogEntry{}
		_, err := backup.ReadLog(bytes.NewReader(files[l.File()]), func(e backup.LogEntry) error {
			e.Data = bytes.Clone(e.Data)
			if e.Index == index {
				e.Term++
			}
			entries[e.Index] = e
			return nil
		})
		require.NoError(c.t, err)
		l.First = from
		var b bytes.Buffer
		require.NoError(c.t, backup.WriteLog(&b, l, func(i uint64) (backup.LogEntry, error) {
			return entries[i], nil
		}))
		forged[l.File()] = b.Bytes()
		_, err = RestoreUntil(aConfig(c.t.TempDir()), bytes.NewReader(data), nil,
			&Until{At: u.At, Logs: map[uint16][]backup.Log{ShardBilling: {l}}, Open: forged.open})
		require.ErrorIs(c.t, err, backup.ErrDamaged)
		require.ErrorContains(c.t, err, "it is of another history")
	}
	short := &Until{At: u.At, Logs: map[uint16][]backup.Log{}, Open: files.open}
	_, err = RestoreUntil(aConfig(c.t.TempDir()), bytes.NewReader(data), nil, short)
	require.ErrorContains(c.t, err, "ends before it")
}

// TestALogThatWasNotKeptInTime: what a snapshot deleted is said to be lost, and a log that is
// longer than the cluster's is of another one.
func TestALogThatWasNotKeptInTime(t *testing.T) {
	inCluster(t, func(_ string, c *Config) { c.TrailingBytes = 1 }, func(c *nodes) {
		leader, files := c.leader(), keptFiles{}
		c.keepLog(leader, files)
		kept := files.logs()[0]
		for key := range uint64(100) {
			c.count(leader, key)
		}
		require.NoError(t, c.billing(leader).TakeSnapshot())
		keep := func(backup.Log, func(io.Writer) error) error { return nil }
		got, err := c.node[leader].KeepLog(t.Context(), ShardBilling, kept.Last, keep)
		require.NoError(t, err)
		require.Greater(t, got.Lost, uint64(50))
		begun, err := c.node[leader].KeepLog(t.Context(), ShardBilling, 0, keep)
		require.NoError(t, err)
		require.Greater(t, begun.Lost, uint64(50), "no backup of before that goes on by it")
		_, err = c.node[leader].KeepLog(t.Context(), ShardBilling, got.Last+100, keep)
		require.ErrorIs(t, err, ErrOtherLog)
		require.ErrorContains(t, err, fmt.Sprint("group billing: kept up to entry ", got.Last+100))
		require.Positive(t, c.node[leader].LogBehind(ShardBilling, kept.Last))
	})
}
