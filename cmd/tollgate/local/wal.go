package local

import (
	"os"

	"tollgate/wal"
)

// WALCommand looks into a log on disk.
type WALCommand struct {
	Dump walDumpCommand `cmd:"" help:"Print a log and check every record. It only reads."`
}

type walDumpCommand struct {
	Summary bool   `help:"Leave out the line for each record."`
	Dir     string `arg:"" type:"existingdir" help:"Folder of the log: billing/log or workspace/log in a node's data folder."`
}

// Run prints the log.
func (c *walDumpCommand) Run() error {
	return wal.Dump(os.Stdout, c.Dir, wal.DumpOptions{SummaryOnly: c.Summary})
}
