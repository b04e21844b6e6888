package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

// IssueStatus is how far an issue has come.
//
//schema:enum
type IssueStatus uint8

// The statuses.
const (
	IssueOpen     IssueStatus = 1 // open
	IssueFixReady IssueStatus = 2 // fix_ready
	IssueClosed   IssueStatus = 3 // closed
)

// issue is one thing that stops an agent: one that is not closed per flow, step and reason code.
type issue struct {
	ID [16]byte `wire:"1"`
	// Before is the workspace's issue before this one, BeforeOfFlow the flow's.
	Workspace    uint32      `wire:"2"`
	Flow         uint32      `wire:"3"`
	Before       uint32      `wire:"4"`
	BeforeOfFlow uint32      `wire:"5"`
	Status       IssueStatus `wire:"6"`
	// Seen counts the runs that it stopped; Run is the newest of them.
	Seen      uint32   `wire:"7"`
	Run       [16]byte `wire:"8"`
	Step      string   `wire:"9"`
	Code      string   `wire:"10"`
	Reason    string   `wire:"11"`
	Note      string   `wire:"12"`
	CreatedAt int64    `wire:"13"`
	ChangedAt int64    `wire:"14"`
	ClosedAt  int64    `wire:"15"`
	// ReadyVersion is the flow's version for which it was said to be fixed.
	ReadyVersion uint32 `wire:"16"`
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

// closeIssues closes what was said to be fixed and is shown to be by a comparable retest: a run of
// the flow as it was then, which began afterwards and has passed. Of a flow that was changed since,
// the issue is open again, since nothing shows that it is fixed. What nobody said to be fixed stays
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
		ID:        derivedID(r.ID, labelIssue, uint64(row), t.Stamp),
		Workspace: r.Workspace, Flow: r.Flow, Before: w.Issues, BeforeOfFlow: f.Issues,
		Status: IssueOpen, Seen: 1, Run: r.ID, Step: text.Step, Code: text.Code,
		Reason: text.Reason, CreatedAt: t.Stamp, ChangedAt: t.Stamp,
	}
	w.Issues, x.flows.Write(r.Flow).Issues = row, row
	x.rooms.hold(r.Workspace, i.bytes())
	x.issueBy.Insert(x.idHash(&i.ID), row)
	t.Fold(uint64(row))
}

// MarkIssueReady reports whether an open issue is fixed; the next run of the flow as it is now
// decides.
type MarkIssueReady struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Note      string   `wire:"3"` // 1–2,000 characters
}

func (c *MarkIssueReady) apply(x *notices, t *machine.Turn) engine.Outcome {
	row := x.issueRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.issues.Read(row).Status != IssueOpen {
		return engine.OutcomeIssueStatus
	}
	more := len(c.Note) - len(x.issues.Read(row).Note)
	if full := x.room(t, c.Workspace, more); full != engine.OutcomeDone {
		return full
	}
	x.rooms.hold(c.Workspace, more)
	i := x.issues.Write(row)
	i.Status, i.Note, i.ChangedAt = IssueFixReady, c.Note, t.Stamp
	i.ReadyVersion = x.flows.Read(i.Flow).Version
	t.Fold(uint64(row))
	return engine.OutcomeDone
}

// issueRow finds an issue of a workspace; 0 when there is none.
func (x *notices) issueRow(workspace uint32, id [16]byte) uint32 {
	row := x.issueBy.Find(x.idHash(&id), func(row uint32) bool { return x.issues.Read(row).ID == id })
	if row == 0 || x.issues.Read(row).Workspace != workspace {
		return 0
	}
	return row
}

// NoticeKind is what a notification is about.
//
//schema:enum
type NoticeKind uint8

// The kinds of notifications.
const (
	NoticeRegression  NoticeKind = 1 // regression
	NoticeRecovered   NoticeKind = 2 // recovered
	NoticeFixVerified NoticeKind = 3 // fix_verified
	NoticeHandoff     NoticeKind = 4 // handoff
	NoticePurchase    NoticeKind = 5 // purchase
	NoticeRunReturned NoticeKind = 6 // run_returned
	// NoticeScheduleSkipped: an instant of a flow's schedule brought no run.
	NoticeScheduleSkipped NoticeKind = 7 // schedule_skipped
)

// notification is one update of a workspace.
type notification struct {
	ID        [16]byte   `wire:"1"`
	Workspace uint32     `wire:"2"`
	Before    uint32     `wire:"3"`
	Kind      NoticeKind `wire:"4"`
	Flow      uint32     `wire:"5"`
	Run       [16]byte   `wire:"6"`
	Issue     [16]byte   `wire:"7"`
	Purchase  [16]byte   `wire:"8"`
	CreatedAt int64      `wire:"9"`
	ReadAt    int64      `wire:"10"`
	// Skip is why an instant of a schedule brought no run.
	Skip Skip `wire:"141"`
}

// notice is what a notification is made of.
type notice struct {
	kind     NoticeKind
	run      *run
	purchase *purchase
	issue    [16]byte
	number   uint64
	// Of a schedule.
	workspace, flow uint32
	skip            Skip
}

func (x *notices) notify(t *machine.Turn, w *workspace, n notice) {
	row, next := x.notifications.Append()
	*next = notification{
		Workspace: n.workspace, Flow: n.flow, Skip: n.skip, Before: w.Notifications, Kind: n.kind,
		Issue: n.issue, CreatedAt: t.Stamp,
	}
	if n.run != nil {
		next.Workspace, next.Flow, next.Run = n.run.Workspace, n.run.Flow, n.run.ID
	}
	if n.purchase != nil {
		next.Workspace, next.Purchase = n.purchase.Workspace, n.purchase.ID
	}
	next.ID = derivedID(w.ID, labelNotification, uint64(row), t.Stamp)
	w.Notifications = row
	x.rooms.hold(next.Workspace, noticeRowBytes)
	x.notification.Insert(x.idHash(&next.ID), row)
	t.Fold(uint64(row))
}

// ReadNotification marks a notification read. Again it is the same success again.
type ReadNotification struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
}

func (c *ReadNotification) apply(x *notices, t *machine.Turn) engine.Outcome {
	row := x.noticeRow(c.Workspace, c.ID)
	if row == 0 {
		return engine.OutcomeRecordUnknown
	}
	if x.notifications.Read(row).ReadAt == 0 {
		x.notifications.Write(row).ReadAt = t.Stamp
		t.Fold(uint64(row))
	}
	return engine.OutcomeDone
}

// noticeRow finds a notification of a workspace; 0 when there is none.
func (x *notices) noticeRow(workspace uint32, id [16]byte) uint32 {
	row := x.notification.Find(x.idHash(&id), func(row uint32) bool {
		return x.notifications.Read(row).ID == id
	})
	if row == 0 || x.notifications.Read(row).Workspace != workspace {
		return 0
	}
	return row
}
