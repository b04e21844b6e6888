package cli

import (
	"context"
	"io"
	"net/url"
	"time"

	api "tollgate/sdk/go"
)

type eventsTailCommand struct {
	ofCustomer `embed:""`
	Kind       string        `enum:",usage,audit" default:"" help:"usage or audit (checks); all when absent."`
	Since      time.Duration `default:"1m" help:"Begin with events of so long ago, by the environment's clock."`
}

// Help says what is followed.
func (c *eventsTailCommand) Help() string {
	return "Prints events as they are recorded, until interrupted. With --json, prints one JSON " +
		"object per line. Events that occurred more than two minutes before the newest may be " +
		"missed. So may voids and amendments, which are listed at the time of the event they correct."
}

const (
	tailPause = time.Second
	// tailLate is how much earlier than the newest an event may have occurred.
	tailLate = 2 * time.Minute
)

// Run follows a customer's events until ctx ends.
func (c *eventsTailCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	var from time.Time
	for seen := map[string]time.Time{}; ; {
		var now clock
		if _, err = send(ctx, client, "GET", c.root()+"/clock", nil, &now); err != nil {
			return unlessEnded(ctx, err)
		}
		if from.IsZero() {
			from = now.Now.Add(-c.Since)
		}
		newest := from
		query := url.Values{"from": {from.UTC().Format(time.RFC3339Nano)}}
		if c.Kind != "" {
			query.Set("kind", c.Kind)
		}
		for e, err := range client.Events(ctx, c.Customer, query) {
			if err != nil || ctx.Err() != nil {
				return unlessEnded(ctx, err)
			}
			// An event may be ahead of the clock; those that follow it need not be.
			if e.OccurredAt.After(newest) && !e.OccurredAt.After(now.Now) {
				newest = e.OccurredAt
			}
			if _, known := seen[e.ID]; known {
				continue
			}
			seen[e.ID] = e.OccurredAt
			if err = c.print(out, &e); err != nil {
				return err
			}
		}
		if later := newest.Add(-tailLate); later.After(from) {
			from = later
		}
		for id, at := range seen {
			if at.Before(from) {
				delete(seen, id)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailPause):
		}
	}
}

// unlessEnded is err, or nothing where ctx has ended.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (c *eventsTailCommand) print(out io.Writer, e *api.Event) error {
	return c.printValue(out, e, func() error {
		return Say(out, "%-24s  %-5s  %-20s  %12s  %s", moment(e.OccurredAt), e.Kind,
			either(e.FeatureKey, e.EventName), quantity(e.UsageUnits),
			either(answered(e), e.EventIdempotencyKey, e.Reason))
	})
}
