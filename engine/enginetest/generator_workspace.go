package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// WorkspaceEntries draws a history of the workspace group (shard 1): entries of a few records each,
// over few names, so that records meet. Much of it is refused; all of it is well-formed.
func WorkspaceEntries(t *rapid.T) [][]byte {
	g := &workspaceGenerator{generator: generator{t: t, stamp: Epoch}}
	entries := [][]byte{g.opening()}
	for range rapid.IntRange(0, 30).Draw(t, "entries") {
		entry := engine.AppendHeader(nil, 1)
		for range rapid.IntRange(0, 8).Draw(t, "records") {
			entry = engine.AppendRecord(entry, g.record())
		}
		g.stamp += rapid.SampledFrom([]int64{0, 1, 1000, 60_000, 3_600_000, 86_400_000, 20 * 86_400_000}).
			Draw(t, "later")
		engine.SetStamp(entry, g.stamp)
		entries = append(entries, entry)
	}
	return entries
}

type workspaceGenerator struct{ generator }

// opening makes two workspaces, one of them claimed, each with a flow that can run.
func (g *workspaceGenerator) opening() []byte {
	entry := engine.AppendHeader(nil, 1)
	policy := workspace.DefaultPolicy()
	policy.QueueLimit, policy.FreeRunsPerMonth, policy.SignupsPerHour = 3, 2, 4
	policy.CreditsRun = uint32(rapid.SampledFrom([]int{0, 2}).Draw(g.t, "credits"))
	for _, r := range []engine.Record{
		record(workspace.KindSetPolicy, &policy),
		signUp("a"), signUp("b"),
		record(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			ID: ID("workspace a"), Owner: "ada",
		}),
		g.saveFlow(1, "one", false), g.saveFlow(2, "two", false),
		record(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: 1, ID: ID("first"), Amount: 9,
		}),
	} {
		entry = engine.AppendRecord(entry, r)
	}
	engine.SetStamp(entry, g.stamp)
	return entry
}

func signUp(name string) engine.Record {
	return record(workspace.KindSignUp, &workspace.SignUp{
		ID: ID("workspace " + name), KeyID: ID("key " + name), KeyHash: secret("key " + name),
		ClaimHash: secret("code " + name), Scopes: workspace.ScopesAll, Label: name,
		Source: ID("source"),
	})
}

func (g *workspaceGenerator) row() uint32 {
	return rapid.SampledFrom([]uint32{1, 1, 1, 2, 2, 3, 9}).Draw(g.t, "workspace")
}

func (g *workspaceGenerator) id(kind string) [16]byte {
	most := 9
	if kind == "purchase" || kind == "run" {
		most = 3
	}
	return ID(fmt.Sprintf("%s %d", kind, rapid.IntRange(0, most).Draw(g.t, kind)))
}

func (g *workspaceGenerator) flowID() [16]byte { return ID("flow " + g.pick("flow", "one", "two")) }

func (g *workspaceGenerator) token() uint32 {
	return uint32(rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(g.t, "token"))
}

func (g *workspaceGenerator) flag(name string) bool { return rapid.Bool().Draw(g.t, name) }

func (g *workspaceGenerator) saveFlow(row uint32, name string, replace bool) engine.Record {
	return record(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: row, ID: ID("flow " + name), Replace: replace,
		Document: workspace.FlowDocument{
			Name: "Sign up", URL: "https://product.example/", Task: g.pick("task", "Sign up", "Log in"),
			SuccessCriteria: "an account", Access: "public",
			VerificationURL: "https://product.example/me", VerificationStatus: 200,
		},
	})
}

func (g *workspaceGenerator) record() engine.Record {
	makers := []func() engine.Record{
		g.start, g.start, g.start, g.start, g.work, g.work, g.work, g.finish, g.finish, g.finish,
		g.worker, g.lifecycle, g.lifecycle, g.purchase, g.purchase, g.payment, g.payment,
		g.approval, g.approval, g.setting, g.other, g.other,
		func() engine.Record { return engine.Record{Kind: engine.KindTick} },
	}
	return rapid.SampledFrom(makers).Draw(g.t, "command")()
}

func (g *workspaceGenerator) start() engine.Record {
	return record(workspace.KindStartRun, &workspace.StartRun{
		Workspace: g.row(), Flow: g.flowID(), ID: g.id("run"), Key: g.id("request"),
		FlowVersion: uint32(rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(g.t, "version")),
		Cents:       500, Credits: uint32(rapid.SampledFrom([]int{0, 2}).Draw(g.t, "quoted")),
		Agent: "nop nop 1",
	})
}

