package console

import (
	"cmp"
	"strconv"
	"time"

	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

// createPortalLink shows a link to the customer's own pages, once.
func createPortalLink(v *visit) {
	call := v.adminCall("createPortalLink", string(v.x.Param(2)))
	call.Body = body(map[string]any{"expiresInMinutes": literal(v.fields.Get("minutes"))})
	call.OnceKey = page.OnceKey(v.fields)
	made, fault := dataOf[api.PortalLink](v, v.admin(call))
	if fault != nil && fault.Code == "link_made" { // the same form, sent twice
		v.fields = nil
		v.notice = &page.Notice{
			Tone: page.Done, Title: "The portal link was created before",
			Detail: "Its address is not stored, so this page cannot show it again. Create another one.",
		}
		showCustomer(v)
		return
	}
	if fault != nil {
		refuse(v, fault, showCustomer)
		return
	}
	minutes, _ := strconv.Atoi(v.typed("minutes")) // as the row read it
	v.fields = nil
	v.notice = &page.Notice{
		Tone: page.Done, Title: "The portal link was created", Secret: made.URL,
		Detail: "Whoever has the link sees this customer's plan, usage and invoices for " +
			lasting(time.Duration(minutes)*time.Minute) + ". The link is not stored.",
	}
	showCustomer(v)
}

// lasting is a time in words, to the minute: clocks of two kinds are on a page of a sandbox.
func lasting(d time.Duration) string {
	switch minutes := int((d + time.Second) / time.Minute); {
	case minutes > 0 && minutes%(24*60) == 0:
		return page.Count(minutes/(24*60), "day")
	case minutes > 60 && minutes%60 == 0:
		return page.Count(minutes/60, "hour")
	default:
		return page.Count(minutes, "minute")
	}
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
	v.finish(v.admin(call).Fault, showSettings, v.base()+"/settings", "portal")
}
