package enginetest

import (
	"fmt"
	"strings"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// WorkspaceEntries draws a history of the workspace group (shard 1): entries of a few records each,
// over few names, so that records meet. Much of it is refused; all of it is well-formed.
func WorkspaceEntries(t *rapid.T) [][]byte {
	g := &workspaceGenerator{generator: generator{t: t, stamp: Epoch}}
	entries := [][]byte{entryOf(1, g.stamp, g.opening()...)}
	for range rapid.IntRange(0, 30).Draw(t, "entries") {
		records := append(drawn(t, 8, g.record), g.story()...)
		g.stamp += g.later()
		entries = append(entries, entryOf(1, g.stamp, records...))
	}
	return entries
}

type workspaceGenerator struct {
	generator
	// credits is what a run costs in credits.
	credits uint32
	// pauses are those that a story wants between the entries behind it.
	pauses []int64
}

// later is how much time goes by before the next entry.
func (g *workspaceGenerator) later() int64 {
	if len(g.pauses) > 0 {
		next := g.pauses[0]
		g.pauses = g.pauses[1:]
		return next
	}
	return sample[int64](g.t, "later", 0, 1, 1000, 60_000, 3_600_000, 86_400_000, 20*86_400_000)
}

// opening makes two workspaces, one of them claimed, each with a flow that can run. In half of the
// histories both have bought runs, and one has started one; in half runs cost credits, and in half
// none is free.
func (g *workspaceGenerator) opening() []engine.Record {
	records := []engine.Record{
		g.policy(),
		signUp("a"), signUp("b"),
		record(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			ID: ID("workspace a"), Owner: "ada",
		}),
		g.saveFlow(1, "one", false), g.saveFlow(2, "two", false),
		record(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: 1, ID: ID("first"), Amount: 9,
		}),
	}
	if version := rapid.Uint32Range(0, engine.Version).Draw(g.t, "agreed"); version > 0 {
		records = append(records, agreed(version))
	}
	if g.flag("bought") {
		records = append(records, g.bought(1)...)
		records = append(records, g.bought(2)...)
		records = append(records, g.carried(1)...)
	}
	return records
}

// policy draws the settings: workspaces without an owner are kept forever, or for some time, which
// may be less than what is said for empty ones.
func (g *workspaceGenerator) policy() engine.Record {
	const day = 86_400_000
	policy := workspace.DefaultPolicy()
	policy.QueueLimit, policy.SignupsPerHour = 3, 4
	policy.FreeRunsPerMonth = sample[uint32](g.t, "free", 0, 2)
	kept := rapid.SampledFrom([][2]int64{{}, {}, {14, 1}, {14, 1}, {20, 30}, {8, 0}, {1, 2}}).
		Draw(g.t, "kept days")
	policy.UnclaimedMS, policy.EmptyMS = kept[0]*day, kept[1]*day
	g.credits = sample[uint32](g.t, "credits", 0, 2)
	policy.CreditsRun, policy.CreditsInspection = g.credits, g.credits
	return record(workspace.KindSetPolicy, &policy)
}

func agreed(version uint32) engine.Record {
	return engine.Record{
		Kind: engine.KindSetVersion, Payload: engine.AppendSetVersion(nil, version),
	}
}

func signUp(name string) engine.Record {
	return record(workspace.KindSignUp, &workspace.SignUp{
		ID: ID("workspace " + name), KeyID: ID("key " + name), KeyHash: secret("key " + name),
		ClaimHash: secret("code " + name), Scopes: workspace.ScopesAll, Label: name,
		Source: ID("source"), Wider: ID("wider"), Network: ID("network"),
	})
}

func (g *workspaceGenerator) row() uint32 {
	return sample[uint32](g.t, "workspace", 1, 1, 1, 2, 2, 3, 9)
}

// runOf is one of a workspace's runs of a kind; servers mint no id for two workspaces.
func (g *workspaceGenerator) runOf(row uint32, kind string) [16]byte {
	return g.id(fmt.Sprintf("%s of %d", kind, row))
}

func (g *workspaceGenerator) id(kind string) [16]byte {
	most := 9
	if kind == "purchase" || strings.HasPrefix(kind, "run of") {
		most = 3
	}
	return ID(fmt.Sprintf("%s %d", kind, rapid.IntRange(0, most).Draw(g.t, kind)))
}

func (g *workspaceGenerator) flowID() [16]byte { return ID("flow " + g.pick("flow", "one", "two")) }

func (g *workspaceGenerator) token() uint32 {
	return sample[uint32](g.t, "token", 1, 1, 1, 2)
}

