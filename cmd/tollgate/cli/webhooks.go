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
	Create     webhooksCreateCommand                `cmd:"" help:"Add an endpoint and print its signing secret, this once."`
	List       call[environmentOutput, endpoints]   `cmd:"" call:"GET webhook-endpoints" help:"List endpoints and their state."`
	Update     webhooksUpdateCommand                `cmd:"" help:"Change an endpoint, enable or disable it."`
	Delete     call[endpointFlags, none]            `cmd:"" call:"DELETE webhook-endpoints/{ID}" says:"Removed {ID}." help:"Remove an endpoint, what waits for it, and its log."`
	Rotate     webhooksRotateCommand                `cmd:"" help:"Create a new signing secret; the one before signs alongside it for 24 hours."`
	Deliveries call[webhooksDeliveries, deliveries] `cmd:"" call:"GET webhook-endpoints/{ID}/deliveries" help:"List what was sent to an endpoint and what waits, newest first."`
	ResendMany call[webhooksResendMany, resent]     `cmd:"" call:"POST webhook-endpoints/{ID}/resend" help:"Resend the messages of a period, oldest first."`
	Test       call[endpointOutput, tested]         `cmd:"" call:"POST webhook-endpoints/{ID}/test" help:"Send a test message, whichever events the endpoint asks for."`
	Show       call[messageFlags, document]         `cmd:"" call:"GET webhook-endpoints/{ID}/deliveries/{Message}" help:"Print one delivery as JSON: payload and attempts."`
	Resend     call[messageFlags, none]             `cmd:"" call:"POST webhook-endpoints/{ID}/deliveries/{Message}/resend" says:"{Message} waits to be sent." help:"Resend a message, with the same webhook-id."`
}

func (f *inEnvironment) endpoints() string { return f.path() + "/webhook-endpoints" }

// reveal sends a request whose answer holds a secret, and prints that.
func (f *inEnvironment) reveal(ctx context.Context, out io.Writer, r api.Request) error {
	return f.write(ctx, r, func(answer api.Answer) error {
		var made api.WebhookEndpoint
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

type endpointFlags struct {
	inEnvironment `embed:""`
	ID            string `arg:"" help:"The endpoint's id, from webhooks list."`
}

func (f *endpointFlags) endpoint() string { return f.endpoints() + "/" + url.PathEscape(f.ID) }

type endpoints []api.WebhookEndpoint

func (l endpoints) print(out io.Writer) error {
	t := NewTable(out, "ID", "STATE", "PENDING", "DELIVERED", "FAILED", "SKIPPED", "EVENTS", "URL")
	for i := range l {
		e := &l[i]
		t.Row(e.ID, either(e.DisabledReason, "enabled"), strconv.Itoa(e.Pending),
			strconv.Itoa(e.Delivered), strconv.Itoa(e.Failed), strconv.Itoa(e.Skipped),
			either(strings.Join(e.Events, " "), "all"), e.URL)
	}
	return t.End()
}

type webhooksCreateCommand struct {
	inEnvironment `embed:""`
	Event         []string `placeholder:"NAME" help:"An event to send, such as invoice.paid; repeatable. Default: all."`
	Description   string   `help:"What the endpoint is for."`
	URL           string   `arg:"" help:"Where to send messages."`
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
	var now api.WebhookEndpoint
	data, err := c.send(ctx, "PATCH", c.endpoint(), body, &now)
	return c.answer(out, data, err, func() error { return endpoints{now}.print(out) })
}

type webhooksRotateCommand struct {
	endpointFlags `embed:""`
}

// Run makes a new secret.
func (c *webhooksRotateCommand) Run(ctx context.Context, out io.Writer) error {
	return c.reveal(ctx, out, api.Request{Method: "POST", Path: c.endpoint() + "/rotate-secret"})
}

type webhooksDeliveries struct {
	endpointFlags `embed:""`
	OutputFlags   `embed:""`
	Status        string `query:"status,omitempty" enum:",pending,delivered,failed" default:"" help:"pending, delivered or failed; all when absent."`
	Customer      string `query:"customer,omitempty" help:"Only messages about this customer."`
	Limit         int    `query:"limit" default:"50" help:"Maximum number of rows, up to 500."`
	Cursor        string `query:"cursor,omitempty" help:"nextCursor of the page before, from --json."`
}

type endpointOutput struct {
	endpointFlags `embed:""`
	OutputFlags   `embed:""`
}

type webhooksResendMany struct {
	endpointOutput `embed:""`
	From           string `json:"from" required:"" placeholder:"TIME" help:"Messages made from this instant on, RFC 3339."`
	To             string `json:"to,omitempty" placeholder:"TIME" help:"Messages made before this instant, RFC 3339. Default: now."`
	Status         string `json:"status" enum:"failed,delivered,all" default:"failed" help:"failed, delivered or all."`
}

type resent struct {
	Resent int `json:"resent"`
}

func (r *resent) print(out io.Writer) error {
	return Say(out, "%d messages wait to be sent.", r.Resent)
}

type tested struct{ api.WebhookDelivery }

func (d *tested) print(out io.Writer) error {
	return Say(out, "Test message %s waits to be sent: tollgate webhooks show ENDPOINT %[1]s tells "+
		"how it did.", d.ID)
}

type deliveries struct{ api.WebhookDeliveryPage }

func (l *deliveries) print(out io.Writer) error {
	t := NewTable(out, "MESSAGE", "CREATED", "TYPE", "CUSTOMER", "STATUS", "ATTEMPTS", "NEXT",
		"NEWEST ATTEMPT")
	for i := range l.Deliveries {
		d, newest := &l.Deliveries[i], ""
		if n := len(d.Log); n > 0 {
			newest = strings.TrimSpace(d.Log[n-1].Outcome + " " + d.Log[n-1].Reason)
		}
		t.Row(d.ID, moment(d.CreatedAt), d.Type, either(d.CustomerReferenceID, "–"), d.Status,
			strconv.Itoa(d.Attempts), moment(d.NextAttemptAt), newest)
	}
	return t.End()
}

// messageFlags name a message on its way to an endpoint.
type messageFlags struct {
	endpointFlags `embed:""`
	Message       string `arg:"" help:"The message's id, from webhooks deliveries."`
}

// document is an answer that is shown as it came.
type document struct{ json.RawMessage }

func (d *document) print(out io.Writer) error { return Say(out, "%s", d.RawMessage) }
