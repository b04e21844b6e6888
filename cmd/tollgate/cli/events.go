package cli

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	api "tollgate/sdk/go"
)

type eventsCommand struct {
	Tail      eventsTailCommand                       `cmd:"" help:"Print a customer's events as they are recorded."`
	Send      eventsSendCommand                       `cmd:"" help:"Record a usage event, once for its key."`
	Unmatched call[environmentOutput, unmatchedNames] `cmd:"" call:"GET unmatched-events" help:"List names of events that match no feature and so are not billed."`
}

type unmatchedNames struct {
	Names []api.UnmatchedName `json:"names"`
}

func (l *unmatchedNames) print(out io.Writer) error {
	if len(l.Names) == 0 {
		return Say(out, "Every event so far matched a feature.")
	}
	t := NewTable(out, "NAME", "EVENTS", "FIRST", "LAST")
	for _, n := range l.Names {
		t.Row(n.Name, strconv.Itoa(n.Events), moment(n.FirstAt), moment(n.LastAt))
	}
	return t.End()
}

type eventsSendCommand struct {
	inClient `embed:""`
	Customer string `arg:"" help:"The customer's externalClientCustomerId."`
	Name     string `arg:"" help:"The event's name: a feature's key."`
	Units    units  `arg:"" default:"1" help:"How many units."`
	EventKey string `placeholder:"KEY" help:"The event's idempotency key: sent again with it, it counts nothing. Default: a random one, which is printed, also where it is unknown whether the event was recorded."`
	At       string `placeholder:"TIME" help:"When it occurred, RFC 3339. Default: now, by the environment's clock."`
	Meta     string `placeholder:"JSON" help:"A JSON object that is kept with the event."`
}

// Help says how to take usage back.
func (c *eventsSendCommand) Help() string {
	return "Units are never negative: void or amend an event to take usage back, with POST " +
		"/events/{eventIdempotencyKey}/void or /amend of the client API. An event that nothing bills is " +
		"recorded, too; a warning says so."
}

// units are how many an event counts.
type units number

// Validate refuses a text that is not a number, and one below zero.
func (u units) Validate() error {
	if strings.HasPrefix(string(u), "-") {
		return fmt.Errorf("%s is negative: void or amend an event to take usage back", string(u))
	}
	return number(u).Validate()
}

// Run records an event.
func (c *eventsSendCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	event := api.EventRequest{
		EventIdempotencyKey: either(c.EventKey, rand.Text()), CustomerReferenceID: c.Customer,
		EventName: c.Name, UsageUnits: json.Number(c.Units),
	}
	if c.Meta != "" {
		if event.Meta = json.RawMessage(c.Meta); !json.Valid(event.Meta) {
			return fmt.Errorf(`--meta %s is not JSON such as {"model": "large"}; nothing was sent`, c.Meta)
		}
	}
	if c.At != "" {
		if event.OccurredAt, err = time.Parse(time.RFC3339, c.At); err != nil {
			return fmt.Errorf("--at %s is not a time such as 2026-03-01T00:00:00Z; nothing was sent", c.At)
		}
	} else {
		var now clock
		if _, err = send(ctx, client, "GET", c.root()+"/clock", nil, &now); err != nil {
			return err
		}
		event.OccurredAt = now.Now
	}
	exceeded, err := client.RecordEvent(ctx, event)
	if err != nil {
		return repeatable(err, "--event-key", event.EventIdempotencyKey)
	}
	c.warn(ctx, client, &event)
	return c.printValue(out, map[string]any{
		"eventIdempotencyKey": event.EventIdempotencyKey, "occurredAt": event.OccurredAt,
		"usageLimitExceeded": exceeded,
	}, func() error {
		err := Say(out, "Recorded %s of %s for %s at %s, with key %s.", quantity(event.UsageUnits),
			c.Name, c.Customer, moment(event.OccurredAt), event.EventIdempotencyKey)
		if err == nil && exceeded {
			err = Say(out, "The limit of this feature is reached: the next check is denied.")
		}
		return err
	})
}

// warn says on the side that nothing bills an event that was recorded.
func (c *eventsSendCommand) warn(ctx context.Context, client *api.Client, sent *api.EventRequest) {
	query := url.Values{
		"kind": {"usage"}, "from": {sent.OccurredAt.UTC().Format(time.RFC3339Nano)},
		"to": {sent.OccurredAt.Add(time.Millisecond).UTC().Format(time.RFC3339Nano)},
	}
	for e, err := range client.Events(ctx, c.Customer, query) {
		switch {
		case err != nil:
			return // the event is recorded all the same
		case e.EventIdempotencyKey != sent.EventIdempotencyKey:
			continue
		case e.FeatureKey == "":
			Say(os.Stderr, "Warning: no feature has the name %s, so the event is not billed. See "+
				"tollgate events unmatched.", c.Name)
		case e.Unbilled:
			Say(os.Stderr, "Warning: no subscription of %s has the feature %s, so the event is not "+
				"billed.", c.Customer, c.Name)
		}
		return
	}
}
