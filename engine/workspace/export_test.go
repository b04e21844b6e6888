package workspace

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"

	"tollgate/engine"
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
			RequestsTo: 4, SourcesFrom: 2, SourcesTo: 3, ExpireFrom: 7,
		},
		"workspace": &workspace{
			ID: id, Label: "acme", Owner: "ada", Claim: hash, CreatedAt: 5, ClaimedAt: 6, Keys: 1,
			Flows: 2, Runs: 3, Purchases: 4, Issues: 5, Notifications: 6, Transactions: 7, Acts: 8,
			Network: id, UsedAt: 9, GoneAt: 10,
			Ledger: ledger{
				RunsBought: 10, RunsLeft: 7, RunsReserved: 1, RunsSpent: 2, CreditsGranted: 9,
				CreditsLeft: 4, CreditsReserved: 2, CreditsSpent: 3, PaidCents: 5000,
				RefundCents: 500, RefundedCents: 500,
				monthly:       monthly{Month: 673, FreeUsed: 1, PaidUsed: 2, Returned: 3, SpentCents: 2500},
				ChargingCents: 500, CapCents: 5000, CapApproved: true, Paused: true, Card: "card",
				Open:  4,
				daily: daily{Day: 20485, Started: 1, Local: 2, Cancels: 3, Requests: 4, Inspected: 5},
			},
		},
		"key": &key{
			KeyView: KeyView{ID: id, Scopes: ScopesAll, CreatedAt: 5, RevokedAt: 6}, Hash: hash,
			Workspace: 1, Before: 2,
		},
		"flow": &flow{
			ID: id, Workspace: 1, Before: 2, ArchivedAt: 6, Open: 7, Issues: 8, Preflight: 3, Misses: 2,
			flowFacts: flowFacts{
				Version: 3, CreatedAt: 4, ChangedAt: 5, SignupConfirmed: true, NoKey: CalledRefused,
				WrongKey: CalledAccepted, AlreadyTrue: true, PreflightAt: 9, Watch: WatchFailing, WatchAt: 10,
			},
			Verified: true, WithCredential: true, TestAccount: true,
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
			Checkpoint: []byte{1}, Answer: []byte{2, 3}, WallLeft: 4, Steps: 5, Tokens: 6,
		},
		"purchase": &purchase{
			purchaseFacts: purchaseFacts{
				ID: id, Workspace: 1, Runs: 4, Cents: 2000, Status: PurchaseCheckout, Reason: ReasonOverCap,
				Checkout: "cs", URL: "https://pay.example", CreatedAt: 6, ChangedAt: 7, ExpiresAt: 8,
				Refund: true, Payment: "pi", PageOpen: true,
			},
			Before: 2, Flow: 3, Links: 5, Link: hash, PaidMonth: 673, RefundID: "re", RefundedAt: 9,
			FlowVersion: 10, asked: asked{id, id},
		},
		"purchase-returns": &purchase{
			purchaseFacts: purchaseFacts{ID: id, Status: PurchaseSucceeded}, RefundRefused: "no",
			Surplus: []Return{{Payment: "pi2", Refund: "re2", At: 11, Refused: "x"}, {Payment: "pi3"}},
		},
		"issue": &issue{
			issueFacts: issueFacts{
				ID: id, Status: IssueFixReady, Seen: 5, Run: id, Step: "s", Code: "c", Reason: "r", Note: "n",
				CreatedAt: 6, ChangedAt: 7, ClosedAt: 8,
			},
			Workspace: 1, Flow: 2, Before: 3, BeforeOfFlow: 4, ReadyVersion: 9,
		},
		"notification": &notification{
			noticeFacts: noticeFacts{
				ID: id, Kind: NoticeHandoff, Run: id, Issue: id, Purchase: id, CreatedAt: 4, ReadAt: 5,
			},
			Workspace: 1, Before: 2, Flow: 3,
		},
		"transaction": &transaction{
			TransactionView: TransactionView{
				ID: id, Kind: transactionCommit, Amount: 2, Run: id, At: 3, Note: "n",
			},
			Before: 1,
		},
		"act": &actRow{
			actFacts: actFacts{
				ID: id, At: 3, Actor: "operator", Subject: id, Note: "n",
				Changes: []ActChange{{Name: "paused", Before: "a", After: "b"}},
			},
			Workspace: 1, Before: 2, Kind: KindSetBilling,
		},
		"inspection": &inspection{
			Run: 1, Workspace: 2, Before: 3, Previous: 4, Size: 5, Kind: RunInspection,
			Host: "acme.example", Findings: []byte{6},
		},
		"flow-alerts": &flow{ID: id, Workspace: 1, Alert: 2},
		"alert-unconfirmed": &alert{
			Workspace: 1, Flow: 2, Link: hash,
			alertFacts: alertFacts{Email: "a@b.example", Unconfirmed: true, LinkUntil: 3},
		},
		"ledger-addresses": &ledger{daily: daily{Day: 20485, AddressAsks: 3}},
		"ledger-alerts":    &ledger{daily: daily{Day: 20485, AlertTests: 3}},
		"alert": &alert{
			Workspace: 1, Flow: 2, Made: 8,
			alertFacts: alertFacts{
				On: true, Email: "a@b.example", URL: "https://hooks.example/", Secret: []byte{3},
				Previous: []byte{4}, PreviousUntil: 5, RotatedAt: 6, GoneAt: 7,
			},
			Deliveries: []DeliveryView{{
				ID: id, Number: 8, Kind: AlertRecovered, Channel: ChannelWebhook, Status: DeliveryUnknown,
				Attempts: 2, CreatedAt: 3, NextAt: 4, EndedAt: 5, Sender: id, BegunAt: 6, Answer: 500,
				Reason: "r", Run: id, Outcome: OutcomePassed, Flow: "f", Step: "s", Code: "c", Why: "w",
			}},
		},
		"header-agents":      &header{Shard: 1, Agents: []string{"nop nop 1", "http http 2"}},
		"workspace-access":   &workspace{ID: id, Access: 2},
		"flow-document-host": &FlowDocument{Name: "n", Access: "test_account", Host: "acme.example"},
		"access": &access{
			AccessView: AccessView{Host: "acme.example", SetAt: 4}, Workspace: 1, Before: 2, Sealed: []byte{3},
		},
		"flow-schedule": &flow{ID: id, Workspace: 1, Schedule: 2},
		"run-scheduled": &run{ID: id, Workspace: 1, Scheduled: 5},
		"notification-skipped": &notification{
			noticeFacts: noticeFacts{ID: id, Kind: NoticeScheduleSkipped, Skip: SkipPayment},
			Workspace:   1, Flow: 3,
		},
		"schedule": &schedule{
			Workspace: 1, Flow: 2, EveryHours: 24, At: 3, Trying: 4, Due: 5, Asked: true, Told: 6,
		},
		"request":         &request{Key: id, Body: id, Made: id, At: 4},
		"signups":         &signups{Source: id, At: 4, Count: 5},
		"header-sessions": &header{Shard: 1, SessionsFrom: 2, SessionsTo: 3},
		"workspace-owned": &workspace{ID: id, Owner: "ada", ClaimedAt: 6, Person: 1, OwnedBefore: 2},
		"act-person": &actRow{
			actFacts: actFacts{ID: id, At: 3, Actor: "owner"}, Workspace: 1, Kind: KindRotateKeys, Person: 2,
		},
		"person": &person{
			PersonView: PersonView{
				ID: id, Issuer: "i", Subject: "s", Email: "e", Name: "n", Agent: true, CreatedAt: 1,
				SignedInAt: 2, Waiting: 10,
			},
			EndedAt: 3, Own: 4, Owned: 5, Links: 6, Link: 7, Asked: 8, Asks: 9, Day: 11, SignIns: 12,
			Acted: 13,
		},
		"session": &session{
			Hash: hash, Person: 1, Surface: SurfaceOperations, Workspace: 2, CreatedAt: 3, UsedAt: 4,
			ClosedAt: 5,
		},
		"link": &link{
			ID: id, Agent: 1, Owner: 2, BeforeOfAgent: 3, BeforeOfOwner: 4, Status: LinkApproved,
			Workspace: 5, AskedAt: 6, AnsweredAt: 7,
		},
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
	free := uint32(0)
	for row := uint32(1); row <= s.runs.Len(); row++ {
		r := s.runs.Read(row)
		free += bit(r.Charge == ChargeFree && r.ChargeState != ChargeReturned &&
			dayOf(r.CreatedAt) == s.day)
	}
	if free != s.freeToday {
		return fmt.Sprintf("%d free runs in the day, counted %d", s.freeToday, free)
	}
	counted := s.countRooms()
	if counted.strangers != s.rooms.strangers || counted.gone != s.rooms.gone ||
		!slices.Equal(counted.of, s.rooms.of) || !slices.Equal(counted.held, s.rooms.held) ||
		!slices.Equal(counted.left, s.rooms.left) ||
		!maps.Equal(counted.networks, s.rooms.networks) {
		return fmt.Sprintf("rooms %+v, counted %+v", s.rooms, counted)
	}
	if text := s.brokenPersons(); text != "" {
		return text
	}
	return s.brokenPaymentTasks()
}

