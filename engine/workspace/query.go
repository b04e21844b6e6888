package workspace

import (
	"tollgate/engine"
	"tollgate/engine/period"
)

// AccountView is a workspace and what it has.
type AccountView struct {
	ID            [16]byte `json:"id" id:"markWorkspace"`
	Label         string   `json:"label" rule:"min=1"`
	Owner         string   `json:"owner,omitzero" rule:"min=1"`
	Credits       uint64   `json:"credits"`
	RunsLeft      uint32   `json:"runsLeft"`
	SpentCents    uint32   `json:"spentCents"`
	ChargingCents uint32   `json:"chargingCents"`
	CapCents      uint32   `json:"capCents"`
	CapApproved   bool     `json:"capApproved"`
	Paused        bool     `json:"paused"`
	Claimed       bool
	CreatedAt     int64
	Reserved      uint64
	Transactions  []TransactionView // newest first, at most 20
	FreeUsed      uint32
	PaidUsed      uint32
	Returned      uint32
	StartedToday  uint32
	CancelsToday  uint32 // of purchases, by keys
	LocalToday    uint32
	FreeLeftToday uint32    // free runs, of all workspaces together
	RecentRuns    []RunView // hosted, newest first, at most 20
	MonthEnd      int64
	DayEnd        int64
}

// listed is how many runs and transactions an account shows; looked is how many rows a list walks
// over for them.
const (
	listed = 20
	looked = 2000
)

// Account is what a workspace has at an instant of log time; false when there is no such row.
func (m *Machine) Account(workspace uint32, now int64) (v AccountView, ok bool) {
	s := m.read()
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
		MonthEnd: period.Month(now).End, DayEnd: DayEnd(now),
	}
	for row := w.Transactions; row != 0 && len(v.Transactions) < listed; {
		r := s.transactions.Read(row)
		v.Transactions = append(v.Transactions, r.TransactionView)
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
	s := m.read()
	defer s.mu.RUnlock()
	return s.workspaces.find(id)
}

// TenantView is a workspace in an operator's list.
//
//schema:answer workspaceapi TenantOfList
type TenantView struct {
	ID    [16]byte `json:"id" id:"markWorkspace"`
	Label string   `json:"label" rule:"min=1"`
	Owner string   `json:"owner,omitzero" rule:"min=1"`
	// RunsLeft were bought; Waiting is the purchase that waits for its owner or is charged, zero
	// when there is none.
	RunsLeft  uint32   `json:"runsLeft"`
	Waiting   [16]byte `json:"purchase,omitzero" id:"markPurchase"`
	CreatedAt int64    `json:"createdAt" as:"time"`
	// Network is where it was signed up from; see SignUp. The server writes it into From.
	Network [16]byte
	From    string `json:"network,omitzero" rule:"min=1"`
	// Bytes is what it holds. For one without an owner, UsedAt is its newest recorded use, 0 if
	// unknown, and EndsAt when it is removed unless it is used before, 0 for never.
	Bytes  uint64 `json:"bytes"`
	UsedAt int64  `json:"usedAt,omitzero" as:"time"`
	EndsAt int64  `json:"endsAt,omitzero" as:"time"`
}

// Tenants lists all workspaces, or only unclaimed ones, newest first; more reports
// whether there are others behind.
func (m *Machine) Tenants(p Page, unclaimed bool) (views []TenantView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	return list(&p, chain[TenantView]{
		newest: s.workspaces.Len(),
		before: func(row uint32) uint32 { return row - 1 },
		find:   s.workspaces.find,
		hidden: func(row uint32) bool {
			w := s.workspaces.Read(row)
			return w.GoneAt != 0 || unclaimed && w.claimed()
		},
		view: s.tenantView,
	})
}

func (s *state) tenantView(row uint32) TenantView {
	w := s.workspaces.Read(row)
	v := TenantView{
		ID: w.ID, Label: w.Label, Owner: w.Owner, CreatedAt: w.CreatedAt,
		RunsLeft: w.Ledger.RunsLeft, Network: w.Network, Bytes: s.rooms.of[row].bytes,
		EndsAt: s.unusedEnd(w),
	}
	if !w.claimed() {
		v.UsedAt = max(w.CreatedAt, w.UsedAt)
	}
	if w.Ledger.Open != 0 {
		v.Waiting = s.purchases.Read(w.Ledger.Open).ID
	}
	return v
}

// TenantWith is the workspace that an id is of, or that has a run, flow, purchase or issue with it;
// false when there is none.
func (m *Machine) TenantWith(id [16]byte) (v TenantView, ok bool) {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.workspaces.find(id)
	if at := s.runOf(id); at != 0 {
		row = s.runs.Row(at).Workspace
	}
	if at := s.flows.find(id); at != 0 {
		row = s.flows.Read(at).Workspace
	}
	if at := s.purchases.find(id); at != 0 {
		row = s.purchases.Read(at).Workspace
	}
	if at := s.issues.find(id); at != 0 {
		row = s.issues.Read(at).Workspace
	}
	if row == 0 || s.workspaces.Read(row).GoneAt != 0 {
		return v, false
	}
	return s.tenantView(row), true
}

