package daemon

import (
	"context"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/archive"
	"tollgate/cmd/tollgate/bucket"
)

const (
	// scheduleLook is how often a node looks whether a backup is due.
	scheduleLook = 5 * time.Second
	// bucketLook is the same of backups in a bucket, where each look is a request that costs, and
	// othersLook of the nodes that make none there: for their metric.
	bucketLook = time.Minute
	othersLook = 10 * time.Minute
	// scheduleRetry is how long it waits after one that failed.
	scheduleRetry = 5 * time.Minute
)

// backupMetrics say how scheduled backups go on this node.
type backupMetrics struct {
	made, failed, logFailed      prometheus.Counter
	lastSuccess, bytes, duration prometheus.Gauge
	logUntil                     prometheus.Gauge
	// newest is when the newest was begun, failures what failed counts, and logFailures logFailed.
	newest                atomic.Pointer[time.Time]
	failures, logFailures atomic.Uint64
	// wanted: a backup is due, since no kept log goes on behind the newest one; at most one each
	// wantedEvery.
	wanted atomic.Bool
}

// knows takes in when the newest backup was begun.
func (m *backupMetrics) knows(begun time.Time) {
	m.lastSuccess.Set(float64(begun.Unix()))
	m.newest.Store(&begun)
}

// fails counts one that could not be made.
func (m *backupMetrics) fails() {
	m.failed.Inc()
	m.failures.Add(1)
}

// losesLog counts a log that could not be kept, or was lost before it was.
func (m *backupMetrics) losesLog() {
	m.logFailed.Inc()
	m.logFailures.Add(1)
}

func newBackupMetrics(registry *prometheus.Registry) *backupMetrics {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(registry).NewCounter(
			prometheus.CounterOpts{Name: "tollgate_" + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return promauto.With(registry).NewGauge(
			prometheus.GaugeOpts{Name: "tollgate_" + name, Help: help})
	}
	return &backupMetrics{
		made: counter("backups_made_total", "Scheduled backups that were made, and read back."),
		failed: counter("backups_failed_total",
			"Scheduled backups that could not be made."),
		logFailed: counter("backup_logs_failed_total",
			"Logs that could not be kept, or of which entries were lost before they were."),
		lastSuccess: gauge("backup_last_success_timestamp_seconds",
			"When the newest proven backup was begun that this node knows of; 0 for none."),
		bytes:    gauge("backup_last_bytes", "What the last one that this node made holds."),
		duration: gauge("backup_last_seconds", "What it took, reading it back included."),
		logUntil: gauge("backup_log_until_timestamp_seconds",
			"Up to when this node has kept the log; 0 for not at all."),
	}
}

// schedule makes the backups of a node.
type schedule struct {
	*node
	plan   *archive.Plan // nil until its store could be named
	looked time.Time
	// claimed reports whether the store was found to be this cluster's since the newest backup.
	claimed bool
}

// saveOnSchedule makes backups when they are due, where this node is the one that does.
func (n *node) saveOnSchedule() {
	if n.settings.Backups.Folder == "" {
		return
	}
	s := &schedule{node: n}
	ctx, cancel := n.untilClosing(context.Background())
	defer cancel()
	for {
		select {
		case <-time.After(s.step(ctx)):
		case <-ctx.Done():
			return
		}
	}
}

// step makes a backup if one is due, and returns how long to wait for the next step.
func (s *schedule) step(ctx context.Context) (wait time.Duration) {
	folder, saves := s.settings.Backups.Folder, s.saves()
	wait = scheduleLook
	if strings.HasPrefix(folder, bucket.Scheme) {
		if wait = bucketLook; !saves && time.Since(s.looked) < othersLook {
			return wait
		}
	}
	s.looked = time.Now()
	err := s.openStore()
	if err == nil {
		err = s.saveIfDue(ctx, saves)
	}
	if err != nil && saves && ctx.Err() == nil { // it is not for the others to complain
		s.backups.fails()
		s.log.Error("a scheduled backup failed", "folder", folder, "again in", scheduleRetry,
			"error", err)
		wait = scheduleRetry
	}
	return wait
}

// openStore names the store, unless it is named already.
func (s *schedule) openStore() error {
	b := &s.settings.Backups
	if s.plan != nil {
		return nil
	}
	store, err := archive.Open(b.Folder)
	if err == nil {
		s.plan = &archive.Plan{
			Store: store, Apart: b.Incremental, Alone: b.Node != "", Every: b.Every, Daily: b.Daily(),
			Keep: b.Keep, KeepFor: b.KeepFor,
		}
	}
	return err
}

// saves reports whether it is for this node to make backups.
func (n *node) saves() bool {
	if named := n.settings.Backups.Node; named != "" {
		return named == n.settings.Node
	}
	_, leads := n.cluster.Billing().Leads()
	return leads
}

func (s *schedule) saveIfDue(ctx context.Context, saves bool) error {
	list, err := s.plan.List(ctx)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		s.backups.knows(list[0].Begun)
	}
	if !saves {
		s.claimed = false
		return nil
	}
	if !s.claimed {
		s.claimed, err = archive.Claim(ctx, s.plan.Store, s.cluster.Identity(), s.cluster.Folders())
		if err != nil {
			return err
		}
	}
	if s.settings.Backups.LogEvery > 0 {
		if own, err := s.plan.Of(ctx, list, s.cluster.Identity()); err == nil {
			list = own
		} else { // the schedule goes by all of them: no backup is left out for one that is unreadable
			s.log.Warn("it is not known of which cluster a backup is",
				"folder", s.settings.Backups.Folder, "error", err)
		}
	}
	now := time.Now()
	wanted := s.backups.wanted.Swap(false)
	if !(wanted && isOldEnough(list, now)) && s.plan.Due(list, now).After(now) {
		if wanted {
			s.backups.wanted.Store(true)
		}
		return nil
	}
	options := cluster.BackupOptions{
		Program: Version(), BytesPerSecond: s.settings.Backups.MiBPerSecond << 20,
	}
	made, err := s.plan.Make(ctx, now, func(
		ctx context.Context, w io.Writer, keep archive.Keep,
	) error {
		options.Apart = keep
		_, err := s.cluster.Backup(ctx, w, options)
		return err
	})
	if made.Name != "" {
		took := time.Since(now)
		s.claimed = false
		s.backups.made.Inc()
		s.backups.knows(made.Begun)
		s.backups.bytes.Set(float64(made.Bytes))
		s.backups.duration.Set(took.Seconds())
		s.log.Info("a scheduled backup was made", "file", made.Name, "bytes", made.Bytes, "took", took)
	}
	// One that had only to be proven is of before the gap.
	if wanted && (made.Name == "" || made.Begun.Before(now.Truncate(time.Second))) {
		s.backups.wanted.Store(true)
	}
	if made.Warning != nil {
		s.log.Warn("look at the backups", "folder", s.settings.Backups.Folder, "error", made.Warning)
	}
	return err
}

// wantedEvery is how far backups that a gap in the kept log asks for are apart, at least: a log
// that is lost faster than it is kept does not fill the folder with them.
const wantedEvery = time.Hour

// isOldEnough reports whether the newest backup is old enough for one that the schedule does not
// ask for.
func isOldEnough(list []archive.Backup, now time.Time) bool {
	return len(list) == 0 || now.Sub(list[0].Begun) >= wantedEvery
}
