package workspace

import "tollgate/engine"

// AccountView is a workspace and what it has.
type AccountView struct {
	ID                   [16]byte
	Label, Owner         string
	Claimed              bool
	CreatedAt            int64
	Credits, Reserved    uint64
	Transactions         []TransactionView // newest first, at most 20
	Paused, CapApproved  bool
	CapCents, SpentCents uint32
	ChargingCents        uint32
	FreeUsed, PaidUsed   uint32
	Returned, RunsLeft   uint32
	StartedToday         uint32
	CancelsToday         uint32 // of purchases, by keys
	LocalToday           uint32
	FreeLeftToday        uint32    // free runs, of all workspaces together
	RecentRuns           []RunView // hosted, newest first, at most 20
	MonthEnd, DayEnd     int64
}

// TransactionView is one movement of credits.
type TransactionView struct {
	ID     [16]byte
	Kind   TransactionKind
	Amount uint64
	Run    [16]byte
	At     int64
	Note   string
}

// listed is how many runs and transactions an account shows; looked is how many rows a list walks
// over for them.
const (
	listed = 20
	looked = 2000
)

// Account is what a workspace has at an instant of log time; false when there is no such row.
func (m *Machine) Account(workspace uint32, now int64) (v AccountView, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, ok := s.workspace(workspace)
	if !ok {
		return v, false
	}
	l := &w.Ledger
	at := max(now, s.log.Stamp())
	l.roll(at)
	v = AccountView{
		ID: w.ID, Label: w.Label, Owner: w.Owner, Claimed: w.claimed(), CreatedAt: w.CreatedAt,
		Credits: l.CreditsLeft, Reserved: l.CreditsReserved, Paused: l.Paused,
		CapApproved: l.CapApproved, CapCents: l.CapCents, SpentCents: l.SpentCents,
		ChargingCents: l.ChargingCents, FreeUsed: l.FreeUsed, PaidUsed: l.PaidUsed,
		Returned: l.Returned, RunsLeft: l.RunsLeft, StartedToday: l.Started, LocalToday: l.Local,
		CancelsToday: l.Cancels, FreeLeftToday: s.freeLeft(at),
		MonthEnd: MonthEnd(now), DayEnd: DayEnd(now),
	}
	for row := w.Transactions; row != 0 && len(v.Transactions) < listed; {
		r := s.transactions.Read(row)
		v.Transactions = append(v.Transactions, TransactionView{
			ID: r.ID, Kind: r.Kind, Amount: r.Amount, Run: r.Run, At: r.At, Note: r.Note,
		})
		row = r.Before
	}
	row := w.Runs
	for n := 0; row != 0 && n < looked && len(v.RecentRuns) < listed; n++ {
		r := s.runs.Row(row)
		if r.Kind == RunHosted {
			v.RecentRuns = append(v.RecentRuns, s.runView(row))
		}
		row = r.Before
	}
	return v, true
}

// WorkspaceRow finds a workspace by its id, one that was removed too (GoneAt); 0 when there is
// none.
func (m *Machine) WorkspaceRow(id [16]byte) uint32 {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.workspaceRow(id)
}

// FlowView is a saved test.
type FlowView struct {
	FlowDocument
	ID                   [16]byte
	Version              uint32
	CreatedAt, ChangedAt int64
	SignupConfirmed      bool
	// Preflighted reports whether what follows belongs to this version.
	Preflighted     bool
	NoKey, WrongKey Called
	AlreadyTrue     bool
	PreflightAt     int64 // 0 is never
	Watch           WatchState
	WatchAt         int64
	// Open is the run that has not finished; zero is none.
	Open [16]byte
	// Unready is why no agent can run it; UnreadyNot when there is an agent that can.
	Unready Unready
	// EveryHours is the time between the runs that begin by themselves, 0 is none; NextRunAt is
	// when the next one does.
	EveryHours uint32
	NextRunAt  int64
}

