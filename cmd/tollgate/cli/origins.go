package cli

import (
	"context"
	"io"

	api "tollgate/sdk/go"
)

type originsCommand struct {
	List call[environmentOutput, origins] `cmd:"" call:"GET origins" help:"List the web origins."`
	Set  originsSetCommand                `cmd:"" help:"Replace the list; without an origin it becomes empty."`
}

type origins struct{ api.Origins }

func (l *origins) print(out io.Writer) error {
	for _, origin := range l.Origins.Origins {
		if err := Say(out, "%s", origin); err != nil {
			return err
		}
	}
	return nil
}

type originsSetCommand struct {
	inEnvironment `embed:""`
	Origins       []string `arg:"" optional:"" help:"Origins such as https://shop.example."`
}

// Run replaces the list.
func (c *originsSetCommand) Run(ctx context.Context, out io.Writer) error {
	origins := append([]string{}, c.Origins...)
	_, err := c.send(ctx, "PUT", c.path()+"/origins", map[string]any{"origins": origins}, nil)
	if err != nil {
		return err
	}
	return Say(out, "%d origins may use the customer keys of %s/%s.", len(origins), c.Account,
		c.Environment)
}
