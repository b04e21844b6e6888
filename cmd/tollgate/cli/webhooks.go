package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
)

type webhooksCommand struct {
	Create     webhooksCreateCommand     `cmd:"" help:"Add an endpoint and print its signing secret, this once."`
	List       webhooksListCommand       `cmd:"" help:"List endpoints and how they do."`
	Update     webhooksUpdateCommand     `cmd:"" help:"Change an endpoint, enable or disable it."`
	Delete     webhooksDeleteCommand     `cmd:"" help:"Remove an endpoint, what waits for it, and its log."`
	Rotate     webhooksRotateCommand     `cmd:"" help:"Make a new signing secret; the one before signs beside it for 24 hours."`
	Deliveries webhooksDeliveriesCommand `cmd:"" help:"List what was sent to an endpoint and what waits, newest first."`
	Show       webhooksShowCommand       `cmd:"" help:"Print one delivery as JSON: payload and attempts."`
	Resend     webhooksResendCommand     `cmd:"" help:"Send a message once more, with the same webhook-id."`
}

// webhookFlags say whose endpoints to operate on.
type webhookFlags struct {
	AdminFlags       `embed:""`
	EnvironmentFlags `embed:""`
}

func (f *webhookFlags) endpoints() string { return f.path() + "/webhook-endpoints" }

// reveal sends a request whose answer holds a secret, and prints that. It is sent once: a repeat
// would make another.
func (f *webhookFlags) reveal(ctx context.Context, out io.Writer, r api.Request) error {
	r.Once = true
	return f.write(ctx, r, func(answer api.Answer) error {
		var made webhookEndpoint
		if err := answer.Data(&made); err != nil {
			return err
		}
		if err := Say(out, "%s", made.Secret); err != nil {
			return err
		}
		return Say(os.Stderr, "The signing secret of endpoint %s of %s/%s. It is not shown again.",
			made.ID, f.Account, f.Environment)
	})
}

// endpointFlags name one endpoint.
type endpointFlags struct {
	webhookFlags `embed:""`
	ID           string `arg:"" help:"The endpoint's id, from webhooks list."`
}

func (f *endpointFlags) endpoint() string { return f.endpoints() + "/" + url.PathEscape(f.ID) }

// webhookEndpoint is an endpoint as the admin API answers it.
type webhookEndpoint struct {
	ID             string   `json:"id"`
	URL            string   `json:"url"`
	Events         []string `json:"events"`
	Enabled        bool     `json:"enabled"`
	DisabledReason string   `json:"disabledReason"`
	Secret         string   `json:"secret"`
	Pending        uint64   `json:"pending"`
	Delivered      uint64   `json:"delivered"`
	Failed         uint64   `json:"failed"`
	Skipped        uint64   `json:"skipped"`
}

func printEndpoints(out io.Writer, all []webhookEndpoint) error {
	count := func(n uint64) string { return strconv.FormatUint(n, 10) }
	t := NewTable(out, "ID", "STATE", "PENDING", "DELIVERED", "FAILED", "SKIPPED", "EVENTS", "URL")
	for i := range all {
		e := &all[i]
		t.Row(e.ID, either(e.DisabledReason, "enabled"), count(e.Pending), count(e.Delivered),
			count(e.Failed), count(e.Skipped), either(strings.Join(e.Events, " "), "all"), e.URL)
	}
	return t.End()
}

type webhooksCreateCommand struct {
	webhookFlags `embed:""`
	Event        []string `placeholder:"NAME" help:"An event to send, such as invoice.paid; repeatable. Default: all."`
	Description  string   `help:"What the endpoint is for."`
	URL          string   `arg:"" help:"Where to send messages."`
}

// Run adds an endpoint.
func (c *webhooksCreateCommand) Run(ctx context.Context, out io.Writer) error {
	body, err := json.Marshal(map[string]any{
		"url": c.URL, "events": append([]string{}, c.Event...), "description": c.Description,
	})
	if err != nil {
		return fmt.Errorf("request body: %w", err)
	}
	return c.reveal(ctx, out, api.Request{Method: "POST", Path: c.endpoints(), Body: body})
}

type webhooksListCommand struct {
	webhookFlags `embed:""`
	OutputFlags  `embed:""`
}

// Run lists endpoints.
func (c *webhooksListCommand) Run(ctx context.Context, out io.Writer) error {
	var all []webhookEndpoint
	data, err := c.read(ctx, c.endpoints(), &all)
	return c.answer(out, data, err, func() error { return printEndpoints(out, all) })
}

