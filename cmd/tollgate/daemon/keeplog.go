package daemon

import (
	"context"
	"errors"
	"io"
	"time"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/archive"
)

const (
	// logLook is how often a node looks whether the log is to be kept.
	logLook = time.Second
	// logMuch is how much of a group's log is kept before its time, so that none is deleted before:
	// a snapshot leaves snapshots.trailingMiB.
	logMuch = 32 << 20
)

// logSchedule keeps the log between two backups.
type logSchedule struct {
	*node
	store archive.Store
	// last is how far the log is kept, by group; nil if that has to be found out.
	last map[uint16]uint64
	// due is when it is kept next.
	due time.Time
}

// keepLogOnSchedule keeps the log, where this node is the one that makes backups.
func (n *node) keepLogOnSchedule() {
	if n.settings.Backups.Folder == "" || n.settings.Backups.LogEvery == 0 {
		return
	}
	s := &logSchedule{node: n}
	ctx, cancel := n.untilClosing(context.Background())
	defer cancel()
	for {
		select {
		case <-time.After(logLook):
			s.step(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// step keeps the log if it is time.
func (s *logSchedule) step(ctx context.Context) {
	if !s.saves() {
		s.last = nil // another node goes on
		return
	}
	if time.Now().Before(s.due) && !s.grown() {
		return
	}
	err := s.keep(ctx)
	s.due = time.Now().Add(s.settings.Backups.LogEvery)
	switch {
	case err == nil || ctx.Err() != nil:
	case errors.Is(err, cluster.ErrNotCurrent): // an election, or no majority: other alerts say so
		s.log.Warn("the log is not kept", "error", err)
	default:
		s.last = nil
		s.backups.fails()
		s.log.Error("a scheduled backup failed", "folder", s.settings.Backups.Folder, "error", err)
	}
}

// grown reports whether a group has much log that is not kept.
func (s *logSchedule) grown() bool {
	for shard, last := range s.last {
		if s.cluster.LogBehind(shard, last) > logMuch {
			return true
		}
	}
	return false
}

// keep keeps the log of each group.
func (s *logSchedule) keep(ctx context.Context) (err error) {
	if s.store == nil {
		if s.store, err = archive.Open(s.settings.Backups.Folder); err != nil {
			return err
		}
	}
	if s.last == nil {
		s.last, err = archive.LastKept(ctx, s.store, s.cluster.Identity())
		if err != nil {
			return err
		}
	}
	until := int64(0)
	for _, shard := range []uint16{cluster.ShardBilling, cluster.ShardWorkspace} {
		kept, failed := s.cluster.KeepLog(ctx, shard, s.last[shard],
			func(l backup.Log, write func(io.Writer) error) error {
				return archive.KeepLog(ctx, s.store, l, write)
			})
		if kept.Lost > 0 {
			s.log.Warn("entries had left the log before they were kept: no restore can go to their time",
				"shard", shard, "behind", s.last[shard], "entries", kept.Lost)
		}
		s.last[shard] = kept.Last
		if until == 0 || kept.Until < until {
			until = kept.Until
		}
		err = errors.Join(err, failed)
	}
	if err == nil {
		s.backups.logUntil.Set(float64(until) / 1000)
	}
	return err
}
