package workspace_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// bench is a machine with one claimed workspace, row 1, that has one flow, "one".
type bench struct {
	t   *testing.T
	m   *workspace.Machine
	log *enginetest.Log
}

var flowOne = enginetest.ID("flow one")

func document() workspace.FlowDocument {
	return workspace.FlowDocument{
		Name: "Sign up", URL: "https://product.example/", Task: "Sign up.", Access: "public",
		SuccessCriteria: "an account", VerificationURL: "https://product.example/me",
		VerificationContains: "ok",
	}
}

func newBench(t *testing.T, change ...func(*workspace.SetPolicy)) *bench {
	m := opened()
	b := &bench{t, m, enginetest.NewLog(m, enginetest.Epoch)}
	b.log.Shard = 1
	policy := workspace.DefaultPolicy()
	policy.RunsPerDay, policy.FreeRunsPerMonth = 1000, 1000
	for _, c := range change {
		c(&policy)
	}
	b.done(workspace.KindSetPolicy, &policy)
	b.done(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("w"), KeyID: enginetest.ID("k"), KeyHash: [32]byte{1},
		ClaimHash: [32]byte{2}, Scopes: workspace.ScopesAll, Label: "acme",
	})
	b.done(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
		ID: enginetest.ID("w"), Owner: "ada",
	})
	b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: 1, ID: flowOne, Document: document(),
	})
	return b
}

func (b *bench) done(kind engine.Kind, c wire.Fielder) []byte {
	b.t.Helper()
	r := b.log.Do(kind, c)
	require.Equal(b.t, engine.OutcomeDone, r.Outcome)
	return r.Value
}

func (b *bench) refused(o engine.Outcome, kind engine.Kind, c wire.Fielder) {
	b.t.Helper()
	require.Equal(b.t, o, b.log.Do(kind, c).Outcome)
}

// pass lets time go by.
func (b *bench) pass(d time.Duration) {
	b.log.Stamp += d.Milliseconds()
	b.log.DoPayload(engine.KindTick, nil)
}

// begin starts a run of the flow and gives it to a worker.
func (b *bench) begin(name string) (run [16]byte) {
	b.t.Helper()
	run = enginetest.ID("run " + name)
	f, _ := b.m.Flow(1, flowOne)
	b.done(workspace.KindStartRun, &workspace.StartRun{
		Workspace: 1, Flow: flowOne, ID: run, FlowVersion: f.Version, Cents: 500, Agent: "clever exec 1",
	})
	b.done(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000})
	return run
}

func (b *bench) run(id [16]byte) workspace.RunView {
	b.t.Helper()
	v, ok := b.m.Run(1, id)
	require.True(b.t, ok)
	return v
}

func (b *bench) account() workspace.AccountView {
	v, _ := b.m.Account(1, b.log.Stamp)
	return v
}

// TestOnlyTheNewestEventsStay: however many an agent tells, in one word or in many.
func TestOnlyTheNewestEventsStay(t *testing.T) {
	b := newBench(t)
	run := b.begin("a")
	told := 0
	tell := func(n int) (events []workspace.RunEvent) {
		for range n {
			told++
			events = append(events, workspace.RunEvent{At: b.log.Stamp, Text: fmt.Sprint(told)})
		}
		return events
	}
	newest := func() {
		events := b.run(run).Events
		require.Len(t, events, min(told, workspace.MaxRunEvents))
		require.Equal(t, fmt.Sprint(told), events[len(events)-1].Text)
	}
	for _, n := range []int{1, workspace.MaxRunEvents - 1, 1, 3 * workspace.MaxRunEvents} {
		b.done(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: run, Token: 1, LeaseMS: 60_000, Events: tell(n),
		})
		newest()
	}
	b.done(workspace.KindFinishRun, &workspace.FinishRun{
		Run: run, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
		Events: tell(2),
	})
	newest()
}

