package enginetest

import (
	"fmt"

	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/workspace"
)

// story is a few records that go on from each other, which records drawn one by one seldom do: a
// run that a worker carries to its end, a purchase with what its provider says, a watch that tells
// its owner; or nothing.
func (g *workspaceGenerator) story() []engine.Record {
	switch g.pick("story", "none", "none", "run", "order", "watch", "regular") {
	case "run":
		return g.carried(g.row())
	case "order":
		return g.ordered()
	case "watch":
		return g.watched()
	case "regular":
		return g.regular()
	}
	return nil
}

// carried is a run from its start to its end, of an unchanged flow; the worker may get
// another that waited before it.
func (g *workspaceGenerator) carried(row uint32) []engine.Record {
	flow := "one"
	if row == 2 {
		flow = "two"
	}
	return g.carriedTo(row, flow, g.runOf(row, "run"),
		sample(g.t, "outcome", workspace.OutcomePassed, workspace.OutcomeBlocked,
			workspace.OutcomeInconclusive))
}

// carriedTo is a run that comes to an outcome.
func (g *workspaceGenerator) carriedTo(row uint32, flow string, id [16]byte,
	outcome workspace.RunOutcome,
) []engine.Record {
	return []engine.Record{
		record(workspace.KindStartRun, &workspace.StartRun{
			Workspace: row, Flow: ID("flow " + flow), ID: id, Key: g.id("request"), FlowVersion: 1,
			Cents: 500, Credits: g.credits, Agent: "clever exec 1",
		}),
		g.work(),
		record(workspace.KindFinishRun, &workspace.FinishRun{
			Run: id, Token: 1, Status: workspace.RunCompleted, Code: "captcha", Step: "signup",
			Outcome: outcome,
		}),
	}
}

// ordered is a purchase, what its owner and its provider say of it, and what went back.
func (g *workspaceGenerator) ordered() []engine.Record {
	id, row := g.id("purchase"), g.row()
	records := []engine.Record{
		record(workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: row, ID: id, Key: g.id("request"), Runs: 1, Link: secret("w"),
		}),
	}
	switch g.pick("said", "nothing", "nothing", "approve", "deny", "cancel") {
	case "approve":
		records = append(records, record(workspace.KindApprovePurchase,
			&workspace.ApprovePurchase{ID: id, Owner: "ada"}))
	case "deny":
		records = append(records, record(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: id}))
	case "cancel":
		records = append(records, record(workspace.KindCancelPurchase,
			&workspace.CancelPurchase{Workspace: row, ID: id}))
	}
	return append(records,
		record(workspace.KindNotePayment, &workspace.NotePayment{
			ID: id, Payment: "pi_1", Card: g.pick("card", "", "card"),
			Result: sample(g.t, "result", workspace.PaymentPaid, workspace.PaymentPaid,
				workspace.PaymentDeclined, workspace.PaymentDeclined, workspace.PaymentFailed),
		}),
		record(workspace.KindNoteSurplus, &workspace.NoteSurplus{ID: id, Payment: "pi_2"}),
		record(workspace.KindNoteRefund, &workspace.NoteRefund{
			ID: id, Refund: "re_1", Payment: g.pick("of", "", "pi_2"),
		}),
	)
}

// bought gives a workspace credits, a purchase that is paid, and the card that paid it.
func (g *workspaceGenerator) bought(row uint32) []engine.Record {
	id := ID(fmt.Sprintf("bought %d", row))
	return []engine.Record{
		record(workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: row, ID: ID("second"), Amount: 9,
		}),
		record(workspace.KindRequestPurchase, &workspace.RequestPurchase{
			Workspace: row, ID: id, Key: id, Runs: uint32(rapid.IntRange(1, 3).Draw(g.t, "runs")),
			Link: secret(fmt.Sprintf("bought %d", row)),
		}),
		record(workspace.KindApprovePurchase, &workspace.ApprovePurchase{ID: id, Owner: "ada"}),
		record(workspace.KindNotePayment, &workspace.NotePayment{
			ID: id, Result: workspace.PaymentPaid, Card: "card", Payment: "pi_0",
		}),
	}
}
