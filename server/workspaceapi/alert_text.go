package workspaceapi

import (
	"bytes"
	"html/template"
	"strings"
	"time"
	"unicode"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/mail"
)

// alertBody is the body of an alert's webhook: {type, timestamp, data}, as Standard Webhooks
// recommends. It is a function of the alert as it was queued, so every attempt has the same bytes.
func alertBody(d *workspace.DueAlert) []byte {
	var j server.JSON
	j.Open('{')
	j.Text("type", "alert."+d.Kind.String())
	j.Time("timestamp", d.CreatedAt)
	j.Object("data")
	j.Text("workspace", idText(markWorkspace, d.Workspace))
	j.Object("flow")
	j.Text("id", idText(markFlow, d.FlowID))
	j.Text("name", d.Flow)
	j.Close('}')
	if d.Kind != workspace.AlertTest {
		j.Object("run")
		j.Text("id", idText(markRun, d.Run))
		j.Text("outcome", d.Outcome.String())
		j.Text("reportedAs", reportedAs(d.Outcome))
		j.TextIf("step", d.Step)
		j.TextIf("reasonCode", d.Code)
		j.TextIf("reason", d.Why)
		j.Close('}')
	}
	j.Close('}')
	j.Close('}')
	return j
}

// reportedAs is how alerts call what a run came to: one that was blocked is a failed one.
func reportedAs(o workspace.RunOutcome) string {
	if o == workspace.OutcomeBlocked {
		return "failed"
	}
	return o.String()
}

// maxSaid is how much of a text that somebody else wrote a mail repeats, in characters.
const maxSaid = 300

// said makes what a product, an agent or a stranger wrote fit for a mail of ours: one line,
// not too long, nothing that turns the line's direction or is not seen, and no address that a mail
// program makes a link of.
func said(text string) string {
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r) || unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	text = strings.Join(strings.Fields(text), " ")
	if runes := []rune(text); len(runes) > maxSaid {
		text = string(runes[:maxSaid-1]) + "…"
	}
	text = strings.ReplaceAll(text, "://", "[:]//")
	return parted(text)
}

// parted breaks the names of hosts, which mail programs make links of also without a scheme: a dot
// between a letter or a figure and a letter stands in brackets.
func parted(text string) string {
	runes := []rune(text)
	var out strings.Builder
	for i, r := range runes {
		within := r == '.' && i > 0 && i+1 < len(runes) && unicode.IsLetter(runes[i+1]) &&
			(unicode.IsLetter(runes[i-1]) || unicode.IsNumber(runes[i-1]))
		if within {
			out.WriteString("[.]")
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

// alertWords is what a mail says, each text as it may be there.
type alertWords struct {
	Title, Lead, Flow, Workspace, Result, Step, Code, Why, Run string
	// URL is the run's page, Settings the page where its owner sets alerts, where there are pages.
	URL, Settings string
}

func (a *Alerts) alertWords(d *workspace.DueAlert) alertWords {
	w := alertWords{Flow: said(d.Flow), Workspace: said(d.Label)}
	if a.console != "" {
		w.Settings = a.console + "/flows/" + idText(markFlow, d.FlowID) + "/alerts"
	}
	switch d.Kind {
	case workspace.AlertFailing:
		w.Title = "Stopped passing: " + w.Flow
		w.Lead = "This saved test has stopped passing."
		w.Result = "The newest run is reported as failed: the agent was stopped at a step."
		if d.Outcome != workspace.OutcomeBlocked {
			w.Result = "Two runs in a row did not pass; the newest proved nothing."
		}
	case workspace.AlertRecovered:
		w.Title = "Passes again: " + w.Flow
		w.Lead = "This saved test passes again."
		w.Result = "The newest run has passed."
	default:
		w.Title = "Test of alerts: " + w.Flow
		w.Lead = "This is a test that was asked for. Nothing has happened: alerts of this saved test " +
			"reach this address."
		return w
	}
	w.Step, w.Code, w.Why = said(d.Step), said(d.Code), said(d.Why)
	w.Run = idText(markRun, d.Run)
	if w.URL = a.console + "/runs/" + w.Run; a.console == "" {
		w.URL = a.publicURL + "/v1/runs/" + w.Run // for who has a key
	}
	return w
}

// alertMail is the mail of an alert. Its id, and so its Message-ID, is the alert's.
func (a *Alerts) alertMail(d *workspace.DueAlert) *mail.Message {
	w := a.alertWords(d)
	var page bytes.Buffer
	m := &mail.Message{
		ID: idText(markAlert, d.ID), To: d.Email, Subject: w.Title, Text: w.plain(),
		At: time.UnixMilli(d.CreatedAt),
	}
	if err := alertPage.Execute(&page, &w); err == nil {
		m.HTML = page.String()
	}
	return m
}

// alertFoot says why somebody gets this, and what ends it.
const alertFoot = "You get one mail when the test stops passing and one when it passes again, " +
	"because the owner of the workspace has set this address for it. The owner changes that on a page " +
	"of the workspace; the operator of this service ends it, too."

func (w *alertWords) plain() string {
	lines := []string{w.Lead, "", "Test: " + w.Flow, "Workspace: " + w.Workspace}
	for _, row := range w.Rows() {
		lines = append(lines, row.Name+": "+row.Text)
	}
	if w.URL != "" {
		lines = append(lines, "", "The run, with its evidence: "+w.URL)
	}
	lines = append(lines, "", alertFoot)
	if w.Settings != "" {
		lines = append(lines, w.Settings)
	}
	return strings.Join(append(lines, ""), "\n")
}

// alertRow is a line of a mail.
type alertRow struct{ Name, Text string }

// Rows are what a mail says of the run; those that are empty are left out.
func (w *alertWords) Rows() (rows []alertRow) {
	for _, row := range []alertRow{
		{"Result", w.Result},
		{"Step", w.Step},
		{"Reason", w.Code},
		{"In the words of the agent or the product", w.Why},
	} {
		if row.Text != "" {
			rows = append(rows, row)
		}
	}
	return rows
}

// Foot is the same in each mail.
func (w *alertWords) Foot() string { return alertFoot }

var alertPage = template.Must(template.New("alert").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body style="font-family:sans-serif;line-height:1.5;max-width:40em">
<h1 style="font-size:1.2em">{{.Title}}</h1>
<p>{{.Lead}}</p>
<dl>
<dt><b>Test</b></dt><dd>{{.Flow}}</dd>
<dt><b>Workspace</b></dt><dd>{{.Workspace}}</dd>
{{range .Rows}}<dt><b>{{.Name}}</b></dt><dd>{{.Text}}</dd>
{{end}}</dl>
{{with .URL}}<p><a href="{{.}}">The run, with its evidence</a></p>
{{end}}<p style="color:#666;font-size:.85em">{{.Foot}}{{with .Settings}} <a href="{{.}}">Alerts of this test</a>{{end}}</p>
</body></html>
`))
