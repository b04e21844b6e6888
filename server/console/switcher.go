package console

import (
	"net/url"
	"strings"

	"tollgate/server"
	"tollgate/server/console/page"
)

// maxSwitch is how many accounts the switcher offers besides the one that is shown.
const maxSwitch = 20

// others are the environments and accounts that this operator can go to from a page of an
// environment.
func (v *visit) others() []page.Group {
	environments := page.Group{Title: "Environment"}
	for _, name := range []string{"live", "sandbox"} {
		environments.Choices = append(environments.Choices, page.Choice{Link: page.Link{
			Text: strings.ToUpper(name[:1]) + name[1:], Here: name == v.environment,
			URL: environmentURL(v.account, name),
		}})
	}
	accounts := page.Group{Title: "Account"}
	for name := range v.console.config.Machine.AccountNames() {
		if look, _ := v.who.on(name); !look || name == v.account {
			continue
		}
		if len(accounts.Choices) == maxSwitch {
			break
		}
		accounts.Choices = append(accounts.Choices, page.Choice{Link: page.Link{
			Text: name, URL: environmentURL(name, v.environment),
		}})
	}
	accounts.Choices = append(accounts.Choices, page.Choice{
		Link: page.Link{Text: "All accounts", URL: Root},
	})
	return []page.Group{environments, accounts}
}

func environmentURL(account, environment string) string {
	return Root + "/accounts/" + url.PathEscape(account) + "/" + environment
}

// place notes the environment that a refused request's path names, where there is one that its
// sender may see: the page of the refusal is one of it.
func place(v *visit) bool {
	parts, within := segments(v.x)
	if !within {
		return false
	}
	account, err := url.PathUnescape(parts[0])
	kind, named := environments[parts[1]]
	env, known := v.console.config.Machine.Environment(account, kind)
	if look, _ := v.who.on(account); err != nil || !named || !known || !look {
		return false
	}
	v.account, v.environment, v.env = account, parts[1], env
	return true
}

// segments are those of a path below accounts; false where there are less than an account and an
// environment.
func segments(x *server.Exchange) ([]string, bool) {
	below, within := strings.CutPrefix(string(x.Ctx.URI().PathOriginal()), Root+"/accounts/")
	parts := strings.Split(below, "/")
	return parts, within && len(parts) > 1
}

// tabs are what a page that has no tab of its own is of, by its path within its environment.
var tabs = map[string]string{
	"overview": "Overview", "customers": "Customers", "pools": "Customers", "usage": "Usage",
	"denied": "Denied checks", "budgets": "Budgets", "margin": "Margin", "invoices": "Invoices",
	"catalog": "Catalog", "keys": "Keys", "events": "Events", "webhooks": "Webhooks", "log": "Log",
	"settings": "Settings", "clock": "Test clock", "new-budget": "Budgets",
	"reservations": "Customers",
}

func tabOf(v *visit) string {
	if parts, within := segments(v.x); within && len(parts) > 2 {
		return tabs[parts[2]]
	}
	return ""
}
