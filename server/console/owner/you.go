package owner

import (
	"crypto/rand"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	api "tollgate/server/workspace"
)

type youPage struct {
	Name    string
	Current [16]byte
	Owned   []state.OwnedView
	Links   []state.LinkView
	Waiting bool
}

// maxShown is how many workspaces and agents the page shows, the newest first.
const maxShown = 100

// showYou is about the person: their workspaces, and the agents that ask to work in one.
func showYou(v *visit) {
	data := youPage{Name: v.who.Name, Current: v.account.ID}
	data.Owned, _ = v.config.Machine.Owned(v.who.Person, state.Page{Limit: maxShown})
	data.Links, _ = v.config.Machine.Links(v.who.Person, state.Page{Limit: maxShown})
	v.show(page.View{
		Page: "you", Title: "You", Data: data,
		Lead: "Your workspaces, and the agents that may work in one of them.",
	})
}

// chooseWorkspace makes another workspace the one that the pages show.
func chooseWorkspace(v *visit) {
	id, ok := api.NounWorkspace.Parse(v.fields.Get("workspace"))
	fault := faultUnknown
	if ok {
		fault = v.choose(id)
	}
	v.finish(fault, showYou, Root, "choose")
}

func (v *visit) choose(id [16]byte) *server.Fault {
	return v.config.Workspaces.Order(v.flow(), state.KindChooseWorkspace, &state.ChooseWorkspace{
		Session: v.who.Session, ID: id,
	})
}

// flow is the workspace's that the pages show, or the person's.
func (v *visit) flow() fair.Flow { return api.FlowOf(v.who.Workspace, v.who.Person) }

// openWorkspace makes a workspace that is the person's from the start. The same form again is the
// same workspace.
func openWorkspace(v *visit) {
	label := v.typed("label")
	if fault := api.CheckLabel(label); fault != nil {
		v.problem(fault.With("Nothing was made."))
		showYou(v)
		return
	}
	c := &state.OpenWorkspace{Person: v.who.Person, ID: v.formID(), Label: label}
	fault := v.config.Workspaces.Order(v.flow(), state.KindOpenWorkspace, c, engine.Record{
		Kind: state.KindChooseWorkspace,
		Payload: wire.Encode(nil, &state.ChooseWorkspace{
			Session: v.who.Session, ID: c.ID,
		}),
	})
	v.finish(fault, showYou, Root+"/you", "open")
}

// formID is the id of what a form makes: of one form of a session always the same. One without a
// key makes something else each time.
func (v *visit) formID() [16]byte {
	once := page.OnceKey(v.fields)
	if once == "" {
		once = rand.Text()
	}
	return [16]byte(uuid.NewV5(formSpace, string(v.who.Session[:])+once))
}

// formSpace is the name space of ids that forms make (RFC 9562, version 5).
var formSpace = uuid.Must(uuid.FromString("6a1c2c5e-53a5-4c0b-9a43-1f6f7f0f9d11"))

// claimWorkspace takes a workspace over by its claim code.
func claimWorkspace(v *visit) {
	fault := v.config.Workspaces.Members.Claim(v.decision(0), v.typed("code"))
	v.finish(fault, showYou, Root+"/you", "claim")
}

// answerLink is the person's word about an agent that asks to work in the workspace that the pages
// show.
func answerLink(v *visit) {
	id, ok := api.NounLink.Parse(string(v.x.Param(0)))
	answer, known := map[string]state.LinkStatus{
		"approve": state.LinkApproved, "decline": state.LinkDeclined, "remove": state.LinkRemoved,
	}[v.fields.Get("answer")]
	fault := faultForm
	if ok && known {
		fault = v.config.Workspaces.Order(v.flow(), state.KindAnswerLink, &state.AnswerLink{
			Person: v.who.Person, ID: id, Answer: answer, Workspace: v.who.Workspace,
		})
	}
	v.finish(fault, showYou, Root+"/you", "link")
}
