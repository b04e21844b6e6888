package daemon

import (
	"context"
	"io"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/archive"
)

const (
	// scheduleLook is how often a node looks whether a backup is due.
	scheduleLook = 5 * time.Second
	// bucketLook is the same of backups in a bucket, where each look is a request that costs.
	bucketLook = time.Minute
	// scheduleRetry is how long it waits after one that failed.
	scheduleRetry = 5 * time.Minute
)

// backupMetrics say how scheduled backups go on this node.
type backupMetrics struct {
	made, failed                 prometheus.Counter
	lastSuccess, bytes, duration prometheus.Gauge
	// newest is when the newest was begun, failures what failed counts.
	newest   atomic.Pointer[time.Time]
	failures atomic.Uint64
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
		made:   counter("backups_made_total", "Scheduled backups that were made, and read back."),
		failed: counter("backups_failed_total", "Scheduled backups that could not be made."),
		lastSuccess: gauge("backup_last_success_timestamp_seconds",
			"When the newest backup was begun that this node knows of; 0 for none."),
		bytes:    gauge("backup_last_bytes", "What the last one that this node made holds."),
		duration: gauge("backup_last_seconds", "What it took, reading it back included."),
	}
}

// saveOnSchedule makes backups when they are due, where this node is the one that does.
func (n *node) saveOnSchedule() {
	s := &n.settings.Backups
	if s.Folder == "" {
		return
	}
	store, err := archive.Open(s.Folder)
	if err != nil {
		n.backups.fails()
		n.log.Error("no scheduled backups are made", "folder", s.Folder, "error", err)
		return
	}
	plan := &archive.Plan{
		Store: store, Apart: s.Incremental, Every: s.Every, Daily: s.Daily(),
		Keep: s.Keep, KeepFor: s.KeepFor,
	}
	look := scheduleLook
	if _, local := store.(archive.Folder); !local {
		look = bucketLook
	}
	ctx, cancel := n.untilClosing(context.Background())
	defer cancel()
	for {
		wait := look
		if err := n.saveIfDue(ctx, plan); err != nil && ctx.Err() == nil {
			n.backups.fails()
			n.log.Error("a scheduled backup failed", "folder", s.Folder, "again in", scheduleRetry,
				"error", err)
			wait = scheduleRetry
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// saves reports whether it is for this node to make backups.
func (n *node) saves() bool {
	if named := n.settings.Backups.Node; named != "" {
		return named == n.settings.Node
	}
	_, leads := n.cluster.Billing().Leads()
	return leads
}

func (n *node) saveIfDue(ctx context.Context, plan *archive.Plan) error {
	list, err := plan.List(ctx)
	if err != nil && n.saves() { // it is not for the others to complain
		return err
	}
	now := time.Now()
	if len(list) > 0 {
		n.backups.knows(list[0].Begun)
	}
	if err != nil || !n.saves() || plan.Due(list, now).After(now) {
		return nil
	}
	options := cluster.BackupOptions{
		Program: Version(), BytesPerSecond: n.settings.Backups.MiBPerSecond << 20,
	}
	made, bytes, err := plan.Make(ctx, now, func(
		ctx context.Context, w io.Writer, keep archive.Keep,
	) error {
		options.Apart = keep
		_, err := n.cluster.Backup(ctx, w, options)
		return err
	})
	if made.Name != "" {
		took := time.Since(now)
		n.backups.made.Inc()
		n.backups.knows(made.Begun)
		n.backups.bytes.Set(float64(bytes))
		n.backups.duration.Set(took.Seconds())
		n.log.Info("a scheduled backup was made", "file", made.Name, "bytes", bytes, "took", took)
	}
	return err
}
