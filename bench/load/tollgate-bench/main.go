// Command tollgate-bench measures Tollgate over HTTP, compares it with what people use in its
// place, and prints what it measured after checking that all that was acknowledged was counted.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/alecthomas/kong"
)

type flags struct {
	Run         runCommand         `cmd:"" default:"withargs" help:"Measure one cluster."`
	Compare     compareCommand     `cmd:"" help:"Measure several systems in turns, and print the ratios."`
	Table       tableCommand       `cmd:"" help:"Measure what Tollgate has to reach, and print what holds."`
	Profile     profileCommand     `cmd:"" help:"Say where the processor time of checks, events and batches goes, part by part."`
	Regressions regressionsCommand `cmd:"" help:"Fail where benchmarks got worse (make bench-compare)."`
	Flood       floodCommand       `cmd:"" hidden:"" help:"Be the flood of the table's row."`
	Front       frontCommand       `cmd:"" hidden:"" help:"Be the HTTP front of a peer."`
}

func main() {
	var f flags
	command := kong.Parse(&f, kong.Name("tollgate-bench"), kong.Description(
		"Measures Tollgate over HTTP, alongside other systems, and verifies what they counted."))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	command.BindTo(ctx, (*context.Context)(nil))
	if command.Command() != frontArgument {
		debug.SetGCPercent(400) // the generator's own share of the machine should be small
	}
	err := command.Run()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "tollgate-bench:", err)
		os.Exit(1)
	}
}
