package workspace

import (
	"tollgate/engine"
	"tollgate/engine/machine"
	"tollgate/engine/page"
)

// money is ledgers and purchases.
type money struct {
	notices
	// day and freeToday count the free runs of all workspaces in one UTC day.
	day, freeToday uint32
	transactions   *page.Table[transaction]
	linkBy         *page.Index
	// paymentTasks are what providers are to be asked; no state.
	paymentTasks paymentTasks
}

func (x *money) open() {
	x.spaces.open()
	x.linkBy = page.NewIndex()
	x.transactions = page.NewTable(x.store, tableTransactions, machine.RecordCodec[transaction]())
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
func (x *money) choose(t *machine.Turn, w *workspace, agent Agent) (ChargeKind, engine.Outcome) {
	if agent.Idle() {
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
		t.Answer(&RetryReply{ResetsAt: DayEnd(t.Stamp)})
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
	x.noteTransaction(t, w, TransactionView{
		ID: derivedID(r.ID, labelTransaction, uint64(kind), t.Stamp), Kind: kind, Amount: n, Run: r.ID,
	})
}

func (x *money) noteTransaction(t *machine.Turn, w *workspace, r TransactionView) {
	row, next := x.transactions.Append()
	r.At = t.Stamp
	*next, w.Transactions = transaction{r, w.Transactions}, row
	t.Fold(r.Amount)
}

// confirms reports whether approving the purchase that a start of a flow now leads to would confirm
// its signup: the one that waits for this version of the flow, or a new one that its owner would be
// asked for. The ledger has been rolled.
func (x *money) confirms(w *workspace, flow uint32) bool {
	open := w.Ledger.Open
	if open == 0 {
		return w.chargeable(x.policy.RunCents, false) != ReasonNone
	}
	p := x.purchases.Read(open)
	return p.Status == PurchaseApproval && p.shown(flow, x.flows.Read(flow))
}

func (x *money) addPurchase(t *machine.Turn, w *workspace, p purchase) uint32 {
	row, next := x.purchases.Append()
	*next, w.Purchases, w.Ledger.Open = p, row, row
	x.rooms.add(p.Workspace, p.bytes())
	x.purchases.index(row)
	if p.waits() {
		x.linkBy.Insert(secretHash(&p.Link), row)
	}
	x.paymentTasks.move(row, TaskNone, p.task())
	x.due.add(p.ExpiresAt, duePurchase, row)
	t.Fold(uint64(row))
	return row
}

// change moves a purchase to another status: the link works only while it waits, and its workspace
// is free for the next one once it has ended. w is its workspace.
func (x *money) change(t *machine.Turn, row uint32, w *workspace, status PurchaseStatus, due int64,
) *purchase {
	before := x.purchases.Read(row).waits()
	p := x.purchaseWrite(row, func(p *purchase) {
		if p.Status == PurchaseProcessing {
			w.Ledger.ChargingCents -= p.Cents
		}
		p.Status, p.ChangedAt, p.ExpiresAt = status, t.Stamp, due
		p.PageOpen = p.PageOpen && status != PurchaseSucceeded
	})
	switch {
	case before && !p.waits():
		x.linkBy.Remove(secretHash(&p.Link), row)
	case !before && p.waits():
		x.linkBy.Insert(secretHash(&p.Link), row)
	}
	if status == PurchaseProcessing {
		w.Ledger.ChargingCents += p.Cents
	}
	if status >= PurchaseSucceeded && w.Ledger.Open == row {
		w.Ledger.Open = 0
	}
	x.due.add(due, duePurchase, row)
	t.Fold(uint64(row)<<8 | uint64(status))
	return p
}

// finishPurchase ends a purchase that brings nothing, and says so.
func (x *money) finishPurchase(t *machine.Turn, row uint32, status PurchaseStatus) {
	number := x.purchases.Read(row).Workspace
	w := *x.workspaces.Read(number)
	w.Ledger.roll(t.Stamp)
	p := x.change(t, row, &w, status, 0)
	x.notify(t, &w, notice{kind: NoticePurchase, purchase: p})
	*x.workspaces.Write(number) = w
}

// purchaseWrite changes a purchase, and what is left to do about it.
func (x *money) purchaseWrite(row uint32, change func(p *purchase)) *purchase {
	p := x.purchases.Write(row)
	before := p.task()
	change(p)
	x.paymentTasks.move(row, before, p.task())
	return p
}

// CreditsReply is the reply of OutcomeCreditsShort.
type CreditsReply struct {
	Required uint64 `wire:"1"`
	Balance  uint64 `wire:"2"`
}

// chargeable says why the saved card may not be charged without the owner; ReasonNone when it may.
// Cap: spent + charging + this ≤ cap. The ledger has been rolled.
func (w *workspace) chargeable(cents uint32, agent bool) ApprovalReason {
	l := &w.Ledger
	switch {
	case !w.claimed() || l.Card == "":
		return ReasonNoCard
	case agent:
		return ReasonAgentSession
	case l.Paused:
		return ReasonPaused
	case uint64(l.SpentCents)+uint64(l.ChargingCents)+uint64(cents) > uint64(l.CapCents):
		return ReasonOverCap
	}
	return ReasonNone
}
