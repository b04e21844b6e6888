package owner

import (
	"cmp"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/engine/workspace"
	"tollgate/server/console/page"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/journey"
	"tollgate/server/workspaceapi"
)

var runs = records[workspace.RunView]{
	noun: workspaceapi.NounRun, path: "/runs", name: "run", read: (*workspace.Machine).Runs,
	id: func(r *workspace.RunView) [16]byte { return r.ID },
	choices: []choice{
		{"All", ""},
		{"Passed", "passed"},
		{"Blocked", "blocked"},
		{"Inconclusive", "inconclusive"},
		{"Without an outcome", "none"},
	},
	chosen:  func(r *workspace.RunView) string { return cmp.Or(r.Outcome.String(), "none") },
	columns: runColumns, add: addRun,
}

var runColumns = []string{
	"created", "id", "kind", "flow", "status", "outcome", "reason code", "reason", "step", "agent",
	"paid by", "cents", "credits", "started", "finished",
}

func addRun(s *page.Sheet, r *workspace.RunView) {
	s.Add(when(r.CreatedAt), workspaceapi.NounRun.Text(r.ID), r.Kind.String(),
		textOf(workspaceapi.NounFlow, r.Flow), r.Status.String(), r.Outcome.String(), r.Code,
		r.Reason, r.Step, r.Agent.Name,
		r.Charge.String(), r.Cents, r.Credits, when(r.StartedAt), when(r.FinishedAt))
}

var showRuns = runs.page("runs", "Runs",
	"Newest first. Our verification calls decide the outcome, not the agent.")

// inspections are the runs that have read a product, without an agent.
var inspections = records[workspace.RunView]{
	noun: runs.noun, path: "/inspections", name: "inspection", read: runs.read, id: runs.id,
	only:    func(r *workspace.RunView) bool { return inspects(r.Kind) },
	columns: runColumns, add: addRun,
}

var showInspections = inspections.page("inspections", "Inspections",
	"Published data of products, read without an agent. Every verdict names rule and source.")

func inspects(kind workspace.RunKind) bool {
	return kind == workspace.RunInspection || kind == workspace.RunAssessment
}

type runPage struct {
	workspace.RunView
	FlowName string
	Report   *report
	Journey  *journey.Journey
	Live     string
}

// AgentName is the agent's name, without its kind and version.
func (r *runPage) AgentName() string { return r.Agent.Name }

// AgentBuild is the agent's kind, where that is not its name, and its version.
func (r *runPage) AgentBuild() string {
	if r.Agent.Kind == r.Agent.Name {
		return r.Agent.Version
	}
	return r.Agent.Kind + " " + r.Agent.Version
}

// Final reports whether nothing more happens to it.
func (r *runPage) Final() bool { return r.Status.Final() }

// Waits reports whether it goes on when a person answers.
func (r *runPage) Waits() bool { return r.Status == workspace.RunWaiting }

// Cancels reports whether it is an agent's, and may be cancelled.
func (r *runPage) Cancels() bool { return r.Kind == workspace.RunHosted && !r.Final() }

func (v *visit) run() (data *runPage, ok bool) {
	run, ok := runs.record(v, v.config.Machine.Run)
	if !ok {
		return nil, false
	}
	data = &runPage{
		RunView: run,
		Live:    Root + "/runs/" + workspaceapi.NounRun.Text(run.ID) + "/live",
	}
	if flow, known := v.config.Machine.Flow(v.who.Workspace, run.Flow); known {
		data.FlowName = flow.Name
	}
	return data, true
}

// showRun is one run: its evidence, or the report of one that inspected.
func showRun(v *visit) {
	data, ok := v.run()
	if !ok {
		return
	}
	title := "Run of " + data.FlowName
	switch {
	case data.Kind == workspace.RunInspection:
		title = "Inspection"
	case data.Kind == workspace.RunAssessment:
		title = "Evaluation of a task"
	case data.FlowName == "":
		title = "Run"
	}
	if inspects(data.Kind) {
		v.readReport(data)
	}
	v.show(page.View{
		Page: "run", Title: title, Data: data,
		Crumbs: []page.Link{
			{Text: "Runs", URL: Root + "/runs"}, {Text: workspaceapi.NounRun.Text(data.ID)},
		},
	})
}

// readReport reads the document of a run that inspected; there may be none yet.
func (v *visit) readReport(data *runPage) {
	found, text, ok := v.config.Workspaces.Runs.Document(v.who.Workspace, data.ID)
	if !ok {
		return
	}
	var err error
	if data.Kind == workspace.RunAssessment {
		data.Journey = &journey.Journey{}
		err = json.Unmarshal(text, data.Journey)
	} else {
		data.Report = &report{Previous: found.Previous, Changes: found.Changes}
		err = json.Unmarshal(text, &data.Report.Document)
	}
	if err != nil {
		v.config.Log.Error("a document cannot be shown", "run", workspaceapi.NounRun.Text(data.ID),
			"error", err)
		data.Report, data.Journey = nil, nil
	}
}