func (x *flowStore) flowView(row uint32) FlowView {
	f := x.flows.Read(row)
	v := FlowView{
		FlowDocument: x.document(row), ID: f.ID, Version: f.Version, CreatedAt: f.CreatedAt,
		ChangedAt: f.ChangedAt, SignupConfirmed: f.SignupConfirmed,
		Preflighted: f.Preflight == f.Version, Watch: f.Watch, WatchAt: f.WatchAt,
	}
	v.Unready = x.unready(f, &v.FlowDocument, true)
	if f.Schedule != 0 {
		of := x.schedules.Read(f.Schedule)
		v.EveryHours, v.NextRunAt = of.EveryHours, of.At
	}
	if v.Preflighted {
		v.NoKey, v.WrongKey, v.AlreadyTrue = f.NoKey, f.WrongKey, f.AlreadyTrue
		v.PreflightAt = f.PreflightAt
	}
	if f.Open != 0 {
		v.Open = x.runs.Row(f.Open).ID
	}
	return v
}

// Flow finds a flow of a workspace that is not archived.
func (m *Machine) Flow(workspace uint32, id [16]byte) (FlowView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.flowRow(workspace, id)
	if row == 0 {
		return FlowView{}, false
	}
	return s.flowView(row), true
}

// Page says which part of a list is asked for, newest first.
type Page struct {
	// After is the last record of the page before; zero begins.
	After [16]byte
	Limit int // 1–100
}

// chain is the records of one kind in a workspace: each knows the one before it.
type chain[View any] struct {
	newest uint32
	before func(row uint32) uint32
	find   func(id [16]byte) uint32
	view   func(row uint32) View
	// hidden reports whether a record is in no list; nil: each is.
	hidden func(row uint32) bool
}

// list is a page of a chain; more reports whether there are others behind it.
func list[View any](p *Page, c chain[View]) (views []View, more bool) {
	row := c.newest
	if p.After != ([16]byte{}) {
		if row = c.find(p.After); row != 0 {
			row = c.before(row)
		}
	}
	for ; row != 0; row = c.before(row) {
		if c.hidden != nil && c.hidden(row) {
			continue
		}
		if len(views) == p.Limit {
			return views, true
		}
		views = append(views, c.view(row))
	}
	return views, false
}

// Flows lists a workspace's flows; more reports whether there are others behind them.
func (m *Machine) Flows(workspace uint32, p Page) (views []FlowView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[FlowView]{
		newest: w.Flows,
		before: func(row uint32) uint32 { return s.flows.Read(row).Before },
		find:   func(id [16]byte) uint32 { return s.anyFlow(workspace, id) },
		view:   s.flowView,
		hidden: func(row uint32) bool { return s.flows.Read(row).ArchivedAt != 0 },
	})
}

// RunView is one run.
type RunView struct {
	RunText
	ID                               [16]byte
	Flow                             [16]byte // zero is none
	FlowVersion                      uint32
	Agent                            string // name, kind and version
	Kind                             RunKind
	Status                           RunStatus
	Outcome                          RunOutcome
	Charge                           ChargeKind
	ChargeState                      ChargeState
	Credits, Cents, Token            uint32
	CreatedAt, StartedAt, FinishedAt int64
	Workspace                        uint32
	// Scheduled is the instant of its flow's schedule that has begun it; 0 is none.
	Scheduled int64
}

func (x *runner) runView(row uint32) RunView {
	r := x.runs.Read(row)
	v := RunView{
		RunText: x.runText(row), ID: r.ID, FlowVersion: r.FlowVersion, Agent: x.agentName(r.Agent),
		Kind: r.Kind, Status: r.Status, Outcome: r.Outcome, Charge: r.Charge,
		ChargeState: r.ChargeState, Credits: r.Credits, Cents: r.Cents, Token: r.Token,
		CreatedAt: r.CreatedAt, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		Workspace: r.Workspace, Scheduled: r.Scheduled,
	}
	if r.Flow != 0 {
		v.Flow = x.flows.Read(r.Flow).ID
	}
	return v
}

// Run finds a run of a workspace.
func (m *Machine) Run(workspace uint32, id [16]byte) (RunView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.runRow(workspace, id)
	if row == 0 {
		return RunView{}, false
	}
	return s.runView(row), true
}

// Runs lists a workspace's runs; more reports whether there are others behind them.
func (m *Machine) Runs(workspace uint32, p Page) (views []RunView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[RunView]{
		newest: w.Runs,
		before: func(row uint32) uint32 { return s.runs.Row(row).Before },
		find:   func(id [16]byte) uint32 { return s.runRow(workspace, id) },
		view:   s.runView,
	})
}

