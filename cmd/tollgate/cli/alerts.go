package cli

import (
	"io"
	"strconv"

	api "tollgate/sdk/go"
)

// alertsCommand are the tools by which an operator sets a flow's alerts for its owner.
type alertsCommand struct {
	Set    call[alertsSet, flowAlerts]   `cmd:"" call:"POST /workspaces/{Workspace}/flows/{Flow}/alerts" with:"on=true" notes:"The secret that webhooks of {Flow} are signed with. It is not shown again." help:"Turn a flow's alerts on, and set where they go."`
	Off    call[alertsFlags, flowAlerts] `cmd:"" call:"POST /workspaces/{Workspace}/flows/{Flow}/alerts" with:"on=false" help:"Turn a flow's alerts off; their destinations are kept."`
	Test   call[alertsFlags, flowAlerts] `cmd:"" call:"POST /workspaces/{Workspace}/flows/{Flow}/alerts/test" help:"Send a test alert to a flow's destinations."`
	Secret call[alertsFlags, flowAlerts] `cmd:"" call:"POST /workspaces/{Workspace}/flows/{Flow}/alerts/secret" notes:"The secret that webhooks of {Flow} are signed with. It is not shown again." help:"Create a new signing secret for a flow's webhooks; the one before signs alongside it for 24 hours."`
}

// alertsFlags name a flow of a workspace.
type alertsFlags struct {
	workspaceFlags `embed:""`
	Flow           string `arg:"" help:"The flow's id, flow_…."`
}

type alertsSet struct {
	alertsFlags `embed:""`
	Email       *string `json:"email,omitempty" help:"The address that mails go to; empty is none."`
	Webhook     *string `json:"webhookUrl,omitempty" help:"The url that webhooks go to; empty is none."`
}

// flowAlerts are a flow's alerts as the operations listener shows them.
type flowAlerts struct{ api.Alerts }

// secret is a signing secret that was just made.
func (v *flowAlerts) secret() string { return v.Secret }

func (v *flowAlerts) print(out io.Writer) error {
	t := NewTable(out)
	t.Row("Watch", v.Watch.State+" since "+moment(v.Watch.Since))
	t.Row("Alerts on", strconv.FormatBool(v.Settings.On))
	t.Row("E-mail", either(v.Settings.Email, "–"))
	hook := either(v.Settings.WebhookURL, "–")
	if gone := v.Settings.WebhookGoneAt; !gone.IsZero() {
		hook += " (gone since " + moment(gone) + ": turn alerts on again)"
	}
	t.Row("Webhook", hook)
	if err := t.End(); err != nil || len(v.Deliveries) == 0 {
		return err
	}
	t = NewTable(out, "MADE", "WHAT", "BY", "STATUS", "ATTEMPTS", "NEXT", "WHY")
	for _, d := range v.Deliveries {
		t.Row(moment(d.CreatedAt), d.Kind, d.Channel, d.Status, strconv.Itoa(d.Attempts),
			either(moment(d.NextAttemptAt), "–"), either(d.Reason, "–"))
	}
	return t.End()
}
