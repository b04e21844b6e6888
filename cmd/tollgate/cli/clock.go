package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

type clockCommand struct {
	Show    call[environmentOutput, clock] `cmd:"" call:"GET clock" help:"Show the time of an environment."`
	Advance clockAdvanceCommand            `cmd:"" help:"Move the sandbox's clock forward: periods end, invoices are issued and fall due."`
}

type clock struct{ api.Clock }

func (c *clock) print(out io.Writer) error {
	text := c.Now.UTC().Format(time.RFC3339)
	if !c.Settled {
		text += ", and renewals due by then are still running"
	}
	return Say(out, "%s", text)
}

// uncounted is said where an answer has no counts: nothing fell due, or it was too much to count.
const uncounted = "Nothing that is counted fell due"

// did says what an advance did.
func (c *clock) did() string {
	var all []string
	for _, count := range []struct {
		n         int
		one, many string
	}{
		{c.InvoicesIssued, "invoice issued", "invoices issued"},
		{c.InvoicesPastDue, "invoice past due", "invoices past due"},
		{c.SubscriptionsSuspended, "suspension", "suspensions"},
		{c.SubscriptionsEnded, "subscription ended", "subscriptions ended"},
	} {
		switch count.n {
		case 0:
		case 1:
			all = append(all, "1 "+count.one)
		default:
			all = append(all, strconv.Itoa(count.n)+" "+count.many)
		}
	}
	return strings.Join(all, ", ")
}

type clockAdvanceCommand struct {
	AdminFlags  `embed:""`
	Account     string `context:"account" default:"demo" help:"The account whose sandbox clock it is."`
	To          string `arg:"" help:"An RFC 3339 time such as 2026-03-01T00:00:00Z, or by how much: 36h, 31d."`
	OutputFlags `embed:""`
}

// Help says what the clock does.
func (c *clockAdvanceCommand) Help() string {
	return "A sandbox has a clock of its own, which runs on from wherever it was moved to; " +
		"it never goes back, and moves at most five years at a time. The command ends when " +
		"everything that falls due by then has happened, each thing at its own instant, in order. What " +
		"it did is counted where that takes less than a minute and the environment has up to 20,000 " +
		"customers."
}

// clockPatience is how long the command waits for everything to happen.
const (
	clockPatience = 15 * time.Minute
	clockPause    = 500 * time.Millisecond
)

// Run advances a clock.
func (c *clockAdvanceCommand) Run(ctx context.Context, out io.Writer) error {
	admin, err := c.Client()
	if err != nil {
		return err
	}
	defer admin.Close()
	admin.Patience, admin.AnswerTimeout = clockPatience, clockPatience
	path := (&EnvironmentFlags{c.Account, "sandbox"}).path() + "/clock"
	to, err := c.target(ctx, admin, path)
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]time.Time{"advanceTo": to})
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, clockPatience)
	defer cancel()
	wait := StartProgress("moving to "+to.Format(time.RFC3339)+" and doing what falls due", 0)
	answer, err := admin.Do(ctx, api.Request{Method: "POST", Path: path, Body: body, Once: true})
	if err == nil {
		err = answer.Err()
	}
	if errors.Is(err, api.ErrUnsure) {
		answer, err = settled(ctx, admin, path, to)
	}
	wait.End()
	if err != nil {
		return err
	}
	var now clock
	if err = answer.Data(&now); err != nil {
		return err
	}
	return c.Print(out, answer.Payload(), func() error {
		err := now.print(out)
		if err == nil {
			err = Say(out, "%s.", either(now.did(), uncounted))
		}
		return err
	})
}

// target is the instant to move to.
func (c *clockAdvanceCommand) target(
	ctx context.Context, admin *api.Client, path string,
) (to time.Time, err error) {
	if to, err = time.Parse(time.RFC3339, c.To); err == nil {
		return to.UTC(), nil
	}
	by, err := time.ParseDuration(c.To)
	if days, found := strings.CutSuffix(c.To, "d"); err != nil && found {
		var n int
		n, err = strconv.Atoi(days)
		by = time.Duration(n) * 24 * time.Hour
	}
	if err != nil {
		return to, fmt.Errorf("%q is neither a time such as 2026-03-01T00:00:00Z nor a span such as "+
			"36h or 31d", c.To)
	}
	var now clock
	if _, err = admin.Call(ctx, "GET", path, nil, &now); err != nil {
		return to, err
	}
	return now.Now.Add(by).UTC(), nil
}

// settled asks until everything has happened that is due by an instant: the request may have been
// carried out, and must not be sent again.
func settled(
	ctx context.Context, admin *api.Client, path string, to time.Time,
) (answer api.Answer, err error) {
	for {
		var now clock
		if answer, err = admin.Call(ctx, "GET", path, nil, &now); err != nil {
			return answer, err
		}
		if now.Now.Before(to) {
			return answer, fmt.Errorf("the clock did not move: it is %s there; try again",
				now.Now.Format(time.RFC3339))
		}
		if now.Settled {
			return answer, nil
		}
		select {
		case <-ctx.Done():
			return answer, fmt.Errorf("renewals due by then are still running: %w", ctx.Err())
		case <-time.After(clockPause):
		}
	}
}
