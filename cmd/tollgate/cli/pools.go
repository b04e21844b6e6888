package cli

import (
	"context"
	"encoding/json"
	"io"
	"net/url"
	"strconv"

	api "tollgate/sdk/go"
)

type poolsCommand struct {
	List         poolsListCommand         `cmd:"" help:"List a customer's pools of credits."`
	Create       poolsCreateCommand       `cmd:"" help:"Make a pool for a customer."`
	Grant        poolsGrantCommand        `cmd:"" help:"Add credits to a pool."`
	Deduct       poolsDeductCommand       `cmd:"" help:"Take credits out of a pool."`
	Grants       poolsGrantsCommand       `cmd:"" help:"List grants with something left, in the order in which they burn."`
	Transactions poolsTransactionsCommand `cmd:"" help:"List what moved a pool's credits, newest first."`
	Reverse      poolsReverseCommand      `cmd:"" help:"Take a grant or a deduction back, once."`
	Freeze       poolsFreezeCommand       `cmd:"" help:"Refuse deductions and usage; grants are still taken."`
	Unfreeze     poolsUnfreezeCommand     `cmd:"" help:"Take deductions and usage again."`
	Archive      poolsArchiveCommand      `cmd:"" help:"Take a pool out of use, for good."`
}

func printPools(out io.Writer, pools []api.CreditPool) error {
	t := NewTable(out, "ID", "NAME", "STATUS", "BALANCE", "GRANTED", "CONSUMED", "EXPIRED",
		"REVERSED", "HARD LIMIT", "PRIORITY", "ROLLOVER")
	for i := range pools {
		p := &pools[i]
		rollover := p.RolloverPolicy
		if p.RolloverCap != "" {
			rollover += " at " + quantity(p.RolloverCap)
		}
		t.Row(p.ID, p.Name, p.Status, quantity(p.Balance)+" "+p.Denomination, quantity(p.TotalGranted),
			quantity(p.TotalConsumed), quantity(p.TotalExpired), quantity(p.TotalReversed),
			strconv.FormatBool(p.HardLimit), strconv.Itoa(p.Priority), rollover)
	}
	return t.End()
}

// customerFlags name a customer.
type customerFlags struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	Customer         string `arg:"" help:"The customer's externalClientCustomerId."`
}

func (f *customerFlags) customerPath() string {
	return f.path() + "/customers/" + url.PathEscape(f.Customer)
}

type poolsListCommand struct {
	customerFlags `embed:""`
	OutputFlags   `embed:""`
}

// Run lists pools.
func (c *poolsListCommand) Run(ctx context.Context, out io.Writer) error {
	var pools []api.CreditPool
	data, err := c.read(ctx, c.customerPath()+"/pools", &pools)
	return c.answer(out, data, err, func() error { return printPools(out, pools) })
}

type poolsCreateCommand struct {
	customerFlags `embed:""`
	OutputFlags   `embed:""`
	Name          string `required:"" help:"The pool's name; plans and features name pools by it."`
	Denomination  string `help:"What is counted. Default: credits."`
	Currency      string `help:"ISO 4217 code. Default: USD."`
	HardLimit     bool   `help:"The balance never goes below zero."`
	Rollover      string `enum:"NONE,FULL,CAPPED," default:"" help:"What stays at a period's end: NONE, FULL or CAPPED."`
	RolloverCap   string `help:"Maximum carried over, with --rollover=CAPPED."`
	Priority      int64  `help:"Of several pools, the one with the lower number burns first."`
}

// Run creates a pool.
func (c *poolsCreateCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{"name": c.Name, "hardLimit": c.HardLimit, "priority": c.Priority}
	for name, value := range map[string]string{
		"denomination": c.Denomination, "currency": c.Currency, "rolloverPolicy": c.Rollover,
		"rolloverCap": c.RolloverCap,
	} {
		if value != "" {
			body[name] = value
		}
	}
	var pool api.CreditPool
	data, err := c.send(ctx, "POST", c.customerPath()+"/pools", body, &pool)
	return c.answer(out, data, err, func() error { return printPools(out, []api.CreditPool{pool}) })
}

// poolFlags name one pool.
type poolFlags struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	Pool             string `arg:"" help:"The pool's id, from pools list."`
}

func (f *poolFlags) poolPath() string { return f.path() + "/pools/" + url.PathEscape(f.Pool) }

// transaction is a movement of credits as the admin API shows it.
type transaction struct {
	ID        string      `json:"id"`
	Kind      string      `json:"kind"`
	GrantType string      `json:"grantType"`
	Amount    json.Number `json:"amount"`
	Balance   json.Number `json:"balance"`
	Feature   string      `json:"featureKey"`
	Note      string      `json:"note"`
	Reversed  bool        `json:"reversed"`
	Created   string      `json:"createdAt"`
}

func printTransactions(out io.Writer, list []transaction) error {
	t := NewTable(out, "ID", "AT", "KIND", "AMOUNT", "BALANCE", "ABOUT")
	for i := range list {
		x := &list[i]
		about := either(either(x.Note, x.Feature), x.GrantType)
		if x.Reversed {
			about += " (reversed)"
		}
		t.Row(x.ID, instant(x.Created), x.Kind, quantity(x.Amount), quantity(x.Balance), about)
	}
	return t.End()
}

