// Command tollgate runs a node of a Tollgate cluster, runs a whole cluster for development, and
// operates one from outside. There is one file for each command.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"
)

type commands struct {
	Dev     devCommand     `cmd:"" help:"Run a cluster of node processes on this machine, with a demo account."`
	Serve   serveCommand   `cmd:"" help:"Run one node."`
	Replay  replayCommand  `cmd:"" help:"Meter a trace of LLM requests through the public API."`
	Catalog catalogCommand `cmd:"" help:"Apply a catalog document, or see what it would change."`
	Keys    keysCommand    `cmd:"" help:"Create, list and revoke API keys."`
	Cluster clusterCommand `cmd:"" help:"Look at a cluster."`
	Certs   certsCommand   `cmd:"" help:"Make the certificates by which nodes know each other."`
	WAL     walCommand     `cmd:"" name:"wal" help:"Look into a log on disk."`
	Version versionCommand `cmd:"" help:"Say which version this is."`
}

func main() {
	os.Exit(run(os.Args[1:]))
}

// run carries out one command line and returns the exit code: 0 done, 1 failed, 2 no such command
// or flag. A node that must end at once ends the process itself, with cluster.ExitCode.
func run(args []string) int {
	var c commands
	parser, err := kong.New(&c,
		kong.Name("tollgate"),
		kong.Description("Entitlements, metering and invoices that are right to the cent."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tollgate:", err)
		return 2
	}
	command, err := parser.Parse(args)
	if err != nil {
		fmt.Fprintf(os.Stderr, "tollgate: %v\nSee tollgate --help.\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	if err = command.Run(); err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "tollgate:", err)
	return 1
}

// stopSignals end a command cleanly. SIGHUP is left alone where it is ignored (nohup).
func stopSignals() []os.Signal {
	signals := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) {
		signals = append(signals, syscall.SIGHUP)
	}
	return signals
}
