package workspace

// RunKind is what a run is of.
//
//schema:enum
type RunKind uint8

// The kinds of runs.
const (
	RunHosted     RunKind = 1 // hosted
	RunInspection RunKind = 2 // inspection
	RunAssessment RunKind = 3 // assessment
	RunRequest    RunKind = 4 // request
	RunLocal      RunKind = 5 // local
)

// RunStatus is how far a run has come. RunWaiting waits for a person.
//
//schema:enum
type RunStatus uint8

// The statuses.
const (
	RunQueued    RunStatus = 1 // queued
	RunRunning   RunStatus = 2 // running
	RunWaiting   RunStatus = 3 // waiting_for_human
	RunCompleted RunStatus = 4 // completed
	RunFailed    RunStatus = 5 // failed
	RunCancelled RunStatus = 6 // cancelled
)

// Final reports whether nothing more happens to the run.
func (s RunStatus) Final() bool { return s >= RunCompleted }

// RunOutcome is what a finished run says about the product.
//
//schema:enum
type RunOutcome uint8

// The outcomes.
const (
	OutcomeOpen         RunOutcome = 0
	OutcomePassed       RunOutcome = 1 // passed
	OutcomeBlocked      RunOutcome = 2 // blocked
	OutcomeInconclusive RunOutcome = 3 // inconclusive
)

// Reason codes of runs that the service could not carry through.
const (
	CodeWorkerLost   = "worker_lost"
	CodeWallTimeout  = "wall_timeout"
	CodeQueueTimeout = "queue_timeout"
	CodeHumanTimeout = "human_timeout"
	CodeHumanLimit   = "human_limit"
)

// MaxWaits is how often one run may wait for a person.
const MaxWaits = 5

// run is one run. What it has to say is a blob of the same row.
type run struct {
	ID          [16]byte `wire:"1"`
	Workspace   uint32   `wire:"2"`
	Before      uint32   `wire:"3"`
	Flow        uint32   `wire:"4"`
	FlowVersion uint32   `wire:"5"`
	// Next is the run behind it in the queue.
	Next uint32 `wire:"6"`
	// Agent numbers the agent's name, kind and version.
	Agent uint32 `wire:"7"`
	// Token counts the workers that had the run; writes of an earlier one are refused.
	Token       uint32      `wire:"8"`
	Kind        RunKind     `wire:"9"`
	Status      RunStatus   `wire:"10"`
	Outcome     RunOutcome  `wire:"11"`
	Charge      ChargeKind  `wire:"12"`
	ChargeState ChargeState `wire:"13"`
	Credits     uint32      `wire:"14"`
	Cents       uint32      `wire:"15"`
	CreatedAt   int64       `wire:"16"`
	StartedAt   int64       `wire:"17"`
	FinishedAt  int64       `wire:"18"`
	// Due is when the run ends by itself: queue, lease, wall or person's limit. WallEnd is when its
	// worker's time is over.
	Due     int64 `wire:"19"`
	WallEnd int64 `wire:"20"`
	// Scheduled is the instant of its flow's schedule that has begun it; 0 is none.
	Scheduled int64 `wire:"21"`
}

// ChargeKind is what pays for a run.
//
//schema:enum
type ChargeKind uint8

// The kinds of charges.
const (
	ChargeNone ChargeKind = 0 // none
	ChargeFree ChargeKind = 1 // free
	ChargePaid ChargeKind = 2 // paid
)

// ChargeState is how far a charge has come.
//
//schema:enum
type ChargeState uint8

// The states of charges.
const (
	ChargeReserved  ChargeState = 1 // reserved
	ChargeCommitted ChargeState = 2 // committed
	ChargeReturned  ChargeState = 3 // returned
)

// Bounds of what an inspection or an assessment keeps.
const (
	// MaxDocumentBytes bounds a document as it is kept: compressed.
	MaxDocumentBytes = 1 << 20
	// MaxPartBytes bounds the part of it in one command, so that entries stay small.
	MaxPartBytes = 32 << 10
	// MaxInspectionsPerDay is per workspace and UTC day, assessments included.
	MaxInspectionsPerDay = 100
	// A document has at most MaxFindings findings; a name in one has at most maxFindingName bytes,
	// a quote MaxQuoteBytes, the host MaxHostBytes.
	MaxFindings    = 20
	maxFindingName = 64
	MaxQuoteBytes  = 300
	MaxHostBytes   = 261 // 255 and a port
	// uploadMS is how long the next part of a document may take.
	uploadMS = 60_000
	// inspectionRowBytes is what a row takes, its part of the indexes included.
	inspectionRowBytes = 200
)

// Finding is what one rule says: what later inspections of the same host are compared with.
//
//schema:answer workspaceapi Finding
type Finding struct {
	// Field is where it is in the document, Verdict and Rule are what it says.
	Field   string `wire:"1"`
	Verdict string `wire:"2" json:"verdict" rule:"min=1"`
	Rule    string `wire:"3" json:"rule" rule:"min=1"`
	// Quote is from what it rests on.
	Quote string `wire:"4" json:"quote" rule:"null,min=1"`
}

// findings are those of one document.
type findings struct {
	All []Finding `wire:"1"`
}

// inspection is what was read of a host: its document is the blob of the same row.
type inspection struct {
	// Run is the row of its run.
	Run       uint32 `wire:"1"`
	Workspace uint32 `wire:"2"`
	// Before is the workspace's inspection of this host before this one, whatever came of it;
	// Previous is the one that it was compared with.
	Before   uint32 `wire:"3"`
	Previous uint32 `wire:"4"`
	// Size is how long the document is; 0 once it was dropped.
	Size uint32  `wire:"5"`
	Kind RunKind `wire:"6"`
	Host string  `wire:"7"`
	// Findings are encoded.
	Findings []byte `wire:"8"`
}

// bytes is what the row and its document take, or will take.
func (i *inspection) bytes() int {
	return inspectionRowBytes + len(i.Host) + len(i.Findings) + int(i.Size)
}

func (i *inspection) found() (f findings) {
	decodeBlob(i.Findings, &f)
	return f
}

// hostKey names what inspections of one host in one workspace are found by.
type hostKey struct {
	workspace uint32
	host      string
}
