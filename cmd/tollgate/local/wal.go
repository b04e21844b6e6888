package local

import (
	"os"

	"tollgate/cmd/tollgate/cli"
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
	options := wal.DumpOptions{SummaryOnly: c.Summary}
	if c.Summary { // else each line shows how far it is
		progress := cli.StartProgress("reading "+c.Dir, sizeOf(c.Dir))
		defer progress.End()
		options.Read = progress.Add
	}
	return wal.Dump(os.Stdout, c.Dir, options)
}

// sizeOf is how many bytes the files of a folder have; 0 where they cannot be looked at.
func sizeOf(dir string) (size int64) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			size += info.Size()
		}
	}
	return size
}
