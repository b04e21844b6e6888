package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"tollgate/cmd/tollgate/api"
)

type catalogCommand struct {
	Apply catalogApplyCommand `cmd:"" help:"Make the catalog say what a document says, all or nothing."`
	Diff  catalogDiffCommand  `cmd:"" help:"Say what applying a document would change."`
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
func (c *catalogApplyCommand) Run(ctx context.Context) error { return c.send(ctx, false) }

type catalogDiffCommand struct {
	catalogFlags `embed:""`
}

// Run asks what the document would change.
func (c *catalogDiffCommand) Run(ctx context.Context) error { return c.send(ctx, true) }

func (c *catalogFlags) send(ctx context.Context, dryRun bool) error {
	document, err := readDocument(c.File)
	if err != nil {
		return err
	}
	admin, err := c.client()
	if err != nil {
		return err
	}
	defer admin.Close()
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
	answer, err := admin.Do(ctx, api.Request{
		Method: "PUT", Path: path, Body: document, ContentType: kind,
	})
	if err != nil {
		return err
	}
	var changed struct {
		Changes []struct{ Kind, Key, Action string } `json:"changes"`
	}
	if err = answer.Data(&changed); err != nil {
		return err
	}
	if len(changed.Changes) == 0 {
		fmt.Println("No changes.")
	}
	for _, change := range changed.Changes {
		fmt.Printf("%-8s %-8s %s\n", change.Action, change.Kind, change.Key)
	}
	return nil
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
