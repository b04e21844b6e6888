package workspace_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// tell lets the owner hear of the bench's flow by mail.
func (b *bench) tell() {
	b.t.Helper()
	b.done(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasEmail: true, Email: "ada@acme.example", HasOn: true, On: true,
	})
}

// finish ends a run as a word says; the reason is what an agent says.
func (b *bench) finish(run [16]byte, word, reason string) {
	b.t.Helper()
	if word == "cancelled" {
		b.done(workspace.KindCancelRun, &workspace.CancelRun{
			Workspace: 1, ID: run, Kind: workspace.RunHosted,
		})
		return
	}
	c := &workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomeInconclusive,
		Reason: reason,
	}
	switch word {
	case "passed":
		c.Outcome = workspace.OutcomePassed
	case "blocked":
		c.Outcome = workspace.OutcomeBlocked
	case "lost":
		c.Status = workspace.RunFailed
	}
	b.done(workspace.KindFinishRun, c)
}

func (b *bench) alerts() workspace.AlertsView {
	b.t.Helper()
	_, v, set, ok := b.m.Alerts(1, flowOne)
	require.True(b.t, set && ok)
	return v
}

// restart is the machine after a restart, or of a node that was brought to the same state.
func (b *bench) restart() {
	b.t.Helper()
	next := opened()
	require.NoError(b.t, next.Restore(bytes.NewReader(enginetest.Snapshot(b.t, b.m))))
	log := enginetest.NewLog(next, b.log.Stamp)
	log.Shard, log.Index = b.log.Shard, b.log.Index
	b.m, b.log = next, log
}

// TestOneAlertPerChange: whatever runs come to, the watch is the rule's, and each of its changes
// between passing and failing is one alert, however often the node is restarted.
func TestOneAlertPerChange(t *testing.T) {
	words := []string{"passed", "blocked", "inconclusive", "lost", "cancelled"}
	rapid.Check(t, func(r *rapid.T) {
		b := newBench(t)
		b.tell()
		watch, misses, want := "unknown", 0, []string(nil)
		for i := range rapid.IntRange(1, 12).Draw(r, "runs") {
			word := rapid.SampledFrom(words).Draw(r, "word")
			run := b.begin(fmt.Sprint(i))
			b.finish(run, word, "")
			before := watch
			switch word {
			case "passed":
				watch, misses = "passing", 0
			case "blocked", "inconclusive":
				if misses++; before == "passing" && (word == "blocked" || misses == 2) {
					watch = "failing"
				}
			}
			switch {
			case before == "passing" && watch == "failing":
				want = append(want, "failing")
			case before == "failing" && watch == "passing":
				want = append(want, "recovered")
			}
			if rapid.Bool().Draw(r, "restart") {
				b.restart()
			}
			f, v, _, _ := b.m.Alerts(1, flowOne)
			require.Equal(t, watch, f.Watch.String())
			got := []string(nil)
			for at := len(v.Deliveries) - 1; at >= 0; at-- {
				got = append(got, v.Deliveries[at].Kind.String())
			}
			require.Equal(t, want, got)
		}
	})
}

// TestDeliveriesAreBounded: the newest stay, and of those that wait and those that have ended,
// those that wait. What an agent says is cut between characters.
func TestDeliveriesAreBounded(t *testing.T) {
	b := newBench(t, func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 1000 })
	b.tell()
	long := strings.Repeat("é", 2000)
	for i := range 30 {
		b.finish(b.begin(fmt.Sprint("p", i)), "passed", "")
		b.finish(b.begin(fmt.Sprint("b", i)), "blocked", long)
		if i == 0 {
			b.done(workspace.KindBeginAlert, &workspace.BeginAlert{Alert: 1, Number: 1, Attempt: 1})
			b.done(workspace.KindNoteAlert, &workspace.NoteAlert{
				Alert: 1, Number: 1, Attempt: 1, Result: workspace.AlertDelivered,
			})
		}
		require.Empty(t, b.m.Broken())
	}
	v := b.alerts()
	require.Len(t, v.Deliveries, workspace.MaxDeliveries)
	require.Equal(t, uint64(59), v.Deliveries[0].Number)
	require.Equal(t, uint64(40), v.Deliveries[workspace.MaxDeliveries-1].Number)
	require.Equal(t, strings.Repeat("é", 250), v.Deliveries[0].Why)

	due, next := b.m.DueAlerts(b.log.Stamp, 0, 10)
	require.Len(t, due, 1, "in order")
	require.Equal(t, uint64(40), due[0].Number)
	require.Zero(t, next)
	b.refused(engine.OutcomeRecordUnknown, workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: 1, Number: 2, Attempt: 1,
	})
	b.refused(engine.OutcomeRecordUnknown, workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: 2, Number: 2, Attempt: 1,
	})
}