// showProgress is the current state of a run, for the script.
func showProgress(v *visit) {
	if data, ok := v.run(); ok {
		v.site.Fragment(v.x, "run", "progress", data)
	}
}

// report is an inspection for people.
type report struct {
	document.Document
	Previous [16]byte
	Changes  []workspace.Change
}

// judged is an evaluation under its name.
type judged struct {
	Name string
	document.Evaluation
}

// Verdicts are all evaluations, those first that decide whether an agent can use the product.
func (r *report) Verdicts() []judged {
	return []judged{
		{"Readable website", r.Interfaces.Website},
		{"HTTP API", r.Interfaces.API},
		{"MCP server", r.Interfaces.MCP},
		{"Command line tool", r.Interfaces.CLI},
		{"Needs a credential", r.Auth.Requirement},
		{"An agent can read how to get one", r.Auth.Understandable},
		{"An agent can read the price", r.Pricing.Determinable},
		{"Agents may read it", r.MachineAccess.CrawlersAllowed},
		{"Has an index for agents", r.MachineAccess.Index},
	}
}

// quoted is a statement of the product, with its source.
type quoted struct {
	Name, Value string
	Evidence    []document.Evidence
}

// Said are the stated facts, with their quotes.
func (r *report) Said() (facts []quoted) {
	text := func(name string, f *document.Fact[string]) {
		if f != nil {
			facts = append(facts, quoted{name, f.Value, f.Evidence})
		}
	}
	text("Name", r.Product.Name)
	text("Description", r.Product.Description)
	text("Category", r.Product.Category)
	for i := range r.Capabilities {
		c := &r.Capabilities[i]
		facts = append(facts, quoted{"Capability", c.Name, c.Evidence})
	}
	for _, f := range r.Auth.Declared {
		method := f.Value.Name + " " + f.Value.Type
		facts = append(facts, quoted{"Declared authentication", method, f.Evidence})
	}
	for _, m := range r.Auth.Mentions {
		facts = append(facts, quoted{"Mentions", m.Term, m.Evidence})
	}
	for _, f := range r.Auth.Friction {
		facts = append(facts, quoted{"Stops an agent", f.Kind, f.Evidence})
	}
	text("Pricing model", r.Pricing.Model)
	for _, plan := range r.Pricing.Plans {
		facts = append(facts, quoted{"Plan", planWords(&plan.Value), plan.Evidence})
	}
	for _, price := range r.Pricing.ObservedPrices {
		text("Price in a text", price)
	}
	return facts
}

func planWords(p *document.Plan) string {
	var words []string
	for _, part := range []*string{p.Name, p.Price, p.Currency, p.Interval} {
		if part != nil {
			words = append(words, *part)
		}
	}
	return strings.Join(words, " ")
}

// caseWords describes the credential of a verification call.
func caseWords(name string) string {
	switch name {
	case "none":
		return "Without a key"
	case "wrong":
		return "With a wrong key"
	case "real":
		return "With the agent's key"
	case "plain":
		return "As anybody"
	}
	return name
}

// meaning describes the meaning of a call's answer.
func meaning(c workspace.Call) string {
	switch {
	case c.Refused && c.Case == "real":
		return "refused: the key does not work"
	case c.Refused && c.Case == "plain":
		return "refused"
	case c.Refused:
		return "refused, as it must be"
	case c.Matched && c.Case == "real":
		return "accepted: the key works"
	case c.Matched && c.Case == "plain":
		return "as the flow wants it"
	case c.Matched:
		return "accepted, so it proves nothing"
	}
	return "not as the flow wants it"
}

// noteWords describes other observations of a call.
func noteWords(note string) string {
	return map[string]string{
		"cached": "the answer came out of a cache", "redirect": "a redirect, which is not followed",
		"retried": "asked twice", "no_answer": "no whole answer in time",
		"not_fetched": "the address may not be reached",
	}[note]
}

// reasonWords describes why a purchase needs its owner.
func reasonWords(reason string) string {
	return map[string]string{
		"no_card":       "No card is saved yet.",
		"over_cap":      "The run would go over the monthly cap.",
		"paused":        "Purchases are paused.",
		"agent_session": "An agent asked, and an agent never charges a card.",
		"card_declined": "The saved card was declined.",
	}[reason]
}
