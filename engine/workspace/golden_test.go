package workspace_test

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// addGolden writes golden files that do not exist yet. Those that exist are never written.
var addGolden = flag.Bool("add-golden", false, "write golden files that are missing")

const goldenFolder = "../testdata/golden-workspace"

// goldens are the bytes of every command and of every record of a snapshot.
func goldens() map[string][]byte {
	all := workspace.Golden()
	for kind, c := range goldenCommands() {
		all[fmt.Sprintf("command-%d", kind)] = wire.Encode(nil, c)
	}
	for name, c := range map[string]wire.Fielder{
		"command-20-person": &workspace.ClaimWorkspace{Code: [32]byte{1}, Owner: "ada", Person: 2},
		"command-33-shown": &workspace.RequestPurchase{
			Workspace: 1, ID: enginetest.ID("p"), Runs: 2, Shown: 1000, Asked: true,
		},
		"command-34-person": &workspace.ApprovePurchase{ID: enginetest.ID("p"), Owner: "ada", Person: 2},
		"command-71-person": &workspace.Act{Workspace: 1, Actor: "owner", Person: 2},
	} {
		all[name] = wire.Encode(nil, c)
	}
	all["command-70-refused"] = wire.Encode(nil, &workspace.NoteRefund{
		ID: enginetest.ID("p"), Refund: "re", Payment: "pi", Refused: "no",
	})
	return all
}