// TestWhatGoesWithARun: the question, what the agent goes on from and a person's answer are gone
// when they have served, from the run and from snapshots, however it ends.
func TestWhatGoesWithARun(t *testing.T) {
	secrets := []string{"what-is-the-code", "page-of-the-form", "sealed-4711"}
	held := func(b *bench) (kept []string) {
		snapshot := enginetest.Snapshot(t, b.m)
		for _, text := range secrets {
			if bytes.Contains(snapshot, []byte(text)) {
				kept = append(kept, text)
			}
		}
		return kept
	}
	for name, end := range map[string]func(b *bench, run [16]byte){
		"finished": func(b *bench, run [16]byte) {
			b.done(workspace.KindFinishRun, &workspace.FinishRun{
				Run: run, Token: 2, Status: workspace.RunCompleted, Outcome: workspace.OutcomeBlocked,
			})
		},
		"cancelled": func(b *bench, run [16]byte) {
			b.done(workspace.KindCancelRun, &workspace.CancelRun{
				Workspace: 1, ID: run, Kind: workspace.RunHosted,
			})
		},
		"lost": func(b *bench, _ [16]byte) { b.pass(2 * time.Minute) },
	} {
		b := newBench(t)
		run := b.begin("a")
		b.done(workspace.KindAwaitPerson, &workspace.AwaitPerson{
			Run: run, Token: 1, Question: secrets[0], Checkpoint: []byte(secrets[1]),
		})
		b.done(workspace.KindResumeRun, &workspace.ResumeRun{
			Workspace: 1, ID: run, Agent: "clever exec 1", Answer: []byte(secrets[2]),
		})
		require.Equal(t, secrets, held(b), name)
		var claimed workspace.ClaimedRun
		require.NoError(t, wire.Decode(b.done(workspace.KindClaimRun,
			&workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000}), &claimed))
		require.Equal(t, secrets[2], string(claimed.Answer))
		require.NotContains(t, held(b), secrets[2], "the answer is the worker's alone")
		end(b, run)
		require.True(t, b.run(run).Status.Final())
		require.Empty(t, held(b), name)
		require.Empty(t, b.run(run).Question)
	}
}

// TestHeartbeatsEndAtTheWall: no lease, however long and however often it is renewed, goes beyond
// the time that a run has.
func TestHeartbeatsEndAtTheWall(t *testing.T) {
	b := newBench(t)
	run := b.begin("a")
	wall := b.log.Stamp + b.m.Policy().WallMS
	for b.log.Stamp < wall-60_000 {
		b.done(workspace.KindExtendLease, &workspace.ExtendLease{Run: run, Token: 1, LeaseMS: 1 << 40})
		require.Equal(t, wall, b.m.NextDue())
		b.pass(time.Minute)
	}
	b.pass(time.Minute)
	require.Equal(t, workspace.CodeWallTimeout, b.run(run).Code)
	b.refused(engine.OutcomeFenced, workspace.KindExtendLease,
		&workspace.ExtendLease{Run: run, Token: 1, LeaseMS: 60_000})
}

// TestAFullQueueTakesNobodyBack: a run that waits for a person goes on waiting while as many runs
// are queued as may be.
func TestAFullQueueTakesNobodyBack(t *testing.T) {
	b := newBench(t, func(p *workspace.SetPolicy) { p.QueueLimit = 1 })
	run := b.begin("a")
	b.done(workspace.KindAwaitPerson, &workspace.AwaitPerson{Run: run, Token: 1, Question: "code?"})
	other := enginetest.ID("flow two")
	b.done(workspace.KindSaveFlow, &workspace.SaveFlow{Workspace: 1, ID: other, Document: document()})
	b.done(workspace.KindStartRun, &workspace.StartRun{
		Workspace: 1, Flow: other, ID: enginetest.ID("run b"), FlowVersion: 1, Cents: 500, Agent: "clever exec 1",
	})
	resume := &workspace.ResumeRun{Workspace: 1, ID: run, Agent: "clever exec 1"}
	b.refused(engine.OutcomeRunnerBusy, workspace.KindResumeRun, resume)
	require.Equal(t, workspace.RunWaiting, b.run(run).Status)
	b.done(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000})
	b.done(workspace.KindResumeRun, resume)
}