func (g *workspaceGenerator) work() engine.Record {
	return record(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
}

func (g *workspaceGenerator) finish() engine.Record {
	c := &workspace.FinishRun{
		Run: g.id("run"), Token: g.token(), Status: workspace.RunCompleted,
		Outcome: rapid.SampledFrom([]workspace.RunOutcome{
			workspace.OutcomePassed, workspace.OutcomeBlocked, workspace.OutcomeInconclusive,
		}).Draw(g.t, "outcome"),
		Code: g.pick("code", "captcha", "email"), Step: g.pick("step", "signup", "login"),
		Calls: []workspace.Call{{Case: "plain", Status: 200}},
	}
	if c.Outcome == workspace.OutcomeInconclusive && g.flag("failed") {
		c.Status = workspace.RunFailed
	}
	return record(workspace.KindFinishRun, c)
}

func (g *workspaceGenerator) worker() engine.Record {
	if g.flag("heartbeat") {
		return record(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: g.id("run"), Token: g.token(), LeaseMS: 60_000, Step: "signup",
			Events: []workspace.RunEvent{{At: g.stamp, Text: "opened"}},
		})
	}
	return record(workspace.KindAwaitPerson, &workspace.AwaitPerson{
		Run: g.id("run"), Token: g.token(), Question: "code?", Checkpoint: []byte{1, 2},
	})
}

func (g *workspaceGenerator) lifecycle() engine.Record {
	switch g.pick("lifecycle", "cancel", "resume", "request", "local") {
	case "cancel":
		return record(workspace.KindCancelRun, &workspace.CancelRun{
			Workspace: g.row(), ID: g.id("run"), Kind: workspace.RunHosted,
		})
	case "resume":
		return record(workspace.KindResumeRun, &workspace.ResumeRun{
			Workspace: g.row(), ID: g.id("run"), Agent: "nop nop 1",
		})
	case "request":
		return record(workspace.KindRequestRun, &workspace.RequestRun{
			Workspace: g.row(), Flow: g.flowID(), ID: g.id("asked"),
		})
	}
	return record(workspace.KindStartLocalRun, &workspace.StartLocalRun{
		Workspace: g.row(), ID: g.id("local"),
	})
}

func (g *workspaceGenerator) purchase() engine.Record {
	return record(workspace.KindRequestPurchase, &workspace.RequestPurchase{
		Workspace: g.row(), ID: g.id("purchase"), Key: g.id("request"),
		Runs: uint32(rapid.IntRange(1, 10).Draw(g.t, "runs")), Ask: g.flag("ask"),
		Link: secret(g.pick("link", "x", "y", "z")), Flow: g.flowID(),
	})
}

func (g *workspaceGenerator) payment() engine.Record {
	return record(workspace.KindNotePayment, &workspace.NotePayment{
		ID: g.id("purchase"), Card: g.pick("card", "", "card"),
		Result: rapid.SampledFrom([]workspace.PaymentResult{
			workspace.PaymentPaid, workspace.PaymentPaid, workspace.PaymentDeclined,
			workspace.PaymentFailed,
		}).Draw(g.t, "result"),
	})
}

func (g *workspaceGenerator) approval() engine.Record {
	switch g.pick("approval", "approve", "approve", "deny", "cancel", "link", "checkout") {
	case "deny":
		return record(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: g.id("purchase")})
	case "cancel":
		return record(workspace.KindCancelPurchase, &workspace.CancelPurchase{
			Workspace: g.row(), ID: g.id("purchase"),
		})
	case "link":
		return record(workspace.KindRenewLink, &workspace.RenewLink{
			Workspace: g.row(), ID: g.id("purchase"), Link: secret(g.pick("link", "x", "y", "z")),
		})
	case "checkout":
		return record(workspace.KindNoteCheckout, &workspace.NoteCheckout{
			ID: g.id("purchase"), Checkout: "cs_1", URL: "https://pay.example/cs_1",
		})
	}
	return record(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: g.id("purchase"), Owner: "ada",
	})
}

func (g *workspaceGenerator) setting() engine.Record {
	if g.flag("grant") {
		return record(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: g.row(), ID: g.id("grant"), Amount: 5,
		})
	}
	return record(workspace.KindSetBilling, &workspace.SetBilling{
		Workspace: g.row(), HasPaused: g.flag("pauses"), Paused: g.flag("paused"),
		HasCap: g.flag("caps"), CapCents: uint32(rapid.SampledFrom([]int{0, 3000, 20_000}).
			Draw(g.t, "cap")), Person: g.flag("person"),
	})
}

func (g *workspaceGenerator) other() engine.Record {
	switch g.pick("other", "flow", "archive", "confirm", "preflight", "key", "signup", "claim") {
	case "archive":
		return record(workspace.KindArchiveFlow, &workspace.ArchiveFlow{
			Workspace: g.row(), ID: ID("flow two"),
		})
	case "confirm":
		return record(workspace.KindConfirmSignup, &workspace.ConfirmSignup{
			Workspace: g.row(), ID: g.flowID(),
		})
	case "preflight":
		return record(workspace.KindNotePreflight, &workspace.NotePreflight{
			Workspace: g.row(), ID: g.flowID(), Version: 1, NoKey: workspace.CalledRefused,
			WrongKey: workspace.CalledAccepted,
		})
	case "key":
		name := g.pick("key", "a", "k1", "k2")
		return record(workspace.KindRotateKeys, &workspace.RotateKeys{
			Workspace: g.row(), KeyID: ID("key " + name), KeyHash: secret("key " + name),
		})
	case "signup":
		return signUp(g.pick("name", "a", "c", "d", "e"))
	case "claim":
		return record(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			Code: secret("code " + g.pick("name", "a", "b", "c")), Owner: "eve",
		})
	}
	return g.saveFlow(g.row(), g.pick("flow", "one", "two"), g.flag("replace"))
}
