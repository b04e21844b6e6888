package owner

import (
	"slices"
	"strings"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// alertsPage shows a flow's alert settings and deliveries.
type alertsPage struct {
	workspace.AlertsView
	Flow workspace.FlowView
	// Email and Webhook are the form's values: the settings, or the values just refused.
	Email, Webhook string
	Checked        bool
	// Mails and Webhooks are the channels that this deployment can send alerts by.
	Mails, Webhooks bool
	Path            string
	// Tests is how many test alerts the workspace sends in a day.
	Tests int
}

// Final reports whether nothing is on its way.
func (a *alertsPage) Final() bool {
	return !slices.ContainsFunc(a.Deliveries, func(d workspace.DeliveryView) bool {
		return d.Status == workspace.DeliveryWaiting
	})
}

// Leads reports whether there is somewhere to send a test to.
func (a *alertsPage) Leads() bool {
	return a.AlertsView.Email != "" || a.AlertsView.URL != "" && a.GoneAt == 0
}

// Secret reports whether webhooks are signed.
func (a *alertsPage) Secret() bool { return len(a.AlertsView.Secret) > 0 }

// Says describes the alerts' destinations in words.
func (a *alertsPage) Says() string { return alertsSay(&a.AlertsView) }

func alertsSay(v *workspace.AlertsView) string {
	if !v.On {
		return "Off: no alerts when this test stops passing, or passes again."
	}
	var ways []string
	if v.Email != "" {
		way := "a mail to " + v.Email
		if v.Unconfirmed {
			way += " (once it is confirmed)"
		}
		ways = append(ways, way)
	}
	if v.URL != "" && v.GoneAt == 0 {
		ways = append(ways, "a webhook")
	}
	if len(ways) == 0 {
		return "On, but no destination is left: the webhook's endpoint is gone, and no e-mail is set."
	}
	return "On: " + strings.Join(ways, " and ") +
		" when this test stops passing, and when it passes again."
}

// alertWords describes an alert.
func alertWords(k workspace.AlertKind) string {
	return map[workspace.AlertKind]string{
		workspace.AlertFailing: "stopped passing", workspace.AlertRecovered: "passes again",
		workspace.AlertTest: "a test of alerts",
	}[k]
}

// alerts reads what a page about a flow's alerts shows; nil when it is answered.
func (v *visit) alerts() (id [16]byte, data *alertsPage) {
	id, ok := v.id(workspaceapi.NounFlow)
	if !ok {
		return id, nil
	}
	data = &alertsPage{Path: Root + "/flows/" + workspaceapi.NounFlow.Text(id) + "/alerts"}
	data.Flow, data.AlertsView, _, ok = v.config.Machine.Alerts(v.who.Workspace, id)
	if !ok {
		v.fail(faultUnknown)
		return id, nil
	}
	data.Email, data.Webhook, data.Checked = data.AlertsView.Email, data.URL, data.On
	data.Mails, data.Webhooks = v.config.Workspaces.Alerts.AlertChannels()
	data.Tests = workspace.MaxAlertTests
	return id, data
}

// ofAlerts is a page or form about the alerts of the flow that the path names.
func ofAlerts(show func(*visit, [16]byte, *alertsPage)) func(*visit) {
	return func(v *visit) {
		if id, data := v.alerts(); data != nil {
			show(v, id, data)
		}
	}
}

func showAlerts(v *visit) {
	id, data := v.alerts()
	if data == nil {
		return
	}
	if v.fields.Has("email") && v.status != 0 {
		data.Email, data.Webhook = v.fields.Get("email"), v.fields.Get("webhook")
		data.Checked = v.fields.Get("on") != ""
	}
	v.show(page.View{
		Page: "alerts", Title: "Alerts of " + data.Flow.Name, Data: data,
		Lead: "One alert when this test stops passing, and one when it passes again.",
		Crumbs: []page.Link{
			{Text: "Flows", URL: Root + "/flows"},
			{Text: data.Flow.Name, URL: Root + "/flows/" + workspaceapi.NounFlow.Text(id)},
			{Text: "Alerts"},
		},
	})
}

// showDeliveries shows the deliveries and their progress, for the script.
func showDeliveries(v *visit, _ [16]byte, data *alertsPage) {
	v.site.Fragment(v.x, "alerts", "deliveries", data)
}

// setAlerts sets where a flow's alerts go. The secret of a webhook that is new is on this answer
// alone.
func setAlerts(v *visit, id [16]byte, data *alertsPage) {
	flow, email, webhook := workspaceapi.NounFlow.Text(id), v.typed("email"), v.typed("webhook")
	var made struct{ Secret string }
	fault := v.ask("changeAlerts", map[string]any{
		"on": v.fields.Get("on") != "", "email": email, "webhookUrl": webhook,
	}, &made, flow)
	done := "alerts"
	if _, now, _, _ := v.config.Machine.Alerts(v.who.Workspace, id); fault == nil && now.Unconfirmed {
		done = "alerts-asked"
		if data.AlertsView.Email != email {
			fault = v.ask("askAddress", linkShown{}, nil, flow)
		}
		if askedBefore(fault) {
			fault = nil
		}
		fault = notAsked(fault)
	}
	if made.Secret != "" {
		v.secret("Alerts are set, and webhooks are signed with this secret", made.Secret)
		if fault != nil {
			v.notice.Tone = page.Hint
			v.notice.Detail += " " + fault.Message + ". " + fault.Detail
		}
		showAlerts(v)
		return
	}
	v.finish(fault, showAlerts, data.Path, done)
}

// notAsked says of a refusal to mail the link that the alerts are set all the same.
func notAsked(fault *server.Fault) *server.Fault {
	if fault == nil {
		return nil
	}
	switch fault.Code {
	case "mail_not_sent", "address_ask_limit", "hosting_not_configured":
		return fault // it says so
	}
	kept := server.NewFault(fault.Status, fault.Code, "The link may not have been sent").With(
		"The alerts are set, and nothing " +
			"else is mailed there until the link is opened: send it again.")
	return kept.Retry(fault.RetryAfter)
}

// secret shows a signing secret, this once.
func (v *visit) secret(title, secret string) {
	v.notice = &page.Notice{
		Tone: page.Done, Title: title, Secret: secret,
		Detail: "Copy it now into whatever receives them: it is shown this once. It proves that an " +
			"alert is from here, by the headers webhook-id, webhook-timestamp and webhook-signature " +
			"(Standard Webhooks).",
	}
}

// rotateAlertSecret makes a new signing secret, which this answer alone shows.
func rotateAlertSecret(v *visit, id [16]byte, _ *alertsPage) {
	var made struct{ Secret string }
	fault := v.ask("rotateAlertSecret", nil, &made, workspaceapi.NounFlow.Text(id))
	switch {
	case fault != nil:
		v.problem(fault)
	case made.Secret == "":
		v.notice = &page.Notice{
			Tone: page.Hint, Title: "This form was sent before",
			Detail: "The secret was replaced then, and the new one was shown then. If you have not got " +
				"it, replace it once more: the present one goes on signing for a day.",
		}
	default:
		v.secret("Webhooks are signed with this secret, and for a day with the one before, too",
			made.Secret)
	}
	showAlerts(v)
}

// testAlert sends a test to wherever a flow's alerts go.
func testAlert(v *visit, id [16]byte, data *alertsPage) {
	fault := v.ask("testAlert", nil, nil, workspaceapi.NounFlow.Text(id))
	if fault != nil && fault.Code == "alert_test_limit" {
		fault.Detail = "More can be sent after midnight UTC. Alerts that are not tests go out as ever."
	}
	v.finish(fault, showAlerts, data.Path, "test")
}
