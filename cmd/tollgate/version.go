package main

import (
	"fmt"
	"io"

	"github.com/alecthomas/kong"

	"tollgate/engine"
)

type versionCommand struct{}

// Run prints the version.
func (*versionCommand) Run(out io.Writer) error { return say(out, "%s", versionLine()) }

func versionLine() string {
	return fmt.Sprintf("tollgate %s, entry format %d, cluster version %d", version(),
		engine.FormatVersion, engine.Version)
}

// versionFlag is --version: what the command says, without one.
type versionFlag bool

// BeforeReset prints the version and ends.
func (versionFlag) BeforeReset(app *kong.Kong) error {
	if err := say(app.Stdout, "%s", versionLine()); err != nil {
		return err
	}
	app.Exit(0)
	return nil
}

// helpCommand stands in the list of commands: run makes --help of it.
type helpCommand struct {
	Command []string `arg:"" optional:"" help:"The command; without one, the list of all."`
}
