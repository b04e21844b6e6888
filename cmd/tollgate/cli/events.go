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
	List      eventsListCommand                       `cmd:"" help:"List usage events, corrections and checks, the newest first."`
	Tail      eventsTailCommand                       `cmd:"" help:"Print events as they are recorded: of all customers, or of one."`
	Send      eventsSendCommand                       `cmd:"" help:"Record a usage event, once for each key."`
	Void      eventsVoidCommand                       `cmd:"" help:"Void a usage event, for good."`
	Amend     eventsAmendCommand                      `cmd:"" help:"Change a usage event's quantity."`
	Unmatched call[environmentOutput, unmatchedNames] `cmd:"" call:"GET unmatched-events" help:"List event names that match no feature and are therefore not billed."`
}

type eventsListCommand struct {
	inClient `embed:""`
	Customer string `arg:"" optional:"" help:"Only the events of this customer, by when they occurred. Default: of all, by when they were recorded."`
	Kind     string `enum:",usage,audit,void,amend" default:"" help:"usage, audit (checks), void or amend; all if absent."`
	Feature  string `placeholder:"KEY" help:"Only events of this feature."`
	Denied   bool   `help:"Only denied checks."`
	Unbilled bool   `help:"Only usage events that are not billed."`
	From     string `placeholder:"TIME" help:"Earliest instant at which they occurred, RFC 3339."`
	To       string `placeholder:"TIME" help:"They occurred before this instant, RFC 3339."`
	Limit    int    `default:"100" help:"Maximum number of rows."`
}

// eventsPage is how many events are asked for at a time.
const eventsPage = 1000

// Run lists events, page by page.
func (c *eventsListCommand) Run(ctx context.Context, out io.Writer) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	query := url.Values{"limit": {strconv.Itoa(min(max(c.Limit, 1), eventsPage))}}
	for name, value := range map[string]string{
		"kind": c.Kind, "feature": c.Feature, "from": c.From, "to": c.To,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	for name, set := range map[string]bool{"denied": c.Denied, "unbilled": c.Unbilled} {
		if set {
			query.Set(name, "true")
		}
	}
	if c.Customer != "" {
		query.Set("order", "desc")
	}
	list, more, err := c.pages(ctx, client, query)
	if err != nil {
		return err
	}
	return c.printValue(out, list, func() error { return c.print(out, list, more) })
}

// pages reads events, page by page, up to the limit; more reports whether there are others.
func (c *eventsListCommand) pages(
	ctx context.Context, client *api.Client, query url.Values,
) (list []api.Event, more bool, err error) {
	list = []api.Event{}
	progress := StartList("reading events", c.Limit)
	defer progress.End()
	for e, err := range client.Events(ctx, c.Customer, query) {
		if err != nil {
			return nil, false, err
		}
		if more = len(list) == c.Limit; more {
			break
		}
		list = append(list, e)
		progress.Add(1)
	}
	return list, more, nil
}

func (c *eventsListCommand) print(out io.Writer, list []api.Event, more bool) error {
	if len(list) == 0 {
		return Say(out, "No such event.")
	}
	heads := []string{"OCCURRED", "KIND", "FEATURE OR NAME", "UNITS", "KEY OR ANSWER"}
	if c.Customer == "" {
		heads = append(heads, "CUSTOMER")
	}
	t := NewTable(out, heads...)
	for i := range list {
		e := &list[i]
		kind, units := e.Kind, quantity(e.UsageUnits)
		switch {
		case e.Kind == "audit":
			kind, units = "check", ""
		case !e.VoidedAt.IsZero():
			kind += ", voided"
		case e.Unbilled:
			kind += ", not billed"
		}
		t.Row(moment(e.OccurredAt), kind, either(e.FeatureKey, e.EventName), units,
			either(answered(e), e.EventIdempotencyKey), e.CustomerReferenceID)
	}
	err := t.End()
	if err == nil && more {
		err = Say(out, "There are more: raise --limit.")
	}
	return err
}