// TestCreditsHaveAnUpperBound: of one grant and of all together.
func TestCreditsHaveAnUpperBound(t *testing.T) {
	b := newBench(t)
	grant := func(name string, amount uint64) *workspace.GrantCredits {
		return &workspace.GrantCredits{Workspace: 1, ID: enginetest.ID(name), Amount: amount}
	}
	b.refused(engine.OutcomeCreditsInvalid, workspace.KindGrantCredits, grant("a", 0))
	b.refused(engine.OutcomeCreditsInvalid, workspace.KindGrantCredits, grant("a", workspace.MaxCredits+1))
	b.done(workspace.KindGrantCredits, grant("a", workspace.MaxCredits-1))
	b.refused(engine.OutcomeCreditsInvalid, workspace.KindGrantCredits, grant("b", 2))
	b.refused(engine.OutcomeCreditsInvalid, workspace.KindGrantCredits, grant("b", workspace.MaxCredits))
	b.done(workspace.KindGrantCredits, grant("b", 1))
	require.EqualValues(t, workspace.MaxCredits, b.account().Credits)
}

// TestCreditsAreEnoughOrNot: a run that costs all of them starts, and one that costs one more does
// not.
func TestCreditsAreEnoughOrNot(t *testing.T) {
	for missing, want := range []engine.Outcome{
		engine.OutcomeDone, engine.OutcomeCreditsShort, engine.OutcomeCreditsShort,
	} {
		b := newBench(t, func(p *workspace.SetPolicy) { p.CreditsRun = 7 })
		b.done(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: 1, ID: enginetest.ID("a"), Amount: uint64(7 - missing),
		})
		r := b.log.Do(workspace.KindStartRun, &workspace.StartRun{
			Workspace: 1, Flow: flowOne, ID: enginetest.ID("run"), FlowVersion: 1, Cents: 500, Credits: 7,
			Agent: "clever exec 1",
		})
		require.Equal(t, want, r.Outcome, "%d are missing", missing)
		if want == engine.OutcomeDone {
			require.Zero(t, b.account().Credits)
			require.EqualValues(t, 7, b.account().Reserved)
			continue
		}
		var short workspace.CreditsReply
		require.NoError(t, wire.Decode(r.Value, &short))
		require.Equal(t, workspace.CreditsReply{Required: 7, Balance: uint64(7 - missing)}, short)
	}
}

// TestRequestsOfADay: 100 usability requests, and again 100 the next day.
func TestRequestsOfADay(t *testing.T) {
	b := newBench(t)
	request := func(name string) *workspace.RequestRun {
		return &workspace.RequestRun{Workspace: 1, Flow: flowOne, ID: enginetest.ID("ask " + name)}
	}
	for day := range 2 {
		for i := range 100 {
			b.done(workspace.KindRequestRun, request(fmt.Sprint(day, i)))
		}
		b.refused(engine.OutcomeRunLimit, workspace.KindRequestRun, request("more"))
		b.done(workspace.KindRequestRun, request(fmt.Sprint(day, 99)))
		b.pass(24 * time.Hour)
	}
}

// buys asks for runs under a key; empty is none.
func (b *bench) buys(name, key string, runs uint32) workspace.PurchaseReply {
	b.t.Helper()
	c := &workspace.RequestPurchase{
		Workspace: 1, ID: enginetest.ID("purchase " + name), Runs: runs, Link: link(name),
	}
	if key != "" {
		c.Key = enginetest.ID("key " + key)
	}
	var reply workspace.PurchaseReply
	require.NoError(b.t, wire.Decode(b.done(workspace.KindRequestPurchase, c), &reply))
	return reply
}

