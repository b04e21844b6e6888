package workspace

import (
	"slices"
	"strconv"

	"tollgate/engine"
	"tollgate/engine/machine"
)

// notices are issues, notifications and alerts.
type notices struct {
	spaces
	// alerting lists the alerts with something left to send; it is not state.
	alerting waiting
}

func (x *notices) notify(t *machine.Turn, w *workspace, n notice) {
	row, next := x.notifications.Append()
	*next = notification{Workspace: n.workspace, Flow: n.flow, Before: w.Notifications}
	next.Kind, next.Issue, next.Skip, next.CreatedAt = n.kind, n.issue, n.skip, t.Stamp
	if n.run != nil {
		next.Workspace, next.Flow, next.Run = n.run.Workspace, n.run.Flow, n.run.ID
	}
	if n.purchase != nil {
		next.Workspace, next.Purchase = n.purchase.Workspace, n.purchase.ID
	}
	next.ID = derivedID(w.ID, labelNotification, uint64(row), t.Stamp)
	w.Notifications = row
	x.rooms.hold(next.Workspace, noticeRowBytes)
	x.notifications.index(row)
	t.Fold(uint64(row))
}

// alertWrite changes an alert, what it takes of its workspace's room, and whether it waits. Its
// deliveries are the change's own copy: a snapshot may hold the row as it was.
func (x *notices) alertWrite(t *machine.Turn, row uint32, change func(a *alert)) {
	a := x.alerts.Write(row)
	bytes := a.bytes()
	a.Deliveries = slices.Clone(a.Deliveries)
	change(a)
	x.rooms.hold(a.Workspace, a.bytes()-bytes)
	x.alerting.note(row, a.sendable())
	t.Fold(uint64(row)<<32 | a.Made)
}

// alertOf notifies a flow's owner of what a run found, if they asked for that.
func (x *notices) alertOf(t *machine.Turn, kind AlertKind, r *run, text *RunText) {
	at := x.flows.Read(r.Flow).Alert
	if at == 0 || !x.alerts.Read(at).On {
		return
	}
	x.send(t, at, &DeliveryView{
		Kind: kind, Run: r.ID, Outcome: r.Outcome, Step: cutText(text.Step, maxAlertWord),
		Code: cutText(text.Code, maxAlertWord), Why: cutText(text.Reason, maxAlertWhy),
	})
}

// send queues a delivery for each channel that leads somewhere. What it says of the flow is what it
// says now: each attempt says the same.
func (x *notices) send(t *machine.Turn, at uint32, made *DeliveryView) {
	made.Flow = x.document(x.alerts.Read(at).Flow).Name
	x.alertWrite(t, at, func(a *alert) {
		for _, channel := range [...]Channel{ChannelEmail, ChannelWebhook} {
			if !a.reaches(channel) {
				continue
			}
			a.Made++
			d := *made
			d.ID = derivedID(x.flows.Read(a.Flow).ID, labelAlert, a.Made, t.Stamp)
			d.Number, d.Channel, d.Status = a.Made, channel, DeliveryWaiting
			d.CreatedAt, d.NextAt = t.Stamp, t.Stamp
			a.keep(d)
		}
	})
}

// alertable finds a flow that can have alerts, and the row of those that it has; 0 is none.
func (x *notices) alertable(workspace uint32, flow [16]byte) (row, at uint32, o engine.Outcome) {
	w, ok := x.workspace(workspace)
	if row = x.flowRow(workspace, flow); !ok || row == 0 {
		return 0, 0, engine.OutcomeRecordUnknown
	}
	if !w.claimed() {
		return 0, 0, engine.OutcomeAlertsUnclaimed
	}
	return row, x.flows.Read(row).Alert, engine.OutcomeDone
}

// forgetAlert lets go of a flow's alerts: where they went, and what was sent.
func (x *notices) forgetAlert(t *machine.Turn, flow uint32) {
	if at := x.flows.Read(flow).Alert; at != 0 {
		x.alertWrite(t, at, func(a *alert) {
			*a = alert{Workspace: a.Workspace, Flow: a.Flow, Made: a.Made}
		})
	}
}

