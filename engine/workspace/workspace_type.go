package workspace

import (
	"container/heap"
	"strings"
)

// workspace is one workspace: its balance, its sums of the present month and day, and the newest of
// each of its lists.
type workspace struct {
	ID        [16]byte `wire:"1"`
	Label     string   `wire:"2"` // ≤ 80 characters
	Owner     string   `wire:"3"` // who claimed it; empty if unclaimed
	Claim     [32]byte `wire:"4"`
	CreatedAt int64    `wire:"5"`
	ClaimedAt int64    `wire:"6"`
	// The newest row of each list; a row knows the one before it.
	Keys          uint32 `wire:"7"`
	Flows         uint32 `wire:"8"`
	Runs          uint32 `wire:"9"`
	Purchases     uint32 `wire:"10"`
	Issues        uint32 `wire:"11"`
	Notifications uint32 `wire:"12"`
	Transactions  uint32 `wire:"13"`
	Acts          uint32 `wire:"25"`
	Ledger        ledger `wire:"14"`
	// Network is where it was signed up from: the first address of a /48, or of a /24 as IPv6 maps
	// IPv4; zero is not known.
	Network [16]byte `wire:"36"`
	// UsedAt is the newest use of its keys that was noted while it had no owner. GoneAt is when it
	// was removed.
	UsedAt int64 `wire:"37"`
	GoneAt int64 `wire:"38"`
	// Person is its owner, once they have signed in; OwnedBefore is the workspace that was theirs
	// before it.
	Person      uint32 `wire:"50"`
	OwnedBefore uint32 `wire:"51"`
	// Access is the newest of its test credentials.
	Access uint32 `wire:"141"`
	// base is the text that those of its flows are packed behind. It is not state.
	base place
}

func (s *workspace) claimed() bool { return s.ClaimedAt != 0 }

// ledger is the money, runs and credits of one workspace. At any time
//
//	RunsBought = RunsLeft + RunsReserved + RunsSpent
//	CreditsGranted = CreditsLeft + CreditsReserved + CreditsSpent
//
// and the sums of the month count the runs that were started in it: see DESIGN.md.
type ledger struct {
	RunsBought      uint32 `wire:"1"`
	RunsLeft        uint32 `wire:"2"`
	RunsReserved    uint32 `wire:"3"`
	RunsSpent       uint32 `wire:"4"`
	CreditsGranted  uint64 `wire:"5"`
	CreditsLeft     uint64 `wire:"6"`
	CreditsReserved uint64 `wire:"7"`
	CreditsSpent    uint64 `wire:"8"`
	// PaidCents, RefundCents and RefundedCents are ever: RefundCents came for purchases that had
	// ended, and RefundedCents of them were sent back.
	PaidCents     uint64 `wire:"9"`
	RefundCents   uint64 `wire:"10"`
	RefundedCents uint64 `wire:"27"`
	monthly
	// ChargingCents is being charged now.
	ChargingCents uint32 `wire:"16"`
	CapCents      uint32 `wire:"17"`
	CapApproved   bool   `wire:"18"`
	Paused        bool   `wire:"19"`
	// Card is how the provider names the saved card.
	Card string `wire:"20"`
	// Open is the purchase that waits or is being charged.
	Open uint32 `wire:"21"`
	daily
}

// monthly is the sums of a UTC month.
//
//schema:part
type monthly struct {
	Month uint32 `wire:"11"`
	// FreeUsed and PaidUsed are runs that were started in it and not returned.
	FreeUsed   uint32 `wire:"12"`
	PaidUsed   uint32 `wire:"13"`
	Returned   uint32 `wire:"14"`
	SpentCents uint32 `wire:"15"`
}

// daily is what happened in a UTC day, for its limits.
//
//schema:part
type daily struct {
	Day         uint32 `wire:"22"`
	Started     uint32 `wire:"23"`
	Local       uint32 `wire:"24"`
	Cancels     uint32 `wire:"25"`
	Requests    uint32 `wire:"26"`
	Inspected   uint32 `wire:"40"`
	AlertTests  uint32 `wire:"130"`
	AddressAsks uint32 `wire:"150"`
}

