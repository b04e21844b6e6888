package console

import (
	"net/url"
	"strings"

	api "tollgate/sdk/go"
	"tollgate/server/console/page"
)

const settingsPath = "/accounts/{account}/{environment}/settings"

func (s *Console) settingsRows() []row {
	set := func(what string, made func(*visit) map[string]any) row {
		return form(settingsPath+"/"+what, "set "+what, func(v *visit) {
			call := v.adminCall(settings[what])
			call.Body = body(made(v))
			v.finish(v.admin(call).Fault, showSettings, v.base()+"/settings", what)
		})
	}
	portal := form(settingsPath+"/portal", "set portal", setPortal)
	portal.upload = true
	return []row{
		look(settingsPath, "settings", showSettings), portal,
		set("seller", func(v *visit) map[string]any {
			return map[string]any{
				"name": v.typed("name"), "address": v.typed("address"), "email": v.typed("email"),
				"taxId": v.typed("taxId"),
			}
		}),
		set("terms", func(v *visit) map[string]any {
			return map[string]any{
				"paymentTermDays": literal(v.typed("paymentTermDays")),
				"settleMinutes":   literal(v.typed("settleMinutes")),
			}
		}),
		set("origins", func(v *visit) map[string]any {
			return map[string]any{"origins": strings.Fields(v.typed("origins"))}
		}),
	}
}

// settings are the operations of the forms.
var settings = map[string]string{
	"seller": "setSeller", "terms": "setPaymentTerms", "origins": "setOrigins",
}

// typed is a field of a form without the spaces around it.
func (v *visit) typed(name string) string { return strings.TrimSpace(v.fields.Get(name)) }

type settingsData struct {
	Base     string
	Manage   bool
	Seller   api.Seller
	Terms    api.PaymentTerms
	Origins  string
	Provider api.PaymentProvider
	Portal   api.Portal
	Sandbox  bool
	Holds    []holding
	Members  []Member
	// Whole reports whether the operators of the whole cluster are among Members.
	Whole  bool
	Fields url.Values
}

// showSettings is what the environment's invoices say and when they fall due, who collects them,
// and which web pages may use customer keys.
func showSettings(v *visit) {
	data := settingsData{
		Base: v.base() + "/settings", Manage: v.manage, Fields: v.fields,
		Sandbox: v.environment == "sandbox", Holds: v.holdings(),
	}
	data.Whole, _ = v.who.on("")
	data.Members = v.console.config.SignedIn.members(v.account, data.Whole)
	data.Seller = need[api.Seller](v, v.admin, v.adminCall("showSeller"))
	data.Terms = need[api.PaymentTerms](v, v.admin, v.adminCall("showPaymentTerms"))
	origins := need[api.Origins](v, v.admin, v.adminCall("listOrigins"))
	data.Origins = strings.Join(origins.Origins, "\n")
	data.Provider = need[api.PaymentProvider](v, v.admin, v.adminCall("showPaymentProvider"))
	data.Portal = need[api.Portal](v, v.admin, v.adminCall("showPortal"))
	if text, typed := v.fields["origins"]; typed {
		data.Origins = text[0]
	}
	v.show(v.environmentPage("settings", "Settings", "Settings", "", data))
}

// settingsTabs are the pages within the settings.
func settingsTabs(v *visit) []page.Link {
	links := []page.Link{{Text: "Billing", URL: v.base() + "/settings"}}
	if v.environment == "sandbox" {
		links = append(links, page.Link{Text: "Test clock", URL: v.base() + "/clock"})
	}
	return links
}
