package dev

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/replay"
	"tollgate/cmd/tollgate/trace"
	api "tollgate/sdk/go"
)

// ReplayCommand meters a trace.
type ReplayCommand struct {
	cli.ClusterFlags     `embed:""` // no context: what it sends is not for a cluster in use
	cli.EnvironmentFlags `embed:""`
	cli.ClientFlags      `embed:""`
	File                 string        `arg:"" optional:"" type:"existingfile" help:"Trace: time, context tokens, generated tokens."`
	Generate             int           `placeholder:"N" help:"Generate a trace of N requests instead."`
	Seed                 uint64        `default:"1" help:"Which trace to generate: the same seed gives the same trace."`
	Plan                 string        `type:"existingfile" placeholder:"FILE" help:"Catalog document whose first plan meters the trace. Default: the built-in llm-team plan."`
	NoPlan               bool          `help:"Do not touch the catalog: the plan exists already. Needs no admin key."`
	Batch                int           `placeholder:"N" help:"Send N events in a request, up to 10000. Default: each alone."`
	Customers            int           `default:"50" help:"Share the requests among this many customers."`
	Prefix               string        `help:"Prefix of customers' names and keys. Default: last word of the file's name, or gen-SEED."`
	Connections          int           `default:"32" help:"Requests under way at a time."`
	Patience             time.Duration `default:"1m" help:"How long to retry a request while no node can serve it."`
}

// Run meters the trace.
func (c *ReplayCommand) Run(ctx context.Context) error {
	rows, err := c.rows()
	if err != nil {
		return err
	}
	plan, err := c.plan(ctx)
	if err != nil {
		return err
	}
	client, err := c.Connect(c.Data, c.Environment, c.CA, c.Connections)
	if err != nil {
		return err
	}
	defer client.Close()
	display := newDisplay(os.Stdout)
	fmt.Printf("Metering %d requests of %d customers, %d usage events.\n",
		len(rows), c.Customers, len(rows)*replay.EventsPerRow)
	summary, err := replay.Run(ctx, replay.Options{
		Client: client, Rows: rows, Prefix: c.Prefix, Customers: c.Customers, Plan: plan,
		Batch: c.Batch, Connections: c.Connections, Patience: c.Patience,
		OnProgress: display.show,
	})
	display.end()
	if err != nil {
		return err
	}
	return printUsage(summary)
}

func (c *ReplayCommand) rows() ([]trace.Row, error) {
	if (c.File == "") == (c.Generate == 0) {
		return nil, errors.New("want a trace: a file, or --generate N")
	}
	if c.File == "" {
		if c.Generate < 0 || c.Generate > trace.MaxRows {
			return nil, fmt.Errorf("--generate %d: want 1 to %d", c.Generate, trace.MaxRows)
		}
		if c.Prefix == "" {
			c.Prefix = fmt.Sprintf("gen-%d", c.Seed)
		}
		return trace.Generate(c.Generate, c.Seed), nil
	}
	if c.Prefix == "" {
		name := strings.TrimSuffix(filepath.Base(c.File), filepath.Ext(c.File))
		c.Prefix = name[strings.LastIndex(name, "-")+1:]
	}
	file, err := os.Open(c.File)
	if err != nil {
		return nil, fmt.Errorf("trace: %w", err)
	}
	rows, err := trace.Read(file)
	return rows, errors.Join(err, file.Close())
}

// plan applies the plan to the catalog and returns its key.
func (c *ReplayCommand) plan(ctx context.Context) (string, error) {
	document, key, err := c.planDocument()
	if err != nil || c.NoPlan {
		return key, err
	}
	admin, err := c.Client()
	if err != nil {
		return "", err
	}
	defer admin.Close()
	admin.Patience = c.Patience
	answer, err := admin.Do(ctx, api.Request{
		Method: "PUT", Path: cli.CatalogPath(c.Account, c.Environment),
		Body: document, ContentType: "application/yaml",
	})
	if err == nil {
		err = answer.Err()
	}
	if err != nil {
		return "", fmt.Errorf("apply the plan: %w", err)
	}
	return key, nil
}

func (c *ReplayCommand) planDocument() (document []byte, key string, err error) {
	text, key := demo.Catalog, demo.ReplayPlan
	if c.Plan != "" {
		if text, err = cli.ReadDocument(c.Plan); err != nil {
			return nil, "", err
		}
	}
	parsed, err := demo.Parse(text)
	if err != nil {
		return nil, "", err
	}
	if c.Plan != "" {
		if len(parsed.Plans) == 0 {
			return nil, "", fmt.Errorf("%s: no plan in it", c.Plan)
		}
		key, _ = parsed.Plans[0]["key"].(string)
	}
	only, err := parsed.Only(key)
	if err != nil {
		return nil, "", err
	}
	document, err = only.YAML()
	return document, key, err
}

// printUsage prints what the cluster counted for each customer.
func printUsage(s replay.Summary) error {
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', tabwriter.AlignRight)
	line := func(format string, args ...any) error {
		if _, err := fmt.Fprintf(table, format, args...); err != nil {
			return fmt.Errorf("print: %w", err)
		}
		return nil
	}
	err := line("\ncustomer\trequests\tinput-tokens\toutput-tokens\tlimit\ttrace\t\n")
	different := 0
	for _, u := range s.Customers {
		limit, same := "", "="
		if u.LimitReached {
			limit = "reached"
		}
		if !u.AsTraced() {
			same = "differs"
			different++
		}
		err = errors.Join(err, line("%s\t%s\t%s\t%s\t%s\t%s\t\n",
			u.Customer, u.Used[0], u.Used[1], u.Used[2], limit, same))
	}
	if err = errors.Join(err, table.Flush()); err != nil {
		return err
	}
	fmt.Printf("\n%d events: %d counted, %d there already.\n", s.Done, s.Counted, s.Duplicates)
	if different > 0 {
		fmt.Printf("%d customers have other counters than this trace alone adds up to: "+
			"another period, or other events.\n", different)
		return nil
	}
	fmt.Printf("The counters of all %d customers are exactly what the trace adds up to.\n",
		len(s.Customers))
	return nil
}
