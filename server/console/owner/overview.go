package owner

import (
	"html/template"

	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// shortList is how many records of each kind the overview shows.
const shortList = 5

type overview struct {
	workspace.AccountView
	Billing  billing
	Flows    []workspace.FlowView
	Runs     []workspace.RunView
	Issues   []workspace.IssueView
	Waiting  *workspace.PurchaseView
	Notices  []workspace.NotificationView
	Identity string
}

// billing is what a month costs, and may cost.
type billing struct {
	workspace.AccountView
	Free uint32 // runs a month
}

// Used is the amount that counts against the cap, charges in progress included.
func (b billing) Used() uint32 { return b.SpentCents + b.ChargingCents }

// Left is what the cap leaves.
func (b billing) Left() uint32 { return b.CapCents - min(b.CapCents, b.Used()) }

// FreeLeft is how many free runs the month still has.
func (b billing) FreeLeft() uint32 {
	if !b.Claimed {
		return 0
	}
	return b.Free - min(b.Free, b.FreeUsed)
}

// Meter draws the spend against the cap.
func (b billing) Meter() template.HTML {
	return page.Meter(float64(b.Used()), float64(b.CapCents),
		page.Cents(b.Used())+" of the cap of "+page.Cents(b.CapCents)+" is spent or being charged")
}

func (v *visit) billing() billing {
	return billing{v.account, v.config.Machine.Policy().FreeRunsPerMonth}
}

// showOverview is the first page: items that need the owner come first.
func showOverview(v *visit) {
	m, at := v.config.Machine, workspace.Page{Limit: shortList}
	data := overview{
		AccountView: v.account, Billing: v.billing(),
		Identity: workspaceapi.NounWorkspace.Text(v.account.ID),
	}
	data.Runs, _ = m.Runs(v.who.Workspace, at)
	data.Flows, _ = m.Flows(v.who.Workspace, at)
	data.Notices, _ = m.Notifications(v.who.Workspace, at)
	issues, _ := m.Issues(v.who.Workspace, workspace.Page{Limit: pageSize})
	for i := range issues {
		if issues[i].Status != workspace.IssueClosed && len(data.Issues) < shortList {
			data.Issues = append(data.Issues, issues[i])
		}
	}
	if bought, _ := m.Purchases(v.who.Workspace, workspace.Page{Limit: 1}); len(bought) == 1 &&
		bought[0].Status <= workspace.PurchaseProcessing {
		data.Waiting = &bought[0]
	}
	v.show(page.View{
		Page: "overview", Title: v.account.Label, Data: data,
		Lead: "Results of agents, and their cost.",
	})
}
