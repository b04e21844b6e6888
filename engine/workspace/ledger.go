package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
)

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
	// Of the month: FreeUsed and PaidUsed are runs that were started in it and not returned.
	Month      uint32 `wire:"11"`
	FreeUsed   uint32 `wire:"12"`
	PaidUsed   uint32 `wire:"13"`
	Returned   uint32 `wire:"14"`
	SpentCents uint32 `wire:"15"`
	// ChargingCents is being charged now.
	ChargingCents uint32 `wire:"16"`
	CapCents      uint32 `wire:"17"`
	CapApproved   bool   `wire:"18"`
	Paused        bool   `wire:"19"`
	// Card is how the provider names the saved card.
	Card string `wire:"20"`
	// Open is the purchase that waits or is being charged.
	Open uint32 `wire:"21"`
	// Of the day.
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
		l.Month, l.FreeUsed, l.PaidUsed, l.Returned, l.SpentCents = month, 0, 0, 0, 0
	}
	if day := dayOf(stamp); day != l.Day {
		l.Day, l.Started, l.Local, l.Cancels, l.Requests = day, 0, 0, 0, 0
		l.Inspected, l.AlertTests, l.AddressAsks = 0, 0, 0
	}
}

// ChargeKind is what pays for a run.
type ChargeKind uint8

// The kinds of charges.
const (
	ChargeNone ChargeKind = 0
	ChargeFree ChargeKind = 1
	ChargePaid ChargeKind = 2
)

// ChargeState is how far a charge has come.
type ChargeState uint8

// The states of charges.
const (
	ChargeReserved  ChargeState = 1
	ChargeCommitted ChargeState = 2
	ChargeReturned  ChargeState = 3
)

// CreditsReply is the reply of OutcomeCreditsShort.
type CreditsReply struct {
	Required uint64 `wire:"1"`
	Balance  uint64 `wire:"2"`
}

// freeLeft is how many free runs all workspaces together may still start on the day of an instant.
func (x *money) freeLeft(stamp int64) uint32 {
	left := x.policy.FreeRunsPerDay
	if dayOf(stamp) == x.day {
		left -= min(left, x.freeToday)
	}
	return left
}

// choose says what would pay for a run of a workspace whose ledger has been rolled; credits come
// first. It changes nothing.
func (x *money) choose(t *machine.Turn, w *workspace, agent string) (ChargeKind, engine.Outcome) {
	if Idle(agent) {
		return ChargeNone, engine.OutcomeDone
	}
	l := &w.Ledger
	if need := uint64(x.policy.CreditsRun); need > l.CreditsLeft {
		t.Answer(&CreditsReply{Required: need, Balance: l.CreditsLeft})
		return ChargeNone, engine.OutcomeCreditsShort
	}
	freeLeft := x.freeLeft(t.Stamp)
	allowed := w.claimed() && l.FreeUsed < x.policy.FreeRunsPerMonth
	switch {
	case allowed && freeLeft > 0:
		return ChargeFree, engine.OutcomeDone
	case l.RunsLeft > 0:
		return ChargePaid, engine.OutcomeDone
	case allowed:
		t.Answer(&RetryReply{ResetsAt: nextDay(t.Stamp)})
		return ChargeNone, engine.OutcomeFreeCapacity
	}
	return ChargeNone, engine.OutcomePaymentRequired
}

// reserve takes a run's charge from the ledger, where it has one.
func (x *money) reserve(t *machine.Turn, w *workspace, r *run, kind ChargeKind) {
	if kind == ChargeNone {
		return
	}
	l := &w.Ledger
	r.Charge, r.ChargeState, r.Credits = kind, ChargeReserved, x.policy.CreditsRun
	if kind == ChargeFree {
		l.FreeUsed++
		if day := dayOf(t.Stamp); day != x.day {
			x.day, x.freeToday = day, 0
		}
		x.freeToday++
	} else {
		l.RunsLeft--
		l.RunsReserved++
		l.PaidUsed++
		r.Cents = x.policy.RunCents
	}
	x.moveCredits(t, w, r, transactionReserve)
}

