package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/raft"

	"tollgate/cluster/backup"
	"tollgate/cluster/segments"
	"tollgate/engine"
	"tollgate/engine/journal"
	"tollgate/wal"
)

// ErrNotEmpty means that a backup was not restored because the folder holds something.
var ErrNotEmpty = errors.New("cluster: a backup is restored into an empty folder only")

// Restore makes the data folder of one node of a new cluster from a backup: Config.Members are its
// voters, Config.Cluster its identity, which must be new, and the same on each of them. Every
// member is restored from the same backup; then they are started. It fills the machines
// of c, which must not be used for a node. It starts nothing and contacts no other node.
//
// The folder must be empty. Until all of the backup was read, checked, and is on disk, a node
// refuses to start there; after an error it must be emptied.
//
// files opens the files next to the backup, where its segments are such; nil where there are none.
func Restore(c Config, src io.Reader, files backup.Files) (*backup.Manifest, error) {
	return restore(c, src, files, nil)
}

// RestoreUntil is Restore which goes on behind the backup by the logs that were kept: it stores
// their entries up to an instant in the new log, behind the state of the backup, and applies them,
// which proves that a node can. A node does it again when it starts. The backup must be of before
// that instant; the others of the cluster must be restored from the same backup up to the same
// instant.
func RestoreUntil(
	c Config, src io.Reader, files backup.Files, until *Until,
) (*backup.Manifest, error) {
	return restore(c, src, files, until)
}

func restore(
	c Config, src io.Reader, files backup.Files, until *Until,
) (restored *backup.Manifest, err error) {
	c, err = c.withDefaults()
	if err != nil {
		return nil, err
	}
	if c.Cluster == "" {
		return nil, fmt.Errorf("%w: a restored cluster needs an identity of its own", ErrConfig)
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("cluster: data folder: %w", err)
	}
	if err := requireEmpty(c.Dir); err != nil {
		return nil, fmt.Errorf("%w: %w; nothing was changed", ErrNotEmpty, err)
	}
	from, err := backup.NewReader(src, files)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	mark := filepath.Join(c.Dir, restoringMark)
	if err := errors.Join(writeSynced(mark, nil), syncDir(c.Dir)); err != nil {
		return nil, fmt.Errorf("cluster: mark the folder: %w", err)
	}
	if err := restoreGroups(&c, from, until); err != nil {
		return nil, fmt.Errorf("%w; %s is to be emptied", err, c.Dir)
	}
	if err := (folder{Cluster: c.Cluster}).write(c.Dir); err != nil {
		return nil, err
	}
	if err := errors.Join(os.Remove(mark), syncDir(c.Dir)); err != nil {
		return nil, fmt.Errorf("cluster: take the mark off: %w", err)
	}
	return from.Manifest(), nil
}

// restoreGroups writes the files of every group, and reads the backup to its proven end.
func restoreGroups(c *Config, from *backup.Reader, until *Until) error {
	shards := map[uint16]Shard{ShardBilling: c.Billing, ShardWorkspace: c.Workspace}
	for range from.Manifest().Groups {
		state, err := from.Next()
		if err != nil {
			return err
		}
		shard, known := shards[state.Group.Shard]
		if !known {
			return fmt.Errorf("%w: group %d (%s), which this build does not know",
				backup.ErrVersion, state.Group.Shard, state.Group.Name)
		}
		delete(shards, state.Group.Shard)
		dir := filepath.Join(c.Dir, groupNames[state.Group.Shard])
		if err := restoreState(c, dir, shard, state); err != nil {
			return err
		}
		if err := restoreSegments(dir, shard, from, len(state.Group.Segments)); err != nil {
			return err
		}
		if err := restoreLog(c, dir, shard, state.Group, until); err != nil {
			return err
		}
		if err := errors.Join(syncDir(dir), syncDir(c.Dir)); err != nil {
			return err
		}
	}
	if _, err := from.Next(); err != io.EOF { // a connection's may wrap it
		return err
	}
	if len(shards) > 0 {
		return fmt.Errorf("%w: a group is missing", backup.ErrDamaged)
	}
	return nil
}

