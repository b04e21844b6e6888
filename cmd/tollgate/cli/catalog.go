package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

// CatalogCommand shows and changes the catalog of an environment.
type CatalogCommand struct {
	Show        call[inEnvironment, indented]       `cmd:"" call:"GET catalog" help:"Print the catalog as a document that can be applied again."`
	Apply       catalogApplyCommand                 `cmd:"" help:"Apply a document to the catalog, all or nothing."`
	Versions    call[planOutput, planVersions]      `cmd:"" call:"GET plans/{Plan}/versions" help:"List the versions of a plan, with their subscribers."`
	Subscribers call[subscribersFlags, subscribers] `cmd:"" call:"GET plans/{Plan}/subscribers" help:"List who is subscribed to a plan."`
	Diff        catalogDiffCommand                  `cmd:"" help:"Show what applying a document would change, or list its mistakes."`
}

type planOutput struct {
	environmentOutput `embed:""`
	Plan              string `arg:"" help:"The plan's key."`
}

type planVersions []api.PlanVersion

func (l planVersions) print(out io.Writer) error {
	t := NewTable(out, "VERSION", "PRICE", "INTERVAL", "BILLED", "SUBSCRIBERS")
	for _, v := range l {
		t.Row(strconv.Itoa(v.Version), string(v.PriceAmount)+" "+v.Currency,
			strconv.Itoa(v.IntervalMonths)+" months", v.BillingTiming,
			strconv.FormatInt(int64(v.Subscribers), 10))
	}
	return t.End()
}

type subscribersFlags struct {
	planOutput `embed:""`
	Version    int    `query:"version,omitempty" help:"Only those to this version."`
	Limit      int    `query:"limit" default:"100" help:"Maximum number of rows, up to 1,000."`
	Cursor     string `query:"cursor,omitempty" help:"Cursor printed by the previous page."`
}

type subscribers struct{ api.SubscriberPage }

func (l subscribers) print(out io.Writer) error {
	t := NewTable(out, "CUSTOMER", "VERSION", "SUBSCRIPTION", "SINCE")
	for _, s := range l.Subscribers {
		t.Row(s.CustomerReferenceID, strconv.Itoa(s.Version), s.SubscriptionID, moment(s.CreatedAt))
	}
	return older(out, t, l.NextCursor)
}

// indented is a document that is shown with its structure.
type indented struct{ json.RawMessage }

func (d *indented) print(out io.Writer) error {
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, d.RawMessage, "", "  "); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return Say(out, "%s", pretty.String())
}

type catalogFlags struct {
	inEnvironment `embed:""`
	Prune         bool   `help:"Archive what the document does not name."`
	File          string `arg:"" help:"Catalog document in YAML or JSON; - reads standard input."`
}

type catalogApplyCommand struct {
	catalogFlags `embed:""`
}

// Run applies the document.
func (c *catalogApplyCommand) Run(ctx context.Context, out io.Writer) error {
	_, err := c.put(ctx, out, false)
	return err
}

type catalogDiffCommand struct {
	catalogFlags `embed:""`
	ExitCode     bool `help:"End with exit code 5 if something would change, for a check in CI."`
}

// Help says what the command ends with.
func (c *catalogDiffCommand) Help() string {
	return "Nothing is changed. The exit code is 0 when the document can be applied, and 1 when it " +
		"has mistakes, which are all listed with their lines, or the cluster cannot be asked. With " +
		"--exit-code it is 5 when applying the document would change something."
}

// ErrCatalogDiffers ends catalog diff --exit-code.
var ErrCatalogDiffers = errors.New("the catalog is not what the document says")

// Run asks what the document would change.
func (c *catalogDiffCommand) Run(ctx context.Context, out io.Writer) error {
	changes, err := c.put(ctx, out, true)
	if err == nil && changes > 0 && c.ExitCode {
		return ErrCatalogDiffers
	}
	return err
}

func (c *catalogFlags) put(
	ctx context.Context, out io.Writer, dryRun bool,
) (changes int, err error) {
	document, err := ReadDocument(c.File)
	if err != nil {
		return 0, err
	}
	path := fmt.Sprintf("%s?dryRun=%t&prune=%t", CatalogPath(c.Account, c.Environment), dryRun,
		c.Prune)
	kind := "application/yaml"
	if IsJSON(c.File) {
		kind = "application/json"
	}
	var changed struct {
		Changes []struct{ Kind, Key, Action string } `json:"changes"`
	}
	r := api.Request{Method: "PUT", Path: path, Body: document, ContentType: kind}
	err = c.write(ctx, r, func(answer api.Answer) error { return answer.Data(&changed) })
	if err != nil {
		return 0, c.mistakes(err)
	}
	if len(changed.Changes) == 0 {
		return 0, Say(out, "No changes.")
	}
	t := NewTable(out)
	for _, change := range changed.Changes {
		t.Row(change.Action, change.Kind, change.Key)
	}
	return len(changed.Changes), t.End()
}

// mistakes puts each mistake of a refused document on a line of its own.
func (c *catalogFlags) mistakes(err error) error {
	var refused *api.Error
	if !errors.As(err, &refused) || len(refused.Fields) == 0 {
		return err
	}
	what := "1 mistake"
	if n := len(refused.Fields); n > 1 {
		what = strconv.Itoa(n) + " mistakes"
	}
	var list strings.Builder
	for _, wrong := range refused.Fields {
		list.WriteString("\n  " + wrong.Message)
	}
	return fmt.Errorf("%s has %s; nothing was changed:%s", c.File, what, &list)
}

// IsJSON reports whether a file is read as JSON. JSON is YAML, too, duplicate keys included in what
// is refused.
func IsJSON(file string) bool { return strings.EqualFold(filepath.Ext(file), ".json") }

// maxDocument bounds a catalog document (16 MiB).
const maxDocument = 16 << 20

// ReadDocument reads a catalog, bounded.
func ReadDocument(file string) ([]byte, error) {
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
