package archive

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/bucket"
)

// logSpare is how much longer kept logs stay than a backup that makes them superfluous: stamps are
// by the leader's clock, and the begin of a backup by that of the node that makes it.
const logSpare = time.Hour

// KeepLog keeps a piece of the log, and reads it back: one that is not what was written is removed.
// One that could not be read back stays; LastKept reads it again.
func KeepLog(
	ctx context.Context, s Store, l backup.Log, write func(io.Writer) error,
) error {
	file := l.File()
	err := s.Replace(ctx, file, write)
	if err != nil {
		return err
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

// LastKept is how far the log of each group of a cluster is kept. It reads the last piece of each,
// which a crash, or an error, may have left without that: those that are not what was written go.
// It makes the store ready for more.
func LastKept(ctx context.Context, s Store, cluster string) (map[uint16]uint64, error) {
	err := s.Begin(ctx, func(file string) bool {
		l, ok := backup.ParseLog(file)
		return ok && l.Cluster == cluster
	})
	if err != nil {
		return nil, err
	}
	files, err := s.List(ctx, backup.LogPrefix(cluster))
	if err != nil {
		return nil, err
	}
	logs := logsAmong(files)
	slices.SortFunc(logs, func(a, b backup.Log) int { return cmp.Compare(b.Last, a.Last) })
	last := map[uint16]uint64{}
	for _, l := range logs {
		if last[l.Shard] > 0 {
			continue
		}
		err := checkLog(ctx, s, l)
		if damaged(err) { // or it was the reading
			err = checkLog(ctx, s, l)
		}
		if damaged(err) {
			if err = s.Remove(ctx, l.File()); err == nil {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.Name(l.File()), err)
		}
		last[l.Shard] = l.Last
	}
	return last, nil
}

// Gap reports whether no restore of the newest proven backup of a cluster goes on by all of the log
// that was kept behind it, so that another backup is wanted. Of a cluster without a backup the
// schedule makes one anyway.
func (p *Plan) Gap(ctx context.Context, cluster string) (bool, error) {
	list, err := p.List(ctx)
	if err == nil {
		list, err = p.Of(ctx, list, cluster)
	}
	if err != nil || len(list) == 0 {
		return false, err
	}
	m, err := p.manifest(ctx, list[0].Name)
	if err != nil {
		return false, fmt.Errorf("%s: %w", p.Store.Name(list[0].Name), err)
	}
	files, err := p.Store.List(ctx, backup.LogPrefix(cluster))
	if err != nil {
		return false, err
	}
	logs := logsAmong(files)
	return slices.ContainsFunc(m.Groups, func(g backup.Group) bool {
		return backup.Gap(logs, &g, cluster)
	}), nil
}

func logsAmong(files []bucket.File) (logs []backup.Log) {
	for _, f := range files {
		if l, ok := backup.ParseLog(f.Name); ok {
			logs = append(logs, l)
		}
	}
	return logs
}

// pruneLogs deletes the logs of before the oldest backup. A piece without a time stays: it may be a
// link between two that stay.
func (p *Plan) pruneLogs(ctx context.Context, files []bucket.File) (err error) {
	list := backupsAmong(files)
	if len(list) == 0 {
		return nil
	}
	oldest := list[len(list)-1].Begun.Add(-logSpare).UnixMilli()
	for _, l := range logsAmong(files) {
		if l.Until > 0 && l.Until < oldest {
			err = errors.Join(err, p.Store.Remove(ctx, l.File()))
		}
	}
	return err
}

// Moment is what the state at an instant is restored from.
type Moment struct {
	// Cluster is what the cluster is called: see backup.ClusterName.
	Cluster string
	// Backup is the name of its newest backup of before it, and Logs what goes on behind it, by the
	// group's shard.
	Backup string
	Logs   map[uint16][]backup.Log
}

// Find finds what the state at an instant is restored from. It is backup.ErrNotKept if the store
// has not all of it, and ErrSeveral if it has that of several clusters and of is empty; else of
// names the cluster.
func Find(ctx context.Context, s Store, at time.Time, of string) (m Moment, err error) {
	files, err := s.List(ctx, "")
	if err != nil {
		return m, fmt.Errorf("backups: %w", err)
	}
	list := slices.DeleteFunc(backupsAmong(files), func(b Backup) bool { return !b.proven })
	if len(list) == 0 {
		return m, fmt.Errorf("%w: there is no proven backup in %s", backup.ErrNotKept, s.Name(""))
	}
	logs := logsAmong(files)
	reach := map[string]bool{} // the clusters whose logs come so far, and have no backup yet
	for _, l := range logs {
		if l.Until > at.UnixMilli() {
			reach[backup.ClusterName(l.Cluster)] = true
		}
	}
	var found []Moment
	var failed error
	tried := map[string]bool{}
	for _, b := range list {
		if b.Begun.After(at.Add(logSpare)) {
			continue
		}
		manifest, err := (&Plan{Store: s}).manifest(ctx, b.Name)
		if err != nil { // the same logs may lead there from an older one
			failed = cmp.Or(failed, fmt.Errorf("%s: %w", s.Name(b.Name), err))
			continue
		}
		name := backup.ClusterName(manifest.Cluster)
		if tried[name] || of != "" && of != name || isLater(manifest, at) {
			continue
		}
		tried[name] = true
		m, err := momentBehind(b, manifest, logs, at)
		if err == nil {
			found = append(found, m)
		} else if failed == nil {
			failed = err
		}
		if delete(reach, name); len(reach) == 0 || of != "" {
			break
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) > 1:
		var names []string
		for _, m := range found {
			names = append(names, m.Cluster)
		}
		return m, fmt.Errorf("%w: %s", ErrSeveral, strings.Join(names, ", "))
	case failed != nil:
		return m, failed
	case of != "":
		return m, fmt.Errorf("%w: there is no proven backup of cluster %s of before that time in %s",
			backup.ErrNotKept, of, s.Name(""))
	}
	return m, fmt.Errorf("%w: the oldest proven backup is of %s: want a time after it",
		backup.ErrNotKept, list[len(list)-1].Begun.Format(time.RFC3339))
}

// ErrSeveral means that several clusters kept what they had at an instant.
var ErrSeveral = errors.New("backups of several clusters go to that moment")

// isLater reports whether a backup has something of after an instant.
func isLater(m *backup.Manifest, at time.Time) bool {
	return slices.ContainsFunc(m.Groups, func(g backup.Group) bool { return g.Stamp > at.UnixMilli() })
}

// momentBehind is an instant that a backup, and the logs behind it, have.
func momentBehind(
	b Backup, manifest *backup.Manifest, logs []backup.Log, at time.Time,
) (m Moment, err error) {
	m = Moment{backup.ClusterName(manifest.Cluster), b.Name, map[uint16][]backup.Log{}}
	for i := range manifest.Groups {
		g := &manifest.Groups[i]
		if m.Logs[g.Shard], err = backup.Chain(logs, g, manifest.Cluster, at); err != nil {
			return m, err
		}
	}
	return m, nil
}
