package cluster

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"tollgate/cluster/backup"
	"tollgate/engine"
	"tollgate/engine/journal"
)

var (
	// ErrBackupRunning means that this node is already making a backup. Nothing was written.
	ErrBackupRunning = errors.New("cluster: this node is already making a backup")
	// ErrNotCurrent means that this node could not confirm that it has every acknowledged write: no
	// leader is known, or a majority does not answer. Nothing was written.
	ErrNotCurrent = errors.New(
		"cluster: this node cannot tell whether it has every acknowledged write")
)

const (
	// backupPace is the default pace of a backup, in bytes per second.
	backupPace = 64 << 20
	// backupBlock is the size of one write.
	backupBlock = 1 << 20
	// backupWait bounds how long a node may take to confirm that it is current.
	backupWait = 10 * time.Second
)

// BackupOptions configure a backup; the zero value has the defaults.
type BackupOptions struct {
	// BytesPerSecond is the pace (64 MiB), so that the disk and the processors serve clients first.
	BytesPerSecond int
	// Stale saves what this node has without confirming that it has every acknowledged write. It is
	// the way to save the data of a cluster without a majority.
	Stale bool
	// Program is the build that the backup names.
	Program string
	// Apart keeps a segment as a file of its own, unless there is one of that name: where it is set,
	// no segment is in the backup itself. read returns its bytes.
	Apart func(file string, read func() ([]byte, error)) error
}

// fixed is a group's state on disk, held until it is in a backup.
type fixed struct {
	keeper   *keeper
	manifest backup.Group
	segments []journal.SegmentInfo
	state    io.ReadCloser
	release  func()
}

// Close lets go of the files.
func (f *fixed) Close() error {
	f.release()
	return f.state.Close()
}

// saver makes backups.
type saver struct {
	*base
	saving chan struct{} // one token for the backup that is being made
}

