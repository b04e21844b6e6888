package console

import (
	"cmp"

	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// createPortalLink shows a link to the customer's own pages, once.
func createPortalLink(v *visit) {
	call := v.adminCall("createPortalLink", string(v.x.Param(2)))
	call.Body = body(map[string]any{"expiresInMinutes": literal(v.fields.Get("minutes"))})
	made, fault := dataOf[api.PortalLink](v, v.admin(call))
	if fault != nil {
		v.problem(fault)
		showCustomer(v)
		return
	}
	v.fields = nil
	v.notice = &page.Notice{
		Tone: page.Done, Title: "The portal link was created", Secret: made.URL,
		Detail: "Whoever has it sees this customer's plan, usage and invoices until " +
			page.When(made.ExpiresAt) + " UTC. It is not stored.",
	}
	showCustomer(v)
}

// revokePortalLinks ends the links that the customer has.
func revokePortalLinks(v *visit) {
	id := string(v.x.Param(2))
	if !v.sure() {
		v.ask(question{
			Title: "End the portal links of " + id + "?", Facts: []fact{{"Customer", id}},
			Notes: []string{"Every link to the customer's own pages that was created until now ends. " +
				"Links that are created later are valid."},
			Button: "End all links", Danger: true, Back: v.customerURL(id),
		})
		return
	}
	v.customerForm(v.admin(v.adminCall("revokePortalLinks", id)), "links")
}

// setPortal sets colour and logo of the customers' pages. The logo stays unless another file comes,
// or it is to be removed.
func setPortal(v *visit) {
	now := need[api.Portal](v, v.admin, v.adminCall("showPortal"))
	if v.fails() {
		return
	}
	logo := cmp.Or(v.fields.Get("logo"), now.Logo)
	if v.fields.Get("remove") == "yes" {
		logo = ""
	}
	call := v.adminCall("setPortal")
	call.Body = body(map[string]any{"accentColour": v.typed("colour"), "logo": logo})
	v.finish(v.admin(call).Fault, func() { showSettings(v) }, v.base()+"/settings", "portal")
}
