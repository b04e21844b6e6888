package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// alert is a command by which an owner, or an operator for them, sets a flow's alerts.
func (g *workspaceGenerator) alert() engine.Record {
	row, flow := g.row(), g.flowID()
	var r engine.Record
	switch g.pick("alerts", "set", "set", "set", "rotate", "test", "ask", "confirm") {
	case "rotate":
		r = record(workspace.KindRotateAlertSecret, &workspace.RotateAlertSecret{
			Workspace: row, Flow: flow, Secret: []byte(g.pick("secret", "s1", "s2", "")),
		})
	case "ask":
		return record(workspace.KindAskAddress, &workspace.AskAddress{
			Workspace: row, Flow: flow, Link: secret(g.pick("link", "a", "b")),
		})
	case "confirm":
		return record(workspace.KindConfirmAddress, &workspace.ConfirmAddress{
			Flow: flow, Link: secret(g.pick("link", "a", "b")),
		})
	case "test":
		r = record(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: row, Flow: flow})
	default:
		r = record(workspace.KindSetAlerts, &workspace.SetAlerts{
			Workspace: row, Flow: flow, HasEmail: g.flag("has e-mail"), HasURL: g.flag("has url"),
			HasOn: g.flag("has on"), On: g.pick("on", "on", "on", "off") == "on",
			Email:  g.pick("email", "ada@acme.example", "ada@acme.example", ""),
			URL:    g.pick("url", "https://hooks.example/", "https://hooks.example/", ""),
			Secret: []byte("s"),
		})
	}
	if g.flag("operator") {
		return g.acted(r)
	}
	return r
}

// told is what is said of a delivery on its way.
func (g *workspaceGenerator) told() engine.Record {
	number := sample[uint32](g.t, "alert", 1, 1, 2, 9)
	made := uint64(rapid.IntRange(1, 6).Draw(g.t, "made"))
	attempt := sample[uint32](g.t, "attempt", 1, 1, 2)
	if g.flag("begun") {
		return begun(number, made, attempt, g.pick("sender", "n1", "n2"))
	}
	return g.noted(number, made, attempt)
}

func begun(alert uint32, number uint64, attempt uint32, sender string) engine.Record {
	return record(workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: alert, Number: number, Sender: ID(sender), Attempt: attempt,
	})
}

func (g *workspaceGenerator) noted(alert uint32, number uint64, attempt uint32) engine.Record {
	return record(workspace.KindNoteAlert, &workspace.NoteAlert{
		Alert: alert, Number: number, Attempt: attempt, Answer: 500, Reason: "it answered 500",
		Result: workspace.AlertResult(rapid.IntRange(1, 5).Draw(g.t, "result")),
		WaitMS: sample[int64](g.t, "wait", 0, 5000),
	})
}

// watched is a flow whose owner hears of it, which passes, is blocked, and passes again.
func (g *workspaceGenerator) watched() []engine.Record {
	const row, flow = 1, "one"
	records := []engine.Record{record(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: row, Flow: ID("flow " + flow), HasEmail: true, Email: "ada@acme.example",
		HasURL: true, URL: "https://hooks.example/", HasOn: true, On: true, Secret: []byte("s"),
	})}
	number := rapid.IntRange(0, 9).Draw(g.t, "watched")
	for i, outcome := range []workspace.RunOutcome{
		workspace.OutcomePassed, workspace.OutcomeBlocked, workspace.OutcomePassed,
	} {
		id := ID(fmt.Sprintf("watched run %d of %d", i, number))
		records = append(records, g.carriedTo(row, flow, id, outcome)...)
	}
	records = append(records, record(workspace.KindSendTestAlert, &workspace.SendTestAlert{
		Workspace: row, Flow: ID("flow " + flow),
	}))
	for made := range uint64(4) {
		records = append(records, begun(1, made+1, 1, "n1"), g.noted(1, made+1, 1))
	}
	return records
}
