package workspace

// MaxFlows is how many flows a workspace saves, archived ones included.
const MaxFlows = 10_000

// FlowDocument is what a flow says. The server has validated it.
type FlowDocument struct {
	Name            string `wire:"1" json:"name" rule:"min=1"`
	URL             string `wire:"2" json:"url" rule:"min=1"`
	Task            string `wire:"3" json:"task" rule:"min=1"`
	SuccessCriteria string `wire:"4" json:"successCriteria" rule:"min=1"`
	// Access is public or test_account.
	Access string `wire:"5" json:"access"`
	// VerificationURL is empty where a flow has no verification.
	VerificationURL      string `wire:"6" json:"verification.url" in:"whole"`
	VerificationStatus   uint32 `wire:"7" json:"verification.status,omitzero"`
	VerificationContains string `wire:"8" json:"verification.contains,omitzero"`
	// Credential is empty, bearer, token or x-api-key.
	Credential string `wire:"9" json:"credential,omitzero"`
	// Agent is the name of a configured agent; empty is the default one.
	Agent string `wire:"10" json:"agent,omitzero" rule:"min=1"`
	// Host is where a run signs in with test credentials: that of URL, where Access is
	// test_account. Servers that know of no test credentials leave it empty.
	Host string `wire:"11"`
}

// Called is what a verification call without, or with a wrong key came to. CalledUnknown: it was
// not made, or no answer says anything.
//
//schema:enum
type Called uint8

// What it came to.
const (
	CalledUnknown  Called = 0 // unknown
	CalledRefused  Called = 1 // refused
	CalledAccepted Called = 2 // accepted
	// CalledUnclear: another answer than the right one, which counts as a refusal only where the
	// real key gets the right one.
	CalledUnclear Called = 3 // unclear
)

// shut reports whether who was answered so did not get in.
func (c Called) shut() bool { return c == CalledRefused || c == CalledUnclear }

// WatchState is whether a flow passes. WatchUnknown: it never passed under its current setup.
//
//schema:enum
type WatchState uint8

// The states of a watch.
const (
	WatchUnknown WatchState = 0 // unknown
	WatchPassing WatchState = 1 // passing
	WatchFailing WatchState = 2 // failing
)

// flow is a saved test. Its document is a blob of the same row.
type flow struct {
	flowFacts
	ID         [16]byte `wire:"1"`
	Workspace  uint32   `wire:"2"`
	Before     uint32   `wire:"3"`
	ArchivedAt int64    `wire:"7"`
	// Open is the run that has not finished; 0 is none.
	Open uint32 `wire:"8"`
	// Issues is the flow's newest issue.
	Issues uint32 `wire:"9"`
	// Preflight is the version that the last preflight was of.
	Preflight uint32 `wire:"11"`
	// Misses are runs in a row that were carried through and did not pass.
	Misses uint8 `wire:"17"`
	// What the engine needs of the document.
	Verified       bool `wire:"19"`
	WithCredential bool `wire:"20"`
	TestAccount    bool `wire:"21"`
	// Alert is the row of its owner's alert settings; 0 if none were ever set.
	Alert uint32 `wire:"130"`
	// Schedule is when its runs begin by themselves; 0 is one that never did.
	Schedule uint32 `wire:"141"`
	// base is the text that those of its runs are packed behind. It is not state.
	base place
}

// flowFacts are the fields that the row of a flow and its view have in common.
//
//schema:part
type flowFacts struct {
	Version uint32 `wire:"4" json:"version"`
	// SignupConfirmed reports whether the owner agreed that an agent signs up there.
	SignupConfirmed bool  `wire:"10" json:"signupConfirmed"`
	CreatedAt       int64 `wire:"5" json:"createdAt" as:"time"`
	ChangedAt       int64 `wire:"6" json:"updatedAt" as:"time"`
	// What the preflight found when the quote was read.
	NoKey       Called     `wire:"12"`
	WrongKey    Called     `wire:"13"`
	AlreadyTrue bool       `wire:"14"`
	PreflightAt int64      `wire:"15"` // 0 is never
	Watch       WatchState `wire:"16"`
	WatchAt     int64      `wire:"18"`
}

// restart makes a new version of another document.
func (f *flow) restart(before, d *FlowDocument) {
	f.Version++
	if before.URL != d.URL || before.VerificationURL != d.VerificationURL ||
		before.Credential != d.Credential {
		f.SignupConfirmed = false
	}
}

