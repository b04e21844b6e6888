package console

import (
	"cmp"
	"net/url"
	"strconv"
	"strings"

	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
)

func (s *Console) workspaceRows() []row {
	rows := []row{
		within(reachCluster, "GET", "/workspaces", "workspaces", showWorkspaces),
		within(reachCluster, "GET", "/workspaces/{id}", "workspace", showWorkspace),
	}
	for _, tool := range []struct{ path, operation string }{
		{"/claim", "claimForOwner"},
		{"/pause", "setPurchasePause"},
		{"/cap", "setSpendingCap"},
		{"/credits", "grantWorkspaceCredits"},
		{"/approve", "approvePurchase"},
		{"/deny", "denyPurchase"},
		{"/refund", "retryRefund"},
	} {
		r := within(reachCluster, "POST", "/workspaces/{id}"+tool.path, tool.operation,
			func(v *visit) { actForOwner(v, tool.operation) })
		_, r.asks = ownerQuestions[tool.operation]
		rows = append(rows, r)
	}
	return rows
}

// workspaceURL is a workspace's page.
func workspaceURL(id string) string { return Root + "/workspaces/" + url.PathEscape(id) }

type workspacesData struct {
	Workspaces []api.TenantOfList
	Unclaimed  bool
	Sought     string
	Pager      page.Pager
}

func showWorkspaces(v *visit) {
	data := workspacesData{Unclaimed: v.query("unclaimed") == "true"}
	call := server.Call{Operation: "listWorkspaces", Query: url.Values{}}
	keep := url.Values{}
	if data.Unclaimed {
		call.Query.Set("unclaimed", "true")
		keep.Set("unclaimed", "true")
	}
	if data.Sought = strings.TrimSpace(v.query("find")); data.Sought != "" {
		call.Query.Set("find", data.Sought)
	}
	list := need[api.Tenants](v, v.admin, v.paged(call, "50"))
	data.Workspaces = list.Workspaces
	if data.Sought != "" && len(data.Workspaces) == 1 && v.fault == nil {
		v.console.site.Redirect(v.x, workspaceURL(data.Workspaces[0].ID))
		return
	}
	data.Pager = v.pages(Root+"/workspaces", list.NextCursor, keep).
		Of(len(list.Workspaces), "workspace")
	v.show(page.View{
		Page: "workspaces", Title: "Workspaces", Data: data,
		Lead: "Where agents and their owners keep flows and runs, newest first.",
	})
}

type workspaceData struct {
	Base      string
	Manage    bool
	Workspace api.Tenant
	Acts      []api.Act
	Pager     page.Pager
	Fields    url.Values
}

// showWorkspace is one workspace, its purchases, and operators' actions for its owner.
func showWorkspace(v *visit) {
	id := string(v.x.Param(0))
	shown, list := withList[api.Tenant, api.Acts](v,
		server.Call{Operation: "showWorkspace", Path: []string{id}},
		server.Call{Operation: "listWorkspaceActs", Path: []string{id}})
	data := workspaceData{
		Base: workspaceURL(shown.ID), Manage: v.manage, Workspace: shown, Acts: list.Acts,
		Fields: v.fields,
	}
	data.Pager = v.pages(data.Base, list.NextCursor, nil).Of(len(list.Acts), "action")
	v.show(page.View{
		Page: "workspace", Title: cmp.Or(shown.Label, shown.ID), Data: data,
		Crumbs: []page.Link{{Text: "Workspaces", URL: Root + "/workspaces"}, {Text: shown.ID}},
	})
}

// ownerQuestions are asked before changes that cost money or are irreversible.
var ownerQuestions = map[string]question{
	"claimForOwner": {
		Title: "Give the workspace to this owner?", Button: "Give the workspace to this owner",
		Notes: []string{"The workspace is theirs for good."},
	},
	"grantWorkspaceCredits": {Title: "Grant credits?", Button: "Grant the credits"},
	"approvePurchase": {
		Title: "Approve the purchase for the owner?", Button: "Approve the purchase",
		Notes: []string{"The owner's card is charged, or their payment page opens."},
	},
	"denyPurchase": {
		Title: "Deny the purchase for the owner?", Button: "Deny the purchase", Danger: true,
	},
	"retryRefund": {Title: "Ask for the refund again?", Button: "Ask for the refund"},
}

// askForOwner asks about one of the tools; false where there is nothing to ask about, and
// the tool refuses.
func askForOwner(v *visit, q question) bool {
	id, purchase := string(v.x.Param(0)), v.fields.Get("purchase")
	shown, fault := dataOf[api.Tenant](v, v.admin(server.Call{
		Operation: "showWorkspace", Path: []string{id},
	}))
	if fault != nil {
		return false
	}
	q.Facts, q.Back = []fact{{"Workspace", cmp.Or(shown.Label, id)}}, workspaceURL(id)
	for _, name := range []string{"owner", "amount"} {
		if value := v.fields.Get(name); value != "" {
			q.Facts = append(q.Facts, fact{strings.ToUpper(name[:1]) + name[1:], value})
		}
	}
	found := purchase == ""
	for _, p := range shown.Purchases {
		if p.ID == purchase {
			found = true
			q.Facts = append(q.Facts, fact{"Runs", strconv.Itoa(p.Runs)},
				fact{"Price", page.Cents(p.Cents)})
		}
	}
	if found {
		v.ask(q)
	}
	return found
}

// actForOwner carries out one of the tools by which an operator acts for the person who owns a
// workspace; the row keeps who did it.
func actForOwner(v *visit, operation string) {
	if asked, is := ownerQuestions[operation]; is && !v.sure() && askForOwner(v, asked) {
		return
	}
	if !v.x.Ctx.IsPost() {
		v.x.Refuse(server.FaultNotFound)
		return
	}
	call := server.Call{
		Operation: operation, Path: []string{string(v.x.Param(0))}, Actor: v.who.Name,
		OnceKey: page.OnceKey(v.fields),
	}
	switch operation {
	case "claimForOwner":
		call.Body = body(map[string]any{"owner": v.fields.Get("owner")})
	case "setPurchasePause":
		call.Body = body(map[string]any{"paused": v.fields.Get("paused") == "true"})
	case "setSpendingCap":
		call.Body = body(map[string]any{"capCents": literal(v.fields.Get("cents"))})
	case "grantWorkspaceCredits":
		call.Body = body(map[string]any{
			"amount": literal(v.fields.Get("amount")), "note": v.fields.Get("note"),
		})
	default: // of one purchase
		call.Path = append(call.Path, v.fields.Get("purchase"))
		if owner := v.fields.Get("owner"); owner != "" && operation == "approvePurchase" {
			call.Body = body(map[string]any{"owner": owner})
		}
	}
	v.finish(v.admin(call).Fault, showWorkspace,
		workspaceURL(string(v.x.Param(0))), "workspace")
}