func goldenCommands() map[engine.Kind]wire.Fielder {
	id, hash := enginetest.ID, [32]byte{1, 31: 9}
	policy := workspace.DefaultPolicy()
	policy.CreditsInspection, policy.CreditsEvaluation, policy.CreditsRun = 1, 2, 3
	policy.UnclaimedMS, policy.EmptyMS = 4, 5
	events := []workspace.RunEvent{{At: 5, Text: "opened"}}
	return map[engine.Kind]wire.Fielder{
		workspace.KindSetPolicy: &policy,
		workspace.KindSignUp: &workspace.SignUp{
			ID: id("w"), KeyID: id("k"), KeyHash: hash, ClaimHash: hash, Scopes: workspace.ScopesAll,
			Label: "acme", Source: id("s"), Wider: id("wider"), Network: id("n"),
		},
		workspace.KindNoteUse:         &workspace.NoteUse{Workspace: 1},
		workspace.KindRemoveWorkspace: &workspace.RemoveWorkspace{Workspace: 1},
		workspace.KindRotateKeys:      &workspace.RotateKeys{Workspace: 1, KeyID: id("k"), KeyHash: hash},
		workspace.KindRevokeKey:       &workspace.RevokeKey{Workspace: 1, ID: id("k")},
		workspace.KindClaimWorkspace: &workspace.ClaimWorkspace{
			Code: hash, ID: id("w"), Owner: "ada",
		},
		workspace.KindSaveFlow: &workspace.SaveFlow{
			Workspace: 1, ID: id("f"), Replace: true, Document: workspace.FlowDocument{Name: "n"},
		},
		workspace.KindArchiveFlow:   &workspace.ArchiveFlow{Workspace: 1, ID: id("f")},
		workspace.KindConfirmSignup: &workspace.ConfirmSignup{Workspace: 1, ID: id("f")},
		workspace.KindNotePreflight: &workspace.NotePreflight{
			Workspace: 1, ID: id("f"), Version: 2, NoKey: workspace.CalledRefused,
			WrongKey: workspace.CalledAccepted, AlreadyTrue: true,
		},
		workspace.KindStartRun: &workspace.StartRun{
			Workspace: 1, Flow: id("f"), ID: id("r"), Key: id("k"), Body: id("b"), FlowVersion: 2,
			Cents: 500, Credits: 3, Agent: "nop nop 1",
		},
		workspace.KindRequestRun: &workspace.RequestRun{Workspace: 1, Flow: id("f"), ID: id("r")},
		workspace.KindCancelRun: &workspace.CancelRun{
			Workspace: 1, ID: id("r"), Kind: workspace.RunHosted,
		},
		workspace.KindResumeRun: &workspace.ResumeRun{
			Workspace: 1, ID: id("r"), Agent: "nop nop 1", Answer: []byte{2, 3},
		},
		workspace.KindClaimRun: &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000},
		workspace.KindExtendLease: &workspace.ExtendLease{
			Run: id("r"), Token: 1, LeaseMS: 60_000, Step: "signup", Events: events,
		},
		workspace.KindAwaitPerson: &workspace.AwaitPerson{
			Run: id("r"), Token: 1, Question: "code?", Checkpoint: []byte{1}, Events: events,
			Steps: 2, Tokens: 3,
		},
		workspace.KindFinishRun: &workspace.FinishRun{
			Run: id("r"), Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
			Code: "c", Reason: "r", Step: "s", Proof: "run", Events: events,
			Calls: []workspace.Call{{Case: "none", Status: 401, Refused: true}},
		},
		workspace.KindRequestPurchase: &workspace.RequestPurchase{
			Workspace: 1, ID: id("p"), Runs: 2, Key: id("k"), Body: id("b"), Link: hash,
			Flow: id("f"), Ask: true, AgentSession: true,
		},
		workspace.KindApprovePurchase: &workspace.ApprovePurchase{ID: id("p"), Owner: "ada"},
		workspace.KindDenyPurchase:    &workspace.DenyPurchase{ID: id("p")},
		workspace.KindCancelPurchase: &workspace.CancelPurchase{
			Workspace: 1, ID: id("p"), Person: true,
		},
		workspace.KindRenewLink: &workspace.RenewLink{
			Workspace: 1, ID: id("p"), Link: hash, Person: true,
		},
		workspace.KindNoteCheckout: &workspace.NoteCheckout{
			ID: id("p"), Checkout: "cs", URL: "https://pay.example/cs", Closed: true,
		},
		workspace.KindNotePayment: &workspace.NotePayment{
			ID: id("p"), Result: workspace.PaymentPaid, Card: "card", Payment: "pi",
		},
		workspace.KindAct: &workspace.Act{
			Workspace: 1, ID: id("a"), Actor: "operator", Key: id("k"), Body: id("b"),
			Kind: workspace.KindSetBilling, Payload: wire.Encode(nil, &workspace.SetBilling{
				Workspace: 1, HasPaused: true, Person: true,
			}),
		},
		workspace.KindSaveInspection: &workspace.SaveInspection{
			Workspace: 1, ID: id("r"), Kind: workspace.RunAssessment, Key: id("k"), Body: id("b"),
			Flow: id("f"), Host: "acme.example", BeganAt: 5, Size: 7, Part: []byte{1, 2},
			Findings: []workspace.Finding{{Field: "api", Verdict: "yes", Rule: "r", Quote: "q"}},
		},
		workspace.KindAddInspectionPart: &workspace.AddInspectionPart{
			Run: id("r"), From: 2, Part: []byte{3},
		},
		workspace.KindNoteRefund:  &workspace.NoteRefund{ID: id("p"), Refund: "re"},
		workspace.KindNoteSurplus: &workspace.NoteSurplus{ID: id("p"), Payment: "pi"},
		workspace.KindRetryRefund: &workspace.RetryRefund{ID: id("p")},
		workspace.KindSetBilling: &workspace.SetBilling{
			Workspace: 1, HasPaused: true, Paused: true, HasCap: true, CapCents: 4000, Person: true,
		},
		workspace.KindGrantCredits: &workspace.GrantCredits{
			Workspace: 1, ID: id("g"), Amount: 9, Note: "a gift",
		},
		workspace.KindMarkIssueReady: &workspace.MarkIssueReady{
			Workspace: 1, ID: id("i"), Note: "fixed",
		},
		workspace.KindSetAlerts: &workspace.SetAlerts{
			Workspace: 1, Flow: id("f"), HasEmail: true, HasURL: true, HasOn: true, On: true,
			Email: "ada@acme.example", URL: "https://hooks.example/", Secret: []byte{1},
		},
		workspace.KindRotateAlertSecret: &workspace.RotateAlertSecret{
			Workspace: 1, Flow: id("f"), Secret: []byte{2},
		},
		workspace.KindSendTestAlert: &workspace.SendTestAlert{Workspace: 1, Flow: id("f")},
		workspace.KindBeginAlert: &workspace.BeginAlert{
			Alert: 1, Number: 5, Sender: id("s"), Attempt: 2,
		},
		workspace.KindNoteAlert: &workspace.NoteAlert{
			Alert: 1, Number: 5, Attempt: 2, Result: workspace.AlertRetry, Answer: 500, Reason: "r",
			WaitMS: 3,
		},
		workspace.KindSetAgents: &workspace.SetAgents{Agents: []string{"nop nop 1", "http http 2"}},
		workspace.KindSetTestAccess: &workspace.SetTestAccess{
			Workspace: 1, Host: "acme.example", Sealed: []byte{1},
		},
		workspace.KindRemoveTestAccess: &workspace.RemoveTestAccess{
			Workspace: 1, Host: "acme.example",
		},
		workspace.KindScheduleFlow: &workspace.ScheduleFlow{
			Workspace: 1, Flow: id("f"), EveryHours: 24, Save: true, Replace: true,
			Document: workspace.FlowDocument{Name: "n"},
		},
		workspace.KindAskAddress:       &workspace.AskAddress{Workspace: 1, Flow: id("f"), Link: hash},
		workspace.KindConfirmAddress:   &workspace.ConfirmAddress{Flow: id("f"), Link: hash},
		workspace.KindReadNotification: &workspace.ReadNotification{Workspace: 1, ID: id("n")},
		workspace.KindStartLocalRun:    &workspace.StartLocalRun{Workspace: 1, ID: id("l")},
		workspace.KindSignIn: &workspace.SignIn{
			ID: id("p"), Issuer: "i", Subject: "s", Email: "e", Name: "n", OwnerEmail: "o", Agent: true,
			Session: hash, Replaces: hash, Surface: workspace.SurfaceWorkspaces, Workspace: id("w"),
			Source: id("s"), Wider: id("wider"), Network: id("n"),
		},
		workspace.KindEndSession:  &workspace.EndSession{Session: hash, All: true},
		workspace.KindNoteSession: &workspace.NoteSession{Session: hash},
		workspace.KindChooseWorkspace: &workspace.ChooseWorkspace{
			Session: hash, ID: id("w"),
		},
		workspace.KindOpenWorkspace: &workspace.OpenWorkspace{Person: 1, ID: id("w"), Label: "acme"},
		workspace.KindAnswerLink: &workspace.AnswerLink{
			Person: 1, ID: id("l"), Answer: workspace.LinkApproved, Workspace: 2,
		},
		workspace.KindFinishLocalRun: &workspace.FinishLocalRun{
			Workspace: 1, ID: id("l"), Outcome: workspace.OutcomePassed,
		},
	}
}

