package daemon

import (
	"context"
	"errors"
	"io"
	"math"
	"time"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/archive"
)

const (
	// logLook is how often a node looks whether the log is to be kept.
	logLook = time.Second
	// logRetry is when it is tried again, at the latest, after it could not be kept.
	logRetry = 30 * time.Second
	// logMuch is how much of a group's log is kept before its time, so that none is deleted before:
	// a snapshot leaves snapshots.trailingMiB.
	logMuch = 32 << 20
)

// keptLog is the log of a node's groups: see cluster.Node.
type keptLog interface {
	Identity() string
	Folders() []string
	LogBehind(shard uint16, after uint64) int64
	KeepLog(
		ctx context.Context, shard uint16, after uint64,
		keep func(l backup.Log, write func(io.Writer) error) error,
	) (cluster.LogKept, error)
}

// logSchedule keeps the log between two backups.
type logSchedule struct {
	*node
	from  keptLog
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
	s := &logSchedule{node: n, from: n.cluster}
	ctx, cancel := n.untilClosing(context.Background())
	defer cancel()
	for {
		select {
		case <-time.After(logLook):
			s.step(ctx, time.Now())
		case <-ctx.Done():
			return
		}
	}
}

// step keeps the log if it is time.
func (s *logSchedule) step(ctx context.Context, now time.Time) {
	if !s.saves() {
		s.last = nil // another node goes on
		return
	}
	if now.Before(s.due) && !s.grown() {
		return
	}
	all, err := s.keep(ctx)
	if s.due = now.Add(s.settings.Backups.LogEvery); !all || err != nil {
		s.due = now.Add(min(s.settings.Backups.LogEvery, logRetry))
	}
	if err != nil {
		s.last = nil
	}
	if err != nil && ctx.Err() == nil {
		s.backups.losesLog()
		s.log.Error("the log was not kept: a restore cannot go to the time since",
			"folder", s.settings.Backups.Folder, "again in", logRetry, "error", err)
	}
}

// grown reports whether a group has much log that is not kept.
func (s *logSchedule) grown() bool {
	for shard, last := range s.last {
		if s.from.LogBehind(shard, last) > logMuch {
			return true
		}
	}
	return false
}

// keep keeps the log of each group; all reports whether it did, but for errors. No group goes by
// another one's.
func (s *logSchedule) keep(ctx context.Context) (all bool, err error) {
	if s.store == nil {
		if s.store, err = archive.Open(s.settings.Backups.Folder); err != nil {
			return false, err
		}
	}
	if s.last == nil {
		claimed, err := archive.Claim(ctx, s.store, s.from.Identity(), s.from.Folders())
		if err != nil {
			return false, err
		}
		if !claimed { // else the pieces of two clusters become one log
			s.log.Warn("the log is not kept yet: the data folders of the members are not known",
				"again in", logRetry)
			return false, nil
		}
		s.last, err = archive.LastKept(ctx, s.store, s.from.Identity())
		if err != nil {
			return false, err
		}
		s.findGap(ctx)
	}
	all = true
	until := int64(math.MaxInt64)
	for _, shard := range []uint16{cluster.ShardBilling, cluster.ShardWorkspace} {
		after := s.last[shard]
		kept, failed := s.from.KeepLog(ctx, shard, after,
			func(l backup.Log, write func(io.Writer) error) error {
				return archive.KeepLog(ctx, s.store, l, write)
			})
		if kept.Last > after { // else it is lost in the next try as well, or it is not
			s.lost(shard, after, kept.Lost)
		}
		s.last[shard] = kept.Last
		until = min(until, kept.Until)
		switch {
		case failed == nil:
		case errors.Is(failed, cluster.ErrNotCurrent): // an election, or no majority: other alerts say so
			all = false
			s.log.Warn("the log is not kept now", "shard", shard, "again in", logRetry, "error", failed)
		default:
			err = errors.Join(err, failed)
		}
	}
	if all && err == nil {
		s.backups.logUntil.Set(float64(until) / 1000)
	}
	return all, err
}

// findGap asks for a backup where one was wanted when this node began, or took this over.
func (s *logSchedule) findGap(ctx context.Context) {
	plan := archive.Plan{Store: s.store}
	gap, err := plan.Gap(ctx, s.from.Identity())
	if gap {
		s.backups.wanted.Store(true)
	}
	if err != nil { // what was kept is not in question
		s.log.Warn("it is not known whether a backup is wanted, since entries of the log are missing",
			"folder", s.settings.Backups.Folder, "error", err)
	}
}

// lost records that entries had left the log before they were kept. The next backup goes on behind
// them, so one is asked for.
func (s *logSchedule) lost(shard uint16, after, entries uint64) {
	if entries == 0 {
		return
	}
	s.backups.wanted.Store(true)
	if after == 0 { // it begins
		return
	}
	s.backups.losesLog()
	s.log.Error("entries had left the log before they were kept: no restore can go to their time; "+
		"a backup follows", "shard", shard, "behind", after, "entries", entries)
}
