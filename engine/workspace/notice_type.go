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

// bytes is what an issue takes.
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
