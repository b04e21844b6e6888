package enginetest

import (
	"fmt"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// personLines are the commands about people.
type personLines struct{ *workspaceScenario }

// signIn reads `sign-in NAME SESSION [email=] [agent] [owner=] [replaces=] [operations]`.
func (s personLines) signIn(l *line) string {
	name := l.word(0)
	c := &workspace.SignIn{
		ID: ID("person " + name), Issuer: "https://id.example", Subject: name, Name: name,
		Email: l.value("email", ""), OwnerEmail: l.value("owner", ""), Agent: l.has("agent"),
		Session: secret("session " + l.word(1)), Surface: workspace.SurfaceWorkspaces,
		Workspace: ID("workspace of " + name), Source: ID("source " + name),
	}
	if old := l.value("replaces", ""); old != "" {
		c.Replaces = secret("session " + old)
	}
	if l.has("operations") {
		c.Surface = workspace.SurfaceOperations
	}
	r := s.log.Do(workspace.KindSignIn, c)
	if r.Outcome != engine.OutcomeDone {
		return s.outcome(r)
	}
	var reply workspace.SignInReply
	mustDecode(r.Value, &reply)
	s.persons[name] = reply.Person
	text := fmt.Sprintf("person %d agent=%t", reply.Person, reply.Agent)
	text += when(reply.Link != workspace.LinkNone, " link=%s", reply.Link)
	return text
}

// session reads `session SESSION [operations]`.
func (s personLines) session(l *line) string {
	surface := workspace.SurfaceWorkspaces
	if l.has("operations") {
		surface = workspace.SurfaceOperations
	}
	v, ok := s.m.Session(secret("session "+l.word(0)), surface, s.log.Stamp)
	if !ok {
		return "none"
	}
	where := "no workspace"
	if number := v.Principal.Workspace; number != 0 {
		account, _ := s.m.Account(number, s.log.Stamp)
		where = fmt.Sprintf("in %q", account.Label)
	}
	return fmt.Sprintf("person %d agent=%t email=%q %s until %s", v.Person, v.Agent, v.Email, where,
		show(v.EndsAt))
}

func (s personLines) endSession(l *line) string {
	return s.do(workspace.KindEndSession, &workspace.EndSession{
		Session: secret("session " + l.word(0)), All: l.has("all"),
	})
}

func (s personLines) useSession(l *line) string {
	return s.do(workspace.KindNoteSession, &workspace.NoteSession{
		Session: secret("session " + l.word(0)),
	})
}

// choose reads `choose SESSION WORKSPACE`.
func (s personLines) choose(l *line) string {
	return s.do(workspace.KindChooseWorkspace, &workspace.ChooseWorkspace{
		Session: secret("session " + l.word(0)), ID: ID("workspace " + l.word(1)),
	})
}

// open reads `open PERSON WORKSPACE`.
func (s personLines) open(l *line) string {
	return s.do(workspace.KindOpenWorkspace, &workspace.OpenWorkspace{
		Person: s.persons[l.word(0)], ID: ID("workspace " + l.word(1)), Label: l.word(1),
	})
}

func (s personLines) owned(l *printer) {
	views, _ := s.m.Owned(s.persons[l.word(0)], workspace.Page{Limit: 100})
	for _, v := range views {
		fmt.Fprintln(l, v.Label)
	}
}

// links lists the agents that a person was asked about.
func (s personLines) links(l *printer) {
	views, _ := s.m.Links(s.persons[l.word(0)], workspace.Page{Limit: 100})
	v, _ := s.m.Person(s.persons[l.word(0)])
	for _, v := range views {
		fmt.Fprintf(l, "%s %s\n", v.Agent.Subject, v.Status)
	}
	fmt.Fprintf(l, "waiting %d\n", v.Waiting)
}

// answer reads `answer PERSON AGENT approve|decline|remove [workspace=]`.
func (s personLines) answer(l *line) string {
	c := &workspace.AnswerLink{Person: s.persons[l.word(0)]}
	c.Answer = map[string]workspace.LinkStatus{
		"approve": workspace.LinkApproved, "decline": workspace.LinkDeclined,
		"remove": workspace.LinkRemoved,
	}[l.word(2)]
	views, _ := s.m.Links(c.Person, workspace.Page{Limit: 100})
	for _, v := range views {
		if v.Agent.Subject == l.word(1) {
			c.ID = v.ID
		}
	}
	if name := l.value("workspace", ""); name != "" {
		c.Workspace = s.row(name)
	}
	return s.do(workspace.KindAnswerLink, c)
}

// act reads `act PERSON WORKSPACE claim [code=] | approve PURCHASE | deny PURCHASE |
// cancel PURCHASE [as=key] | unpause | rotate KEY | grant`.
func (s personLines) act(l *line) string {
	person, row := s.persons[l.word(0)], s.row(l.word(1))
	purchase := func() [16]byte { return ID("purchase " + l.word(3)) }
	var kind engine.Kind
	var inner wire.Fielder
	switch l.word(2) {
	case "claim":
		kind, inner = workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			Code: secret("code " + l.value("code", "")), Owner: "their@address.example", Person: person,
		}
	case "approve":
		kind, inner = workspace.KindApprovePurchase, &workspace.ApprovePurchase{
			ID: purchase(), Owner: "their@address.example", Person: person,
		}
	case "deny":
		kind, inner = workspace.KindDenyPurchase, &workspace.DenyPurchase{ID: purchase()}
	case "cancel":
		kind, inner = workspace.KindCancelPurchase, &workspace.CancelPurchase{
			Workspace: row, ID: purchase(), Person: l.value("as", "") != "key",
		}
	case "unpause":
		kind, inner = workspace.KindSetBilling, &workspace.SetBilling{
			Workspace: row, HasPaused: true, Person: true,
		}
	case "rotate":
		kind, inner = workspace.KindRotateKeys, &workspace.RotateKeys{
			Workspace: row, KeyID: ID("key " + l.word(3)), KeyHash: secret("key " + l.word(3)),
		}
	default:
		kind, inner = workspace.KindGrantCredits, &workspace.GrantCredits{
			Workspace: row, ID: ID("grant"), Amount: 1,
		}
	}
	s.workspaceScenario.acts++
	return s.do(workspace.KindAct, &workspace.Act{
		Workspace: row, ID: ID(fmt.Sprint("act ", s.workspaceScenario.acts)), Actor: "owner",
		Person: person, Kind: kind, Payload: wire.Encode(nil, inner),
	})
}

// acts lists what was done for a workspace's owner.
func (s personLines) acts(l *printer) {
	views, _ := s.m.Acts(s.row(l.word(0)), workspace.Page{Limit: 100})
	for _, v := range views {
		fmt.Fprintf(l, "%s by %s %q", v.Action, v.Actor, v.Email)
		for _, c := range v.Changes {
			fmt.Fprintf(l, " %s %q→%q", c.Name, c.Before, c.After)
		}
		l.WriteByte('\n')
	}
}
