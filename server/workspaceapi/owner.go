package workspaceapi

import (
	"encoding/hex"

	"github.com/gofrs/uuid/v5"

	"tollgate/engine/workspace"
	"tollgate/server"
)

// Noun is what an id is of.
type Noun string

// The nouns of ids.
const (
	NounWorkspace Noun = markWorkspace
	NounFlow      Noun = markFlow
	NounRun       Noun = markRun
	NounPurchase  Noun = markPurchase
	NounIssue     Noun = markIssue
	NounAct       Noun = markAct
	NounKey       Noun = "key_"
	NounLink      Noun = markLink
)

// Text is an id as callers see it.
func (n Noun) Text(id [16]byte) string { return idText(string(n), id) }

// Parse reads what Text wrote, and nothing else.
func (n Noun) Parse(text string) (id [16]byte, ok bool) { return parseID(string(n), text) }

// Visit is who asks on one of our pages, which has made sure who they are.
type Visit struct {
	// Person is the row of who asks, Session the SHA-256 of their session's token.
	Person  uint32
	Session [32]byte
	// Workspace is the row that it is about.
	Workspace uint32
	// Once is the key of the form: sent again, it is carried out once. A page without one has none.
	Once string
	// Shown is what the page showed of a purchase that is asked for.
	Shown Shown
}

// Ask carries out a row of the API, or one of those that pages alone have, for a person, as their
// own session may: with an Idempotency-Key made of the form's key.
func (a *API) Ask(v *Visit, c server.Call) server.Reply {
	who := a.caller(v)
	if c.Caller = who; who.repeatable() {
		c.OnceKey = hex.EncodeToString(who.Once[:])
	}
	return a.table.Call(c)
}

func (a *API) caller(v *Visit) *Caller {
	account, _ := a.machine.Account(v.Workspace, a.now())
	who := &Caller{
		Principal: workspace.Principal{
			Workspace: v.Workspace, ID: account.ID, Scopes: workspace.ScopesAll,
			Claimed: account.Claimed,
			Person:  v.Person,
		},
		Session: v.Session, Shown: v.Shown,
	}
	if v.Once != "" {
		who.Once = hashOf("owner", string(v.Session[:]), v.Once)
	}
	return who
}

// Decided reports whether this form was sent before, and carried out then.
func (a *API) Decided(v *Visit) bool { return a.actedOn(a.caller(v)) != 0 }

// repeatable reports whether the same request again is to change nothing more: a page's form.
func (c *Caller) repeatable() bool { return c.Once != [16]byte{} }

// formSpace is the name space of ids that forms make (RFC 9562, version 5).
var formSpace = uuid.Must(uuid.FromString("6a1c2c5e-53a5-4c0b-9a43-1f6f7f0f9d11"))

// newID is the id of what a request makes: of a page's form always the same.
func (c *Caller) newID() [16]byte {
	if c.repeatable() {
		return [16]byte(uuid.NewV5(formSpace, string(c.Once[:])))
	}
	return mint()
}

// pageRoutes are the rows that our own pages alone call.
func (a *API) pageRoutes() []server.Route {
	return []server.Route{
		row("PUT", "/v1/flows/{flow_id}", "saveFlow", "Create the flow of this id, or change it", write,
			of(markFlow, a.Flows.putFlow), signedIn),
		row("POST", "/v1/purchases/{id}/decision", "decidePurchase", "Approve or deny a purchase",
			anyScope, of(markPurchase, a.Purchases.decidePurchase), signedIn),
		row("POST", "/v1/flows/{flow_id}/alerts/address", "askAddress",
			"Mail the link that asks for the address of a flow's alerts", anyScope,
			a.Alerts.forOwner(a.Alerts.askAgain), signedIn,
			takes(server.Must("linkUntil", server.IntSchema(0, 1<<53)))),
		row("POST", ConfirmPath+"{flow_id}/{token}", "confirmAddress",
			"The yes of who has opened the link that asks for an address", 0,
			of(markFlow, a.Alerts.confirmAddress)),
	}
}
