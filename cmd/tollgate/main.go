// Command tollgate runs a node of a Tollgate cluster, runs a whole cluster for development, and
// operates one from outside.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/alecthomas/kong"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/daemon"
	"tollgate/cmd/tollgate/dev"
	"tollgate/cmd/tollgate/local"
	"tollgate/cmd/tollgate/reference"
	"tollgate/server/provider/runner"
	"tollgate/server/spool"
)

// commands are what the first word of a command line may be.
type commands struct {
	runCommands      `embed:""`
	Catalog          catalogCommand `cmd:"" group:"meter" help:"Write, validate and apply catalog documents, show the catalog, see what a document would change."`
	cli.BillCommands `embed:""`
	operateCommands  `embed:""`

	VersionFlag local.VersionFlag `name:"version" help:"Print the version."`
}

// catalogCommand is about documents, and about the catalog of an environment.
type catalogCommand struct {
	local.CatalogFileCommands `embed:""`
	cli.CatalogCommand        `embed:""`
}

// runCommands run something.
type runCommands struct {
	Dev    dev.Command         `cmd:"" group:"run" help:"Run a cluster of node processes on this machine, with a demo account."`
	Serve  daemon.ServeCommand `cmd:"" group:"run" help:"Run one node."`
	Replay dev.ReplayCommand   `cmd:"" group:"run" help:"Meter a trace of LLM requests through the public API."`
	Tour   dev.TourCommand     `cmd:"" group:"run" help:"Do what a new agent does with the workspace API of tollgate dev, and print it as curl commands."`
}

// operateCommands are about a cluster and its nodes.
type operateCommands struct {
	Audit      cli.AuditCommand        `cmd:"" call:"GET /audit" group:"operate" help:"List every admin change: who, when, before, after."`
	Backup     local.BackupCommand     `cmd:"" group:"operate" help:"Save the whole cluster while it runs, and check what was saved."`
	Restore    local.RestoreCommand    `cmd:"" group:"operate" help:"Create the data folder of a node of a new cluster from a backup."`
	Cluster    cli.ClusterCommand      `cmd:"" group:"operate" help:"Show the cluster, and change its members."`
	Ready      cli.ReadyCommand        `cmd:"" group:"operate" help:"Ask a node whether it is ready to serve, and wait until it is."`
	Doctor     local.DoctorCommand     `cmd:"" group:"operate" help:"Look for what is wrong with a cluster, or will be: clocks, disks, limits, certificates, versions, members, settings."`
	Support    local.SupportCommand    `cmd:"" group:"operate" help:"Collect what support needs to see in one file, without secrets."`
	Certs      local.CertsCommand      `cmd:"" group:"operate" help:"Create the certificates with which nodes authenticate each other."`
	WAL        local.WALCommand        `cmd:"" group:"operate" name:"wal" help:"Look into a log on disk."`
	Licenses   local.LicensesCommand   `cmd:"" group:"operate" help:"Print the licenses of what this program is built from."`
	Context    cli.ContextCommand      `cmd:"" group:"operate" help:"Keep addresses and keys of clusters under names, and choose one."`
	Completion local.CompletionCommand `cmd:"" group:"operate" help:"Print completions of command lines for bash, zsh or fish."`
	Man        local.ManCommand        `cmd:"" group:"operate" help:"Print the reference of all commands as a man page."`
	Version    local.VersionCommand    `cmd:"" group:"operate" help:"Print the version."`
	Help       local.HelpCommand       `cmd:"" group:"operate" help:"Show what a command does, and its flags."`
}

// Exit codes: two things that a command compared differ, such as an invoice and what the journal
// makes of it, or a check is denied; something needs attention; something is wrong.
const (
	exitDiffers = 5
	exitWarns   = 6
	exitFails   = 7
)

func main() {
	if code, called := runner.Called(os.Args); called {
		os.Exit(code)
	}
	os.Exit(run(os.Args[1:], os.Stdout))
}

// ended is the exit code of a command line that the parser carries out itself: --help, --version.
type ended int