func link(name string) [32]byte { return [32]byte(append(hashOf(name), hashOf("link")...)) }

func (b *bench) paid(name string) {
	b.t.Helper()
	b.done(workspace.KindNotePayment, &workspace.NotePayment{
		ID: enginetest.ID("purchase " + name), Result: workspace.PaymentPaid, Card: "card", Payment: "pi",
	})
}

func (b *bench) approves(name string) {
	b.t.Helper()
	b.done(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: enginetest.ID("purchase " + name), Owner: "ada",
	})
}

func (b *bench) cancels(name string, person bool) *workspace.CancelPurchase {
	return &workspace.CancelPurchase{Workspace: 1, ID: enginetest.ID("purchase " + name), Person: person}
}

// TestAnOperatorDoesNotCancel: an operator denies; cancelling is for a key, or the owner in person.
func TestAnOperatorDoesNotCancel(t *testing.T) {
	b := newBench(t)
	b.buys("one", "", 1)
	b.refused(engine.OutcomePersonRequired, workspace.KindAct, &workspace.Act{
		Workspace: 1, ID: enginetest.ID("act"), Actor: "operator", Kind: workspace.KindCancelPurchase,
		Payload: wire.Encode(nil, b.cancels("one", true)),
	})
}

// TestTheCapIsReached: the saved card pays up to the cap exactly, what is being charged counts, and
// the next month begins anew.
func TestTheCapIsReached(t *testing.T) {
	b := newBench(t)
	require.Equal(t, workspace.ActionApprove, b.buys("first", "", 1).Action)
	b.approves("first")
	b.paid("first")
	require.Equal(t, workspace.ActionApprove, b.buys("ten", "", 10).Action, "500 + 5000 > 5000")
	b.done(workspace.KindCancelPurchase, b.cancels("ten", true))
	require.Equal(t, workspace.ActionCharging, b.buys("nine", "", 9).Action, "500 + 4500 = 5000")
	require.EqualValues(t, 4500, b.account().ChargingCents)
	b.paid("nine")
	require.EqualValues(t, 5000, b.account().SpentCents)
	require.Equal(t, workspace.ActionApprove, b.buys("one", "", 1).Action)
	b.done(workspace.KindCancelPurchase, b.cancels("one", true))
	next := b.log.Stamp + (24 * time.Hour).Milliseconds() // it is the last day of January
	asks := func(cents uint32, at int64) workspace.ApprovalReason {
		why, open := b.m.PurchaseAsks(1, cents, at)
		require.Zero(t, open)
		return why
	}
	require.Equal(t, workspace.ReasonOverCap, asks(500, b.log.Stamp))
	require.Equal(t, workspace.ReasonNone, asks(5000, next))
	b.pass(24 * time.Hour)
	require.Zero(t, b.account().SpentCents)
	require.Equal(t, workspace.ActionCharging, b.buys("ten again", "", 10).Action)
}

// TestWhatWasShownIsBought: at another price, or where an approval was not shown or was promised,
// nothing is bought.
func TestWhatWasShownIsBought(t *testing.T) {
	b := newBench(t)
	c := workspace.RequestPurchase{
		Workspace: 1, ID: enginetest.ID("purchase shown"), Runs: 2, Link: link("shown"),
	}
	refused := func(cents uint32, asked bool) {
		t.Helper()
		c.Shown, c.Asked = cents, asked
		b.refused(engine.OutcomeQuoteChanged, workspace.KindRequestPurchase, &c)
	}
	refused(1000, false)
	b.buys("first", "", 1)
	b.approves("first")
	b.paid("first")
	refused(1000, true)
	refused(999, false)
	refused(1200, false)
	require.Zero(t, b.account().ChargingCents)
	c.Shown, c.Asked = 1000, false
	b.done(workspace.KindRequestPurchase, &c)
	require.EqualValues(t, 1000, b.account().ChargingCents)
}