type poolsGrantCommand struct {
	poolFlags   `embed:""`
	OutputFlags `embed:""`
	Amount      string `arg:"" help:"How many credits."`
	Type        string `default:"MANUAL" enum:"MANUAL,PURCHASED,PROMOTIONAL,REFUND,PLAN_INCLUDED,ROLLOVER" help:"Why there are more: ${enum}."`
	Priority    int64  `help:"Of several grants, the one with the lower number burns first."`
	Expires     string `placeholder:"TIME" help:"RFC 3339 time at which what is left expires. Default: never."`
	Note        string `help:"Why."`
}

// Run grants credits.
func (c *poolsGrantCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{"amount": c.Amount, "type": c.Type, "priority": c.Priority, "note": c.Note}
	if c.Expires != "" {
		body["expiresAt"] = c.Expires
	}
	var x transaction
	data, err := c.send(ctx, "POST", c.poolPath()+"/grants", body, &x)
	return c.answer(out, data, err, func() error { return printTransactions(out, []transaction{x}) })
}

type poolsDeductCommand struct {
	poolFlags   `embed:""`
	OutputFlags `embed:""`
	Amount      string `arg:"" help:"How many credits."`
	Note        string `help:"Why."`
}

// Run deducts credits.
func (c *poolsDeductCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{"amount": c.Amount, "note": c.Note}
	var x transaction
	data, err := c.send(ctx, "POST", c.poolPath()+"/deductions", body, &x)
	return c.answer(out, data, err, func() error { return printTransactions(out, []transaction{x}) })
}

type poolsGrantsCommand struct {
	poolFlags   `embed:""`
	OutputFlags `embed:""`
}

// Run lists live grants.
func (c *poolsGrantsCommand) Run(ctx context.Context, out io.Writer) error {
	var grants []struct {
		ID        string      `json:"id"`
		Type      string      `json:"type"`
		Amount    json.Number `json:"amount"`
		Remaining json.Number `json:"remaining"`
		Priority  int64       `json:"priority"`
		Created   string      `json:"createdAt"`
		Expires   string      `json:"expiresAt"`
	}
	data, err := c.read(ctx, c.poolPath()+"/grants", &grants)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "ID", "TYPE", "REMAINING", "OF", "PRIORITY", "GRANTED", "EXPIRES")
		for _, g := range grants {
			t.Row(g.ID, g.Type, quantity(g.Remaining), quantity(g.Amount),
				strconv.FormatInt(g.Priority, 10), instant(g.Created),
				either(instant(g.Expires), "never"))
		}
		return t.End()
	})
}

type poolsTransactionsCommand struct {
	poolFlags   `embed:""`
	OutputFlags `embed:""`
	Limit       int    `default:"100" help:"How many, at most 1,000."`
	Cursor      string `help:"Cursor printed by the previous page."`
}

// Run lists transactions.
func (c *poolsTransactionsCommand) Run(ctx context.Context, out io.Writer) error {
	var page struct {
		Transactions []transaction `json:"transactions"`
		Next         string        `json:"nextCursor"`
	}
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Cursor != "" {
		query.Set("cursor", c.Cursor)
	}
	data, err := c.read(ctx, c.poolPath()+"/transactions?"+query.Encode(), &page)
	return c.answer(out, data, err, func() error {
		if err := printTransactions(out, page.Transactions); err != nil || page.Next == "" {
			return err
		}
		return Say(out, "There are older ones: --cursor %s", page.Next)
	})
}

type poolsReverseCommand struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
	OutputFlags      `embed:""`
	Transaction      string `arg:"" help:"The transaction's id, from pools transactions."`
	Note             string `help:"Why."`
}

// Run reverses a transaction.
func (c *poolsReverseCommand) Run(ctx context.Context, out io.Writer) error {
	var x transaction
	path := c.path() + "/transactions/" + url.PathEscape(c.Transaction) + "/reverse"
	data, err := c.send(ctx, "POST", path, map[string]any{"note": c.Note}, &x)
	return c.answer(out, data, err, func() error { return printTransactions(out, []transaction{x}) })
}

// change freezes, unfreezes or archives the pool.
func (f *poolFlags) change(ctx context.Context, out io.Writer, word, became string) error {
	r := api.Request{Method: "POST", Path: f.poolPath() + "/" + word}
	if err := f.write(ctx, r, nil); err != nil {
		return err
	}
	return Say(out, "Pool %s is %s.", f.Pool, became)
}

type poolsFreezeCommand struct {
	poolFlags `embed:""`
}

// Run freezes a pool.
func (c *poolsFreezeCommand) Run(ctx context.Context, out io.Writer) error {
	return c.change(ctx, out, "freeze", "frozen")
}

type poolsUnfreezeCommand struct {
	poolFlags `embed:""`
}

// Run unfreezes a pool.
func (c *poolsUnfreezeCommand) Run(ctx context.Context, out io.Writer) error {
	return c.change(ctx, out, "unfreeze", "no longer frozen")
}

type poolsArchiveCommand struct {
	poolFlags `embed:""`
}

// Run archives a pool.
func (c *poolsArchiveCommand) Run(ctx context.Context, out io.Writer) error {
	return c.change(ctx, out, "archive", "archived")
}