// Keys lists a workspace's keys, revoked ones too, newest first; more reports whether there are
// others behind.
func (m *Machine) Keys(workspace uint32, p Page) (views []KeyView, more bool) {
	s := m.read()
	defer s.mu.RUnlock()
	w, _ := s.workspace(workspace)
	return list(&p, chain[KeyView]{
		newest: w.Keys,
		before: func(row uint32) uint32 { return s.keys.Read(row).Before },
		find: func(id [16]byte) uint32 {
			row := w.Keys
			for row != 0 && s.keys.Read(row).ID != id {
				row = s.keys.Read(row).Before
			}
			return row
		},
		view: func(row uint32) KeyView { return s.keys.Read(row).KeyView },
	})
}

// Authenticate finds whom the API key with this SHA-256 speaks for; false when there is no such
// key or it was revoked.
func (m *Machine) Authenticate(hash [32]byte) (Principal, bool) {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.keyOf(&hash)
	if row == 0 || s.keys.Read(row).RevokedAt != 0 {
		return Principal{}, false
	}
	k := s.keys.Read(row)
	p := s.principal(k.Workspace)
	p.KeyID, p.Scopes = k.ID, k.Scopes
	if from := k.noteFrom(); p.NoteFrom == 0 || from < p.NoteFrom {
		p.NoteFrom = from
	}
	return p, true
}

// Gone is why a key does not work any more whose workspace was removed.
type Gone uint8

// The causes.
const (
	GoneNot      Gone = 0 // it is there, or never was
	GoneUnused   Gone = 1 // by itself: it was neither claimed nor used
	GoneOperator Gone = 2
)

func (x *people) goneBy(w *workspace) Gone {
	switch {
	case w.GoneAt == 0:
		return GoneNot
	case w.Acts != 0 && x.actRows.Read(w.Acts).Kind == KindRemoveWorkspace:
		return GoneOperator
	}
	return GoneUnused
}

// GoneKey reports whether the key with this SHA-256 belonged to a workspace that was removed.
func (m *Machine) GoneKey(hash [32]byte) Gone {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.keyOf(&hash)
	if row == 0 {
		return GoneNot
	}
	return s.goneBy(s.workspaces.Read(s.keys.Read(row).Workspace))
}

// GoneAt is when a workspace was removed; 0 when it was not, or there is no such row.
func (m *Machine) GoneAt(workspace uint32) int64 {
	s := m.read()
	defer s.mu.RUnlock()
	if !s.owned(workspace) {
		return 0
	}
	return s.workspaces.Read(workspace).GoneAt
}

// StrangersView is what all workspaces without an owner hold together, and may hold, in bytes; Gone
// is what the rows of removed ones take, and may take.
//
//schema:answer workspaceapi Strangers
type StrangersView struct {
	Bytes    uint64 `json:"bytes"`
	MaxBytes uint64 `json:"limitBytes"`
	Gone     uint64 `json:"removedBytes"`
	MaxGone  uint64 `json:"removedLimitBytes"`
}

// Strangers is what workspaces without an owner hold.
func (m *Machine) Strangers() StrangersView {
	s := m.read()
	defer s.mu.RUnlock()
	return StrangersView{
		Bytes: s.rooms.strangers, MaxBytes: MaxStrangersBytes, Gone: s.rooms.gone, MaxGone: MaxGoneBytes,
	}
}

// Policy is what holds now.
func (m *Machine) Policy() SetPolicy {
	s := m.read()
	defer s.mu.RUnlock()
	return s.policy
}

// Owns reports whether a workspace is a person's.
func (m *Machine) Owns(workspace, person uint32) bool {
	s := m.read()
	defer s.mu.RUnlock()
	return s.ownedBy(workspace, person)
}

// OwnedBy is the newest workspace of an owner; 0 when there is none. It looks at all of them.
func (m *Machine) OwnedBy(owner string) uint32 {
	s := m.read()
	defer s.mu.RUnlock()
	for row := s.workspaces.Len(); row > 0 && owner != ""; row-- {
		if s.workspaces.Read(row).Owner == owner {
			return row
		}
	}
	return 0
}

// ClaimRow is the workspace that a claim code with this SHA-256 hands over; 0 when there is none.
func (m *Machine) ClaimRow(code [32]byte) uint32 {
	s := m.read()
	defer s.mu.RUnlock()
	return s.claimRow(&code)
}

// ActedOn is the workspace that an act with this key was carried out on; 0 when none was, or it is
// too long ago.
func (m *Machine) ActedOn(key [16]byte) uint32 {
	s := m.read()
	defer s.mu.RUnlock()
	row := s.requests.Find(key, s.log.Stamp()-RequestRetentionMS)
	if row == 0 || s.requests.Table.Read(row).kind != madeAct {
		return 0
	}
	return s.actRows.Read(s.requests.Table.Read(row).made).Workspace
}

// Replay says what a request's key was used for, as StartRun and RequestPurchase do.
func (m *Machine) Replay(key, body [16]byte) (made [16]byte, o engine.Outcome) {
	s := m.read()
	defer s.mu.RUnlock()
	return s.replay(key, body)
}
