package console

import (
	"net/url"
	"strings"

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