func TestGoldens(t *testing.T) {
	all := goldens()
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		path := filepath.Join(goldenFolder, name+".hex")
		if _, err := os.Stat(path); *addGolden && os.IsNotExist(err) {
			text := hex.EncodeToString(all[name]) + "\n"
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, strings.TrimSpace(string(text)), hex.EncodeToString(all[name]), name)
	}
	files, err := filepath.Glob(goldenFolder + "/*.hex")
	require.NoError(t, err)
	require.Len(t, files, len(names), "a golden without a test, or a test without a golden")
}

// retiredKinds are numbers of commands that are gone. No other command may have them: a log of an
// older build would mean something else.
var retiredKinds = []engine.Kind{111}

// TestEveryCommandHasAGolden: each kind that the registry knows is among them, and decodes; none
// has a number that is retired.
func TestEveryCommandHasAGolden(t *testing.T) {
	have := goldenCommands()
	for kind := engine.FirstDomainKind; kind < 1000; kind++ {
		entry := engine.AppendRecord(engine.AppendHeader(nil, 1), engine.Record{
			Kind: kind, Payload: []byte{0xff},
		})
		err := opened().Apply(1, entry, &engine.Applied{})
		require.ErrorIs(t, err, engine.ErrHalt)
		known := !strings.Contains(err.Error(), "unknown kind")
		require.Equal(t, known, have[kind] != nil, "kind %d", kind)
		require.False(t, known && slices.Contains(retiredKinds, kind), "kind %d is retired", kind)
		if known {
			entry := engine.AppendRecord(engine.AppendHeader(nil, 1), engine.Record{
				Kind: kind, Payload: wire.Encode(nil, have[kind]),
			})
			require.NoError(t, opened().Apply(1, entry, &engine.Applied{}), "kind %d", kind)
		}
	}
}
