package enginetest

import (
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// person draws a command about who signs in: few persons, agents and sessions, so that they meet.
func (g *workspaceGenerator) person() engine.Record {
	token := secret("session " + g.pick("session", "1", "2", "3", "4"))
	row := sample[uint32](g.t, "person", 1, 1, 2, 2, 3, 4, 9)
	switch g.pick("person's", "sign in", "sign in", "sign in", "end", "use", "choose", "open", "link",
		"act", "act", "act") {
	case "end":
		return record(workspace.KindEndSession, &workspace.EndSession{
			Session: token, All: g.flag("all"),
		})
	case "use":
		return record(workspace.KindNoteSession, &workspace.NoteSession{Session: token})
	case "choose":
		return record(workspace.KindChooseWorkspace, &workspace.ChooseWorkspace{
			Session: token, ID: ID("workspace " + g.pick("name", "a", "b", "p1", "p2")),
		})
	case "open":
		name := g.pick("name", "p1", "p2", "a")
		return record(workspace.KindOpenWorkspace, &workspace.OpenWorkspace{
			Person: row, ID: ID("workspace " + name), Label: name,
		})
	case "link":
		return record(workspace.KindAnswerLink, &workspace.AnswerLink{
			Person: row, ID: g.linkID(), Workspace: g.row(),
			Answer: sample(g.t, "answer", workspace.LinkApproved, workspace.LinkDeclined,
				workspace.LinkRemoved),
		})
	case "act":
		return g.actedBy(row)
	}
	return g.signIn(token)
}

// linkID is that of a link, as far as histories make any: they are derived, so most are of none.
func (g *workspaceGenerator) linkID() [16]byte {
	return workspace.LinkID(ID("person "+g.pick("agent", "3", "4")),
		sample[uint32](g.t, "owner", 1, 2), g.stamp)
}

func (g *workspaceGenerator) signIn(token [32]byte) engine.Record {
	who := g.pick("who", "1", "2", "3", "4")
	c := &workspace.SignIn{
		ID: ID("person " + who), Issuer: "https://id.example", Subject: who, Name: "n" + who,
		Email: g.pick("e-mail", "", "ada@a.example", "Ada@a.example", "eve@a.example"), Session: token,
		Agent: who > "2", Surface: workspace.SurfaceWorkspaces, Workspace: ID("workspace of " + who),
		Source: ID("source " + who), Network: ID("network"),
	}
	if g.flag("replaces") {
		c.Replaces = secret("session " + g.pick("session", "1", "2", "3", "4"))
	}
	if c.Agent {
		c.OwnerEmail = g.pick("owner", "", "ada@a.example", "eve@a.example")
	}
	if g.flag("operations") {
		c.Surface = workspace.SurfaceOperations
	}
	return record(workspace.KindSignIn, c)
}

// actedBy lets a person give a command about a workspace, which may be another's.
func (g *workspaceGenerator) actedBy(person uint32) engine.Record {
	row := g.row()
	var r engine.Record
	switch g.pick("act", "claim", "approve", "deny", "cancel", "billing", "alerts",
		"rotate") {
	case "claim":
		r = record(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			Code: secret("code " + g.pick("name", "a", "b", "c")), Owner: "ada@a.example", Person: person,
		})
	case "approve":
		r = record(workspace.KindApprovePurchase, &workspace.ApprovePurchase{
			ID: g.id("purchase"), Owner: "ada@a.example", Person: person,
		})
	case "deny":
		r = record(workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: g.id("purchase")})
	case "cancel":
		r = record(workspace.KindCancelPurchase, &workspace.CancelPurchase{
			Workspace: row, ID: g.id("purchase"), Person: g.flag("person"),
		})
	case "alerts":
		r = record(workspace.KindSetAlerts, &workspace.SetAlerts{
			Workspace: row, Flow: g.flowID(), HasEmail: true, HasOn: true, On: true,
			Email: g.pick("alerts to", "ada@a.example", "else@a.example"),
		})
	case "billing":
		r = record(workspace.KindSetBilling, &workspace.SetBilling{
			Workspace: row, HasPaused: true, Paused: g.flag("paused"), Person: true,
		})
	default:
		name := g.pick("key", "k1", "k2")
		r = record(workspace.KindRotateKeys, &workspace.RotateKeys{
			Workspace: row, KeyID: ID("key " + name), KeyHash: secret("key " + name),
		})
	}
	return record(workspace.KindAct, &workspace.Act{
		Workspace: row, ID: g.id("act"), Actor: "owner", Person: person, Kind: r.Kind,
		Payload: r.Payload,
	})
}