// brokenPersons compares the indexes of persons, and what they count, with what the rows say.
func (s *state) brokenPersons() string {
	fresh := newState()
	fresh.persons, fresh.workspaces, fresh.links = s.persons, s.workspaces, s.links
	fresh.indexPersons()
	for _, rows := range s.promised {
		slices.Sort(rows)
	}
	if !maps.Equal(fresh.emailBy, s.emailBy) ||
		!maps.EqualFunc(fresh.promised, s.promised, slices.Equal) {
		return fmt.Sprintf("addresses %v %v, counted %v %v", s.emailBy, s.promised, fresh.emailBy,
			fresh.promised)
	}
	for row := uint32(1); row <= s.persons.Len(); row++ {
		p, asks, waiting := s.persons.Read(row), uint32(0), uint32(0)
		for l := p.Asked; l != 0; l = s.links.Read(l).BeforeOfOwner {
			asks++
			waiting += bit(s.links.Read(l).Status == LinkWaiting)
		}
		if asks != p.Asks || waiting != p.Waiting || waiting > MaxWaitingLinks {
			return fmt.Sprintf("person %d: %d asks (%d), %d wait (%d)", row, p.Asks, asks, p.Waiting, waiting)
		}
		for w := p.Owned; w != 0; w = s.workspaces.Read(w).OwnedBefore {
			if s.workspaces.Read(w).Person != row {
				return fmt.Sprintf("person %d has workspace %d of another", row, w)
			}
		}
	}
	return ""
}

