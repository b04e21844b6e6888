package local

import (
	"io"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/licenses"
)

// LicensesCommand prints the licenses of linked software.
type LicensesCommand struct{}

// Run prints the notices of the software that this program is built from.
func (*LicensesCommand) Run(out io.Writer) error { return cli.Say(out, "%s", licenses.Notices) }
