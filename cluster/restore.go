package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"

	"tollgate/cluster/backup"
	"tollgate/cluster/segments"
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
func Restore(
	c Config, src io.Reader, files backup.Files,
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
	if err := restoreGroups(&c, from); err != nil {
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
func restoreGroups(c *Config, from *backup.Reader) error {
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
		if err := restoreTerm(c, dir, state.Group); err != nil {
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

// restoreTerm gives the group its term, and an empty log that goes on behind the state: an election
// goes on from there, and no vote of it is taken back, since no node of this cluster gave one.
func restoreTerm(c *Config, dir string, group *backup.Group) (err error) {
	log, err := wal.Open(filepath.Join(dir, "log"), wal.Options{FS: c.FS, Logger: c.Log})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	if err := log.AlignTo(group.Index); err != nil {
		return err
	}
	vote, err := openVote(c.FS, dir, c.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, vote.Close()) }()
	return vote.SetUint64(termKey, group.Term)
}
