package cli

import (
	"context"
	"errors"
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
	Kind     string        `enum:",usage,audit" default:"" help:"usage or audit (checks); all if absent."`
	Since    time.Duration `default:"1m" help:"Start with events from this long ago, by the environment's clock."`
}

// Help says what is followed.
func (c *eventsTailCommand) Help() string {
	return "Prints events as they are recorded, until interrupted: usage that occurred long ago, " +
		"and voids and amendments, too. With --json, prints one JSON object per line. Up to 10,000 " +
		"events a second are read, those of other customers as well; a warning says where older ones " +
		"were left out. A customer's key follows that customer's own list, by this machine's clock: " +
		"usage that occurred more than two minutes before the newest may be missed, and so may voids " +
		"and amendments, which are listed at the time of the event that they correct."
}

const (
	tailPause = time.Second
	// tailLate is how much earlier than the newest an event of one's own list may have occurred.
	tailLate = 2 * time.Minute
	// tailMost is how many events are read at a time, and how many of one's own list are known.
	tailMost = 10_000
)

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
	next, err := c.follow(ctx, client, query)
	for err == nil {
		if err = next(ctx, func(e *api.Event) error { return c.print(out, e) }); err != nil {
			break
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(tailPause):
		}
	}
	return unlessEnded(ctx, err)
}

// follower prints the events that were recorded since it was called before.
type follower func(ctx context.Context, print func(*api.Event) error) error

// follow chooses by what the key may read.
func (c *eventsTailCommand) follow(
	ctx context.Context, client *api.Client, query url.Values,
) (follower, error) {
	var now clock
	_, err := send(ctx, client, "GET", c.root()+"/clock", nil, &now)
	if c.Customer != "" && api.IsStatus(err, 403) {
		own := ownTail{
			client: client, customer: c.Customer, query: query, from: time.Now().Add(-c.Since),
			seen: map[string]time.Time{},
		}
		return own.next, own.begin(ctx)
	}
	if err != nil {
		return nil, err
	}
	if c.Customer != "" { // one that is not there has no events, ever
		customer := c.root() + "/customers/" + url.PathEscape(c.Customer)
		if _, err = send(ctx, client, "GET", customer, nil, nil); err != nil {
			return nil, err
		}
	}
	all := tail{
		client: client, path: c.root() + "/events", query: query, from: now.Now.Add(-c.Since),
		customer: c.Customer, warn: func(text string) { Say(os.Stderr, "%s", text) },
	}
	return all.next, nil
}

// errOlderNode is of a node whose answer does not say where a tail goes on.
var errOlderNode = errors.New("the node does not say how far it has listed events: its version " +
	"is older than this command's, which cannot follow them there")

// tail follows the events of all customers, which are listed by when they were recorded: those of
// one by when they occurred, so late ones and corrections would come before what was read.
type tail struct {
	client *api.Client
	path   string
	query  url.Values
	// customer is whose are printed; empty: all.
	customer string
	// from bounds what is listed until until is known, so that no one reads all there is.
	from time.Time
	// until is the place where the look before began: what was recorded since is behind it.
	until string
	warn  func(text string)
}

// next prints the events that were recorded since it was called before, in order.
func (t *tail) next(ctx context.Context, print func(*api.Event) error) error {
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
		if t.until == "" && len(fresh) > 0 { // it would list the same events each time
			return errOlderNode
		}
		more = page.NextCursor != ""
		query.Set("cursor", page.NextCursor)
	}
	if len(fresh) > tailMost {
		t.warn("Warning: more was recorded than can be followed: older events are left out.")
		fresh = fresh[:tailMost]
	}
	for _, e := range slices.Backward(fresh) {
		if t.customer != "" && e.CustomerReferenceID != t.customer {
			continue
		}
		if err := print(&e); err != nil {
			return err
		}
	}
	return nil
}

// ownTail follows a customer's own list, by when events occurred: all that a customer's key may
// read.
type ownTail struct {
	client   *api.Client
	customer string
	query    url.Values
	from     time.Time
	seen     map[string]time.Time // by id, those at or after from
}

// begin lets the first look begin tailLate before the newest event at the latest, and knows what is
// listed there before from, unprinted: what is recorded next may have occurred there, above all
// where the environment's clock is behind this one.
func (t *ownTail) begin(ctx context.Context) error {
	newest, err := t.newest(ctx)
	if err != nil {
		return err
	}
	start := t.from
	if t.from = newest.Add(-tailLate); newest.IsZero() {
		t.from = time.Unix(0, 0)
		return nil
	}
	if !t.from.Before(start) {
		t.from = start
		return nil
	}
	query := maps.Clone(t.query)
	query.Set("order", "desc")
	query.Set("from", t.from.UTC().Format(time.RFC3339Nano))
	query.Set("to", start.UTC().Format(time.RFC3339Nano))
	for e, err := range t.client.Events(ctx, t.customer, query) {
		if err != nil {
			return err
		}
		if len(t.seen) == tailMost { // see bound
			t.from = e.OccurredAt.Add(time.Millisecond)
			break
		}
		t.seen[e.ID] = e.OccurredAt
	}
	return nil
}

// newest is when the newest event occurred; zero where there is none.
func (t *ownTail) newest(ctx context.Context) (at time.Time, err error) {
	query := maps.Clone(t.query)
	query.Set("order", "desc")
	query.Set("limit", "1")
	for e, err := range t.client.Events(ctx, t.customer, query) {
		return e.OccurredAt, err
	}
	return at, nil
}

// next prints the events that it has not printed, as it reads them.
func (t *ownTail) next(ctx context.Context, print func(*api.Event) error) error {
	now, newest, printed := time.Now(), t.from, 0
	t.query.Set("from", t.from.UTC().Format(time.RFC3339Nano))
	for e, err := range t.client.Events(ctx, t.customer, t.query) {
		if err != nil {
			return err
		}
		// An event may be ahead of the clock, which a customer's key may not read: those that follow
		// it need not be.
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
	t.bound()
	return nil
}

// bound forgets the oldest beyond tailMost, and begins behind them: where the environment's clock
// is ahead of this one, no event advances the next look.
func (t *ownTail) bound() {
	if len(t.seen) <= tailMost {
		return
	}
	times := slices.SortedFunc(maps.Values(t.seen), time.Time.Compare)
	t.from = times[len(times)-tailMost-1].Add(time.Millisecond)
	maps.DeleteFunc(t.seen, func(_ string, at time.Time) bool { return at.Before(t.from) })
}

// advance lets the next look begin before newest, and forgets the events of before.
func (t *ownTail) advance(newest time.Time) {
	later := newest.Add(-tailLate)
	if !later.After(t.from) {
		return
	}
	t.from = later
	maps.DeleteFunc(t.seen, func(_ string, at time.Time) bool { return at.Before(t.from) })
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
