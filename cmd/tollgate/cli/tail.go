package cli

import (
	"context"
	"io"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"time"

	api "tollgate/sdk/go"
)

type eventsTailCommand struct {
	inClient `embed:""`
	Customer string        `arg:"" optional:"" help:"Only the events of this customer. Default: of all."`
	Kind     string        `enum:",usage,audit" default:"" help:"usage or audit (checks); all when absent."`
	Since    time.Duration `default:"1m" help:"Begin with events of so long ago, by the environment's clock."`
}

// Help says what is followed.
func (c *eventsTailCommand) Help() string {
	return "Prints events as they are recorded, until interrupted. With --json, prints one JSON " +
		"object per line. Of one customer, events that occurred more than two minutes before the " +
		"newest may be missed. So may voids and amendments, which are listed at the time of the " +
		"event they correct. Of all customers, everything is printed that is recorded after the " +
		"first event, up to 10,000 a second; a warning says where older ones were left out."
}

const (
	tailPause = time.Second
	// tailLate is how much earlier than the newest an event may have occurred.
	tailLate = 2 * time.Minute
	// tailMost is how many of all customers' events are printed at a time.
	tailMost = 10_000
)

// tail follows events: next prints those that were recorded since it was called before, in order.
// now is the environment's clock.
type tail interface {
	next(ctx context.Context, now time.Time, print func(*api.Event) error) error
}

// Run follows events until ctx ends.
func (c *eventsTailCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	query := url.Values{"limit": {strconv.Itoa(eventsPage)}}
	if c.Kind != "" {
		query.Set("kind", c.Kind)
	}
	var followed tail
	for {
		var now clock
		if _, err = send(ctx, client, "GET", c.root()+"/clock", nil, &now); err != nil {
			return unlessEnded(ctx, err)
		}
		if followed == nil {
			from := now.Now.Add(-c.Since)
			followed = c.follow(client, query, from)
		}
		err = followed.next(ctx, now.Now, func(e *api.Event) error { return c.print(out, e) })
		if err != nil {
			return unlessEnded(ctx, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailPause):
		}
	}
}

func (c *eventsTailCommand) follow(client *api.Client, query url.Values, from time.Time) tail {
	if c.Customer == "" {
		return &allTail{
			client: client, path: c.root() + "/events", query: query, from: from,
			warn: func(text string) { Say(os.Stderr, "%s", text) },
		}
	}
	return &customerTail{client, c.Customer, query, from, map[string]time.Time{}}
}

// customerTail follows a customer's events, which are listed by when they occurred.
type customerTail struct {
	client   *api.Client
	customer string
	query    url.Values
	from     time.Time
	seen     map[string]time.Time // by id; from from on
}

func (t *customerTail) next(
	ctx context.Context, now time.Time, print func(*api.Event) error,
) error {
	newest, printed := t.from, 0
	t.query.Set("from", t.from.UTC().Format(time.RFC3339Nano))
	for e, err := range t.client.Events(ctx, t.customer, t.query) {
		if err != nil {
			return err
		}
		// An event may be ahead of the clock; those that follow it need not be.
		if e.OccurredAt.After(newest) && !e.OccurredAt.After(now) {
			newest = e.OccurredAt
		}
		if _, known := t.seen[e.ID]; known {
			continue
		}
		if err = print(&e); err != nil {
			return err
		}
		t.seen[e.ID] = e.OccurredAt
		if printed++; printed%eventsPage == 0 {
			t.advance(newest)
		}
	}
	t.advance(newest)
	return nil
}

// advance lets the next look begin before newest, and forgets the events of before.
func (t *customerTail) advance(newest time.Time) {
	later := newest.Add(-tailLate)
	if !later.After(t.from) {
		return
	}
	t.from = later
	for id, at := range t.seen {
		if at.Before(t.from) {
			delete(t.seen, id)
		}
	}
}

// allTail follows the events of all customers, which are listed by when they were recorded.
type allTail struct {
	client *api.Client
	path   string
	query  url.Values
	// from bounds what is listed until until is known, so that no one reads all there is.
	from time.Time
	// until is the place where the look before began: what was recorded since is behind it.
	until string
	warn  func(text string)
}

func (t *allTail) next(ctx context.Context, _ time.Time, print func(*api.Event) error) error {
	query := url.Values{}
	if maps.Copy(query, t.query); t.until != "" {
		query.Set("until", t.until)
	} else {
		query.Set("from", t.from.UTC().Format(time.RFC3339Nano))
	}
	var fresh []api.Event
	for more := true; more && len(fresh) <= tailMost; {
		var page struct {
			Events       []api.Event `json:"events"`
			NextCursor   string      `json:"nextCursor"`
			NewestCursor string      `json:"newestCursor"`
		}
		_, err := send(ctx, t.client, "GET", t.path+"?"+query.Encode(), nil, &page)
		if err != nil {
			return err
		}
		fresh, t.until = append(fresh, page.Events...), either(page.NewestCursor, t.until)
		more = page.NextCursor != ""
		query.Set("cursor", page.NextCursor)
	}
	if len(fresh) > tailMost {
		t.warn("Warning: more was recorded than can be followed: older events are left out.")
		fresh = fresh[:tailMost]
	}
	for _, e := range slices.Backward(fresh) {
		if err := print(&e); err != nil {
			return err
		}
	}
	return nil
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
		line := []any{
			moment(e.OccurredAt), e.Kind, either(e.FeatureKey, e.EventName), quantity(e.UsageUnits),
			either(answered(e), e.EventIdempotencyKey, e.Reason),
		}
		if c.Customer != "" {
			return Say(out, "%-24s  %-5s  %-20s  %12s  %s", line...)
		}
		return Say(out, "%-24s  %-5s  %-20s  %12s  %-24s  %s",
			append(line[:4:4], e.CustomerReferenceID, line[4])...)
	})
}