type webhooksUpdateCommand struct {
	endpointFlags `embed:""`
	OutputFlags   `embed:""`
	URL           *string  `help:"Where to send messages."`
	Event         []string `placeholder:"NAME" help:"The events to send; repeatable. all stands for every one."`
	Description   *string  `help:"What the endpoint is for."`
	Enable        bool     `xor:"enabled" help:"Send messages, those that wait too."`
	Disable       bool     `xor:"enabled" help:"Send nothing; what happens meanwhile is not sent later."`
}

// Run changes an endpoint.
func (c *webhooksUpdateCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{}
	if c.URL != nil {
		body["url"] = *c.URL
	}
	if c.Description != nil {
		body["description"] = *c.Description
	}
	if len(c.Event) == 1 && c.Event[0] == "all" {
		body["events"] = []string{}
	} else if len(c.Event) > 0 {
		body["events"] = c.Event
	}
	if c.Enable || c.Disable {
		body["enabled"] = c.Enable
	}
	var now webhookEndpoint
	data, err := c.send(ctx, "PATCH", c.endpoint(), body, &now)
	return c.answer(out, data, err, func() error {
		return printEndpoints(out, []webhookEndpoint{now})
	})
}

type webhooksDeleteCommand struct {
	endpointFlags `embed:""`
}

// Run removes an endpoint.
func (c *webhooksDeleteCommand) Run(ctx context.Context, out io.Writer) error {
	if _, err := c.send(ctx, "DELETE", c.endpoint(), nil, nil); err != nil {
		return err
	}
	return Say(out, "Removed %s.", c.ID)
}

type webhooksRotateCommand struct {
	endpointFlags `embed:""`
}

// Run makes a new secret.
func (c *webhooksRotateCommand) Run(ctx context.Context, out io.Writer) error {
	return c.reveal(ctx, out, api.Request{Method: "POST", Path: c.endpoint() + "/rotate-secret"})
}

type webhooksDeliveriesCommand struct {
	endpointFlags `embed:""`
	OutputFlags   `embed:""`
	Status        string `enum:",pending,delivered,failed" default:"" help:"pending, delivered or failed; all when absent."`
	Limit         int    `default:"50" help:"How many, at most 500."`
	Cursor        string `help:"nextCursor of the page before, from --json."`
}

// Run lists deliveries.
func (c *webhooksDeliveriesCommand) Run(ctx context.Context, out io.Writer) error {
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	if c.Status != "" {
		query.Set("status", c.Status)
	}
	if c.Cursor != "" {
		query.Set("cursor", c.Cursor)
	}
	var page struct {
		Deliveries []struct {
			ID       string `json:"id"`
			Type     string `json:"type"`
			Status   string `json:"status"`
			Attempts int    `json:"attempts"`
			Log      []struct {
				Outcome string `json:"outcome"`
				Reason  string `json:"reason"`
			} `json:"log"`
			CreatedAt     string `json:"createdAt"`
			NextAttemptAt string `json:"nextAttemptAt"`
		} `json:"deliveries"`
	}
	data, err := c.read(ctx, c.endpoint()+"/deliveries?"+query.Encode(), &page)
	return c.answer(out, data, err, func() error {
		t := NewTable(out, "MESSAGE", "CREATED", "TYPE", "STATUS", "ATTEMPTS", "NEXT", "NEWEST ATTEMPT")
		for i := range page.Deliveries {
			d, newest := &page.Deliveries[i], ""
			if n := len(d.Log); n > 0 {
				newest = strings.TrimSpace(d.Log[n-1].Outcome + " " + d.Log[n-1].Reason)
			}
			t.Row(d.ID, instant(d.CreatedAt), d.Type, d.Status, strconv.Itoa(d.Attempts),
				instant(d.NextAttemptAt), newest)
		}
		return t.End()
	})
}

// messageFlags name a message on its way to an endpoint.
type messageFlags struct {
	endpointFlags `embed:""`
	Message       string `arg:"" help:"The message's id, from webhooks deliveries."`
}

func (f *messageFlags) message() string {
	return f.endpoint() + "/deliveries/" + url.PathEscape(f.Message)
}

type webhooksShowCommand struct {
	messageFlags `embed:""`
}

// Run prints one delivery.
func (c *webhooksShowCommand) Run(ctx context.Context, out io.Writer) error {
	data, err := c.read(ctx, c.message(), nil)
	if err != nil {
		return err
	}
	return Say(out, "%s", data)
}

type webhooksResendCommand struct {
	messageFlags `embed:""`
}

// Run sends a message once more.
func (c *webhooksResendCommand) Run(ctx context.Context, out io.Writer) error {
	if _, err := c.send(ctx, "POST", c.message()+"/resend", nil, nil); err != nil {
		return err
	}
	return Say(out, "%s waits to be sent.", c.Message)
}
