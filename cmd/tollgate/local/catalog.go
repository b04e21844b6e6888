package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"tollgate/cmd/tollgate/cli"
	"tollgate/examples"
	"tollgate/server/admin"
)

// CatalogFileCommands are about catalog documents in files.
type CatalogFileCommands struct {
	Init     catalogInitCommand     `cmd:"" help:"Write a small catalog document to start from."`
	Validate catalogValidateCommand `cmd:"" help:"List the mistakes in a document, without a cluster."`
}

type catalogInitCommand struct {
	File string `arg:"" default:"catalog.yaml" help:"The file to write, which must not exist; - prints it."`
}

// Run writes the document.
func (c *catalogInitCommand) Run(out io.Writer) (err error) {
	text := strings.ReplaceAll(examples.Catalog, "examples/catalog.yaml", c.File)
	if c.File == "-" {
		return cli.Say(out, "%s", strings.TrimSuffix(text, "\n"))
	}
	file, err := os.OpenFile(c.File, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s exists already; nothing was changed: name another file", c.File)
	}
	if err != nil {
		return fmt.Errorf("catalog document: %w", err)
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("catalog document: %w", err)
	}
	return cli.Say(out, "Wrote %s. What it would change: tollgate catalog diff %[1]s", c.File)
}

type catalogValidateCommand struct {
	File string `arg:"" help:"Catalog document in YAML or JSON; - reads standard input."`
}

// Help says what it does not find.
func (c *catalogValidateCommand) Help() string {
	return "Each mistake is FILE:LINE:COLUMN: and what is wrong. What only an environment knows, " +
		"such as a plan's currency that customers already have, is found by catalog diff."
}

// Run lists the mistakes of a document.
func (c *catalogValidateCommand) Run(out io.Writer) error {
	text, err := cli.ReadDocument(c.File)
	if err != nil {
		return err
	}
	wrong := admin.CheckCatalog(text, !cli.IsJSON(c.File))
	for _, m := range wrong {
		place := c.File
		if m.Line > 0 {
			place = fmt.Sprintf("%s:%d:%d", place, m.Line, m.Column)
		}
		if err = cli.Say(out, "%s: %s", place, m.Message); err != nil {
			return err
		}
	}
	switch len(wrong) {
	case 0:
		return cli.Say(out, "%s is valid.", c.File)
	case 1:
		return fmt.Errorf("%s has 1 mistake", c.File)
	}
	return fmt.Errorf("%s has %d mistakes", c.File, len(wrong))
}
