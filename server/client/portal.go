package client

import (
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
	"tollgate/server/link"
)

// portalRoutes are the rows about links to the pages of a customer.
func (a *API) portalRoutes() []server.Route {
	const links = "/customers/{externalClientCustomerId}/portal-links"
	return []server.Route{
		row("POST", links, "createPortalLink",
			"Create a link that opens the customer's own pages", server.AccessFull,
			byName(a.createPortalLink), server.MayTake(server.RefTo("PortalLinkRequest")),
			server.Gives(201, "Made; nothing is stored of it", server.RefTo("PortalLink"))),
		row("DELETE", links, "revokePortalLinks",
			"Revoke all links that open the customer's pages", server.AccessFull,
			byName(a.revokePortalLinks), done),
	}
}

// portalLinkRequest asks for a link.
//
//schema:request client PortalLinkRequest
type portalLinkRequest struct {
	ExpiresInMinutes uint32 `json:"expiresInMinutes" rule:"min=5,max=10080,default=60"`
}

func (a *API) createPortalLink(x *server.Exchange, id string) *server.Fault {
	var c portalLinkRequest
	body := x.Body
	if len(body) == 0 {
		body = []byte("{}")
	}
	if fault := form.Read(body, &c, readPortalLinkRequest); fault != nil {
		return fault
	}
	if a.links == nil {
		return billingview.FaultNoPortal
	}
	var made link.Made
	p, by := principal(x), x.By()
	fault := a.ofCustomer(x, id, func(v *billing.CustomerView) *server.Fault {
		if v.ArchivedAt != 0 || v.ErasedAt != 0 {
			return server.FaultOf(engine.OutcomeCustomerArchived)
		}
		made = a.links.Make(link.Link{
			Env: p.Env, Customer: v.ID, Key: p.KeyID, Minutes: uint16(c.ExpiresInMinutes),
		}.Begin(a.machine, a.now()))
		return nil
	})
	if fault == nil && by != "" { // a program's own links leave no row
		note := billing.NotePortalLink{
			Env: p.Env, Customer: id, Actor: by, Expires: string(server.AppendTime(nil, made.ExpiresAt)),
		}
		if o := a.propose(x, billing.KindNotePortalLink, wire.Encode(nil, &note)).Outcome; o.Refused() {
			fault = server.FaultOf(o)
		}
	}
	if fault != nil {
		return fault
	}
	return server.One(x, 201, &made, billingview.WritePortalLink)
}

func (a *API) revokePortalLinks(x *server.Exchange, id string) *server.Fault {
	return a.carryOut(x, billing.KindRevokePortalLinks, &billing.RevokePortalLinks{
		Env: principal(x).Env, Customer: id, Actor: x.By(),
	})
}