// TestAlertsAreWithinBounds: what is too long changes nothing.
func TestAlertsAreWithinBounds(t *testing.T) {
	b := newBench(t)
	b.tell()
	before := b.alerts()
	for name, c := range map[string]*workspace.SetAlerts{
		"e-mail": {HasEmail: true, Email: strings.Repeat("a", workspace.MaxAlertEmail+1)},
		"url": {
			HasURL: true, URL: strings.Repeat("a", workspace.MaxAlertURL+1), Secret: []byte{1},
		},
		"no secret": {HasURL: true, URL: "https://hooks.example/"},
		"secret": {
			HasURL: true, URL: "https://hooks.example/",
			Secret: make([]byte, workspace.MaxAlertSecret+1),
		},
	} {
		c.Workspace, c.Flow = 1, flowOne
		require.Equal(t, engine.OutcomeAlertsInvalid, b.log.Do(workspace.KindSetAlerts, c).Outcome, name)
	}
	b.done(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: 1, Flow: flowOne})
	b.done(workspace.KindBeginAlert, &workspace.BeginAlert{Alert: 1, Number: 1, Attempt: 1})
	for _, c := range []*workspace.NoteAlert{
		{Result: 0},
		{Result: 6},
		{Result: workspace.AlertRetry, WaitMS: -1},
		{Result: workspace.AlertRetry, WaitMS: 1 << 40},
		{Result: workspace.AlertRetry, Reason: strings.Repeat("a", 201)},
	} {
		c.Alert, c.Number, c.Attempt = 1, 1, 1
		b.refused(engine.OutcomeAlertsInvalid, workspace.KindNoteAlert, c)
	}
	after := b.alerts()
	require.NotZero(t, after.Deliveries[0].BegunAt)
	after.Deliveries = nil
	require.Equal(t, before, after)
	b.m.LetHold(1, workspace.MaxClaimedBytes)
	b.refused(engine.OutcomeWorkspaceFull, workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasURL: true, URL: "https://hooks.example/", Secret: []byte{1},
	})
}

// TestTurningAlertsOnRevivesAWebhook: one that was gone is tried again, at its owner's word alone.
func TestTurningAlertsOnRevivesAWebhook(t *testing.T) {
	b := newBench(t)
	b.done(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasURL: true, URL: "https://hooks.example/", Secret: []byte{1},
		HasOn: true, On: true,
	})
	b.done(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: 1, Flow: flowOne})
	b.done(workspace.KindNoteAlert, &workspace.NoteAlert{
		Alert: 1, Number: 1, Attempt: 1, Result: workspace.AlertGone, Answer: 410,
	})
	require.NotZero(t, b.alerts().GoneAt)
	set := &workspace.SetAlerts{Workspace: 1, Flow: flowOne, HasEmail: true, Email: "eve@example.com"}
	b.done(workspace.KindSetAlerts, set)
	set.HasOn = true
	b.done(workspace.KindSetAlerts, set)
	require.NotZero(t, b.alerts().GoneAt, "off says nothing of it")
	set.On = true
	b.done(workspace.KindSetAlerts, set)
	require.Zero(t, b.alerts().GoneAt)
	b.done(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: 1, Flow: flowOne})
	require.Equal(t, workspace.ChannelWebhook, b.alerts().Deliveries[0].Channel)
}

// TestAnOperatorSetsAlerts: for the owner, of a flow of the workspace that is named; what changed
// is kept, the secret's bytes are not.
func TestAnOperatorSetsAlerts(t *testing.T) {
	b := newBench(t)
	act := func(name string, kind engine.Kind, c wire.Fielder) engine.Outcome {
		return b.log.Do(workspace.KindAct, &workspace.Act{
			Workspace: 1, ID: enginetest.ID(name), Actor: "operator", Kind: kind,
			Payload: wire.Encode(nil, c),
		}).Outcome
	}
	set := &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasURL: true, URL: "https://hooks.example/", HasOn: true, On: true,
		Secret: []byte("sealed"),
	}
	other := *set
	other.Workspace = 2
	require.Equal(t, engine.OutcomeRecordUnknown, act("other", workspace.KindSetAlerts, &other))
	require.Equal(t, engine.OutcomeDone, act("set", workspace.KindSetAlerts, set))
	b.pass(time.Second)
	require.Equal(t, engine.OutcomeDone, act("rotate", workspace.KindRotateAlertSecret,
		&workspace.RotateAlertSecret{Workspace: 1, Flow: flowOne, Secret: []byte("sealed again")}))
	require.Equal(t, engine.OutcomeDone, act("test", workspace.KindSendTestAlert,
		&workspace.SendTestAlert{Workspace: 1, Flow: flowOne}))
	views, _ := b.m.Acts(1, workspace.Page{Limit: 9})
	require.Len(t, views, 3)
	require.Equal(t, "test_alert", views[0].Action)
	require.Equal(t, "rotate_alert_secret", views[1].Action)
	require.Len(t, views[1].Changes, 1)
	require.Equal(t, flowOne, views[2].Subject)
	require.Equal(t, []workspace.ActChange{
		{Name: "alertsOn", Before: "false", After: "true"},
		{Name: "alertsWebhook", After: "https://hooks.example/"},
	}, views[2].Changes)
	require.NotContains(t, fmt.Sprint(views), "sealed")
}

