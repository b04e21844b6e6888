package admin

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"

	"tollgate/server"
	"tollgate/server/form"
)

var (
	// ErrBackupRunning means that the node is already making a backup.
	ErrBackupRunning = errors.New("admin: a backup is being made")
	// ErrNotCurrent means that the node cannot tell whether it has every acknowledged write.
	ErrNotCurrent = errors.New("admin: not known to be current")
)

// BackupMedia is the media type of a backup.
const BackupMedia = "application/octet-stream"

const (
	maxPace = 1 << 16 // MiB a second
	// firstPiece is how much of a backup is there before it is answered: its manifest, mostly.
	firstPiece = 64 << 10
)

func (n *nodeTools) backupRoutes() []server.Route {
	backup := row("GET", Prefix+"/backup", "makeBackup",
		"A backup of the whole cluster, made by this node while it serves, as one stream", n.backup,
		server.Asks(server.InQuery("stale", server.EnumSchema("true", "false"),
			"true backs up this node's own state without asking a leader: for a cluster without a quorum"),
			server.InQuery("mibPerSecond", server.IntSchema(1, maxPace), "the pace; 64 when absent")))
	backup.Responses = []server.Response{{
		Status: 200, About: "The backup; cut off when it could not be finished, and then refused " +
			"by verify and restore", Data: &server.Schema{Type: "string", Format: "binary"},
		Bare: true, Media: BackupMedia,
	}}
	return []server.Route{backup}
}

func (n *nodeTools) backup(x *server.Exchange) *server.Fault {
	stale, fault := switchParam(x, "stale")
	pace, fault2 := paceParam(x)
	if fault = cmp.Or(fault, fault2); fault != nil {
		return fault
	}
	if n.writeBackup == nil {
		return server.FaultConsistency.With("This node makes no backups.")
	}
	ctx, cancel := context.WithCancel(context.Background())
	out, in := io.Pipe()
	body := &backupBody{Reader: bufio.NewReaderSize(out, firstPiece), pipe: out, cancel: cancel}
	name := string(x.RequestID())
	go func() { // ends when the backup does, or when its reader is closed
		err := n.writeBackup(ctx, in, stale, pace)
		if err != nil {
			n.log.Error("no backup was made", "request_id", name, "error", err)
		} else {
			n.log.Info("a backup was made", "request_id", name, "stale", stale)
		}
		in.CloseWithError(err)
	}()
	if _, err := body.Peek(1); err != nil {
		return backupFault(errors.Join(err, body.Close()))
	}
	return x.Stream(200, BackupMedia, body)
}

var faultBackup = server.NewFault(409, "backup_running",
	"This node is already making a backup").With(
	"Nothing was written. Wait for it, or ask another node.")

func backupFault(err error) *server.Fault {
	switch {
	case errors.Is(err, ErrBackupRunning):
		return faultBackup
	case errors.Is(err, ErrNotCurrent):
		return server.FaultConsistency.With("No backup was made: this node cannot tell whether it " +
			"has every acknowledged write. Ask another node; where there is no quorum any more, " +
			"stale=true saves what this node has.")
	}
	return server.FaultInternal
}

// paceParam reads the pace, in bytes a second.
func paceParam(x *server.Exchange) (pace int, fault *server.Fault) {
	text := x.Ctx.QueryArgs().Peek("mibPerSecond")
	if len(text) == 0 {
		return 0, nil
	}
	n, ok := server.WholeNumber(string(text), 1, maxPace)
	if !ok {
		return 0, form.Outside(1, maxPace).Fault("mibPerSecond")
	}
	return int(n) << 20, nil
}

// backupBody is a backup on its way to the client. Closing it ends the backup.
type backupBody struct {
	*bufio.Reader
	pipe   *io.PipeReader
	cancel context.CancelFunc
}

// Close ends the backup, finished or not.
func (b *backupBody) Close() error {
	b.cancel()
	return b.pipe.Close()
}