func (g *workspaceGenerator) flag(name string) bool { return rapid.Bool().Draw(g.t, name) }

func (g *workspaceGenerator) saveFlow(row uint32, name string, replace bool) engine.Record {
	return record(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: row, ID: ID("flow " + name), Replace: replace, Document: g.document(),
	})
}

func (g *workspaceGenerator) document() workspace.FlowDocument {
	d := workspace.FlowDocument{
		Name: g.pick("name", "Sign up", "Signup"), URL: "https://product.example/",
		Task:            g.pick("task", "Sign up", "Log in"),
		SuccessCriteria: "an account", Access: "public",
		VerificationURL: "https://product.example/me", VerificationStatus: 200,
	}
	if g.pick("access", "public", "public", "public", "public", "public", "test") == "test" {
		d.Access, d.Host = "test_account", "product.example"
	}
	return d
}

func (g *workspaceGenerator) record() engine.Record {
	makers := []func() engine.Record{
		g.start, g.start, g.start, g.start, g.work, g.work, g.work, g.finish, g.finish, g.finish,
		g.worker, g.lifecycle, g.lifecycle, g.purchase, g.purchase, g.payment, g.payment,
		g.approval, g.approval, g.setting, g.other, g.other, g.inspect, g.inspect,
		g.person, g.person, g.person, g.person,
		g.alert, g.alert, g.told, g.told, g.schedule,
		func() engine.Record { return engine.Record{Kind: engine.KindTick} },
	}
	return rapid.SampledFrom(makers).Draw(g.t, "command")()
}

func (g *workspaceGenerator) start() engine.Record {
	row := g.row()
	return record(workspace.KindStartRun, &workspace.StartRun{
		Workspace: row, Flow: g.flowID(), ID: g.runOf(row, "run"), Key: g.id("request"),
		FlowVersion: sample[uint32](g.t, "version", 1, 1, 1, 2, 3),
		Cents:       500,
		Credits:     sample(g.t, "quoted", g.credits, g.credits, 0, 2),
		Agent:       "clever exec 1",
	})
}

func (g *workspaceGenerator) work() engine.Record {
	return record(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
}

func (g *workspaceGenerator) finish() engine.Record {
	c := &workspace.FinishRun{
		Run: g.runOf(g.row(), "run"), Token: g.token(), Status: workspace.RunCompleted,
		Outcome: sample(g.t, "outcome", workspace.OutcomePassed, workspace.OutcomeBlocked,
			workspace.OutcomeInconclusive),
		Code: g.pick("code", "captcha", "email"), Step: g.pick("step", "signup", "login"),
		Calls:  []workspace.Call{{Case: "plain", Status: 200}},
		Reason: g.pick("reason", "", "the page asks for a code that was sent by e-mail"),
	}
	for range sample(g.t, "events", 0, 1, 7) {
		c.Events = append(c.Events, workspace.RunEvent{
			At: g.stamp + rapid.Int64Range(-9, 90_000).Draw(g.t, "at"),
			Text: g.pick("text", "opened the product's page", "GET /docs → 200", "signed up as ") +
				rapid.StringN(0, 12, -1).Draw(g.t, "more"),
		})
	}
	if c.Outcome == workspace.OutcomeInconclusive && g.flag("failed") {
		c.Status = workspace.RunFailed
	}
	return record(workspace.KindFinishRun, c)
}

func (g *workspaceGenerator) worker() engine.Record {
	if g.flag("heartbeat") {
		return record(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: g.runOf(g.row(), "run"), Token: g.token(), LeaseMS: 60_000, Step: "signup",
			Events: []workspace.RunEvent{{At: g.stamp, Text: "opened"}},
		})
	}
	return record(workspace.KindAwaitPerson, &workspace.AwaitPerson{
		Run: g.runOf(g.row(), "run"), Token: g.token(), Question: "code?", Checkpoint: []byte{1, 2},
	})
}