// describe keeps what this machine needs of the document.
func (f *flow) describe(d *FlowDocument) {
	f.Verified, f.WithCredential = d.VerificationURL != "", d.Credential != ""
	f.TestAccount = d.Access == "test_account"
}

// Unready says why no agent can run a flow.
//
//schema:enum
type Unready uint8

// The reasons, in the order in which they are looked at.
const (
	UnreadyNot                 Unready = 0
	UnreadyNoAgent             Unready = 1 // no_agent
	UnreadyVerificationMissing Unready = 2 // verification_missing
	UnreadyVerificationOpen    Unready = 3 // verification_open
	UnreadySignupNotConfirmed  Unready = 4 // signup_not_confirmed
	UnreadyTestAccessMissing   Unready = 5 // test_access_missing
)

// Bounds of schedules.
const (
	// MaxSchedules is how many flows of a workspace may have one at a time.
	MaxSchedules = 100
	// MaxScheduleHours is the longest time between two runs, in hours; the least is one.
	MaxScheduleHours = 168
	// preflightWaitMS is how long an instant waits for what the flow's verification answers.
	preflightWaitMS = 2 * minuteMS
	// scheduleAgainMS is the pause before a full queue is tried again.
	scheduleAgainMS  = minuteMS
	scheduleRowBytes = 100
)

// How long what a preflight found is taken for what it would find now, in milliseconds. A finding
// that nothing is in the way lasts; an obstacle, or what kept the preflight from an answer, may be
// gone at any moment.
const (
	PreflightLifeMS  = hourMS
	PreflightDoubtMS = minuteMS / 2
)

// schedule is when a flow's runs begin by themselves.
type schedule struct {
	Workspace uint32 `wire:"1"`
	Flow      uint32 `wire:"2"`
	// EveryHours is the time between two of its instants; 0 means no schedule.
	EveryHours uint32 `wire:"3"`
	// At is its next instant, Trying the one that is being carried out (0 is none), Due when
	// something is done about either.
	At     int64 `wire:"4"`
	Trying int64 `wire:"5"`
	Due    int64 `wire:"6"`
	// Asked: the run of Trying begins when it is known what the verification answers now.
	Asked bool `wire:"7"`
	// Told has a bit for each skip reason reported since the flow last ran by its schedule.
	Told uint32 `wire:"8"`
}

func (s *schedule) every() int64 { return int64(s.EveryHours) * hourMS }

// Skip is why an instant of a schedule brought no run.
type Skip uint8

// The reasons. The first are those of Unready.
const (
	SkipNot          Skip = 0
	SkipBusy         Skip = 6
	SkipRunLimit     Skip = 7
	SkipFull         Skip = 8
	SkipCreditsShort Skip = 9
	SkipPayment      Skip = 10
	SkipFreeCapacity Skip = 11
	SkipRunnerBusy   Skip = 12
)

// String is the reason's name in the API: that of the quote, or the code that refuses a start.
func (s Skip) String() string {
	if s < SkipBusy {
		return Unready(s).String()
	}
	return [...]string{
		"flow_busy", "run_limit_reached", "workspace_full", "insufficient_credits",
		"payment_required", "free_capacity_exhausted", "runner_busy",
	}[s-SkipBusy]
}

// Bounds of test credentials.
const (
	// MaxTestAccess is for how many hosts a workspace may store some.
	MaxTestAccess = 50
	// MaxTestAccessBytes is how long those of one host may be, before they are sealed.
	MaxTestAccessBytes = 1 << 10
	maxSealedAccess    = MaxTestAccessBytes + 64
	maxAccessHost      = 300
	accessRowBytes     = 100
)

// access is what a run signs in with at a host. A row without a host is free for another one of its
// workspace.
type access struct {
	AccessView
	Workspace uint32 `wire:"1"`
	Before    uint32 `wire:"2"`
	Sealed    []byte `wire:"4"`
}

// AccessView says for which host test credentials are stored, and since when.
//
//schema:answer workspaceapi TestAccess
//schema:part
type AccessView struct {
	Host  string `wire:"3" json:"host" rule:"min=1"`
	SetAt int64  `wire:"5" json:"updatedAt" as:"time"`
}

func (a *access) bytes() int { return accessRowBytes + len(a.Host) + len(a.Sealed) }