// restoreState makes the state a snapshot whose configuration are the members, and reads it back
// into the machine, which finds out whether it is the state that the backup names.
func restoreState(c *Config, dir string, shard Shard, state backup.Item) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("cluster: data folder: %w", err)
	}
	snapshots, err := openSnapshots(c.FS, dir, c.Log)
	if err != nil {
		return err
	}
	_, addresses := raft.NewInmemTransport("") // raft asks it how to write addresses
	sink, err := snapshots.Create(raft.SnapshotVersionMax, state.Group.Index, state.Group.Term,
		bootstrap(c.Members), state.Group.Index, addresses)
	if err != nil {
		return fmt.Errorf("cluster: create a snapshot: %w", err)
	}
	if _, err := io.Copy(sink, state); err != nil {
		return errors.Join(err, sink.Cancel())
	}
	if err := sink.Close(); err != nil {
		return fmt.Errorf("cluster: write a snapshot: %w", err)
	}
	_, written, err := snapshots.Open(sink.ID())
	if err != nil {
		return fmt.Errorf("cluster: read a snapshot: %w", err)
	}
	state.Reader = written
	return errors.Join(state.Decode(shard.Machine), written.Close())
}

// restoreSegments stores the segments that the restored journal lists, which come from the backup
// in the journal's own order.
func restoreSegments(dir string, shard Shard, from *backup.Reader, count int) (err error) {
	if count == 0 {
		return nil
	}
	var fatal error
	store, err := segments.Open(filepath.Join(dir, "segments"), shard.Machine.Journal(), shard.Indexer,
		segments.Options{Fatal: func(err error) { fatal = err }})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	fetch := func(_ context.Context, info journal.SegmentInfo) ([]byte, error) {
		data, err := nextSegment(from, info)
		if err != nil {
			stop() // what follows cannot be right either
		}
		return data, err
	}
	if err := store.Repair(ctx, fetch); err != nil || fatal != nil {
		return errors.Join(err, fatal)
	}
	if missing := store.Missing(); len(missing) > 0 {
		return fmt.Errorf("cluster: %s is missing after the restore", missing[0])
	}
	return nil
}

func nextSegment(from *backup.Reader, info journal.SegmentInfo) ([]byte, error) {
	next, err := from.Next()
	if err != nil {
		return nil, err
	}
	if next.Segment == nil || *next.Segment != backup.SegmentOf(info) {
		return nil, fmt.Errorf("%w: %s is not where it belongs", backup.ErrDamaged, info)
	}
	return next.SegmentBytes()
}

