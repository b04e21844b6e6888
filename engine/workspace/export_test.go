package workspace

import (
	"encoding/binary"
	"fmt"

	"tollgate/engine/wire"
)

// Golden are the bytes of every record of a snapshot, by name.
func Golden() map[string][]byte {
	all := map[string][]byte{}
	for name, r := range goldenRecords() {
		all["snapshot-"+name] = wire.Encode(nil, r)
	}
	return all
}

func goldenRecords() map[string]wire.Fielder {
	id, hash := [16]byte{1, 2, 15: 16}, [32]byte{3, 31: 32}
	return map[string]wire.Fielder{
		"header": &header{
			Shard: 1, Index: 9, Hash: 1 << 60, Stamp: 1769871600000, Policy: DefaultPolicy(), Day: 20485,
			FreeToday: 3, FirstQueued: 1, LastQueued: 2, Queued: 2, Running: 1, RequestsFrom: 1,
			RequestsTo: 4, SourcesFrom: 2, SourcesTo: 3,
		},
		"workspace": &workspace{
			ID: id, Label: "acme", Owner: "ada", Claim: hash, CreatedAt: 5, ClaimedAt: 6, Keys: 1,
			Flows: 2, Runs: 3, Purchases: 4, Issues: 5, Notifications: 6, Transactions: 7,
			Ledger: ledger{
				RunsBought: 10, RunsLeft: 7, RunsReserved: 1, RunsSpent: 2, CreditsGranted: 9,
				CreditsLeft: 4, CreditsReserved: 2, CreditsSpent: 3, PaidCents: 5000, RefundCents: 500,
				Month: 673, FreeUsed: 1, PaidUsed: 2, Returned: 3, SpentCents: 2500,
				ChargingCents: 500, CapCents: 5000, CapApproved: true, Paused: true, Card: "card",
				Open: 4, Day: 20485, Started: 1, Local: 2, Cancels: 3, Requests: 4,
			},
		},
		"key": &key{
			ID: id, Hash: hash, Workspace: 1, Before: 2, Scopes: ScopesAll, CreatedAt: 5, RevokedAt: 6,
		},
		"flow": &flow{
			ID: id, Workspace: 1, Before: 2, Version: 3, CreatedAt: 4, ChangedAt: 5, ArchivedAt: 6,
			Open: 7, Issues: 8, SignupConfirmed: true, Preflight: 3, NoKey: CalledRefused,
			WrongKey: CalledAccepted, AlreadyTrue: true, PreflightAt: 9, Watch: WatchFailing,
			Misses: 2, WatchAt: 10, Verified: true, WithCredential: true, TestAccount: true,
		},
		"flow-document": &FlowDocument{
			Name: "n", URL: "u", Task: "t", SuccessCriteria: "s", Access: "public",
			VerificationURL: "v", VerificationStatus: 200, VerificationContains: "c",
			Credential: "bearer", Agent: "a",
		},
		"run": &run{
			ID: id, Workspace: 1, Before: 2, Flow: 3, FlowVersion: 4, Next: 5, Agent: 6, Token: 7,
			Kind: RunHosted, Status: RunRunning, Outcome: OutcomePassed, Charge: ChargePaid,
			ChargeState: ChargeCommitted, Credits: 8, Cents: 500, CreatedAt: 9, StartedAt: 10,
			FinishedAt: 11, Due: 12, WallEnd: 13,
		},
		"run-text": &RunText{
			Code: "c", Reason: "r", Step: "s", Proof: "run", Worker: "w", DecidedAt: 7, Question: "q",
			Calls:      []Call{{Case: "none", Status: 401, Refused: true, Matched: true, Note: "n"}},
			Events:     []RunEvent{{At: 5, Text: "opened"}},
			Checkpoint: []byte{1},
		},
		"purchase": &purchase{
			ID: id, Workspace: 1, Before: 2, Flow: 3, Runs: 4, Cents: 2000, Status: PurchaseCheckout,
			Reason: ReasonOverCap, Links: 5, Link: hash, Checkout: "cs", URL: "https://pay.example",
			CreatedAt: 6, ChangedAt: 7, Due: 8, PaidMonth: 673, Refund: true,
		},
		"issue": &issue{
			ID: id, Workspace: 1, Flow: 2, Before: 3, BeforeOfFlow: 4, Status: IssueFixReady, Seen: 5,
			Run: id, Step: "s", Code: "c", Reason: "r", Note: "n", CreatedAt: 6, ChangedAt: 7,
			ClosedAt: 8,
		},
		"notification": &notification{
			ID: id, Workspace: 1, Before: 2, Kind: NoticeHandoff, Flow: 3, Run: id, Issue: id,
			Purchase: id, CreatedAt: 4, ReadAt: 5,
		},
		"transaction": &transaction{
			ID: id, Before: 1, Kind: transactionCommit, Amount: 2, Run: id, At: 3, Note: "n",
		},
		"request": &request{Key: id, Body: id, Made: id, At: 4},
		"signups": &signups{Source: id, At: 4, Count: 5},
	}
}

