package workspace

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
	issueFacts
	// Before is the workspace's issue before this one, BeforeOfFlow the flow's.
	Workspace    uint32 `wire:"2"`
	Flow         uint32 `wire:"3"`
	Before       uint32 `wire:"4"`
	BeforeOfFlow uint32 `wire:"5"`
	// ReadyVersion is the flow's version for which it was said to be fixed.
	ReadyVersion uint32 `wire:"16"`
}

// issueFacts are the fields that the row of an issue and its view have in common.
//
//schema:part
type issueFacts struct {
	ID     [16]byte    `wire:"1" json:"id" id:"markIssue"`
	Status IssueStatus `wire:"6" json:"status"`
	Step   string      `wire:"9" json:"step" rule:"null,min=1"`
	Code   string      `wire:"10" json:"reasonCode" rule:"null,min=1"`
	Reason string      `wire:"11" json:"reason" rule:"null,min=1"`
	// Seen counts the runs that the issue stopped.
	Seen uint32 `wire:"7" json:"occurrences"`
	// Run is the newest of them.
	Run       [16]byte `wire:"8" json:"evidence.runId" id:"markRun"`
	Note      string   `wire:"12" json:"note" rule:"null,min=1"`
	CreatedAt int64    `wire:"13" json:"createdAt" as:"time"`
	ChangedAt int64    `wire:"14" json:"updatedAt" as:"time"`
	ClosedAt  int64    `wire:"15" json:"closedAt" rule:"null" as:"time"`
}

func (i *issue) bytes() int {
	return issueRowBytes + len(i.Step) + len(i.Code) + len(i.Reason) + len(i.Note)
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
	noticeFacts
	Workspace uint32 `wire:"2"`
	Before    uint32 `wire:"3"`
	Flow      uint32 `wire:"5"`
}

// noticeFacts are the fields that the row of a notification and its view have in common.
//
//schema:part
type noticeFacts struct {
	ID   [16]byte   `wire:"1" json:"id" id:"markNotification"`
	Kind NoticeKind `wire:"4" json:"type"`
	// Skip is why an instant of the flow's schedule brought no run.
	Skip      Skip     `wire:"141" json:"reason,omitzero" as:"text"`
	Run       [16]byte `wire:"6" json:"runId" rule:"null" id:"markRun"`
	Issue     [16]byte `wire:"7" json:"issueId" rule:"null" id:"markIssue"`
	Purchase  [16]byte `wire:"8" json:"purchaseId" rule:"null" id:"markPurchase"`
	CreatedAt int64    `wire:"9" json:"createdAt" as:"time"`
	ReadAt    int64    `wire:"10" json:"readAt" rule:"null" as:"time"`
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