// roll begins the month and the day of an instant; on a copy, so that a refusal changes nothing.
func (l *ledger) roll(stamp int64) {
	if month := monthOf(stamp); month != l.Month {
		l.monthly = monthly{Month: month}
	}
	if day := dayOf(stamp); day != l.Day {
		l.daily = daily{Day: day}
	}
}

// key is an API key.
type key struct {
	KeyView
	Hash      [32]byte `wire:"2"`
	Workspace uint32   `wire:"3"`
	Before    uint32   `wire:"4"` // the workspace's key before this one
}

// KeyView is an API key in its workspace's list; nothing gives the key itself away.
//
//schema:part
type KeyView struct {
	ID        [16]byte `wire:"1"`
	Scopes    Scopes   `wire:"5"`
	CreatedAt int64    `wire:"6"`
	RevokedAt int64    `wire:"7"` // 0 of one that works
	// UsedAt is its newest noted use: see NoteUse. 0 is none.
	UsedAt int64 `wire:"8"`
}

// noteFrom is the instant from which on a use of the key is to be noted.
func (v *KeyView) noteFrom() int64 { return max(v.CreatedAt, v.UsedAt) + NoticedMS }

// Scopes is a set of what an API key may do. None includes another.
type Scopes uint8

// The scopes.
const (
	ScopeRead  Scopes = 1
	ScopeWrite Scopes = 2
	ScopeRun   Scopes = 4
	ScopesAll  Scopes = ScopeRead | ScopeWrite | ScopeRun
)

var scopeNames = [...]struct {
	scope Scopes
	name  string
}{{ScopeRead, "read"}, {ScopeWrite, "write"}, {ScopeRun, "run"}}

// Names are the names of the scopes in the set.
func (s Scopes) Names() []string {
	var names []string
	for _, n := range scopeNames {
		if s&n.scope != 0 {
			names = append(names, n.name)
		}
	}
	return names
}

// String is the names with spaces between, as OAuth writes scopes.
func (s Scopes) String() string { return strings.Join(s.Names(), " ") }

// ParseScope is the scope of a name.
func ParseScope(name string) (s Scopes, ok bool) {
	for _, n := range scopeNames {
		if n.name == name {
			return n.scope, true
		}
	}
	return 0, false
}

// signups counts the workspaces that one address made in the hour that began at At.
type signups struct {
	Source [16]byte `wire:"1"`
	At     int64    `wire:"2"`
	Count  uint32   `wire:"3"`
}

// Kinds of rows that have an instant at which something happens to them.
const (
	dueRun      = 1
	duePurchase = 2
	// dueWorkspace is for unclaimed ones.
	dueWorkspace = 3
	dueSchedule  = 4
)

// dueItem is an instant at which something happens, or happened, to a row.
type dueItem struct {
	at   int64
	kind uint8
	row  uint32
}

// dues is a heap, earliest first, runs before purchases before workspaces before schedules, lower
// rows first. A row
// whose instant has changed leaves an item behind, which is dropped when it comes to the top. A
// workspace's instant only ever moves on, by each of its uses: its one item moves when it comes to
// the top.
type dues []dueItem

func (d dues) Len() int { return len(d) }

func (d dues) Swap(i, j int) { d[i], d[j] = d[j], d[i] }

func (d dues) Less(i, j int) bool {
	a, b := d[i], d[j]
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.row < b.row
}

// Push and Pop are for container/heap alone.
func (d *dues) Push(x any) { *d = append(*d, x.(dueItem)) }

// Pop is for container/heap alone.
func (d *dues) Pop() any {
	last := (*d)[len(*d)-1]
	*d = (*d)[:len(*d)-1]
	return last
}

// add notes an instant; 0 is none.
func (d *dues) add(at int64, kind uint8, row uint32) {
	if at != 0 {
		heap.Push(d, dueItem{at, kind, row})
	}
}

// RetryReply says when a limit ends, in milliseconds since 1970 UTC.
type RetryReply struct {
	ResetsAt int64  `wire:"1"`
	Limit    uint32 `wire:"2"`
}