// TestAChargeCountsInItsMonth: what was charged in one month and reported in the next counts
// against the cap of the first; a page that is paid in the next counts there.
func TestAChargeCountsInItsMonth(t *testing.T) {
	b := newBench(t)
	b.buys("first", "", 1)
	b.approves("first")
	b.paid("first")
	require.Equal(t, workspace.ActionCharging, b.buys("late", "", 3).Action)
	b.pass(24 * time.Hour) // it was the last day of January
	require.EqualValues(t, 1500, b.account().ChargingCents)
	b.paid("late")
	require.Zero(t, b.account().SpentCents)
	require.EqualValues(t, 4, b.account().RunsLeft)
	require.Equal(t, workspace.ActionCharging, b.buys("full", "", 10).Action)
	b.paid("full")
	require.EqualValues(t, 5000, b.account().SpentCents)
	require.Empty(t, b.m.Broken())

	b = newBench(t)
	b.buys("page", "", 2)
	b.approves("page")
	b.pass(12 * time.Hour)
	b.paid("page")
	require.EqualValues(t, 1000, b.account().SpentCents)
	require.Empty(t, b.m.Broken())
}

// TestAPaidPurchaseKeepsItsKey: also where no room is left for keys: its request, sent again,
// charges the card that was saved meanwhile no second time; another under its key is refused.
func TestAPaidPurchaseKeepsItsKey(t *testing.T) {
	b := newBench(t)
	b.m.KeepAtMost(0)
	require.Equal(t, workspace.ActionApprove, b.buys("first", "key", 1).Action)
	b.approves("first")
	b.paid("first")
	b.m.KeepAtMost(workspace.MaxRequests)
	again := b.buys("again", "key", 1)
	require.True(t, again.Repeated)
	require.Equal(t, enginetest.ID("purchase first"), again.ID)
	require.Zero(t, b.account().ChargingCents)
	b.refused(engine.OutcomeRequestKeyReused, workspace.KindRequestPurchase,
		&workspace.RequestPurchase{
			Workspace: 1, ID: enginetest.ID("purchase other"), Runs: 1, Key: enginetest.ID("key key"),
			Body: enginetest.ID("another body"),
		})
	require.Equal(t, workspace.ActionCharging, b.buys("third", "third", 1).Action)
}

// TestOwnersAreNotCounted: what an owner cancels, and the links that an owner renews, count against
// no limit and meet none; those of keys do.
func TestOwnersAreNotCounted(t *testing.T) {
	b := newBench(t)
	made := 0
	ask := func() string {
		made++
		name := fmt.Sprint(made)
		require.Equal(t, workspace.ActionApprove, b.buys(name, "", 1).Action)
		return name
	}
	for range workspace.MaxCancelsPerDay + 1 {
		b.done(workspace.KindCancelPurchase, b.cancels(ask(), true))
	}
	for range workspace.MaxCancelsPerDay {
		c := b.cancels(ask(), false)
		b.done(workspace.KindCancelPurchase, c)
		b.done(workspace.KindCancelPurchase, c) // again, which does not count
	}
	last := ask()
	b.refused(engine.OutcomeCancelLimit, workspace.KindCancelPurchase, b.cancels(last, false))
	renewed := 0
	renew := func(person bool) *workspace.RenewLink {
		renewed++
		return &workspace.RenewLink{
			Workspace: 1, ID: enginetest.ID("purchase " + last), Person: person,
			Link: link(fmt.Sprint("renewed ", renewed)),
		}
	}
	for range workspace.MaxLinks + 1 {
		b.done(workspace.KindRenewLink, renew(true))
	}
	for range workspace.MaxLinks {
		b.done(workspace.KindRenewLink, renew(false))
	}
	b.refused(engine.OutcomeLinkLimit, workspace.KindRenewLink, renew(false))
	b.done(workspace.KindRenewLink, renew(true))
	b.done(workspace.KindCancelPurchase, b.cancels(last, true))
}