func (g *workspaceGenerator) lifecycle() engine.Record {
	row := g.row()
	switch g.pick("lifecycle", "cancel", "resume", "request", "local") {
	case "cancel":
		return record(workspace.KindCancelRun, &workspace.CancelRun{
			Workspace: row, ID: g.runOf(row, "run"), Kind: workspace.RunHosted,
		})
	case "resume":
		return record(workspace.KindResumeRun, &workspace.ResumeRun{
			Workspace: row, ID: g.runOf(row, "run"), Agent: "clever exec 1", Answer: []byte{3},
		})
	case "request":
		return record(workspace.KindRequestRun, &workspace.RequestRun{
			Workspace: row, Flow: g.flowID(), ID: g.runOf(row, "asked"),
		})
	}
	return record(workspace.KindStartLocalRun, &workspace.StartLocalRun{
		Workspace: row, ID: g.runOf(row, "local"),
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
	switch g.pick("payment", "reported", "reported", "reported", "refunded", "surplus", "retried") {
	case "refunded":
		return record(workspace.KindNoteRefund, &workspace.NoteRefund{
			ID: g.id("purchase"), Refund: "re_1", Payment: g.pick("of", "", "pi_1", "pi_2"),
			Refused: g.pick("refused", "", "", "charge_disputed"),
		})
	case "surplus":
		return record(workspace.KindNoteSurplus, &workspace.NoteSurplus{
			ID: g.id("purchase"), Payment: g.pick("of", "pi_1", "pi_2", "pi_3"),
		})
	case "retried":
		return g.acted(record(workspace.KindRetryRefund, &workspace.RetryRefund{
			ID: g.id("purchase"),
		}))
	}
	return record(workspace.KindNotePayment, &workspace.NotePayment{
		ID: g.id("purchase"), Card: g.pick("card", "", "card"),
		Payment: g.pick("by", "pi_1", "pi_1", "pi_2"),
		Result: sample(g.t, "result", workspace.PaymentPaid, workspace.PaymentPaid,
			workspace.PaymentDeclined, workspace.PaymentFailed),
	})
}

// acted lets an operator give a command, which may be another workspace's.
func (g *workspaceGenerator) acted(r engine.Record) engine.Record {
	return record(workspace.KindAct, &workspace.Act{
		Workspace: g.row(), ID: g.id("act"), Actor: "operator", Key: g.id("request"),
		Kind: r.Kind, Payload: r.Payload,
	})
}

func (g *workspaceGenerator) approval() engine.Record {
	if g.flag("operator") {
		return g.acted(record(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
			ID: g.id("purchase"), Owner: "ada",
		}))
	}
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
			Closed: g.flag("closed"),
		})
	}
	return record(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
		ID: g.id("purchase"), Owner: "ada",
	})
}

// inspect saves a document of up to three parts, or brings one of them.
func (g *workspaceGenerator) inspect() engine.Record {
	row := g.row()
	id := g.runOf(row, "inspected")
	if g.flag("part") {
		return record(workspace.KindAddInspectionPart, &workspace.AddInspectionPart{
			Run: id, From: uint32(rapid.IntRange(1, 3).Draw(g.t, "from")), Part: []byte{2},
		})
	}
	return record(workspace.KindSaveInspection, &workspace.SaveInspection{
		Workspace: row, ID: id, Key: g.id("request"), Host: g.pick("host", "a.example", "b.example"),
		Kind: sample(g.t, "kind", workspace.RunInspection, workspace.RunInspection,
			workspace.RunAssessment),
		Findings: []workspace.Finding{{Field: "api", Verdict: g.pick("verdict", "yes", "no", "unknown")}},
		BeganAt:  g.stamp - 1000, Size: uint32(rapid.IntRange(1, 3).Draw(g.t, "size")), Part: []byte{1},
	})
}

func (g *workspaceGenerator) setting() engine.Record {
	if g.flag("grant") {
		r := record(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: g.row(), ID: g.id("grant"), Amount: 5,
		})
		if g.flag("operator") {
			return g.acted(r)
		}
		return r
	}
	return record(workspace.KindSetBilling, &workspace.SetBilling{
		Workspace: g.row(), HasPaused: g.flag("pauses"), Paused: g.flag("paused"),
		HasCap: g.flag("caps"), CapCents: sample[uint32](g.t, "cap", 0, 3000, 20_000),
		Person: g.flag("person"),
	})
}

func (g *workspaceGenerator) other() engine.Record {
	switch g.pick("other", "flow", "archive", "confirm", "preflight", "key", "signup", "claim", "use",
		"remove", "policy", "version", "agents", "access") {
	case "policy":
		return g.policy()
	case "agents":
		return g.agents()
	case "access":
		return g.access()
	case "version":
		return agreed(rapid.Uint32Range(1, engine.Version).Draw(g.t, "agreed"))
	case "use":
		return record(workspace.KindNoteUse, &workspace.NoteUse{Workspace: g.row()})
	case "remove":
		r := record(workspace.KindRemoveWorkspace, &workspace.RemoveWorkspace{Workspace: g.row()})
		if g.flag("operator") {
			return g.acted(r)
		}
		return r
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