// settle commits a run's charge, or returns it: a free run to the month and the day that it came
// from, a bought one to the balance. w's ledger has been rolled.
func (x *money) settle(t *machine.Turn, w *workspace, r *run, commit bool) {
	if r.ChargeState != ChargeReserved {
		return
	}
	l := &w.Ledger
	if r.Charge == ChargePaid {
		l.RunsReserved--
	}
	if commit {
		r.ChargeState = ChargeCommitted
		if r.Charge == ChargePaid {
			l.RunsSpent++
		}
		x.moveCredits(t, w, r, transactionCommit)
		return
	}
	r.ChargeState = ChargeReturned
	if r.Charge == ChargePaid {
		l.RunsLeft++
	} else if dayOf(r.CreatedAt) == x.day {
		x.freeToday -= min(x.freeToday, 1)
	}
	if monthOf(r.CreatedAt) == l.Month {
		l.Returned++
		if r.Charge == ChargeFree {
			l.FreeUsed--
		} else {
			l.PaidUsed--
		}
	}
	x.moveCredits(t, w, r, transactionRelease)
}

// moveCredits books a run's credits and notes the transaction.
func (x *money) moveCredits(t *machine.Turn, w *workspace, r *run, kind TransactionKind) {
	n, l := uint64(r.Credits), &w.Ledger
	if n == 0 {
		return
	}
	switch kind {
	case transactionReserve:
		l.CreditsLeft, l.CreditsReserved = l.CreditsLeft-n, l.CreditsReserved+n
	case transactionCommit:
		l.CreditsReserved, l.CreditsSpent = l.CreditsReserved-n, l.CreditsSpent+n
	default:
		l.CreditsReserved, l.CreditsLeft = l.CreditsReserved-n, l.CreditsLeft+n
	}
	x.noteTransaction(t, w, transaction{
		ID: derivedID(r.ID, labelTransaction, uint64(kind), t.Stamp), Kind: kind, Amount: n, Run: r.ID,
	})
}

// TransactionKind is how credits moved.
type TransactionKind uint8

const (
	transactionGrant   TransactionKind = 1
	transactionReserve TransactionKind = 2
	transactionCommit  TransactionKind = 3
	transactionRelease TransactionKind = 4
)

// String is the kind's name in the API.
func (k TransactionKind) String() string {
	return [...]string{"", "grant", "reserve", "commit", "release"}[k]
}

// transaction is one movement of credits.
type transaction struct {
	ID     [16]byte        `wire:"1"`
	Before uint32          `wire:"2"`
	Kind   TransactionKind `wire:"3"`
	Amount uint64          `wire:"4"`
	Run    [16]byte        `wire:"5"`
	At     int64           `wire:"6"`
	Note   string          `wire:"7"`
}

func (x *money) noteTransaction(t *machine.Turn, w *workspace, r transaction) {
	row, next := x.transactions.Append()
	r.Before, r.At = w.Transactions, t.Stamp
	*next, w.Transactions = r, row
	t.Fold(r.Amount)
}

// MaxCredits is the most that one grant gives, and the most that a workspace is ever granted.
const MaxCredits = 1 << 40

// GrantCredits gives credits to a workspace: for an operator. The same ID again is the same
// success again when it is among the newest 1,000 transactions.
type GrantCredits struct {
	Workspace uint32   `wire:"1"`
	ID        [16]byte `wire:"2"`
	Amount    uint64   `wire:"3"`
	Note      string   `wire:"4"` // ≤ 200 characters
}

func (c *GrantCredits) apply(x *money, t *machine.Turn) engine.Outcome {
	w, ok := x.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if c.Amount == 0 || c.Amount > MaxCredits || w.Ledger.CreditsGranted > MaxCredits-c.Amount {
		return engine.OutcomeCreditsInvalid
	}
	seen := 0
	for row := w.Transactions; row != 0 && seen < 1000; row = x.transactions.Read(row).Before {
		if x.transactions.Read(row).ID == c.ID {
			return engine.OutcomeDone
		}
		seen++
	}

	w.Ledger.CreditsGranted += c.Amount
	w.Ledger.CreditsLeft += c.Amount
	x.noteTransaction(t, &w, transaction{
		ID: c.ID, Kind: transactionGrant, Amount: c.Amount, Note: c.Note,
	})
	*x.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}