// Broken names the first of a workspace's sums that do not add up, counted anew from all records;
// empty when they all do.
func (m *Machine) Broken() string {
	s := m.state.Load()
	queued, running := uint32(0), uint32(0)
	for row := uint32(1); row <= s.runs.Len(); row++ {
		if r := s.runs.Read(row); r.Kind == RunHosted {
			queued += bit(r.Status == RunQueued)
			running += bit(r.Status == RunRunning)
		}
	}
	if queued != s.queued || running != s.running {
		return fmt.Sprintf("queued %d (%d), running %d (%d)", s.queued, queued, s.running, running)
	}
	inQueue := uint32(0)
	for row := s.firstQueued; row != 0; row = s.runs.Read(row).Next {
		inQueue += bit(s.runs.Read(row).Status == RunQueued)
	}
	if inQueue != queued {
		return fmt.Sprintf("%d runs in the queue, %d wait", inQueue, queued)
	}
	for row := uint32(1); row <= s.workspaces.Len(); row++ {
		if text := s.brokenLedger(row); text != "" {
			return fmt.Sprintf("workspace %d: %s", row, text)
		}
	}
	return ""
}

func bit(b bool) uint32 {
	if b {
		return 1
	}
	return 0
}

// brokenLedger counts every run, cent and credit of a workspace anew.
func (s *state) brokenLedger(workspace uint32) string {
	l := s.workspaces.Read(workspace).Ledger
	want := l
	want.RunsBought, want.RunsReserved, want.RunsSpent = 0, 0, 0
	want.FreeUsed, want.PaidUsed, want.Returned = 0, 0, 0
	want.CreditsReserved, want.CreditsSpent, want.CreditsGranted = 0, 0, 0
	want.PaidCents, want.RefundCents, want.SpentCents, want.ChargingCents = 0, 0, 0, 0
	for row := uint32(1); row <= s.runs.Len(); row++ {
		if r := s.runs.Read(row); r.Workspace == workspace && r.Kind == RunHosted {
			countRun(&want, r)
		}
	}
	open := uint32(0)
	for row := uint32(1); row <= s.purchases.Len(); row++ {
		p := s.purchases.Read(row)
		if p.Workspace != workspace {
			continue
		}
		countPurchase(&want, p)
		if p.waits() || p.Status == PurchaseProcessing {
			if open != 0 {
				return "two purchases wait"
			}
			open = row
		}
	}
	for row := s.workspaces.Read(workspace).Transactions; row != 0; {
		t := s.transactions.Read(row)
		if t.Kind == transactionGrant {
			want.CreditsGranted += t.Amount
		}
		row = t.Before
	}
	want.Open = open
	want.RunsLeft = want.RunsBought - want.RunsReserved - want.RunsSpent
	want.CreditsLeft = want.CreditsGranted - want.CreditsReserved - want.CreditsSpent
	if l != want {
		return fmt.Sprintf("%+v, counted %+v", l, want)
	}
	if l.RunsLeft > 1<<31 || l.CreditsLeft > 1<<62 {
		return "below zero"
	}
	return ""
}

func countRun(l *ledger, r *run) {
	ofMonth := monthOf(r.CreatedAt) == l.Month
	if ofMonth && r.ChargeState == ChargeReturned {
		l.Returned++
	}
	if r.Charge == ChargePaid {
		l.RunsReserved += bit(r.ChargeState == ChargeReserved)
		l.RunsSpent += bit(r.ChargeState == ChargeCommitted)
		l.PaidUsed += bit(ofMonth && r.ChargeState != ChargeReturned)
	} else {
		l.FreeUsed += bit(ofMonth && r.ChargeState != ChargeReturned)
	}
	l.CreditsReserved += uint64(r.Credits * bit(r.ChargeState == ChargeReserved))
	l.CreditsSpent += uint64(r.Credits * bit(r.ChargeState == ChargeCommitted))
	if r.Status.Final() == (r.ChargeState == ChargeReserved) {
		l.Month = 0 // a run that ended with its charge open, or the other way round
	}
}

func countPurchase(l *ledger, p *purchase) {
	switch {
	case p.Status == PurchaseSucceeded:
		l.RunsBought += p.Runs
		l.PaidCents += uint64(p.Cents)
		if p.PaidMonth == l.Month {
			l.SpentCents += p.Cents
		}
	case p.Status == PurchaseProcessing:
		l.ChargingCents += p.Cents
	}
	if p.Refund {
		l.RefundCents += uint64(p.Cents)
	}
}

// HeaderBytes is the length of what a snapshot begins with, which holds the rolling hash.
func HeaderBytes(snapshot []byte) int {
	return len(snapshotMagic) + 8 + int(binary.LittleEndian.Uint32(snapshot[len(snapshotMagic):]))
}

// TableBytes is the memory of all tables without what their records point to, and the number of
// runs.
func (m *Machine) TableBytes() (bytes uint64, runs uint32) {
	s := m.state.Load()
	return s.store.Bytes(), s.runs.Len()
}
