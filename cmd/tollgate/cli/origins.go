package cli

import (
	"context"
	"io"
)

type originsCommand struct {
	List originsListCommand `cmd:"" help:"List the web origins."`
	Set  originsSetCommand  `cmd:"" help:"Replace the list; without an origin it becomes empty."`
}

type originsListCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	OutputFlags      `embed:""`
}

// Run lists origins.
func (c *originsListCommand) Run(ctx context.Context, out io.Writer) error {
	var list struct {
		Origins []string `json:"origins"`
	}
	data, err := c.read(ctx, c.path()+"/origins", &list)
	return c.answer(out, data, err, func() error {
		for _, origin := range list.Origins {
			if err := Say(out, "%s", origin); err != nil {
				return err
			}
		}
		return nil
	})
}

type originsSetCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	Origins          []string `arg:"" optional:"" help:"Origins such as https://shop.example."`
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
