package main

import (
	"io"

	"tollgate/cmd/tollgate/licenses"
)

type licensesCommand struct{}

// Run prints the notices of the software that this program is built from.
func (*licensesCommand) Run(out io.Writer) error { return say(out, "%s", licenses.Notices) }
