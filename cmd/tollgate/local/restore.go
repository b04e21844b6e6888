package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/archive"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/daemon"
	"tollgate/cmd/tollgate/devdata"
)

// RestoreCommand makes the data folder of a node from a backup.
type RestoreCommand struct {
	daemon.NodeFlags `embed:""`
	Cluster          string    `placeholder:"HEX" help:"Identity of the new cluster, as the restore of its first node printed it. Default: a new one."`
	ToTime           time.Time `placeholder:"2026-11-27T14:03:00Z" help:"Restore the state at this time: FILE is then the folder, or s3://BUCKET/PREFIX, of scheduled backups with logEvery."`
	Of               string    `placeholder:"HEX" help:"With --to-time: the cluster whose backups are taken, where those of several go to that time; \"first\" is one that was never restored."`
	File             string    `arg:"" help:"The backup; - is standard input, s3://BUCKET/FILE is in a bucket."`
}

// errLonely refuses a restore after which a node would be a cluster of its own, and acknowledge
// what the others never hear of.
var errLonely = errors.New("join, or --cluster, means that there are other nodes, and the " +
	"configuration names none: nothing was changed; set members to those of the new cluster, the " +
	"same list on each node")

// Help says how a cluster is restored.
func (c *RestoreCommand) Help() string {
	return "Every node of the new cluster is restored from the same backup, into an empty folder, " +
		"with the configuration that it is then served with. The first restore prints the identity of the " +
		"new cluster; the others get it by --cluster. Nodes of the old cluster cannot mix in. With " +
		"--to-time it takes the newest backup of before that time and goes on by the log that was kept; " +
		"give it the same time on every node."
}

// Run restores one node.
func (c *RestoreCommand) Run(ctx context.Context, out io.Writer) (err error) {
	settings, err := c.Settings()
	if err != nil {
		return err
	}
	if len(settings.Members) == 1 && (settings.Join || c.Cluster != "") {
		return errLonely
	}
	switch {
	case c.Cluster != "":
		settings.Cluster = c.Cluster
	case settings.Cluster == "":
		settings.Cluster = cluster.NewIdentity()
	}
	name, until, err := c.moment(ctx, out)
	if err != nil {
		return err
	}
	src, files, progress, err := openBackup(ctx, name, "restoring")
	if err != nil {
		return err
	}
	shown := sync.OnceFunc(progress.End)
	defer shown()
	defer func() { err = errors.Join(err, src.Close()) }()
	if err := os.MkdirAll(settings.Data, 0o700); err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	unlock, err := devdata.Lock(devdata.NodeLock(settings.Data), false)
	if errors.Is(err, devdata.ErrLocked) {
		return fmt.Errorf("%s is in use: a node runs there; nothing was changed", settings.Data)
	}
	if err != nil {
		return err
	}
	m, err := daemon.Restore(settings, progress.Reading(src), files, until)
	shown()
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	if err := describeBackup(out, "Restored", m); err != nil {
		return err
	}
	if until != nil {
		for _, r := range until.Reached {
			if err := cli.Say(out, "  %s went on to log index %d, of %s", r.Group, r.Index,
				time.UnixMilli(r.Stamp).UTC().Format(momentForm)); err != nil {
				return err
			}
		}
	}
	return cli.Say(out,
		"Cluster %s: restore its other nodes with --cluster %[1]s, then start them all.\n"+
			"Not in the backup, and to be as they were: secretsKey (adminKeyHash, where that is empty), "+
			"without which sealed secrets are unreadable; the authority and its certificates.",
		settings.Cluster)
}

// momentForm is how a stamp is printed, to the millisecond.
const momentForm = "2006-01-02T15:04:05.000Z07:00"

// moment is the backup to restore, and how to go on behind it. It says which one it takes.
func (c *RestoreCommand) moment(
	ctx context.Context, out io.Writer,
) (string, *cluster.Until, error) {
	if c.ToTime.IsZero() {
		if c.Of != "" {
			return "", nil, errors.New("--of chooses the cluster of --to-time, which is not given; " +
				"nothing was changed")
		}
		return c.File, nil, nil
	}
	if info, err := os.Stat(c.File); err == nil && !info.IsDir() {
		return "", nil, fmt.Errorf("%s is a file: want the folder, or bucket, of the backups with "+
			"--to-time; nothing was changed", c.File)
	}
	store, err := archive.Open(c.File)
	if err != nil {
		return "", nil, err
	}
	found, err := archive.Find(ctx, store, c.ToTime, c.Of)
	if err != nil {
		if errors.Is(err, archive.ErrSeveral) {
			err = fmt.Errorf("%w: name one with --of", err)
		}
		return "", nil, fmt.Errorf("%w; nothing was changed", err)
	}
	name := store.Name(found.Backup)
	err = cli.Say(out, "From %s, of cluster %s.", name, found.Cluster)
	return name, &cluster.Until{
		At: c.ToTime, Logs: found.Logs, Open: archive.FilesOf(ctx, store),
	}, err
}