// brokenPaymentTasks compares the lists of tasks with the purchases.
func (s *state) brokenPaymentTasks() string {
	var want paymentTasks
	for row := uint32(1); row <= s.purchases.Len(); row++ {
		if kind := s.purchases.Read(row).task(); kind != TaskNone {
			want[kind] = append(want[kind], row)
		}
	}
	for kind := range want {
		if !slices.Equal(want[kind], s.paymentTasks[kind]) {
			return fmt.Sprintf("paymentTasks %d: %v, counted %v", kind, s.paymentTasks[kind], want[kind])
		}
	}
	return s.brokenAlerts()
}

// brokenAlerts counts anew what waits to be sent.
func (s *state) brokenAlerts() string {
	var want waiting
	for row := uint32(1); row <= s.alerts.Len(); row++ {
		if s.alerts.Read(row).sendable() {
			want = append(want, row)
		}
		if n := len(s.alerts.Read(row).Deliveries); n > MaxDeliveries {
			return fmt.Sprintf("%d deliveries of alert %d", n, row)
		}
	}
	if !slices.Equal(want, s.alerting) {
		return fmt.Sprintf("alerts that wait: %v, counted %v", s.alerting, want)
	}
	return s.brokenSchedules()
}

// brokenSchedules counts anew which schedules wait for a preflight, and looks whether an instant of
// one has begun two runs, or is none of its own.
func (s *state) brokenSchedules() string {
	var want waiting
	for row := uint32(1); row <= s.schedules.Len(); row++ {
		of := s.schedules.Read(row)
		if of.Asked {
			want = append(want, row)
		}
		if s.flows.Read(of.Flow).Schedule != row || of.Trying >= of.At && of.Trying != 0 ||
			(of.Due == 0) != (of.EveryHours == 0) || of.Due > of.At ||
			of.EveryHours != 0 && s.flows.Read(of.Flow).ArchivedAt != 0 {
			return fmt.Sprintf("schedule %d: %+v", row, of)
		}
	}
	if !slices.Equal(want, s.asking) {
		return fmt.Sprintf("schedules that ask: %v, counted %v", s.asking, want)
	}
	type instant struct {
		flow uint32
		at   int64
	}
	begun := map[instant]bool{}
	for row := uint32(1); row <= s.runs.Len(); row++ {
		r := s.runs.Read(row)
		at := instant{r.Flow, r.Scheduled}
		if r.Scheduled != 0 && (begun[at] || r.CreatedAt < r.Scheduled) {
			return fmt.Sprintf("a second run of the instant %+v, or one before it", at)
		}
		begun[at] = true
	}
	return ""
}