// TestLinksEndWithTheirPurchase: the link of a purchase that waits finds it; a renewed one replaces
// it, and none finds a purchase that has ended or is charged.
func TestLinksEndWithTheirPurchase(t *testing.T) {
	for name, end := range map[string]func(b *bench){
		"cancelled": func(b *bench) { b.done(workspace.KindCancelPurchase, b.cancels("a", false)) },
		"denied": func(b *bench) {
			b.done(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: enginetest.ID("purchase a")})
		},
		"expired": func(b *bench) { b.pass(7 * 24 * time.Hour) },
		"paid":    func(b *bench) { b.approves("a"); b.paid("a") },
	} {
		b := newBench(t)
		b.buys("a", "", 1)
		works := func(name string) bool {
			_, ok := b.m.PurchaseByLink(link(name))
			return ok
		}
		require.True(t, works("a"))
		b.done(workspace.KindRenewLink, &workspace.RenewLink{
			Workspace: 1, ID: enginetest.ID("purchase a"), Link: link("b"),
		})
		require.Equal(t, []bool{false, true}, []bool{works("a"), works("b")})
		end(b)
		require.Equal(t, []bool{false, false}, []bool{works("a"), works("b")}, name)
		other := restored(t, enginetest.Snapshot(t, b.m))
		_, ok := other.PurchaseByLink(link("b"))
		require.False(t, ok, name)
	}
}

// TestWaitingUsesUpNoKey: a purchase that waits for its owner leaves the request's key free; one
// that is paid or charged takes it.
func TestWaitingUsesUpNoKey(t *testing.T) {
	b := newBench(t)
	require.Equal(t, workspace.ActionApprove, b.buys("a", "k", 2).Action)
	b.done(workspace.KindCancelPurchase, b.cancels("a", true))
	again := b.buys("b", "k", 2)
	require.Equal(t, workspace.PurchaseReply{
		ID: enginetest.ID("purchase b"), Action: workspace.ActionApprove,
	}, again)
	b.approves("b")
	b.paid("b")
	require.Equal(t, workspace.PurchaseReply{
		ID: enginetest.ID("purchase b"), Action: workspace.ActionCharging, Repeated: true,
	}, b.buys("c", "k", 2))
	require.Equal(t, workspace.ActionCharging, b.buys("c", "l", 2).Action)
	b.paid("c")
	require.Equal(t, workspace.PurchaseReply{
		ID: enginetest.ID("purchase c"), Action: workspace.ActionCharging, Repeated: true,
	}, b.buys("d", "l", 2))
	require.EqualValues(t, 4, b.account().RunsLeft)
}

// TestConfirmationsAreOfAProduct: what an owner confirmed goes with the product that it was for,
// and stays when only the task changes.
func TestConfirmationsAreOfAProduct(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*workspace.FlowDocument)
		stays  bool
	}{
		"task":             {func(d *workspace.FlowDocument) { d.Task = "Log in." }, true},
		"name":             {func(d *workspace.FlowDocument) { d.Name = "Log in" }, true},
		"url":              {func(d *workspace.FlowDocument) { d.URL = "https://other.example/" }, false},
		"verification url": {func(d *workspace.FlowDocument) { d.VerificationURL = "https://other.example/" }, false},
		"credential":       {func(d *workspace.FlowDocument) { d.Credential = "bearer" }, false},
	} {
		b := newBench(t)
		b.done(workspace.KindConfirmSignup, &workspace.ConfirmSignup{Workspace: 1, ID: flowOne})
		d := document()
		test.change(&d)
		b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
			Workspace: 1, ID: flowOne, Replace: true, Document: d,
		})
		v, _ := b.m.Flow(1, flowOne)
		require.Equal(t, test.stays, v.SignupConfirmed, name)
	}
}
