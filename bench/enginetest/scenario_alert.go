package enginetest

import (
	"fmt"
	"strings"

	"tollgate/engine/workspace"
)

// alertLines are the commands about alerts.
type alertLines struct{ *workspaceScenario }

// setAlerts reads `set-alerts WORKSPACE [flow=] [email=] [url=] [on] [off] [no-email] [no-url]
// [secret=]`.
func (s alertLines) setAlerts(l *line) string {
	c := &workspace.SetAlerts{
		Workspace: s.row(l.word(0)), Flow: s.flowID(l), Email: l.value("email", ""),
		URL: l.value("url", ""), HasOn: l.has("on") || l.has("off"), On: l.has("on"),
		Secret: []byte(l.value("secret", "s1")),
	}
	c.HasEmail = c.Email != "" || l.has("no-email")
	c.HasURL = c.URL != "" || l.has("no-url")
	return s.do(workspace.KindSetAlerts, c)
}

func (s alertLines) rotateSecret(l *line) string {
	return s.do(workspace.KindRotateAlertSecret, &workspace.RotateAlertSecret{
		Workspace: s.row(l.word(0)), Flow: s.flowID(l), Secret: []byte(l.value("secret", "")),
	})
}

func (s alertLines) testAlert(l *line) string {
	return s.do(workspace.KindSendTestAlert, &workspace.SendTestAlert{
		Workspace: s.row(l.word(0)), Flow: s.flowID(l),
	})
}

// alerts prints a flow's watch, settings and deliveries, newest first.
func (s alertLines) alerts(l *line) string {
	f, v, set, ok := s.m.Alerts(s.row(l.word(0)), s.flowID(l))
	if !ok || !set {
		return fmt.Sprintf("watch=%s known=%t set=%t", f.Watch, ok, set)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "watch=%s on=%t email=%q url=%q secret=%q previous=%q gone=%t\n", f.Watch, v.On,
		v.Email, v.URL, v.Secret, v.Previous, v.GoneAt != 0)
	for i := range v.Deliveries {
		b.WriteString(s.delivered(&v.Deliveries[i]))
	}
	return b.String()
}

func (s *workspaceScenario) delivered(d *workspace.DeliveryView) string {
	text := fmt.Sprintf("%s %s %s attempts=%d", d.Kind, d.Channel, d.Status, d.Attempts)
	text += when(d.BegunAt != 0, " begun")
	text += when(d.NextAt != 0, " next=%s", show(d.NextAt))
	text += when(d.Answer != 0, " answer=%d", d.Answer)
	text += when(d.Reason != "", " reason=%q", d.Reason)
	return text + fmt.Sprintf(" says=%q %q %q\n", d.Flow, d.Step, d.Code)
}

func (s alertLines) dueAlerts(*line) string {
	due, _ := s.m.DueAlerts(s.log.Stamp, 0, 100)
	if len(due) == 0 {
		return "none"
	}
	var b strings.Builder
	for i := range due {
		fmt.Fprintf(&b, "%s: %s", due[i].Label, s.delivered(&due[i].DeliveryView))
	}
	return b.String()
}

// oldest is the oldest delivery of a flow by a channel that is waiting, or the newest that is not.
func (s *workspaceScenario) oldest(l *line) (number uint64, attempt uint32) {
	_, v, _, _ := s.m.Alerts(s.row(l.word(0)), s.flowID(l))
	for i := len(v.Deliveries) - 1; i >= 0; i-- {
		d := &v.Deliveries[i]
		if d.Channel.String() != l.word(1) {
			continue
		}
		number, attempt = d.Number, d.Attempts
		if d.Status == workspace.DeliveryWaiting {
			break
		}
	}
	return number, attempt
}

// beginAlert reads `begin-alert WORKSPACE CHANNEL [sender=] [attempt=]`.
func (s alertLines) beginAlert(l *line) string {
	number, attempt := s.oldest(l)
	return s.do(workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: uint32(l.number("alert", 1)), Number: number,
		Sender:  ID("sender " + l.value("sender", "n1")),
		Attempt: uint32(l.number("attempt", int64(attempt+1))),
	})
}

var alertResults = map[string]workspace.AlertResult{
	"delivered": workspace.AlertDelivered, "retry": workspace.AlertRetry,
	"gone": workspace.AlertGone, "refused": workspace.AlertRefused, "lost": workspace.AlertLost,
}

// noteAlert reads `note-alert WORKSPACE CHANNEL RESULT attempt= [answer=] [reason=] [wait=]`.
func (s alertLines) noteAlert(l *line) string {
	number, attempt := s.oldest(l)
	c := &workspace.NoteAlert{
		Alert: uint32(l.number("alert", 1)), Number: number,
		Attempt: uint32(l.number("attempt", int64(attempt))),
		Result:  alertResults[l.word(2)], Answer: uint32(l.number("answer", 0)),
		Reason: l.value("reason", ""), WaitMS: l.span("wait"),
	}
	return s.do(workspace.KindNoteAlert, c)
}