// Backup writes a backup of both groups to w while this node works on. It has each group at one log
// index, with every write acknowledged before the call (unless BackupOptions.Stale). Backup takes a
// snapshot of each group, and copies it and the journal segments that it lists, in constant memory.
// After an error, every reader refuses what was written.
func (n *saver) Backup(
	ctx context.Context, w io.Writer, o BackupOptions,
) (*backup.Manifest, error) {
	select {
	case n.saving <- struct{}{}:
		defer func() { <-n.saving }()
	default:
		return nil, ErrBackupRunning
	}
	setDefault(&o.BytesPerSecond, backupPace)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	n.wg.Go(func() {
		select {
		case <-n.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	m := &backup.Manifest{
		MadeAt: n.config.Now().UnixMilli(), Node: n.config.NodeID, Program: o.Program,
		Cluster: n.config.Cluster, Stale: o.Stale, Apart: o.Apart != nil,
	}
	var parts []*fixed
	defer func() {
		for _, f := range parts {
			if err := f.Close(); err != nil {
				n.config.Log.Warn("close a snapshot", "error", err)
			}
		}
	}()
	for _, g := range n.groups {
		f, err := g.fix(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("group %s: %w", g.name, err)
		}
		parts = append(parts, f)
		m.Groups = append(m.Groups, f.manifest)
	}
	paced := bufio.NewWriterSize(newPacedWriter(ctx, w, o.BytesPerSecond), backupBlock)
	if err := writeBackup(ctx, paced, m, parts, &o); err != nil {
		return nil, err
	}
	return m, paced.Flush()
}

func writeBackup(
	ctx context.Context, w io.Writer, m *backup.Manifest, parts []*fixed, o *BackupOptions,
) error {
	pace := newPacedWriter(ctx, io.Discard, o.BytesPerSecond)
	out, err := backup.NewWriter(w, m)
	if err != nil {
		return err
	}
	for _, f := range parts {
		if err := out.State(f.state); err != nil {
			return err
		}
		for _, info := range f.segments {
			read := func() ([]byte, error) {
				data, err := f.keeper.replica.segments.Copy(info)
				if err != nil {
					return nil, fmt.Errorf("group %s: %w", f.keeper.name, err)
				}
				if o.Apart != nil {
					_, err = pace.Write(data)
				}
				return data, err
			}
			if o.Apart != nil {
				err = o.Apart(backup.SegmentOf(info).File(f.manifest.Shard), read)
			} else if data, failed := read(); failed != nil {
				err = failed
			} else {
				err = out.Segment(bytes.NewReader(data))
			}
			if err != nil {
				return err
			}
		}
	}
	return out.Close()
}

// fix writes the group's present state to disk and holds it there.
func (k *keeper) fix(ctx context.Context, o BackupOptions) (*fixed, error) {
	if !o.Stale {
		if _, outcome := k.reader.BeginRead(time.Now().Add(backupWait)); outcome != engine.OutcomeDone {
			return nil, ErrNotCurrent
		}
	}
	f := &fixed{keeper: k, release: func() {}}
	if k.replica.segments != nil {
		f.release = k.replica.segments.Hold()
	}
	for try := 1; ; try++ {
		err := k.openSnapshot(f)
		if err == nil {
			return f, nil
		}
		if try == snapshotTries || ctx.Err() != nil || !k.pause(ctx, snapshotLook) {
			f.release()
			return nil, errors.Join(err, ctx.Err())
		}
	}
}

// openSnapshot takes a snapshot and opens it.
func (k *keeper) openSnapshot(f *fixed) error {
	if err := k.TakeSnapshot(); err != nil {
		return fmt.Errorf("take a snapshot: %w", err)
	}
	found, err := k.snapshots.List()
	if err != nil {
		return fmt.Errorf("list snapshots: %w", err)
	}
	c := k.replica.content.Load()
	if len(found) == 0 || c == nil {
		return errors.New("there is nothing to save yet")
	}
	newest := found[0]
	if c.id != "" && c.id != newest.ID {
		return errors.New("another snapshot was taken meanwhile")
	}
	meta, state, err := k.snapshots.Open(newest.ID)
	if err != nil {
		return fmt.Errorf("open a snapshot: %w", err)
	}
	f.state, f.segments = state, c.listedSegments
	f.manifest = describeGroup(k, meta, c)
	return nil
}

func describeGroup(k *keeper, meta *raft.SnapshotMeta, c *content) backup.Group {
	m := backup.Group{
		Shard: k.shard, Name: k.name, Index: meta.Index, Term: meta.Term,
		Applied: c.applied, Hash: c.hash, Stamp: c.stamp, StateBytes: meta.Size,
	}
	for _, info := range c.listedSegments {
		m.Segments = append(m.Segments, backup.SegmentOf(info))
	}
	return m
}

// pacedWriter limits the bytes per second.
type pacedWriter struct {
	ctx   context.Context
	w     io.Writer
	limit *rate.Limiter
}

func newPacedWriter(ctx context.Context, w io.Writer, bytesPerSecond int) *pacedWriter {
	return &pacedWriter{ctx, w, rate.NewLimiter(rate.Limit(bytesPerSecond), backupBlock)}
}

// Write waits for the limit and writes.
func (p *pacedWriter) Write(b []byte) (written int, err error) {
	for len(b) > 0 {
		piece := b[:min(len(b), backupBlock)]
		if err := p.limit.WaitN(p.ctx, len(piece)); err != nil {
			return written, fmt.Errorf("cluster: backup given up: %w", err)
		}
		n, err := p.w.Write(piece)
		written += n
		if err != nil {
			return written, err
		}
		b = b[len(piece):]
	}
	return written, nil
}

// Identity is that of the cluster, "" of one that was never restored.
func (n *saver) Identity() string { return n.config.Cluster }

// Folders are the identities of the members' data folders, as far as a leader has met them.
func (n *saver) Folders() (list []string) {
	for _, p := range n.roster() {
		if p.disk != "" {
			list = append(list, p.disk)
		}
	}
	return list
}

const (
	// keptLogBytes is about how many bytes of entries a kept log has at most.
	keptLogBytes = 16 << 20
	// keptLogEntries is how many entries it has at most.
	keptLogEntries = 1 << 20
)

// ErrOtherLog means that the log that was kept before is not that of this cluster.
var ErrOtherLog = errors.New("cluster: the log that was kept before is longer than this " +
	"cluster's: it is another cluster's; keep this one's in another place")

// LogKept says how far a group's log is kept.
type LogKept struct {
	// Last is the last entry, 0 if none is; Until its stamp, or that of the last one before it that
	// has one, in milliseconds since 1970 UTC.
	Last  uint64
	Until int64
	// Lost is how many entries had left this node's log before they were kept, or before any was.
	Lost uint64
}

// KeepLog keeps what a group has committed behind an entry, in pieces, the first of all that this
// node's log has where that is 0. Before that it brings an entry into the log, whose stamp tells
// how far the log comes on a quiet day, and makes sure that this node has it. After an error, what
// it returns was kept all the same.
func (n *saver) KeepLog(
	ctx context.Context, shard uint16, after uint64,
	keep func(l backup.Log, write func(io.Writer) error) error,
) (kept LogKept, err error) {
	k := n.groups[shard].keeper
	kept.Last = after
	if !k.proposer.proposeOwn(engine.Record{Kind: engine.KindTick}) {
		return kept, ErrNotCurrent
	}
	if _, outcome := k.reader.BeginRead(time.Now().Add(backupWait)); outcome != engine.OutcomeDone {
		return kept, ErrNotCurrent
	}
	through := k.progress.index.Load()
	if after > through {
		return kept, fmt.Errorf("%w: group %s: kept up to entry %d, and this cluster's ends at %d",
			ErrOtherLog, k.name, after, through)
	}
	first, err := k.store.FirstIndex()
	if err != nil {
		return kept, err
	}
	if first > after+1 {
		kept.Lost = first - after - 1
	}
	for next := max(after+1, first); next <= through; next = kept.Last + 1 {
		entries, err := k.piece(next, through)
		if err != nil {
			return kept, err
		}
		l := backup.Log{
			Cluster: n.config.Cluster, Shard: shard, First: next, Last: entries[len(entries)-1].Index,
		}
		for _, e := range entries {
			if h, _, err := engine.ParseEntry(e.Data); e.Command && err == nil {
				l.Until = max(l.Until, h.Stamp)
			}
		}
		err = keep(l, func(w io.Writer) error {
			paced := newPacedWriter(ctx, w, backupPace)
			return backup.WriteLog(paced, l, func(index uint64) (backup.LogEntry, error) {
				return entries[index-l.First], nil
			})
		})
		if err != nil {
			return kept, err
		}
		kept.Last, kept.Until = l.Last, max(kept.Until, l.Until)
	}
	return kept, nil
}

// piece reads entries of the log, as many as a kept log has.
func (k *keeper) piece(first, last uint64) (entries []backup.LogEntry, err error) {
	for i, size := first, 0; i <= last && size < keptLogBytes && i-first < keptLogEntries; i++ {
		var l raft.Log
		if err := k.store.GetLog(i, &l); err != nil {
			return nil, fmt.Errorf("cluster: group %s: entry %d of the log: %w", k.name, i, err)
		}
		e := backup.LogEntry{Index: i, Term: l.Term, Command: l.Type == raft.LogCommand}
		if e.Command {
			e.Data = l.Data
		}
		entries, size = append(entries, e), size+len(e.Data)
	}
	return entries, nil
}

// LogBehind estimates how many bytes of a group's log this node has behind an entry.
func (n *saver) LogBehind(shard uint16, after uint64) int64 {
	k := n.groups[shard].keeper
	return k.store.sizeOf(after, k.progress.index.Load())
}
