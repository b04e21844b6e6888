// Package local has the commands that work on this machine: on files of a node, and on what nodes
// answer about themselves.
package local

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"tollgate/cluster"
	"tollgate/cluster/backup"
	"tollgate/cmd/tollgate/archive"
	"tollgate/cmd/tollgate/bucket"
	"tollgate/cmd/tollgate/cli"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/workspace"
	"tollgate/server/admin"
)

// BackupCommand makes backups and checks them.
type BackupCommand struct {
	Make   backupMakeCommand   `cmd:"" default:"withargs" help:"Save the whole cluster into a file, while it runs."`
	Verify backupVerifyCommand `cmd:"" help:"Check a backup to its last byte. It only reads."`
}

type backupMakeCommand struct {
	cli.AdminFlags `embed:""`
	Stale          bool   `help:"Save what this node has, without asking the leader: for a cluster that has lost its quorum."`
	Rate           int    `default:"64" placeholder:"MIB" help:"How many MiB a second to read and send at most."`
	File           string `arg:"" help:"The file to make, which must not exist; - is standard output, s3://BUCKET/FILE is in a bucket."`
}

// Help says what a backup is.
func (c *backupMakeCommand) Help() string {
	return "The node that answers (choose one with --ops) takes a snapshot of both groups and sends " +
		"them with every journal segment that they list. What was acknowledged before the command " +
		"is in it. It is checked as it comes; the file has its name only when it is whole."
}

// Run makes a backup.
func (c *backupMakeCommand) Run(ctx context.Context, out io.Writer) error {
	node, err := c.Client()
	if err != nil {
		return err
	}
	defer node.Close()
	query := url.Values{"mibPerSecond": {strconv.Itoa(c.Rate)}}
	if c.Stale {
		query.Set("stale", "true")
	}
	path := admin.Prefix + "/backup?" + query.Encode()
	var m *backup.Manifest
	receive := func(to io.Writer) error {
		return node.Stream(ctx, path, func(body io.Reader) (err error) {
			progress := cli.StartProgress("saving", 0)
			defer progress.End()
			m, err = backup.Check(io.TeeReader(body, io.MultiWriter(to, progress)), nil, nil)
			return err
		})
	}
	if c.File == "-" {
		if err = receive(out); err == nil {
			err = describeBackup(os.Stderr, "Saved", m)
		}
		return err
	}
	store, file, err := storeOf(c.File)
	if err == nil {
		err = store.Write(ctx, file, receive)
	}
	if err != nil {
		return err
	}
	return describeBackup(out, "Saved", m)
}

type backupVerifyCommand struct {
	Checksums bool   `help:"Check all checksums and hashes, and do not decode the states: in a few MiB of memory."`
	File      string `arg:"" help:"The backup; - is standard input, s3://BUCKET/FILE is in a bucket."`
}

// Run checks a backup.
func (c *backupVerifyCommand) Run(ctx context.Context, out io.Writer) (err error) {
	machine := emptyMachine
	if c.Checksums {
		machine = nil
	}
	src, files, progress, err := openBackup(ctx, c.File, "checking")
	if err != nil {
		return err
	}
	m, err := backup.Check(bufio.NewReaderSize(progress.Reading(src), 1<<20), files, machine)
	progress.End()
	if err = errors.Join(err, src.Close()); err != nil {
		return err
	}
	return describeBackup(out, "Good", m)
}

// storeOf is where a backup is, and what it is called there.
func storeOf(name string) (archive.Store, string, error) {
	if !strings.HasPrefix(name, bucket.Scheme) {
		return archive.Folder(filepath.Dir(name)), filepath.Base(name), nil
	}
	at := strings.LastIndexByte(name, '/')
	if at < len(bucket.Scheme) || at == len(name)-1 {
		return nil, "", fmt.Errorf("%s: want s3://BUCKET/FILE or s3://BUCKET/PREFIX/FILE", name)
	}
	store, err := archive.Open(name[:at])
	return store, name[at+1:], err
}

// openBackup opens a backup, - is standard input, with what is next to it, and shows how much of it
// was read.
func openBackup(ctx context.Context, name, what string) (
	io.ReadCloser, backup.Files, *cli.Progress, error,
) {
	if name == "-" {
		return os.Stdin, nil, cli.StartProgress(what, 0), nil
	}
	store, file, err := storeOf(name)
	if err != nil {
		return nil, nil, nil, err
	}
	src, size, err := store.Read(ctx, file)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("backup: %w", err)
	}
	return src, archive.FilesOf(ctx, store), cli.StartProgress(what, max(size, 0)), nil
}

// emptyMachine makes the state machine of a group, nil for one that is not known.
func emptyMachine(shard uint16) engine.Machine {
	switch shard {
	case cluster.ShardBilling:
		return billing.New(billing.Config{Shard: shard, Together: cluster.Together})
	case cluster.ShardWorkspace:
		return workspace.New(workspace.Config{Shard: shard})
	}
	return nil
}

// describeBackup says what is in a backup: its point in time is the log index of each group.
func describeBackup(out io.Writer, word string, m *backup.Manifest) error {
	text := fmt.Sprintf("%s: %s of %s, made by %s.", word,
		cli.Size(int64(m.Bytes())), m.Time().Format(time.RFC3339), m.Node)
	if m.Stale {
		text += " No node was asked whether it is current."
	}
	for _, g := range m.Groups {
		text += fmt.Sprintf("\n  %s: log index %d (term %d), %d journal segments, state of %s",
			g.Name, g.Index, g.Term, len(g.Segments),
			time.UnixMilli(g.Stamp).UTC().Format(time.RFC3339))
	}
	return cli.Say(out, "%s", text)
}
