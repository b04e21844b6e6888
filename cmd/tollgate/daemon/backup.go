package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/config"
	"tollgate/server/admin"
)

// backup writes a backup for the operations listener.
func (n *node) backup(ctx context.Context, w io.Writer, stale bool, pace int) error {
	ctx, cancel := n.untilClosing(ctx)
	defer cancel()
	_, err := n.cluster.Backup(ctx, w, cluster.BackupOptions{
		Stale: stale, BytesPerSecond: pace, Program: Version(),
	})
	switch {
	case errors.Is(err, cluster.ErrBackupRunning):
		return fmt.Errorf("%w: %w", admin.ErrBackupRunning, err)
	case errors.Is(err, cluster.ErrNotCurrent):
		return fmt.Errorf("%w: %w", admin.ErrNotCurrent, err)
	}
	return err
}

// untilClosing is a context that ends when the node begins to stop.
func (n *node) untilClosing(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	go func() {
		select {
		case <-n.closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// Restore makes the data folder of a node from a backup, and the files next to it; until is nil, or
// how it goes on behind the backup.
func Restore(
	settings config.Config, src io.Reader, files backup.Files, until *cluster.Until,
) (*backup.Manifest, error) {
	settings.LimitMemory()
	n := newNode(settings, slog.New(slog.DiscardHandler))
	c, err := n.clusterConfig()
	if err != nil {
		return nil, err
	}
	from := bufio.NewReaderSize(src, 1<<20)
	if until == nil {
		return cluster.Restore(c, from, files)
	}
	return cluster.RestoreUntil(c, from, files, until)
}
