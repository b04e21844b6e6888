// Command tollgate runs a node of a Tollgate cluster, runs a whole cluster for development, and
// operates one from outside. There is one file for each command.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/alecthomas/kong"

	"tollgate/server/provider/runner"
)

type commands struct {
	Dev        devCommand        `cmd:"" group:"run" help:"Run a cluster of node processes on this machine, with a demo account."`
	Serve      serveCommand      `cmd:"" group:"run" help:"Run one node."`
	Replay     replayCommand     `cmd:"" group:"run" help:"Meter a trace of LLM requests through the public API."`
	Tour       tourCommand       `cmd:"" group:"run" help:"Do what a new agent does with the workspace API of a tollgate dev, and print it as curl lines."`
	Accounts   accountsCommand   `cmd:"" group:"bill" help:"Create and list accounts."`
	Keys       keysCommand       `cmd:"" group:"bill" help:"Create, list and revoke API keys."`
	Origins    originsCommand    `cmd:"" group:"bill" help:"List and set the web origins that may use customer keys."`
	Catalog    catalogCommand    `cmd:"" group:"bill" help:"Show the catalog, apply a document, or see what it would change."`
	Customers  customersCommand  `cmd:"" group:"bill" help:"Archive a customer, or erase its personal data."`
	Pools      poolsCommand      `cmd:"" group:"bill" help:"Manage customers' pools of credits."`
	Invoice    invoiceCommand    `cmd:"" group:"bill" aliases:"invoices" help:"Show, explain, verify and void invoices."`
	Payments   paymentsCommand   `cmd:"" group:"bill" help:"Choose who collects invoices, and see what was reported."`
	Webhooks   webhooksCommand   `cmd:"" group:"bill" help:"Manage webhook endpoints, see what was sent, send it again."`
	Workspaces workspacesCommand `cmd:"" group:"bill" help:"Act for the people who own workspaces: approve purchases, set caps, grant credits."`
	Margin     marginCommand     `cmd:"" group:"bill" help:"Show revenue, cost and margin."`
	Clock      clockCommand      `cmd:"" group:"bill" help:"Show or advance the sandbox's test clock."`
	Audit      auditCommand      `cmd:"" group:"operate" help:"List every admin change: who, when, before, after."`
	Backup     backupCommand     `cmd:"" group:"operate" help:"Save the whole cluster while it runs, and check what was saved."`
	Restore    restoreCommand    `cmd:"" group:"operate" help:"Make the data folder of a node of a new cluster from a backup."`
	Cluster    clusterCommand    `cmd:"" group:"operate" help:"Look at a cluster."`
	Ready      readyCommand      `cmd:"" group:"operate" help:"Ask a node whether it is ready to serve, and wait until it is."`
	Doctor     doctorCommand     `cmd:"" group:"operate" help:"Look for what is wrong with a cluster, or will be: clocks, disks, limits, certificates, versions, members, settings."`
	Certs      certsCommand      `cmd:"" group:"operate" help:"Make the certificates by which nodes know each other."`
	WAL        walCommand        `cmd:"" group:"operate" name:"wal" help:"Look into a log on disk."`
	Version    versionCommand    `cmd:"" group:"operate" help:"Say which version this is."`
}

// exitDiffers is the exit code of commands that found an invoice that the journal does not explain.
const exitDiffers = 5

func main() {
	if code, called := runner.Called(os.Args); called {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], os.Stdout))
}

// run carries out one command line and returns the exit code: 0 done, 1 failed, 2 no such command
// or flag, 5 an invoice differs, 6 and 7 doctor found something. A node that must end at once ends
// the process itself, with cluster.ExitCode. Commands that look at something print to out.
func run(args []string, out io.Writer) int {
	var c commands
	parser, err := kong.New(&c,
		kong.Name("tollgate"),
		kong.Description("Entitlements, metering and invoices that are right to the cent."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run:"},
			{Key: "bill", Title: "Bill (through the admin API of a running cluster):"},
			{Key: "operate", Title: "Operate:"},
		}),
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
	command.BindTo(out, (*io.Writer)(nil))
	if err = command.Run(); err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "tollgate:", err)
	switch {
	case errors.Is(err, errDiffers):
		return exitDiffers
	case errors.Is(err, errWarns):
		return exitWarns
	case errors.Is(err, errFails):
		return exitFails
	}
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