// answered is the answer to a check, with the limit that denied it; empty of other events.
func answered(e *api.Event) string {
	switch {
	case e.Kind != "audit":
		return ""
	case e.Limit == "":
		return e.Reason
	}
	text := e.Reason + ": " + quantity(e.Used) + " used"
	if e.Held != "0" {
		text += ", " + quantity(e.Held) + " held"
	}
	text += " of " + quantity(e.Limit)
	if e.Budget != "" {
		text += " in budget " + e.Budget
	}
	if e.RequestedUnits != "" {
		text += ", " + quantity(e.RequestedUnits) + " requested"
	}
	return text
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
	return "Units are never negative: to take usage back, void or amend an event (tollgate events " +
		"void, events amend). An event that nothing bills is recorded, too; a warning says so."
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
	sent, err := client.RecordEvent(ctx, event)
	if err != nil {
		return repeatable(err, "--event-key", event.EventIdempotencyKey)
	}
	c.warn(ctx, client, &event)
	return c.printValue(out, map[string]any{
		"eventIdempotencyKey": event.EventIdempotencyKey, "occurredAt": event.OccurredAt,
		"usageLimitExceeded": sent.LimitExceeded, "recordedBefore": sent.Before,
	}, func() error {
		if sent.Before {
			return Say(out, "The event with key %s was recorded before. It counts once.", sent.Key)
		}
		err := Say(out, "Recorded %s of %s for %s at %s, with key %s.", quantity(event.UsageUnits),
			c.Name, c.Customer, moment(event.OccurredAt), event.EventIdempotencyKey)
		if err == nil && sent.LimitExceeded {
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

// correction are the flags of a command that corrects a usage event.
type correction struct {
	inClient `embed:""`
	Key      string `arg:"" name:"event-key" help:"The event's idempotency key."`
	Reason   string `help:"Why; kept with the correction."`
	Preview  bool   `help:"Show what it would do to money, and change nothing."`
}

type eventsVoidCommand struct {
	correction `embed:""`
}

// Run voids an event.
func (c *eventsVoidCommand) Run(ctx context.Context, out io.Writer) error {
	return c.correct(ctx, out, "", func(client *api.Client) error {
		return client.VoidEvent(ctx, c.Key, api.EventVoid{Reason: c.Reason})
	})
}

type eventsAmendCommand struct {
	correction `embed:""`
	Units      units `arg:"" help:"The new quantity."`
}

// Run amends an event.
func (c *eventsAmendCommand) Run(ctx context.Context, out io.Writer) error {
	return c.correct(ctx, out, json.Number(c.Units), func(client *api.Client) error {
		return client.AmendEvent(ctx, c.Key, api.EventAmendment{
			UsageUnits: json.Number(c.Units), Reason: c.Reason,
		})
	})
}

// correct says what a correction does to money, and carries it out unless only that was asked for.
func (c *correction) correct(ctx context.Context, out io.Writer, units json.Number,
	carryOut func(*api.Client) error,
) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	defer client.Close()
	p, err := client.PreviewCorrection(ctx, c.Key, units)
	if err == nil && !c.Preview {
		err = carryOut(client)
	}
	if err != nil {
		return err
	}
	return c.printValue(out, p, func() error {
		did := "Counts"
		if c.Preview {
			did = "Would count"
		}
		t := NewTable(out)
		t.Row("Event", c.Key)
		t.Row(did, quantity(p.NewUsageUnits)+" units instead of "+quantity(p.UsageUnits))
		if p.Billed {
			t.Row("Invoices to come", change(p.Invoices, money(p.Invoices, p.Currency)))
			t.Row("Credits used", change(p.Credits, quantity(p.Credits)))
		} else {
			t.Row("Invoices to come", "no change: no subscription bills this event")
		}
		return t.End()
	})
}

// change writes how much more something is, or less.
func change(n json.Number, written string) string {
	switch {
	case n == "0":
		return "no change"
	case strings.HasPrefix(string(n), "-"):
		return strings.Replace(written, "-", "", 1) + " less"
	}
	return written + " more"
}