// Job is all that a worker needs of a run that it claimed: false when the token is not the
// newest any more.
func (m *Machine) Job(id [16]byte, token uint32) (r RunView, f FlowView, ok bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.runOf(id)
	if !s.holds(row, token) {
		return r, f, false
	}
	return s.runView(row), s.flowView(s.runs.Read(row).Flow), true
}

// Holds reports whether a worker still has the run that it claimed, as far as this node has
// applied.
func (m *Machine) Holds(id [16]byte, token uint32) bool {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.holds(s.runOf(id), token)
}

func (x *runner) holds(row, token uint32) bool {
	if row == 0 {
		return false
	}
	r := x.runs.Read(row)
	return r.Token == token && r.Status == RunRunning
}

// Load is how many runs wait for a worker, and how many have one.
func (m *Machine) Load() (queued, running uint32) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.queued, s.running
}

// Replay says what a request's key was used for, as StartRun and RequestPurchase do.
func (m *Machine) Replay(key, body [16]byte) (made [16]byte, o engine.Outcome) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.replay(key, body)
}

// PurchaseView is an order of runs.
//
//schema:answer workspace Purchase
type PurchaseView struct {
	ID          [16]byte `json:"id" id:"markPurchase"`
	Workspace   uint32
	WorkspaceID [16]byte
	Status      PurchaseStatus `json:"status"`
	Runs        uint32         `json:"runs"`
	Cents       uint32         `json:"cents"`
	Flow        [16]byte       `json:"flowId" rule:"null" id:"markFlow"` // zero is none
	// FlowShown reports whether the flow is as it was when its start asked: approving confirms its
	// signup.
	FlowShown bool
	Reason    ApprovalReason `json:"reason" rule:"null" as:"text"`
	// ApprovalURL is always null: a link is shown once. The server fills in PollURL.
	ApprovalURL string `json:"approval_url" rule:"null,min=1"`
	PollURL     string `json:"poll_url" rule:"min=1"`
	CreatedAt   int64  `json:"createdAt" as:"time"`
	ChangedAt   int64  `json:"updatedAt" as:"time"`
	ExpiresAt   int64  `json:"expiresAt" rule:"null" as:"time"` // 0 when it has ended
	// Checkout is the provider's id of the payment page, URL its address.
	Checkout, URL string
	Refund        bool
	// Payment is the provider's id of what was paid. Returns are the payments that are to be sent
	// back, or were, its own first.
	Payment  string
	Returns  []Return
	PageOpen bool
	// Number counts purchases from 1. Card is the card that its workspace has saved.
	Number uint32
	Card   string
}

func (x *money) purchaseView(row uint32) PurchaseView {
	p := x.purchases.Read(row)
	v := PurchaseView{
		ID: p.ID, Workspace: p.Workspace, WorkspaceID: x.workspaces.Read(p.Workspace).ID,
		Runs: p.Runs, Cents: p.Cents, Status: p.Status,
		Reason: p.Reason, Checkout: p.Checkout, URL: p.URL, CreatedAt: p.CreatedAt,
		ChangedAt: p.ChangedAt, ExpiresAt: p.Due, Refund: p.Refund, Payment: p.Payment,
		Returns: p.returns(), PageOpen: p.PageOpen, Number: row,
		Card: x.workspaces.Read(p.Workspace).Ledger.Card,
	}
	if p.Flow != 0 {
		f := x.flows.Read(p.Flow)
		v.Flow, v.FlowShown = f.ID, p.shown(p.Flow, f)
	}
	return v
}

// Purchase finds a purchase; workspace 0 finds it in any.
func (m *Machine) Purchase(workspace uint32, id [16]byte) (PurchaseView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.purchaseOf(id)
	if row == 0 || workspace != 0 && s.purchases.Read(row).Workspace != workspace {
		return PurchaseView{}, false
	}
	return s.purchaseView(row), true
}

// PurchaseByLink finds the purchase that an approval link's SHA-256 belongs to.
func (m *Machine) PurchaseByLink(link [32]byte) (PurchaseView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.linkBy.Find(secretHash(&link), func(row uint32) bool {
		return s.purchases.Read(row).Link == link
	})
	if row == 0 {
		return PurchaseView{}, false
	}
	return s.purchaseView(row), true
}