// judge brings what a verified run came to into its flow's watch and issues. Each change of the
// watch between passing and failing is one alert.
func (x *notices) judge(t *machine.Turn, w *workspace, r *run, text *RunText) {
	f := x.flows.Write(r.Flow)
	if r.Outcome == OutcomePassed {
		if f.Watch == WatchFailing {
			x.notify(t, w, notice{kind: NoticeRecovered, run: r})
			x.alertOf(t, AlertRecovered, r, text)
		}
		if f.Misses = 0; f.Watch != WatchPassing {
			f.Watch, f.WatchAt = WatchPassing, t.Stamp
		}
		x.closeIssues(t, w, r)
		return
	}
	f.Misses = min(f.Misses+1, 100)
	if f.Watch == WatchPassing && (r.Outcome == OutcomeBlocked || f.Misses >= 2) {
		f.Watch, f.WatchAt = WatchFailing, t.Stamp
		x.notify(t, w, notice{kind: NoticeRegression, run: r})
		x.alertOf(t, AlertFailing, r, text)
	}
	if r.Outcome == OutcomeBlocked {
		x.raise(t, w, r, text)
	}
}

// maxIssuesSeen bounds the walk over a flow's newest issues.
const maxIssuesSeen = 100

// closeIssues closes each issue that was reported fixed and confirmed by a comparable retest: a run
// of the flow as it was then, begun afterwards, that passed. If the flow has changed since, the
// issue is open again, since nothing confirms the fix. An issue that was not reported fixed remains
// open: another way through the product does not show that it is gone.
func (x *notices) closeIssues(t *machine.Turn, w *workspace, r *run) {
	next := x.flows.Read(r.Flow).Issues
	for n := 0; next != 0 && n < maxIssuesSeen; n++ {
		row, i := next, x.issues.Read(next)
		next = i.BeforeOfFlow
		switch {
		case i.Status != IssueFixReady || r.CreatedAt < i.ChangedAt:
		case i.ReadyVersion != r.FlowVersion:
			i = x.issues.Write(row)
			i.Status, i.ChangedAt = IssueOpen, t.Stamp
		default:
			i = x.issues.Write(row)
			x.notify(t, w, notice{kind: NoticeFixVerified, run: r, issue: i.ID})
			i.Status, i.ChangedAt, i.ClosedAt = IssueClosed, t.Stamp, t.Stamp
		}
	}
}

// raise opens the issue that stopped a run, or counts the run with the one that is there. A fix
// that was ready did not help.
func (x *notices) raise(t *machine.Turn, w *workspace, r *run, text *RunText) {
	f := x.flows.Read(r.Flow)
	for row, n := f.Issues, 0; row != 0 && n < maxIssuesSeen; n++ {
		i := x.issues.Read(row)
		if i.Status != IssueClosed && i.Step == text.Step && i.Code == text.Code {
			i = x.issues.Write(row)
			i.Status, i.Seen, i.Run = IssueOpen, i.Seen+1, r.ID
			x.rooms.hold(r.Workspace, len(text.Reason)-len(i.Reason))
			i.Reason, i.ChangedAt = text.Reason, t.Stamp
			return
		}
		row = i.BeforeOfFlow
	}
	row, i := x.issues.Append()
	*i = issue{
		Workspace: r.Workspace, Flow: r.Flow, Before: w.Issues, BeforeOfFlow: f.Issues,
		issueFacts: issueFacts{
			ID:     derivedID(r.ID, labelIssue, uint64(row), t.Stamp),
			Status: IssueOpen, Seen: 1, Run: r.ID, Step: text.Step, Code: text.Code,
			Reason: text.Reason, CreatedAt: t.Stamp, ChangedAt: t.Stamp,
		},
	}
	w.Issues, x.flows.Write(r.Flow).Issues = row, row
	x.rooms.hold(r.Workspace, i.bytes())
	x.issues.index(row)
	t.Fold(uint64(row))
}

// alertValues are what operators change of a flow's alerts, for the record of an act; flow 0 has
// none.
func (x *notices) alertValues(flow uint32) []ActChange {
	var a alert
	if flow != 0 && x.flows.Read(flow).Alert != 0 {
		a = *x.alerts.Read(x.flows.Read(flow).Alert)
	}
	rotated := ""
	if a.RotatedAt != 0 {
		rotated = strconv.FormatInt(a.RotatedAt, 10)
	}
	return []ActChange{
		{Name: "alertsOn", After: strconv.FormatBool(a.On)},
		{Name: "alertsEmail", After: a.Email},
		{Name: "alertsWebhook", After: a.URL},
		{Name: "alertsSecretRotatedAt", After: rotated},
	}
}
