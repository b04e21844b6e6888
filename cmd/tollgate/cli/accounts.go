package cli

import (
	"context"
	"io"
)

type accountsCommand struct {
	List   accountsListCommand   `cmd:"" help:"List accounts."`
	Create accountsCreateCommand `cmd:"" help:"Create an account with a live and a sandbox environment."`
}

type accountsListCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
}

// Run lists accounts.
func (c *accountsListCommand) Run(ctx context.Context, out io.Writer) error {
	var list []struct {
		ID      string `json:"id"`
		Name    string `json:"name"`
		Created string `json:"createdAt"`
	}
	data, err := c.read(ctx, AdminPath, &list)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "NAME", "ID", "CREATED")
		for _, a := range list {
			t.Row(a.Name, a.ID, instant(a.Created))
		}
		return t.End()
	})
}

type accountsCreateCommand struct {
	AdminFlags  `embed:""`
	OutputFlags `embed:""`
	Name        string `arg:"" help:"1–64 of a-z, 0-9 and -."`
}

// Run creates an account.
func (c *accountsCreateCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.send(ctx, "POST", AdminPath, map[string]any{"name": c.Name}, nil)
	return c.answer(out, data, err, func() error { return Say(out, "Created account %s.", c.Name) })
}
