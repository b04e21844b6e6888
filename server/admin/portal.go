package admin

import (
	"bytes"
	"encoding/base64"
	"regexp"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/billingview"
	"tollgate/server/form"
	"tollgate/server/link"
)

// portals are the rows about the pages of customers.
type portals struct {
	*base
	links *link.Signer // nil makes none
}

func (a *portals) portalRoutes() []server.Route {
	const links = environment + "/customers/{customer}/portal-links"
	return []server.Route{
		row("PUT", environment+"/portal", "setPortal",
			"Set colour and logo of the customers' pages; what is left out is the standard", a.putPortal,
			server.Takes(server.AnswerSchema[portalAnswer]()), nothing("Set")),
		row("GET", environment+"/portal", "showPortal", "Colour and logo of the customers' pages",
			a.within(a.getPortal), answers(server.AnswerSchema[portalAnswer]())),
		row("POST", links, "createPortalLink", "Create a link that opens a customer's own pages",
			a.createLink, keyed, server.Takes(server.Object(
				server.May("expiresInMinutes", server.IntSchema(link.MinMinutes, link.MaxMinutes)))),
			server.Gives(201, "Made; nothing is stored of it", server.AnswerSchema[link.Made]())),
		row("DELETE", links, "revokePortalLinks", "Revoke all links that open a customer's pages",
			a.revokeLinks, nothing("Ended")),
	}
}

// portalAnswer is how the pages of an environment's customers look.
//
//schema:answer admin Portal
type portalAnswer struct {
	// Colour is #rrggbb.
	Colour string `json:"accentColour,omitzero" rule:"max=7"`
	// Logo is base64 of a PNG, JPEG or WebP file of 32 KiB at most.
	Logo string `json:"logo,omitzero" rule:"max=43692"`
}

var colours = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)

// mediaOf is the media type of a logo; empty of what is none. Scripts cannot be in these.
func mediaOf(file []byte) string {
	switch {
	case bytes.HasPrefix(file, []byte("\x89PNG\r\n\x1a\n")):
		return "image/png"
	case bytes.HasPrefix(file, []byte("\xff\xd8\xff")):
		return "image/jpeg"
	case len(file) > 12 && string(file[:4]) == "RIFF" && string(file[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

func (a *portals) putPortal(x *server.Exchange) *server.Fault {
	var look portalAnswer
	var w walk
	if fault := tagged(x, &w, &look, nil); fault != nil {
		return fault
	}
	p := billing.Portal{Colour: look.Colour}
	w.when(p.Colour != "" && !colours.MatchString(p.Colour), "accentColour", server.FieldFormat,
		"must be a colour such as #17645a")
	if look.Logo != "" {
		var err error
		p.Logo, err = base64.StdEncoding.DecodeString(look.Logo)
		if p.LogoMedia = mediaOf(p.Logo); err != nil || p.LogoMedia == "" {
			w.problem("logo", server.FieldFormat, "must be a PNG, JPEG or WebP file in base64")
		}
	}
	if fault := w.fault(); fault != nil {
		return fault
	}
	c := billing.SetPortal{Portal: p, Actor: x.By()}
	return a.carryOut(x, billing.KindSetPortal, &c, &c.Env)
}

func (a *portals) getPortal(x *server.Exchange, env uint32) *server.Fault {
	p := a.machine.PortalLook(env)
	return server.One(x, 200, &portalAnswer{
		p.Colour, base64.StdEncoding.EncodeToString(p.Logo),
	}, writePortal)
}

// faultLinkMade answers a repeat: the link that was made is stored nowhere.
var faultLinkMade = server.NewFault(409, "link_made", "This request has made a link before").With(
	"Links are not stored. Make another one under another Idempotency-Key.")

func (a *portals) createLink(x *server.Exchange) *server.Fault {
	minutes := uint32(60)
	var w walk
	fault := body(x, &w, map[string]reader{"expiresInMinutes": w.whole(&minutes)})
	if fault == nil && (minutes < link.MinMinutes || minutes > link.MaxMinutes) {
		w.wrong(true, "expiresInMinutes", form.Outside(link.MinMinutes, link.MaxMinutes))
		fault = w.fault()
	}
	if fault != nil {
		return fault
	}
	if a.links == nil {
		return billingview.FaultNoPortal
	}
	var made link.Made
	var in uint32
	customer := string(x.Param(2))
	fault = a.environment(x, func(env uint32) *server.Fault {
		in = env
		v, found := a.machine.Customer(env, customer)
		switch {
		case !found:
			return server.FaultOf(engine.OutcomeCustomerUnknown)
		case v.ArchivedAt != 0 || v.ErasedAt != 0:
			return server.FaultOf(engine.OutcomeCustomerArchived)
		}
		made = a.links.Make(link.Link{Env: env, Customer: v.ID, Minutes: uint16(minutes)}.Begin(
			a.machine, a.now()))
		return nil
	})
	if fault != nil {
		return fault
	}
	first, _, fault := a.singly(x, in, billing.KindNotePortalLink, &billing.NotePortalLink{
		Env: in, Customer: customer, Actor: x.By(),
		Expires: string(server.AppendTime(nil, made.ExpiresAt)),
	})
	switch {
	case fault != nil:
		return fault
	case first.Repeated:
		return faultLinkMade
	}
	return server.One(x, 201, &made, billingview.WritePortalLink)
}

func (a *portals) revokeLinks(x *server.Exchange) *server.Fault {
	c := billing.RevokePortalLinks{Customer: string(x.Param(2)), Actor: x.By()}
	return a.carryOut(x, billing.KindRevokePortalLinks, &c, &c.Env)
}
