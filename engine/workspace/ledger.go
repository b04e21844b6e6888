package workspace

import (
	"tollgate/engine"
	"tollgate/engine/wire"
)

// ledger is the money, runs and credits of one workspace. At any time
//
//	RunsBought = RunsLeft + RunsReserved + RunsSpent
//	CreditsGranted = CreditsLeft + CreditsReserved + CreditsSpent
//
// and the sums of the month count the runs that were started in it: see DESIGN.md.
type ledger struct {
	RunsBought, RunsLeft, RunsReserved, RunsSpent              uint32
	CreditsGranted, CreditsLeft, CreditsReserved, CreditsSpent uint64
	// PaidCents, RefundCents and RefundedCents are ever: RefundCents came for purchases that had
	// ended, and RefundedCents of them were sent back.
	PaidCents, RefundCents, RefundedCents uint64
	// Of the month: FreeUsed and PaidUsed are runs that were started in it and not returned.
	Month                        uint32
	FreeUsed, PaidUsed, Returned uint32
	SpentCents                   uint32
	// ChargingCents is being charged now.
	ChargingCents, CapCents uint32
	CapApproved, Paused     bool
	// Card is how the provider names the saved card.
	Card string
	// Open is the purchase that waits or is being charged.
	Open uint32
	// Of the day.
	Day                               uint32
	Started, Local, Cancels, Requests uint32
	Inspected                         uint32
	AlertTests, AddressAsks           uint32
}

// Fields states the ledger's fields.
func (l *ledger) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &l.RunsBought)
	wire.Uint(w, 2, &l.RunsLeft)
	wire.Uint(w, 3, &l.RunsReserved)
	wire.Uint(w, 4, &l.RunsSpent)
	wire.Uint(w, 5, &l.CreditsGranted)
	wire.Uint(w, 6, &l.CreditsLeft)
	wire.Uint(w, 7, &l.CreditsReserved)
	wire.Uint(w, 8, &l.CreditsSpent)
	wire.Uint(w, 9, &l.PaidCents)
	wire.Uint(w, 10, &l.RefundCents)
	wire.Uint(w, 11, &l.Month)
	wire.Uint(w, 12, &l.FreeUsed)
	wire.Uint(w, 13, &l.PaidUsed)
	wire.Uint(w, 14, &l.Returned)
	wire.Uint(w, 15, &l.SpentCents)
	wire.Uint(w, 16, &l.ChargingCents)
	wire.Uint(w, 17, &l.CapCents)
	w.Bool(18, &l.CapApproved)
	w.Bool(19, &l.Paused)
	w.String(20, &l.Card)
	wire.Uint(w, 21, &l.Open)
	wire.Uint(w, 22, &l.Day)
	wire.Uint(w, 23, &l.Started)
	wire.Uint(w, 24, &l.Local)
	wire.Uint(w, 25, &l.Cancels)
	wire.Uint(w, 26, &l.Requests)
	wire.Uint(w, 27, &l.RefundedCents)
	wire.Uint(w, 40, &l.Inspected)
	wire.Uint(w, 130, &l.AlertTests)
	wire.Uint(w, 150, &l.AddressAsks)
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
type CreditsReply struct{ Required, Balance uint64 }

// Fields states the reply's fields.
func (r *CreditsReply) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &r.Required)
	wire.Uint(w, 2, &r.Balance)
}

// freeLeft is how many free runs all workspaces together may still start on the day of an instant.
func (s *state) freeLeft(stamp int64) uint32 {
	left := s.policy.FreeRunsPerDay
	if dayOf(stamp) == s.day {
		left -= min(left, s.freeToday)
	}
	return left
}

// choose says what would pay for a run of a workspace whose ledger has been rolled; credits come
// first. It changes nothing.
func (t *turn) choose(w *workspace, agent string) (ChargeKind, engine.Outcome) {
	if Idle(agent) {
		return ChargeNone, engine.OutcomeDone
	}
	l := &w.Ledger
	if need := uint64(t.policy.CreditsRun); need > l.CreditsLeft {
		t.answer(&CreditsReply{Required: need, Balance: l.CreditsLeft})
		return ChargeNone, engine.OutcomeCreditsShort
	}
	freeLeft := t.freeLeft(t.stamp)
	allowed := w.claimed() && l.FreeUsed < t.policy.FreeRunsPerMonth
	switch {
	case allowed && freeLeft > 0:
		return ChargeFree, engine.OutcomeDone
	case l.RunsLeft > 0:
		return ChargePaid, engine.OutcomeDone
	case allowed:
		t.answer(&RetryReply{ResetsAt: nextDay(t.stamp)})
		return ChargeNone, engine.OutcomeFreeCapacity
	}
	return ChargeNone, engine.OutcomePaymentRequired
}

