package owner

import (
	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

var flows = records[workspace.FlowView]{
	workspaceapi.NounFlow, (*workspace.Machine).Flows,
	func(f *workspace.FlowView) [16]byte { return f.ID },
}

type flowsPage struct {
	list[workspace.FlowView]
	Origin string
}

func showFlows(v *visit) {
	v.show(page.View{
		Page: "flows", Title: "Flows", Data: flowsPage{flows.list(v), v.config.Origin},
		Lead: "Saved tests: a task in a product, and the call that proves that it was done.",
	})
}

type flowPage struct {
	workspace.FlowView
	Runs   []workspace.RunView
	Issues []workspace.IssueView
	Price  uint32
	// Alerts describes the alerts' destinations in words.
	Alerts string
}

// Unreadiness is the reason why no agent can run it, in words; empty where one can.
func (f *flowPage) Unreadiness() string {
	if f.Unready == workspace.UnreadyVerificationOpen && !f.Preflighted {
		return "Its verification has not been called yet. Run it… calls it, and shows what a run costs."
	}
	return unreadiness[f.Unready.String()]
}

var unreadiness = map[string]string{
	"no_agent":             "No agent is configured on this deployment.",
	"verification_missing": "The flow has no verification. Change the flow, and name the call that proves that the task was done.",
	"verification_open": "Its verification proves nothing as it is: it answers without a key, or to " +
		"a wrong one. Change the flow, or what the product answers; Run it… calls it again.",
	"signup_not_confirmed": "You have not confirmed that an agent may sign up at this product.",
	"test_access_missing": "The flow needs a test account, and none is stored for its host: see the page " +
		"Test access.",
}

func showFlow(v *visit) {
	id, ok := v.id(workspaceapi.NounFlow)
	if !ok {
		return
	}
	flow, alerts, _, ok := v.config.Machine.Alerts(v.who.Workspace, id)
	if !ok {
		v.fail(faultUnknown)
		return
	}
	data := flowPage{
		FlowView: flow, Price: v.config.Machine.Policy().RunCents, Alerts: alertsSay(&alerts),
	}
	runs, _ := v.config.Machine.Runs(v.who.Workspace, workspace.Page{Limit: 100})
	for i := range runs {
		if runs[i].Flow == id && len(data.Runs) < 10 {
			data.Runs = append(data.Runs, runs[i])
		}
	}
	issues, _ := v.config.Machine.Issues(v.who.Workspace, workspace.Page{Limit: 100})
	for i := range issues {
		open := issues[i].Status != workspace.IssueClosed
		if open && issues[i].Flow == id && len(data.Issues) < 10 {
			data.Issues = append(data.Issues, issues[i])
		}
	}
	v.show(page.View{
		Page: "flow", Title: flow.Name, Data: &data,
		Crumbs: []page.Link{{Text: "Flows", URL: Root + "/flows"},
			{Text: workspaceapi.NounFlow.Text(id)}},
	})
}

var issues = records[workspace.IssueView]{
	workspaceapi.NounIssue, (*workspace.Machine).Issues,
	func(i *workspace.IssueView) [16]byte { return i.ID },
}

var showIssues = issues.page("issues", "Issues",
	"What stopped agents, once for each step and reason. A comparable pass closes one.")