// run carries out one command line and returns the exit code: 0 done, 1 failed, 2 no such command
// or flag, 3 a data folder cannot be used as it is, or its disk is full, 5 two things differ, 6 and
// 7 doctor found something, 6 a member is down. A node that must end at once ends the process
// itself, with cluster.ExitCode. What a command is asked for goes to out.
func run(args []string, out io.Writer) (code int) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case ended:
			code = int(r)
		default:
			panic(r)
		}
	}()
	var c commands
	parser, err := kong.New(&c,
		kong.Writers(out, os.Stderr), kong.Exit(func(code int) { panic(ended(code)) }),
		kong.Name("tollgate"), kong.Resolvers(kong.ResolverFunc(cli.FromContext)),
		kong.Description("Entitlements, metering and invoices that are right to the cent."),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
		kong.ExplicitGroups([]kong.Group{
			{Key: "run", Title: "Run:"},
			{Key: "meter", Title: "Meter (through the APIs of a running cluster):"},
			{Key: "bill", Title: "Bill (through the APIs of a running cluster):"},
			{Key: "operate", Title: "Operate:"},
		}),
	)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tollgate:", err)
		return 2
	}
	if len(args) > 0 && args[0] == reference.CompleteWord {
		if reference.Complete(out, parser.Model, args[1:], cli.ContextNames) != nil {
			return 1
		}
		return 0
	}
	if len(args) > 0 && args[0] == "help" { // with flags of the command, too: it is not carried out
		args = append(args[1:len(args):len(args)], "--help")
	}
	command, err := parser.Parse(withNegatives(args))
	if wrong := (cli.ContextError{}); errors.As(err, &wrong) {
		fmt.Fprintln(os.Stderr, "tollgate:", wrong)
		return 1
	}
	if err != nil {
		see := "--help"
		if wrong := (*kong.ParseError)(nil); errors.As(err, &wrong) {
			for node := wrong.Context.Selected(); node != nil && node.Parent != nil; node = node.Parent {
				see = node.Name + " " + see
			}
		}
		if negative.MatchString(err.Error()) {
			err = fmt.Errorf("%w: negative numbers are not accepted; "+
				"to take usage back, void or amend the event", err)
		}
		fmt.Fprintf(os.Stderr, "tollgate: %v\nSee tollgate %s.\n", err, see)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals()...)
	defer stop()
	command.BindTo(ctx, (*context.Context)(nil))
	command.BindTo(out, (*io.Writer)(nil))
	if err = command.Run(); err == nil {
		return 0
	}
	if !errors.As(err, new(daemon.LoggedError)) {
		fmt.Fprintln(os.Stderr, "tollgate:", err)
	}
	return exitCode(err)
}

// negative is a negative number that was read as a flag.
var negative = regexp.MustCompile(`^unknown flag -[0-9.]`)

// withNegatives joins a negative number to the flag before it (--identity-port -1), since the
// parser takes it for a flag.
func withNegatives(args []string) (joined []string) {
	for i, arg := range args {
		if i > 0 && number.MatchString(arg) && flag.MatchString(args[i-1]) {
			joined[len(joined)-1] += "=" + arg
			continue
		}
		joined = append(joined, arg)
	}
	return joined
}

var (
	number = regexp.MustCompile(`^-[0-9.]+$`)
	flag   = regexp.MustCompile(`^--[a-z][a-z-]*$`)
)

// exitCode says how a command ended.
func exitCode(err error) int {
	switch {
	case cluster.RefusesFolder(err), errors.Is(err, spool.ErrForeign),
		errors.As(err, new(daemon.LoggedError)) && (cluster.NoRoom(err) || cluster.Unusable(err)):
		return cluster.ExitFatal
	case errors.Is(err, cli.ErrDiffers), errors.Is(err, cli.ErrCatalogDiffers),
		errors.Is(err, cli.ErrDenied):
		return exitDiffers
	case errors.Is(err, local.ErrWarns), errors.Is(err, cli.ErrDown):
		return exitWarns
	case errors.Is(err, local.ErrFails):
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
