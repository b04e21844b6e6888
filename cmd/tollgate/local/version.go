package local

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/daemon"
	"tollgate/engine"
)

// VersionCommand prints the version.
type VersionCommand struct{}

// Run prints the version.
func (*VersionCommand) Run(out io.Writer) error { return cli.Say(out, "%s", versionLine()) }

func versionLine() string {
	return fmt.Sprintf("tollgate %s, entry format %d, cluster version %d", daemon.Version(),
		engine.FormatVersion, engine.Version)
}

// VersionFlag is --version: what the command says, without one.
type VersionFlag bool

// BeforeReset prints the version and ends.
func (VersionFlag) BeforeReset(app *kong.Kong) error {
	if err := cli.Say(app.Stdout, "%s", versionLine()); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

// HelpCommand stands in the list of commands: run makes --help of it.
type HelpCommand struct {
	Command []string `arg:"" optional:"" help:"The command; without one, the list of all."`
}
