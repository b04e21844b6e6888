package archive

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
)

// logSpare is how much longer kept logs stay than a backup that makes them superfluous: stamps are
// by the leader's clock, and the begin of a backup by that of the node that makes it.
const logSpare = time.Hour

// KeepLog keeps a piece of the log, and reads it back: one that is not what was written is removed.
func KeepLog(
	ctx context.Context, s Store, l backup.Log, write func(io.Writer) error,
) error {
	file := l.File()
	err := s.Replace(ctx, file, write)
	if err != nil {
		return fmt.Errorf("the log was not kept: %w", err)
	}
	if err = checkLog(ctx, s, l); damaged(err) {
		err = errors.Join(err, s.Remove(ctx, file))
	}
	if err != nil {
		return fmt.Errorf("%s was written and could not be read back: %w", s.Name(file), err)
	}
	return nil
}

func checkLog(ctx context.Context, s Store, l backup.Log) error {
	src, _, err := s.Read(ctx, l.File())
	if err != nil {
		return err
	}
	read, err := backup.ReadLog(bufio.NewReaderSize(src, 1<<20),
		func(backup.LogEntry) error { return nil })
	if err == nil && read != l {
		err = fmt.Errorf("%w: it is another one", backup.ErrDamaged)
	}
	return errors.Join(err, src.Close())
}

// LastKept is how far the log of each group of a cluster is kept.
func LastKept(ctx context.Context, s Store, cluster string) (map[uint16]uint64, error) {
	files, err := s.List(ctx, backup.LogPrefix(cluster))
	if err != nil {
		return nil, err
	}
	last := map[uint16]uint64{}
	for _, l := range logsAmong(files) {
		last[l.Shard] = max(last[l.Shard], l.Last)
	}
	return last, nil
}

func logsAmong(files []bucket.File) (logs []backup.Log) {
	for _, f := range files {
		if l, ok := backup.ParseLog(f.Name); ok {
			logs = append(logs, l)
		}
	}
	return logs
}

// pruneLogs deletes the logs of before the oldest backup.
func (p *Plan) pruneLogs(ctx context.Context, files []bucket.File) (err error) {
	list := backupsAmong(files)
	if len(list) == 0 {
		return nil
	}
	oldest := list[len(list)-1].Begun.Add(-logSpare).UnixMilli()
	for _, l := range logsAmong(files) {
		if l.Until < oldest {
			err = errors.Join(err, p.Store.Remove(ctx, l.File()))
		}
	}
	return err
}

// Moment is what the state at an instant is restored from.
type Moment struct {
	// Backup is the name of the newest backup of before it, and Logs what goes on behind it, by the
	// group's shard.
	Backup string
	Logs   map[uint16][]backup.Log
}

// Find finds what the state at an instant is restored from. It is backup.ErrNotKept if the store
// has not all of it.
func Find(ctx context.Context, s Store, at time.Time) (m Moment, err error) {
	files, err := s.List(ctx, "")
	if err != nil {
		return m, fmt.Errorf("backups: %w", err)
	}
	list := slices.DeleteFunc(backupsAmong(files), func(b Backup) bool { return !b.proven })
	if len(list) == 0 {
		return m, fmt.Errorf("%w: there is no proven backup in %s", backup.ErrNotKept, s.Name(""))
	}
	for _, b := range list {
		if b.Begun.After(at.Add(logSpare)) {
			continue
		}
		manifest, err := (&Plan{Store: s}).manifest(ctx, b.Name)
		if err != nil {
			return m, fmt.Errorf("%s: %w", s.Name(b.Name), err)
		}
		if slices.ContainsFunc(manifest.Groups, func(g backup.Group) bool {
			return g.Stamp > at.UnixMilli()
		}) {
			continue
		}
		m = Moment{Backup: b.Name, Logs: map[uint16][]backup.Log{}}
		for i := range manifest.Groups {
			g := &manifest.Groups[i]
			m.Logs[g.Shard], err = backup.Chain(logsAmong(files), g, manifest.Cluster, at)
			if err != nil {
				return m, err
			}
		}
		return m, nil
	}
	return m, fmt.Errorf("%w: the oldest proven backup is of %s: want a time after it",
		backup.ErrNotKept, list[len(list)-1].Begun.Format(time.RFC3339))
}