// TestAMailThatIsOnItsWay: turning alerts off ends what waits. A mail that somebody has begun to
// send may arrive all the same: nobody sends it again, and what its sender says counts.
func TestAMailThatIsOnItsWay(t *testing.T) {
	b := newBench(t)
	b.tell()
	for range 2 {
		b.done(workspace.KindSendTestAlert, &workspace.SendTestAlert{Workspace: 1, Flow: flowOne})
	}
	b.done(workspace.KindBeginAlert, &workspace.BeginAlert{
		Alert: 1, Number: 1, Attempt: 1, Sender: [16]byte{1},
	})
	b.done(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasEmail: true, HasOn: true,
	})
	v := b.alerts().Deliveries
	require.Equal(t, workspace.DeliveryFailed, v[0].Status)
	require.Equal(t, workspace.DeliveryUnknown, v[1].Status, "nobody knows yet")
	due, _ := b.m.DueAlerts(b.log.Stamp, 0, 10)
	require.Empty(t, due)
	b.done(workspace.KindNoteAlert, &workspace.NoteAlert{
		Alert: 1, Number: 1, Attempt: 1, Result: workspace.AlertDelivered, Answer: 250,
	})
	require.Equal(t, workspace.DeliveryDelivered, b.alerts().Deliveries[1].Status)
	require.Empty(t, b.m.Broken())
}

// TestOnlyClaimedWorkspacesHaveAlerts: each of the commands asks, by itself.
func TestOnlyClaimedWorkspacesHaveAlerts(t *testing.T) {
	b := newBench(t)
	b.done(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("wu"), KeyID: enginetest.ID("ku"), KeyHash: [32]byte{7}, ClaimHash: [32]byte{8},
		Scopes: workspace.ScopesAll, Label: "unclaimed",
	})
	row, flow := b.m.WorkspaceRow(enginetest.ID("wu")), enginetest.ID("flow u")
	b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: row, ID: flow, Document: workspace.FlowDocument{Name: "n"},
	})
	for kind, command := range map[engine.Kind]wire.Fielder{
		workspace.KindSetAlerts: &workspace.SetAlerts{
			Workspace: row, Flow: flow, HasEmail: true, Email: "a@b.example",
		},
		workspace.KindRotateAlertSecret: &workspace.RotateAlertSecret{
			Workspace: row, Flow: flow, Secret: []byte{1},
		},
		workspace.KindSendTestAlert: &workspace.SendTestAlert{Workspace: row, Flow: flow},
	} {
		require.Equal(t, engine.OutcomeAlertsUnclaimed, b.log.Do(kind, command).Outcome, "%d", kind)
	}
	_, _, set, ok := b.m.Alerts(row, flow)
	require.True(t, ok)
	require.False(t, set)
}

// hooked lets webhooks of the bench's flow be signed with a secret.
func (b *bench) hooked(secret []byte) {
	b.t.Helper()
	b.done(workspace.KindSetAlerts, &workspace.SetAlerts{
		Workspace: 1, Flow: flowOne, HasURL: true, URL: "https://hook.example/", Secret: secret,
		HasOn: true, On: true,
	})
}

// TestASecretSignsADayMore: the secret before signs for 24 hours, and the one before that no more.
func TestASecretSignsADayMore(t *testing.T) {
	b := newBench(t)
	b.hooked([]byte("first"))
	for _, next := range []string{"second", "third"} {
		before := b.alerts().Secret
		b.done(workspace.KindRotateAlertSecret, &workspace.RotateAlertSecret{
			Workspace: 1, Flow: flowOne, Secret: []byte(next),
		})
		v := b.alerts()
		require.Equal(t, []string{next, string(before)}, []string{string(v.Secret), string(v.Previous)})
		require.Equal(t, (24 * time.Hour).Milliseconds(), v.PreviousUntil-v.RotatedAt)
	}
}

// TestANewSecretNeedsRoom: what it keeps more of counts, and a full workspace keeps what it has.
func TestANewSecretNeedsRoom(t *testing.T) {
	b := newBench(t)
	b.hooked([]byte("first"))
	held, limit := b.m.Held(1)
	b.m.LetHold(1, limit-held)
	require.Equal(t, engine.OutcomeWorkspaceFull,
		b.log.Do(workspace.KindRotateAlertSecret, &workspace.RotateAlertSecret{
			Workspace: 1, Flow: flowOne, Secret: bytes.Repeat([]byte{1}, workspace.MaxAlertSecret),
		}).Outcome)
	require.Equal(t, "first", string(b.alerts().Secret))
	require.Empty(t, b.alerts().Previous)
}

// TestDueAlertsLooksAtSoMany: commands wait while it looks, so it stops, and says where to go on.
func TestDueAlertsLooksAtSoMany(t *testing.T) {
	b := newBench(t)
	b.m.LetAlertsWait(workspace.MaxDueAlerts+3, b.log.Stamp+1)
	due, next := b.m.DueAlerts(b.log.Stamp, 0, 10)
	require.Empty(t, due)
	require.EqualValues(t, workspace.MaxDueAlerts, next)
	due, next = b.m.DueAlerts(b.log.Stamp, next, 10)
	require.Empty(t, due)
	require.Zero(t, next)
}
