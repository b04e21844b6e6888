package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cmd/tollgate/api"
)

type catalogCommand struct {
	Show  catalogShowCommand  `cmd:"" help:"Print the catalog as a document that, applied, changes nothing."`
	Apply catalogApplyCommand `cmd:"" help:"Make the catalog say what a document says, all or nothing."`
	Diff  catalogDiffCommand  `cmd:"" help:"Say what applying a document would change."`
}

type catalogShowCommand struct {
	adminFlags       `embed:""`
	environmentFlags `embed:""`
}

// Run prints the catalog.
func (c *catalogShowCommand) Run(ctx context.Context, out io.Writer) error {
	var document any
	data, err := c.read(ctx, c.path()+"/catalog", &document)
	if err != nil {
		return err
	}
	var pretty bytes.Buffer
	if err = json.Indent(&pretty, data, "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return say(out, "%s", pretty.String())
}

type catalogFlags struct {
	adminFlags       `embed:""`
	environmentFlags `embed:""`
	Prune            bool   `help:"Archive what the document does not name."`
	File             string `arg:"" help:"Catalog document in YAML or JSON; - reads standard input."`
}

type catalogApplyCommand struct {
	catalogFlags `embed:""`
}

// Run applies the document.
func (c *catalogApplyCommand) Run(ctx context.Context, out io.Writer) error {
	return c.put(ctx, out, false)
}

type catalogDiffCommand struct {
	catalogFlags `embed:""`
}

// Run asks what the document would change.
func (c *catalogDiffCommand) Run(ctx context.Context, out io.Writer) error {
	return c.put(ctx, out, true)
}

func (c *catalogFlags) put(ctx context.Context, out io.Writer, dryRun bool) error {
	document, err := readDocument(c.File)
	if err != nil {
		return err
	}
	var query []string
	if dryRun {
		query = append(query, "dryRun=true")
	}
	if c.Prune {
		query = append(query, "prune=true")
	}
	path := catalogPath(c.Account, c.Environment)
	if len(query) > 0 {
		path += "?" + strings.Join(query, "&")
	}
	kind := "application/yaml" // JSON is YAML too, duplicate keys included in what is refused
	if strings.EqualFold(filepath.Ext(c.File), ".json") {
		kind = "application/json"
	}
	var changed struct {
		Changes []struct{ Kind, Key, Action string } `json:"changes"`
	}
	r := api.Request{Method: "PUT", Path: path, Body: document, ContentType: kind}
	err = c.write(ctx, r, func(answer api.Answer) error { return answer.Data(&changed) })
	if err != nil {
		return err
	}
	if len(changed.Changes) == 0 {
		return say(out, "No changes.")
	}
	t := newTable(out)
	for _, change := range changed.Changes {
		t.row(change.Action, change.Kind, change.Key)
	}
	return t.end()
}

// maxDocument bounds a catalog document (16 MiB).
const maxDocument = 16 << 20

func readDocument(file string) ([]byte, error) {
	if file == "-" {
		document, err := io.ReadAll(io.LimitReader(os.Stdin, maxDocument))
		if err != nil {
			return nil, fmt.Errorf("standard input: %w", err)
		}
		return document, nil
	}
	document, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("catalog document: %w", err)
	}
	return document, nil
}
