package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"text/tabwriter"
)

type keysCommand struct {
	Create keysCreateCommand `cmd:"" help:"Create an API key and print it, this once."`
	List   keysListCommand   `cmd:"" help:"List API keys."`
	Revoke keysRevokeCommand `cmd:"" help:"End an API key for good."`
}

type keysCreateCommand struct {
	adminFlags       `embed:""`
	environmentFlags `embed:""`
	Scope            string `default:"full" enum:"full,read" help:"full, or read: every GET, and entitlement checks."`
	Label            string `help:"What the key is for."`
}

// Run creates a key.
func (c *keysCreateCommand) Run(ctx context.Context) error {
	admin, err := c.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	created, err := createKey(ctx, admin, c.Account, c.Environment, c.Scope, c.Label)
	if err != nil {
		return err
	}
	fmt.Println(created.Key)
	fmt.Fprintf(os.Stderr, "Key %s of %s/%s. It is not shown again.\n",
		created.ID, c.Account, c.Environment)
	return nil
}

type keysListCommand struct {
	adminFlags       `embed:""`
	environmentFlags `embed:""`
}

// Run lists keys.
func (c *keysListCommand) Run(ctx context.Context) error {
	admin, err := c.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	var keys []struct {
		ID        string `json:"id"`
		Scope     string `json:"scope"`
		Label     string `json:"label"`
		Hint      string `json:"hint"`
		CreatedAt string `json:"createdAt"`
		RevokedAt string `json:"revokedAt"`
	}
	if _, err = admin.Call(ctx, "GET", c.path()+"/keys", nil, &keys); err != nil {
		return err
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	if _, err = fmt.Fprintln(table, "ID\tKEY\tSCOPE\tLABEL\tCREATED\tREVOKED"); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	for _, k := range keys {
		if _, err = fmt.Fprintf(table, "%s\t%s…\t%s\t%s\t%s\t%s\n",
			k.ID, k.Hint, k.Scope, k.Label, k.CreatedAt, k.RevokedAt); err != nil {
			return fmt.Errorf("print: %w", err)
		}
	}
	if err = table.Flush(); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

type keysRevokeCommand struct {
	adminFlags       `embed:""`
	environmentFlags `embed:""`
	ID               string `arg:"" help:"The key's id, from keys list."`
}

// Run revokes a key.
func (c *keysRevokeCommand) Run(ctx context.Context) error {
	admin, err := c.client()
	if err != nil {
		return err
	}
	defer admin.Close()
	_, err = admin.Call(ctx, "DELETE", c.path()+"/keys/"+url.PathEscape(c.ID), nil, nil)
	if err == nil {
		fmt.Println("Revoked", c.ID)
	}
	return err
}
