package cli

import (
	"context"
	"io"
	"net/url"
	"os"
)

type keysCommand struct {
	Create keysCreateCommand `cmd:"" help:"Create an API key and print it, this once."`
	List   keysListCommand   `cmd:"" help:"List API keys."`
	Revoke keysRevokeCommand `cmd:"" help:"End an API key for good."`
}

type keysCreateCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	Scope            string `default:"full" enum:"full,read" help:"full, or read: every GET, and entitlement checks."`
	Customer         string `help:"Make a key that reaches only this customer's own data, for web pages."`
	Label            string `help:"What the key is for."`
}

// Run creates a key.
func (c *keysCreateCommand) Run(ctx context.Context, out io.Writer) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	created, err := CreateKey(ctx, admin, c.EnvironmentFlags, KeyRequest{
		Scope: c.Scope, Label: c.Label, Customer: c.Customer,
	})
	if err != nil {
		return err
	}
	if err = Say(out, "%s", created.Key); err != nil {
		return err
	}
	return Say(os.Stderr, "Key %s of %s/%s. It is not shown again.", created.ID, c.Account,
		c.Environment)
}

type keysListCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	OutputFlags      `embed:""`
}

// Run lists keys.
func (c *keysListCommand) Run(ctx context.Context, out io.Writer) error {
	var keys []struct {
		ID        string `json:"id"`
		Scope     string `json:"scope"`
		Label     string `json:"label"`
		Hint      string `json:"hint"`
		CreatedAt string `json:"createdAt"`
		RevokedAt string `json:"revokedAt"`
		Customer  string `json:"customer"`
	}
	data, err := c.read(ctx, c.path()+"/keys", &keys)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "ID", "KEY", "SCOPE", "LABEL", "CREATED", "REVOKED")
		for _, k := range keys {
			scope := k.Scope
			if k.Customer != "" {
				scope += " " + k.Customer
			}
			t.Row(k.ID, k.Hint+"…", scope, either(k.Label, "–"), instant(k.CreatedAt),
				instant(k.RevokedAt))
		}
		return t.End()
	})
}

type keysRevokeCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	ID               string `arg:"" help:"The key's id, from keys list."`
}

// Run revokes a key.
func (c *keysRevokeCommand) Run(ctx context.Context, out io.Writer) error {
	path := c.path() + "/keys/" + url.PathEscape(c.ID)
	if _, err := c.send(ctx, "DELETE", path, nil, nil); err != nil {
		return err
	}
	return Say(out, "Revoked %s", c.ID)
}
