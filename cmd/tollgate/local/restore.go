package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/daemon"
	"tollgate/cmd/tollgate/devdata"
)

// RestoreCommand makes the data folder of a node from a backup.
type RestoreCommand struct {
	daemon.NodeFlags `embed:""`
	Cluster          string `placeholder:"HEX" help:"Identity of the new cluster, as the restore of its first node printed it. Default: a new one."`
	File             string `arg:"" help:"The backup; - is standard input, s3://BUCKET/FILE is in a bucket."`
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
		"new cluster; the others get it by --cluster. Nodes of the old cluster cannot mix in."
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
	src, files, progress, err := openBackup(ctx, c.File, "restoring")
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
	m, err := daemon.Restore(settings, progress.Reading(src), files)
	shown()
	if err = errors.Join(err, unlock()); err != nil {
		return err
	}
	if err := describeBackup(out, "Restored", m); err != nil {
		return err
	}
	return cli.Say(out,
		"Cluster %s: restore its other nodes with --cluster %[1]s, then start them all.\n"+
			"Not in the backup, and to be as they were: secretsKey (adminKeyHash, where that is empty), "+
			"without which sealed secrets are unreadable; the authority and its certificates.",
		settings.Cluster)
}