// reserve takes a run's charge from the ledger, where it has one.
func (t *turn) reserve(w *workspace, r *run, kind ChargeKind) {
	if kind == ChargeNone {
		return
	}
	l := &w.Ledger
	r.Charge, r.ChargeState, r.Credits = kind, ChargeReserved, t.policy.CreditsRun
	if kind == ChargeFree {
		l.FreeUsed++
		if day := dayOf(t.stamp); day != t.day {
			t.day, t.freeToday = day, 0
		}
		t.freeToday++
	} else {
		l.RunsLeft--
		l.RunsReserved++
		l.PaidUsed++
		r.Cents = t.policy.RunCents
	}
	t.moveCredits(w, r, transactionReserve)
}

// settle commits a run's charge, or returns it: a free run to the month and the day that it came
// from, a bought one to the balance. w's ledger has been rolled.
func (t *turn) settle(w *workspace, r *run, commit bool) {
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
		t.moveCredits(w, r, transactionCommit)
		return
	}
	r.ChargeState = ChargeReturned
	if r.Charge == ChargePaid {
		l.RunsLeft++
	} else if dayOf(r.CreatedAt) == t.day {
		t.freeToday -= min(t.freeToday, 1)
	}
	if monthOf(r.CreatedAt) == l.Month {
		l.Returned++
		if r.Charge == ChargeFree {
			l.FreeUsed--
		} else {
			l.PaidUsed--
		}
	}
	t.moveCredits(w, r, transactionRelease)
}

// moveCredits books a run's credits and notes the transaction.
func (t *turn) moveCredits(w *workspace, r *run, kind TransactionKind) {
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
	t.noteTransaction(w, transaction{
		ID: derivedID(r.ID, labelTransaction, uint64(kind), t.stamp), Kind: kind, Amount: n, Run: r.ID,
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
	ID     [16]byte
	Before uint32
	Kind   TransactionKind
	Amount uint64
	Run    [16]byte
	At     int64
	Note   string
}

// Fields states the row's fields.
func (r *transaction) Fields(w *wire.Codec) {
	w.ID(1, &r.ID)
	wire.Uint(w, 2, &r.Before)
	wire.Uint(w, 3, &r.Kind)
	wire.Uint(w, 4, &r.Amount)
	w.ID(5, &r.Run)
	w.Int(6, &r.At)
	w.String(7, &r.Note)
}

func (t *turn) noteTransaction(w *workspace, r transaction) {
	row, next := t.transactions.Append()
	r.Before, r.At = w.Transactions, t.stamp
	*next, w.Transactions = r, row
	t.fold(r.Amount)
}

// MaxCredits is the most that one grant gives, and the most that a workspace is ever granted.
const MaxCredits = 1 << 40

// GrantCredits gives credits to a workspace: for an operator. The same ID again is the same
// success again when it is among the newest 1,000 transactions.
type GrantCredits struct {
	Workspace uint32
	ID        [16]byte
	Amount    uint64
	Note      string // ≤ 200 characters
}

// Fields states the command's fields.
func (c *GrantCredits) Fields(w *wire.Codec) {
	wire.Uint(w, 1, &c.Workspace)
	w.ID(2, &c.ID)
	wire.Uint(w, 3, &c.Amount)
	w.String(4, &c.Note)
}

func (c *GrantCredits) apply(t *turn) engine.Outcome {
	w, ok := t.workspace(c.Workspace)
	if !ok {
		return engine.OutcomeRecordUnknown
	}
	if c.Amount == 0 || c.Amount > MaxCredits || w.Ledger.CreditsGranted > MaxCredits-c.Amount {
		return engine.OutcomeCreditsInvalid
	}
	seen := 0
	for row := w.Transactions; row != 0 && seen < 1000; row = t.transactions.Read(row).Before {
		if t.transactions.Read(row).ID == c.ID {
			return engine.OutcomeDone
		}
		seen++
	}

	w.Ledger.CreditsGranted += c.Amount
	w.Ledger.CreditsLeft += c.Amount
	t.noteTransaction(&w, transaction{
		ID: c.ID, Kind: transactionGrant, Amount: c.Amount, Note: c.Note,
	})
	*t.workspaces.Write(c.Workspace) = w
	return engine.OutcomeDone
}
