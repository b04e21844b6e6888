package console

import (
	"net/url"
	"strconv"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

// accountsPage is how many accounts a page lists.
const accountsPage = 50

func (s *Console) homeRows() []row {
	return []row{
		within(reachAny, "GET", "", "accounts", showAccounts),
		within(reachCluster, "POST", "/accounts", "create account", createAccount),
		{
			method: "POST", path: "/sign-out", name: "sign out", harmless: true,
			show: func(v *visit) {
				if err := s.operators.SignOut(v.x); err != nil {
					s.config.Log.Warn("an operator is not signed out", "error", err)
					v.x.Refuse(faultStillIn)
					return
				}
				s.site.Redirect(v.x, signInPath)
			},
		},
		within(reachCluster, "GET", "/changes", "changes", showChanges),
	}
}

type accountsData struct {
	Accounts []shownAccount
	Create   bool
	Name     string
	Pager    pager
	Page     *page.View
}

type shownAccount struct{ Name, CreatedAt, URL string }

// showAccounts is the first page: the accounts that the operator may see.
func showAccounts(v *visit) {
	data := accountsData{Name: v.fields.Get("name"), Create: v.manage}
	list := v.console.config.Machine.Accounts()
	from, _ := strconv.Atoi(v.query("cursor"))
	from = min(max(from, 0), len(list))
	next := ""
	for i, account := range list[from:] {
		if look, _ := v.who.on(account.Name); !look {
			continue
		}
		if len(data.Accounts) == accountsPage {
			next = strconv.Itoa(from + i)
			break
		}
		data.Accounts = append(data.Accounts, shownAccountOf(&account))
	}
	data.Pager = v.pages(Root, next, nil)
	v.show(page.View{
		Page: "accounts", Title: "Accounts", Data: data,
		Lead: "Each account has a live environment and a sandbox, which share nothing.",
	})
}

func shownAccountOf(account *billing.AccountView) shownAccount {
	return shownAccount{
		Name: account.Name, CreatedAt: string(server.AppendTime(nil, account.CreatedAt)),
		URL: Root + "/accounts/" + url.PathEscape(account.Name),
	}
}

func createAccount(v *visit) {
	name := v.fields.Get("name")
	reply := v.admin(server.Call{
		Operation: "createAccount", Body: body(map[string]any{"name": name}),
		OnceKey: page.OnceKey(v.fields), Actor: v.who.Name,
	})
	v.finish(reply.Fault, func() { showAccounts(v) },
		Root+"/accounts/"+url.PathEscape(name)+"/sandbox/catalog", "account")
}

// changedFields are the fields that a change has changed, of both sides.
func changedFields(c api.AdminChange) (fields []changedField) {
	for name, before := range c.Before {
		fields = append(fields, changedField{name, before, c.After[name]})
	}
	for name, after := range c.After {
		if _, both := c.Before[name]; !both {
			fields = append(fields, changedField{name, "", after})
		}
	}
	sortFields(fields)
	return fields
}

type changedField struct{ Name, Before, After string }

type changesData struct {
	Changes []shownChange
	Pager   pager
}

// showChanges is the record of changes by operators.
func showChanges(v *visit) {
	type changes struct {
		Changes    []api.AdminChange `json:"changes"`
		NextCursor string            `json:"nextCursor"`
	}
	list := need[changes](v, v.admin, v.paged(server.Call{Operation: "listChanges"}, "50"))
	data := changesData{Pager: v.pages(Root+"/changes", list.NextCursor, nil)}
	for _, c := range list.Changes {
		data.Changes = append(data.Changes, v.shownChange(c))
	}
	v.show(page.View{
		Page: "changes", Title: "Changes", Data: data,
		Lead: "Changes by operators through the pages, the command line and the API, newest first.",
	})
}
