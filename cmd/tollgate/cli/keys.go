package cli

import (
	"context"
	"io"
	"net/url"
	"os"
	"strconv"
	"time"

	api "tollgate/sdk/go"
)

type keysCommand struct {
	Create keysCreateCommand             `cmd:"" help:"Create an API key and print it, this once."`
	List   call[environmentOutput, keys] `cmd:"" call:"GET keys" help:"List API keys."`
	Bind   call[keysBind, none]          `cmd:"" call:"PUT keys/{ID}/budget" says:"Bound {ID} to {Budget}" help:"Let a key spend in one budget, or below it, and nowhere else."`
	Unbind call[keysUnbind, none]        `cmd:"" call:"PUT keys/{ID}/budget" says:"Unbound {ID}" help:"Unbind a key from its budget."`
	Roll   keysRollCommand               `cmd:"" help:"Replace a key and print the new one, this once; the old one works for a while longer. Portal links that were made with the old key end with it."`
	Revoke call[keyFlags, none]          `cmd:"" call:"DELETE keys/{ID}" says:"Revoked {ID}" help:"Revoke an API key for good."`
}

type keysCreateCommand struct {
	inEnvironment `embed:""`
	Scope         string `default:"full" enum:"full,read" help:"full, or read: every GET, and entitlement checks."`
	Customer      string `help:"Create a key that reaches only this customer's own data, for web pages."`
	Label         string `help:"What the key is for."`
}

// Run creates a key.
func (c *keysCreateCommand) Run(ctx context.Context, out io.Writer) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	created, err := CreateKey(ctx, admin, c.EnvironmentFlags, api.KeyRequest{
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

type keysRollCommand struct {
	keyFlags     `embed:""`
	OverlapHours int `default:"24" help:"How long the old key keeps working, 0 to 720; 0 revokes it at once."`
}

// Run replaces a key.
func (c *keysRollCommand) Run(ctx context.Context, out io.Writer) error {
	var made api.MadeKey
	path := c.path() + "/keys/" + url.PathEscape(c.ID) + "/roll"
	body := map[string]int{"overlapHours": c.OverlapHours}
	if _, err := c.send(ctx, "POST", path, body, &made); err != nil {
		return err
	}
	if err := Say(out, "%s", made.Key); err != nil {
		return err
	}
	return Say(os.Stderr, "Key %s of %s/%s. It is not shown again. Key %s %s.", made.ID,
		c.Account, c.Environment, c.ID, replacedKey(&made, time.Now()))
}

// replacedKey says what becomes of the key that a new one replaces.
func replacedKey(made *api.MadeKey, now time.Time) string {
	switch end := made.ReplacedEndsAt; {
	case end.IsZero():
		return "was replaced"
	case end.After(now):
		return "ends at " + moment(end)
	}
	return "has ended"
}

type keyFlags struct {
	inEnvironment `embed:""`
	ID            string `arg:"" help:"The key's id, from keys list."`
}

type keysBind struct {
	keyFlags `embed:""`
	Budget   string `arg:"" json:"budget" help:"The budget's key."`
}

type keysUnbind struct {
	keyFlags `embed:""`
	Budget   string `kong:"-" json:"budget,omitempty"`
}

type keys []api.Key

func (l keys) print(out io.Writer) error {
	t := NewTable(out, "ID", "KEY", "SCOPE", "LABEL", "BUDGET", "CREATED", "LAST USED", "REQUESTS 24H",
		"30 DAYS", "ENDS", "REVOKED")
	for _, k := range l {
		scope := k.Scope
		if k.Customer != "" {
			scope += " " + k.Customer
		}
		t.Row(k.ID, k.Hint+"…", scope, either(k.Label, "–"), either(k.Budget, "–"),
			moment(k.CreatedAt), moment(k.LastUsedAt), strconv.Itoa(k.RequestsDay),
			strconv.Itoa(k.RequestsMonth), moment(k.EndsAt), moment(k.RevokedAt))
	}
	return t.End()
}