// Purchases lists a workspace's purchases; more reports whether there are others behind them.
func (m *Machine) Purchases(workspace uint32, p Page) (views []PurchaseView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[PurchaseView]{
		newest: w.Purchases,
		before: func(row uint32) uint32 { return s.purchases.Read(row).Before },
		find:   func(id [16]byte) uint32 { return s.purchaseRow(workspace, id) },
		view:   s.purchaseView,
	})
}

// IssueView is one thing that stops an agent.
//
//schema:answer workspace Issue
type IssueView struct {
	ID        [16]byte    `json:"id" id:"markIssue"`
	Flow      [16]byte    `json:"flowId" id:"markFlow"`
	Status    IssueStatus `json:"status"`
	Step      string      `json:"step" rule:"null,min=1"`
	Code      string      `json:"reasonCode" rule:"null,min=1"`
	Reason    string      `json:"reason" rule:"null,min=1"`
	Seen      uint32      `json:"occurrences"`
	Run       [16]byte    `json:"evidence.runId" id:"markRun"`
	Note      string      `json:"note" rule:"null,min=1"`
	CreatedAt int64       `json:"createdAt" as:"time"`
	ChangedAt int64       `json:"updatedAt" as:"time"`
	ClosedAt  int64       `json:"closedAt" rule:"null" as:"time"`
}

func (x *notices) issueView(row uint32) IssueView {
	i := x.issues.Read(row)
	return IssueView{
		ID: i.ID, Flow: x.flows.Read(i.Flow).ID, Run: i.Run, Status: i.Status, Seen: i.Seen,
		Step: i.Step, Code: i.Code, Reason: i.Reason, Note: i.Note, CreatedAt: i.CreatedAt,
		ChangedAt: i.ChangedAt, ClosedAt: i.ClosedAt,
	}
}

// Issue finds an issue of a workspace.
func (m *Machine) Issue(workspace uint32, id [16]byte) (IssueView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.issueRow(workspace, id)
	if row == 0 {
		return IssueView{}, false
	}
	return s.issueView(row), true
}

// Issues lists a workspace's issues; more reports whether there are others behind them.
func (m *Machine) Issues(workspace uint32, p Page) (views []IssueView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[IssueView]{
		newest: w.Issues,
		before: func(row uint32) uint32 { return s.issues.Read(row).Before },
		find:   func(id [16]byte) uint32 { return s.issueRow(workspace, id) },
		view:   s.issueView,
	})
}

// NotificationView is one update of a workspace.
//
//schema:answer workspace Notification
type NotificationView struct {
	ID   [16]byte   `json:"id" id:"markNotification"`
	Kind NoticeKind `json:"type"`
	// Skip is why an instant of the flow's schedule brought no run.
	Skip      Skip     `json:"reason,omitzero" as:"text"`
	Flow      [16]byte `json:"flowId" rule:"null" id:"markFlow"`
	Run       [16]byte `json:"runId" rule:"null" id:"markRun"`
	Issue     [16]byte `json:"issueId" rule:"null" id:"markIssue"`
	Purchase  [16]byte `json:"purchaseId" rule:"null" id:"markPurchase"`
	CreatedAt int64    `json:"createdAt" as:"time"`
	ReadAt    int64    `json:"readAt" rule:"null" as:"time"`
}

func (x *notices) noticeView(row uint32) NotificationView {
	n := x.notifications.Read(row)
	v := NotificationView{
		ID: n.ID, Run: n.Run, Issue: n.Issue, Purchase: n.Purchase, Kind: n.Kind,
		CreatedAt: n.CreatedAt, ReadAt: n.ReadAt, Skip: n.Skip,
	}
	if n.Flow != 0 {
		v.Flow = x.flows.Read(n.Flow).ID
	}
	return v
}

// Notification finds a notification of a workspace.
func (m *Machine) Notification(workspace uint32, id [16]byte) (NotificationView, bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	row := s.noticeRow(workspace, id)
	if row == 0 {
		return NotificationView{}, false
	}
	return s.noticeView(row), true
}

// Notifications lists a workspace's notifications; more reports whether there are others behind
// them.
func (m *Machine) Notifications(workspace uint32, p Page) (views []NotificationView, more bool) {
	s := m.state.Load()
	s.mu.RLock()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[NotificationView]{
		newest: w.Notifications,
		before: func(row uint32) uint32 { return s.notifications.Read(row).Before },
		find:   func(id [16]byte) uint32 { return s.noticeRow(workspace, id) },
		view:   s.noticeView,
	})
}
