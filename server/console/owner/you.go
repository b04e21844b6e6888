package owner

import (
	"tollgate/engine/workspace"
	"tollgate/server/console/page"
)

type youPage struct {
	Name    string
	Current [16]byte
	Owned   []workspace.OwnedView
	Links   []workspace.LinkView
	Waiting bool
}

// maxShown is how many workspaces and agents the page shows, the newest first.
const maxShown = 100

// showYou is about the person: their workspaces, and the agents that ask to work in one.
func showYou(v *visit) {
	data := youPage{Name: v.who.Name, Current: v.account.ID}
	data.Owned, _ = v.config.Machine.Owned(v.who.Person, workspace.Page{Limit: maxShown})
	data.Links, _ = v.config.Machine.Links(v.who.Person, workspace.Page{Limit: maxShown})
	v.show(page.View{
		Page: "you", Title: "You", Data: data,
		Lead: "Your workspaces, and the agents that may work in one of them.",
	})
}

// chooseWorkspace makes another workspace the one that the pages show.
func chooseWorkspace(v *visit) {
	body := map[string]string{"workspace": v.fields.Get("workspace")}
	v.finish(v.ask("chooseWorkspace", body, nil), showYou, Root, "choose")
}

// openWorkspace makes a workspace that is the person's from the start. The same form again is the
// same workspace.
func openWorkspace(v *visit) {
	fault := v.ask("openWorkspace", map[string]string{"label": v.typed("label")}, nil)
	v.finish(fault, showYou, Root+"/you", "open")
}

// claimWorkspace takes a workspace over by its claim code.
func claimWorkspace(v *visit) {
	fault := v.ask("claimWorkspace", map[string]string{"code": v.typed("code")}, nil)
	v.finish(fault, showYou, Root+"/you", "claim")
}

// answerLink is the person's word about an agent that asks to work in the workspace that the pages
// show.
func answerLink(v *visit) {
	body := map[string]string{"answer": v.fields.Get("answer")}
	fault := v.ask("answerLink", body, nil, string(v.x.Param(0)))
	v.finish(fault, showYou, Root+"/you", "link")
}