// Seen adds what charges, purchases and alerts have come to, by name: "paid returned", "declined",
// "email delivered".
func (m *Machine) Seen(into map[string]bool) {
	s := m.state.Load()
	kinds := [...]string{"no", "free", "paid"}
	states := [...]string{"charge", "reserved", "committed", "returned"}
	for row := uint32(1); row <= s.runs.Len(); row++ {
		r := s.runs.Read(row)
		into[kinds[r.Charge]+" "+states[r.ChargeState]] = true
	}
	for row := uint32(1); row <= s.runs.Len(); row++ {
		if r := s.runs.Read(row); r.Scheduled != 0 {
			into["scheduled "+states[r.ChargeState]] = true
		}
	}
	for row := uint32(1); row <= s.notifications.Len(); row++ {
		if n := s.notifications.Read(row); n.Kind == NoticeScheduleSkipped {
			into["skipped "+n.Skip.String()] = true
		}
	}
	for row := uint32(1); row <= s.purchases.Len(); row++ {
		p := s.purchases.Read(row)
		into[p.Status.String()] = true
		into["declined"] = into["declined"] || p.Reason == ReasonDeclined
		into["refunded"] = into["refunded"] || p.RefundedAt != 0
		for _, r := range p.Surplus {
			into["surplus refunded"] = into["surplus refunded"] || r.At != 0
		}
	}
	for row := uint32(1); row <= s.alerts.Len(); row++ {
		for _, d := range s.alerts.Read(row).Deliveries {
			into[d.Channel.String()+" "+d.Status.String()] = true
			into["alert "+d.Kind.String()] = true
		}
	}
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
	want.RefundedCents = 0
	for row := uint32(1); row <= s.runs.Len(); row++ {
		if r := s.runs.Read(row); r.Workspace == workspace && r.Kind == RunHosted {
			countRun(&want, &r)
		} else if r.Workspace == workspace {
			want.CreditsReserved += uint64(r.Credits * bit(r.ChargeState == ChargeReserved))
			want.CreditsSpent += uint64(r.Credits * bit(r.ChargeState == ChargeCommitted))
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
	if p.RefundedAt != 0 {
		l.RefundedCents += uint64(p.Cents)
	}
	for _, r := range p.Surplus {
		l.RefundCents += uint64(p.Cents)
		if r.At != 0 {
			l.RefundedCents += uint64(p.Cents)
		}
	}
}

// HeaderBytes is the length of what a snapshot begins with, which holds the rolling hash.
func HeaderBytes(snapshot []byte) int {
	return len(snapshotMagic) + 8 + int(binary.LittleEndian.Uint32(snapshot[len(snapshotMagic):]))
}

// Held is what a workspace holds, and what it may hold.
func (m *Machine) Held(workspace uint32) (used, limit uint64) {
	s := m.state.Load()
	return s.rooms.of[workspace].bytes, s.roomLimit(workspace)
}

// LetHold adds to what a workspace holds.
func (m *Machine) LetHold(workspace uint32, bytes uint64) {
	m.state.Load().rooms.of[workspace].bytes += bytes
}

// MaxDueAlerts is how many flows' alerts one DueAlerts looks at.
const MaxDueAlerts = maxDueAlerts

// LetAlertsWait adds alerts that wait until an instant.
func (m *Machine) LetAlertsWait(n int, until int64) {
	s := m.state.Load()
	for range n {
		row, a := s.alerts.Append()
		a.Deliveries = []DeliveryView{{Channel: ChannelWebhook, Status: DeliveryWaiting, NextAt: until}}
		s.alerting.note(row, true)
	}
}

// LetStrangersHold adds to what all workspaces together hold that nobody has claimed.
func (m *Machine) LetStrangersHold(bytes uint64) { m.state.Load().rooms.strangers += bytes }

// Workspaces is how many rows of workspaces there are.
func (m *Machine) Workspaces() uint32 { return m.state.Load().workspaces.Len() }

// LetGoneTake adds to what the rows of removed workspaces take.
func (m *Machine) LetGoneTake(bytes uint64) { m.state.Load().rooms.gone += bytes }

// Memory says what takes how much memory, in bytes of all.
func (m *Machine) Memory() string {
	s := m.state.Load()
	r := s.runs
	text := fmt.Sprintf("run rows %d, parts %d, text rows %d, said %d, packed %d; flows %d + %d",
		r.rows.Bytes(), r.whole.Bytes(), r.texts.Bytes(), r.said.Bytes(), r.archive.Bytes(),
		s.flows.Bytes(), s.flowTexts.Bytes())
	return text + fmt.Sprintf("; workspaces %d, keys %d; requests %d and %d; runs' index %d, flows' %d; due %d",
		s.workspaces.Bytes(), s.keys.Bytes(), s.requests.Table.Bytes(), s.requests.By.Bytes(),
		r.by.Bytes(),
		s.flows.by.Bytes(), len(s.due)*24)
}

// KeepAtMost bounds the kept keys; none is spare.
func (m *Machine) KeepAtMost(maximum uint64) {
	s := m.state.Load()
	s.requests.Max, s.requests.Spare = maximum, 0
}

// ResolveAgain finds anew what all kept keys have made, as after a restore that read them first.
func (m *Machine) ResolveAgain() bool {
	s := m.state.Load()
	for row := uint32(1); row <= s.requests.Table.Len(); row++ {
		r := s.requests.Table.Write(row)
		s.unresolved = append(s.unresolved, unresolved{row, s.madeID(r)})
		r.made, r.kind = 0, 0
	}
	return s.resolve()
}

// KeyBytes is the memory of all kept keys.
func (m *Machine) KeyBytes() uint64 {
	s := m.state.Load()
	return s.requests.Table.Bytes() + s.requests.By.Bytes()
}

// PackNothing keeps all runs as they are: for a twin of a machine that packs.
func (m *Machine) PackNothing() { m.state.Load().runs.unpacked = true }

// Packed is how many runs are packed.
func (m *Machine) Packed() (count int) {
	r := m.state.Load().runs
	for row := uint32(1); row <= r.Len(); row++ {
		if !r.Row(row).place.changes() && !r.texts.Read(row).place.changes() {
			count++
		}
	}
	return count
}

// PackedBytes is the length of all that runs have to say, as wire has it, and packed.
func (m *Machine) PackedBytes() (text, packed int) {
	r := m.state.Load().runs
	for row := uint32(1); row <= r.Len(); row++ {
		text += r.TextBytes(row)
		if at := r.texts.Read(row).place; at != 0 && !at.changes() {
			packed += len(r.archive.Read(uint32(at)))
		}
	}
	return text, packed
}

// PackingAttempts is how often a text was packed, behind whatever; Unlike is how often one was kept
// whole since it did not read back as it was.
func (m *Machine) PackingAttempts() uint64 { return m.state.Load().runs.attempts }

// Unlike is as PackingAttempts says.
func (m *Machine) Unlike() uint64 { return m.state.Load().runs.unlike }

// WriteText replaces what a run has to say, as a command of another build might.
func (m *Machine) WriteText(run [16]byte, text *RunText) {
	r := m.state.Load().runs
	r.WriteText(r.Find(&run), text)
}

// ReadText is what a run has to say.
func (m *Machine) ReadText(run [16]byte) RunText {
	r := m.state.Load().runs
	return r.Text(r.Find(&run))
}

// Packable are a run's row and its text, to be filled.
func Packable() (row, text any) { return &run{}, &RunText{} }

// PackedAgain are the row and the text that are read where those were packed.
func PackedAgain(row, text any) (rowAgain, textAgain any) {
	r, said := row.(*run), text.(*RunText)
	again := readRun(appendRun(nil, r), &runRow{
		ID: r.ID, Workspace: r.Workspace, Before: r.Before, Kind: r.Kind,
	})
	var saidAgain RunText
	saidAgain.readColumns(said.appendColumns(nil))
	return &again, &saidAgain
}

// RegisteredKinds are the kinds of all commands.
func RegisteredKinds() []engine.Kind { return table.Kinds() }
