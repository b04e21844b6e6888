package console

import (
	"net/url"
	"strconv"
	"strings"

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
		look("/accounts/{account}/{environment}/log", "log", showChanges),
	}
}

type accountsData struct {
	Accounts []shownAccount
	Create   bool
	Name     string
	Pager    page.Pager
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
	data.Pager = v.pages(Root, next, nil).Of(len(data.Accounts), "account")
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
	v.finish(reply.Fault, showAccounts,
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
	// Base is the page; Within reports whether it is an environment's.
	Base     string
	Within   bool
	Changes  []shownChange
	Actors   []page.Link
	Filters  []changeField
	Filtered bool
	CSV      string
	Pager    page.Pager
}

// changeField is a field that selects changes.
type changeField struct{ Name, Label, Value string }

// changeFilters are the fields that select changes, on the cluster's page and on an environment's.
var changeFilters = []struct {
	changeField
	cluster, within bool
}{
	{changeField{Name: "actor", Label: "Who"}, true, true},
	{changeField{Name: "customer", Label: "Customer"}, false, true},
	{changeField{Name: "subject", Label: "Id or name"}, true, true},
	{changeField{Name: "account", Label: "Account"}, true, false},
	{changeField{Name: "environment", Label: "Environment"}, true, false},
}

// changeCall asks for the changes that the page's address selects, within an environment of its
// own; keep are the address's parameters.
func changeCall(v *visit) (call server.Call, keep url.Values, fields []changeField) {
	call = server.Call{Operation: "listChanges", Query: url.Values{}}
	keep = url.Values{}
	for _, f := range changeFilters {
		if f.within && v.environment != "" || f.cluster && v.environment == "" {
			if f.Value = strings.TrimSpace(v.query(f.Name)); f.Value != "" {
				keep.Set(f.Name, f.Value)
				call.Query.Set(f.Name, f.Value)
			}
			fields = append(fields, f.changeField)
		}
	}
	if v.environment != "" {
		call.Query.Set("account", v.account)
		call.Query.Set("environment", v.environment)
	}
	return call, keep, fields
}

// showChanges is the record of changes by operators: of the cluster, or of an environment.
func showChanges(v *visit) {
	call, keep, fields := changeCall(v)
	data := changesData{Base: Root + "/changes", Filters: fields, Filtered: len(keep) > 0}
	if data.Within = v.environment != ""; data.Within {
		data.Base = v.base() + "/log"
	}
	list, fault := dataOf[api.AdminChangePage](v, v.admin(v.paged(call, "50")))
	if fault != nil {
		v.problem(fault)
	}
	data.CSV = data.Base + ".csv?" + keep.Encode()
	data.Pager = v.pages(data.Base, list.NextCursor, keep).Of(len(list.Changes), "change")
	for _, c := range list.Changes {
		data.Changes = append(data.Changes, v.shownChange(c))
	}
	data.Actors = actorsOf(list.Changes, data.Base, keep)
	lead := "Changes by operators through the pages, the command line and the API, newest first."
	if data.Within {
		v.show(v.environmentPage("changes", "Log", "Log", lead, data))
		return
	}
	v.show(page.View{Page: "changes", Title: "Changes", Data: data, Lead: lead})
}

// maxActors is how many actors a page of changes leads to: with everyone, 7 at most.
const maxActors = 6

// actorsOf lead to the changes of each actor in a list, or from one to those of all.
func actorsOf(list []api.AdminChange, base string, keep url.Values) (links []page.Link) {
	at := func(actor string) string {
		if query := withParam(keep, "actor", actor); len(query) > 0 {
			return base + "?" + query.Encode()
		}
		return base
	}
	known := map[string]bool{}
	for _, c := range list {
		if !known[c.Actor] && len(links) < maxActors {
			known[c.Actor] = true
			links = append(links, page.Link{
				Text: actorName(c.Actor), URL: at(c.Actor), Here: keep.Get("actor") == c.Actor,
			})
		}
	}
	if len(links) < 2 && keep.Get("actor") == "" {
		return nil
	}
	everyone := page.Link{Text: "Everyone", URL: at(""), Here: keep.Get("actor") == ""}
	return append([]page.Link{everyone}, links...)
}