// restoreLog gives the group its term, and a log that goes on behind the state, empty or up to an
// instant: an election goes on from there, and no vote of it is taken back, since no node of this
// cluster gave one.
func restoreLog(
	c *Config, dir string, shard Shard, group *backup.Group, until *Until,
) (err error) {
	log, err := wal.Open(filepath.Join(dir, "log"), wal.Options{FS: c.FS, Logger: c.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := log.AlignTo(group.Index); err != nil {
		return err
	}
	term := group.Term
	if until != nil {
		if term, err = until.replay(c, log, shard.Machine, group); err != nil {
			return err
		}
	}
	vote, err := openVote(c.FS, dir, c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vote.Close()) }()
	return vote.SetUint64(termKey, term)
}

// Until is how a restore goes on behind its backup.
type Until struct {
	// At is the instant: entries of a later stamp are left out.
	At time.Time
	// Logs go on behind the backup, by their group's shard: see backup.Chain. Open opens their files.
	Logs map[uint16][]backup.Log
	Open backup.Files
	// Reached is where each group stopped; RestoreUntil sets it.
	Reached []Reached
}

// Reached is the last entry that a group was restored to, and its stamp or that of the last one
// before it that has one, in milliseconds since 1970 UTC.
type Reached struct {
	Group string
	Index uint64
	Stamp int64
}

// replay stores the entries of a group, and returns the term of the last one.
func (u *Until) replay(
	c *Config, log *wal.Log, m engine.Machine, group *backup.Group,
) (term uint64, err error) {
	r := &replaying{
		config: c, log: log, machine: m, group: group, until: u.At.UnixMilli(),
		last: place{group.Index, group.Term},
	}
	if group.Stamp > r.until {
		return 0, fmt.Errorf("%w: group %s of the backup is of a later time", backup.ErrNotKept,
			group.Name)
	}
	for _, l := range u.Logs[group.Shard] {
		if err := u.read(l, r.take); err != nil {
			return 0, fmt.Errorf("%s: %w", l.File(), err)
		}
		if r.beyond {
			break
		}
	}
	if !r.beyond {
		return 0, fmt.Errorf("%w: the log of group %s ends before it", backup.ErrNotKept, group.Name)
	}
	u.Reached = append(u.Reached, Reached{group.Name, r.last.index, m.Stamp()})
	return r.last.term, r.flush()
}

// read reads a kept log, which must be the one that its name says, to its last byte.
func (u *Until) read(l backup.Log, each func(backup.LogEntry) error) error {
	src, err := u.Open(l.File())
	if err != nil {
		return err
	}
	read, err := backup.ReadLog(bufio.NewReaderSize(src, replayRead), each)
	if err = errors.Join(err, src.Close()); err == nil && read != l {
		err = fmt.Errorf("%w: it is not the log that its name says", backup.ErrDamaged)
	}
	return err
}

const (
	// replayRead is how much of a kept log is read at once, replayBytes how many bytes of entries are
	// stored together.
	replayRead  = 1 << 20
	replayBytes = 4 << 20
)

// replaying is a group whose kept entries are stored and applied.
type replaying struct {
	config  *Config
	log     *wal.Log
	machine engine.Machine
	group   *backup.Group
	until   int64
	// beyond: an entry of after that instant was seen, so none of before it is to come.
	beyond  bool
	last    place // the newest entry that was taken
	batch   []*raft.Log
	bytes   int
	applied engine.Applied
}

// take takes the next entry.
func (r *replaying) take(e backup.LogEntry) error {
	// The entry at the backup's own index has to be the same in both. Where the first log begins
	// behind it, only names, indexes and rising terms show that they are of one history.
	same := e.Index != r.group.Index || e.Term == r.group.Term
	if r.beyond || same && e.Index <= r.last.index {
		return nil // the state has it, or another log had
	}
	if e.Index != r.last.index+1 || e.Term < r.last.term {
		return fmt.Errorf("%w: entry %d of term %d does not follow entry %d of term %d of group %s: it "+
			"is of another history", backup.ErrDamaged, e.Index, e.Term, r.last.index, r.last.term,
			r.group.Name)
	}
	l := &raft.Log{Index: e.Index, Term: e.Term, Type: raft.LogNoop}
	if e.Command {
		l.Type, l.Data = raft.LogCommand, bytes.Clone(e.Data)
		if h, _, err := engine.ParseEntry(l.Data); err == nil && h.Stamp > r.until {
			r.beyond = true
			return nil
		}
		if err := r.apply(l); err != nil {
			return fmt.Errorf("entry %d of group %s cannot be applied: %w", l.Index, r.group.Name, err)
		}
	}
	r.last = place{e.Index, e.Term}
	r.batch, r.bytes = append(r.batch, l), r.bytes+len(l.Data)
	if r.bytes < replayBytes && len(r.batch) < replayBytes/64 {
		return nil
	}
	return r.flush()
}

// apply applies an entry, as a node will.
func (r *replaying) apply(l *raft.Log) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	if r.config.skips(r.group.Shard, l) {
		return nil
	}
	return r.machine.Apply(l.Index, raisedStamp(r.machine, l.Data), &r.applied)
}

// flush stores the entries that were taken.
func (r *replaying) flush() error {
	if len(r.batch) == 0 {
		return nil
	}
	err := r.log.StoreLogs(r.batch)
	r.batch, r.bytes = r.batch[:0], 0
	return err
}
