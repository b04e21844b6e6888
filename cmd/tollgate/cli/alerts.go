package cli

import (
	"context"
	"io"
	"net/url"
	"os"
	"strconv"
)

// alertsCommand are the tools by which an operator sets a flow's alerts for its owner.
type alertsCommand struct {
	Set    alertsSetCommand    `cmd:"" help:"Turn a flow's alerts on, and say where they go."`
	Off    alertsOffCommand    `cmd:"" help:"Turn a flow's alerts off; where they went is kept."`
	Test   alertsTestCommand   `cmd:"" help:"Send a test to wherever a flow's alerts go."`
	Secret alertsSecretCommand `cmd:"" help:"Make a new signing secret for a flow's webhooks; the one before signs beside it for 24 hours."`
}

// alertsFlags name a flow of a workspace.
type alertsFlags struct {
	workspaceFlags `embed:""`
	Flow           string `arg:"" help:"The flow's id, flow_…."`
}

// flowAlerts are a flow's alerts as the operations listener shows them.
type flowAlerts struct {
	Secret string `json:"secret"`
	Watch  struct {
		State string `json:"state"`
		Since string `json:"since"`
	} `json:"watch"`
	Settings struct {
		On    bool   `json:"on"`
		Email string `json:"email"`
		URL   string `json:"webhookUrl"`
		Gone  string `json:"webhookGoneAt"`
	} `json:"settings"`
	Deliveries []struct {
		Kind     string `json:"kind"`
		Channel  string `json:"channel"`
		Status   string `json:"status"`
		Attempts int    `json:"attempts"`
		Reason   string `json:"reason"`
		Created  string `json:"createdAt"`
		Next     string `json:"nextAttemptAt"`
	} `json:"deliveries"`
}

func (v *flowAlerts) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Watch", v.Watch.State+" since "+instant(v.Watch.Since))
	t.Row("Alerts on", strconv.FormatBool(v.Settings.On))
	t.Row("E-mail", either(v.Settings.Email, "–"))
	hook := either(v.Settings.URL, "–")
	if v.Settings.Gone != "" {
		hook += " (gone since " + instant(v.Settings.Gone) + ": turn alerts on again)"
	}
	t.Row("Webhook", hook)
	if err := t.End(); err != nil || len(v.Deliveries) == 0 {
		return err
	}
	t = NewTable(out, "MADE", "WHAT", "BY", "STATUS", "ATTEMPTS", "NEXT", "WHY")
	for _, d := range v.Deliveries {
		next := "–"
		if d.Next != "" {
			next = instant(d.Next)
		}
		t.Row(instant(d.Created), d.Kind, d.Channel, d.Status, strconv.Itoa(d.Attempts), next,
			either(d.Reason, "–"))
	}
	return t.End()
}

// use uses a tool, and prints the alerts as they are then; a secret that was made is printed alone,
// and what it is said on the side.
func (f *alertsFlags) use(ctx context.Context, out io.Writer, tool string, body any) error {
	var v flowAlerts
	path := f.workspacePath() + "/flows/" + url.PathEscape(f.Flow) + "/alerts" + tool
	data, err := f.send(ctx, "POST", path, body, &v)
	return f.answer(out, data, err, func() error {
		if v.Secret == "" {
			return v.print(out)
		}
		if err := Say(out, "%s", v.Secret); err != nil {
			return err
		}
		return Say(os.Stderr, "The secret that webhooks of %s are signed with. It is not shown again.",
			f.Flow)
	})
}

type alertsSetCommand struct {
	alertsFlags `embed:""`
	Email       *string `help:"The address that mails go to; empty is none."`
	Webhook     *string `help:"The url that webhooks go to; empty is none."`
}

// Run turns alerts on.
func (c *alertsSetCommand) Run(ctx context.Context, out io.Writer) error {
	body := map[string]any{"on": true}
	if c.Email != nil {
		body["email"] = *c.Email
	}
	if c.Webhook != nil {
		body["webhookUrl"] = *c.Webhook
	}
	return c.use(ctx, out, "", body)
}

type alertsOffCommand struct {
	alertsFlags `embed:""`
}

// Run turns alerts off.
func (c *alertsOffCommand) Run(ctx context.Context, out io.Writer) error {
	return c.use(ctx, out, "", map[string]any{"on": false})
}

type alertsTestCommand struct {
	alertsFlags `embed:""`
}

// Run sends a test.
func (c *alertsTestCommand) Run(ctx context.Context, out io.Writer) error {
	return c.use(ctx, out, "/test", nil)
}

type alertsSecretCommand struct {
	alertsFlags `embed:""`
}

// Run makes a new secret.
func (c *alertsSecretCommand) Run(ctx context.Context, out io.Writer) error {
	return c.use(ctx, out, "/secret", nil)
}
