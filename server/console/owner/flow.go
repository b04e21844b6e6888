package owner

import (
	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

var flows = records[workspace.FlowView]{
	noun: workspaceapi.NounFlow, path: "/flows", name: "flow", read: (*workspace.Machine).Flows,
	id: func(f *workspace.FlowView) [16]byte { return f.ID },
	choices: []choice{
		{"All", ""}, {"Passing", "passing"}, {"Failing", "failing"}, {"Unknown", "unknown"},
	},
	chosen: func(f *workspace.FlowView) string { return f.Watch.String() },
	columns: []string{
		"created", "id", "name", "product", "task", "done when", "watch", "watched since",
		"no agent can run it", "version", "changed",
	},
	add: func(s *page.Sheet, f *workspace.FlowView) {
		s.Add(when(f.CreatedAt), workspaceapi.NounFlow.Text(f.ID), f.Name, f.URL, f.Task,
			f.SuccessCriteria, f.Watch.String(), when(f.WatchAt), f.Unready.String(), f.Version,
			when(f.ChangedAt))
	},
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
		Crumbs: []page.Link{
			{Text: "Flows", URL: Root + "/flows"},
			{Text: workspaceapi.NounFlow.Text(id)},
		},
	})
}

var issues = records[workspace.IssueView]{
	noun: workspaceapi.NounIssue, path: "/issues", name: "issue", read: (*workspace.Machine).Issues,
	id: func(i *workspace.IssueView) [16]byte { return i.ID },
	choices: []choice{
		{"All", ""}, {"Open", "open"}, {"Reported as fixed", "fix_ready"}, {"Closed", "closed"},
	},
	chosen: func(i *workspace.IssueView) string { return i.Status.String() },
	columns: []string{
		"created", "id", "status", "step", "reason code", "reason", "seen", "flow", "newest run", "note",
		"changed", "closed",
	},
	add: func(s *page.Sheet, i *workspace.IssueView) {
		s.Add(when(i.CreatedAt), workspaceapi.NounIssue.Text(i.ID), i.Status.String(), i.Step, i.Code,
			i.Reason, i.Seen, textOf(workspaceapi.NounFlow, i.Flow),
			textOf(workspaceapi.NounRun, i.Run), i.Note, when(i.ChangedAt), when(i.ClosedAt))
	},
}

var showIssues = issues.page("issues", "Issues",
	"What stopped agents, once for each step and reason. A comparable pass closes one.")
