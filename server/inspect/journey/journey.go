// Package journey says how far an agent would come with a task, from what a product publishes
// alone: the document svc/journey@1. It is a pure function of an inspection and the task; no agent
// runs, and no model reads the task.
package journey

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"

	"tollgate/server/inspect/document"
)

// Version is the version identifier of the document.
const Version = "svc/journey@1"

// Status is what a stage comes to.
type Status string

// The statuses. Unknown means that not enough was observed, NeedsInput that a person has to do
// something, NotRun that nothing was tried.
const (
	Success    Status = "success"
	Failed     Status = "failed"
	Unknown    Status = "unknown"
	NeedsInput Status = "needs_input"
	NotRun     Status = "not_run"
)

// Stage is one stage of the way.
type Stage struct {
	Stage   string   `json:"stage" rule:"oneof=discover|understand|choose_interface|acquire_credential|authenticate|execute|recover"`
	Status  Status   `json:"status" rule:"oneof=success|failed|unknown|needs_input|not_run"`
	Reason  string   `json:"reason" rule:"min=1"`
	Rule    string   `json:"rule" rule:"min=1"`
	BasedOn []string `json:"basedOn" rule:"min=1"`
}

// Journey is what an evaluation comes to.
type Journey struct {
	Schema     string             `json:"schema" rule:"oneof=svc/journey@1"`
	Generator  document.Generator `json:"generator"`
	Target     document.Target    `json:"target"`
	Task       string             `json:"task" rule:"min=1"`
	StartedAt  string             `json:"startedAt"`
	FinishedAt string             `json:"finishedAt"`
	// Interface is what an agent would use: api, mcp or cli; null where none can be told.
	Interface    *string                `json:"interface" rule:"null,min=1"`
	Stages       []Stage                `json:"stages"`
	Observations []document.Observation `json:"observations"`
	Limits       []document.Limit       `json:"limits"`
}

// Bytes is the journey as JSON; the same bytes each time.
func (j *Journey) Bytes() ([]byte, error) { return json.Marshal(j, json.Deterministic(true)) }

// Evaluate says how far a task comes at what was inspected. What follows a stage that failed is not
// run. Elsewhere means that the requests which make a credential all go to another host: the
// built-in agent sends nothing there but where a flow's verification is at that host.
func Evaluate(d *document.Document, task string, elsewhere bool) *Journey {
	j := &Journey{
		Schema: Version, Generator: d.Generator, Target: d.Target, Task: task, StartedAt: d.StartedAt,
		FinishedAt: d.FinishedAt, Observations: d.Observations,
		Limits: append(slices.Clone(d.Limits), document.Limit{
			Code: "no_agent", Reason: "No agent ran; the task was compared with what is published.",
		}),
	}
	stopped := ""
	for _, stage := range []struct {
		name string
		rule func(*Journey, *document.Document) Stage
	}{
		{"discover", (*Journey).discover},
		{"understand", (*Journey).understand},
		{"choose_interface", (*Journey).choose},
		{"acquire_credential", acquire(elsewhere)},
		{"authenticate", (*Journey).authenticate},
		{"execute", notRun},
		{"recover", notRun},
	} {
		s := Stage{Status: NotRun, Rule: "stopped_before", Reason: "The way ends at " + stopped + "."}
		if stopped == "" {
			s = stage.rule(j, d)
		}
		if s.Stage = stage.name; s.Status == Failed {
			stopped = stage.name
		}
		if s.BasedOn == nil {
			s.BasedOn = []string{}
		}
		j.Stages = append(j.Stages, s)
	}
	return j
}

func say(status Status, rule, reason string, basedOn ...string) Stage {
	return Stage{Status: status, Rule: rule, Reason: reason, BasedOn: basedOn}
}

// as takes an evaluation over: its reason and what it rests on.
func as(status Status, rule string, e *document.Evaluation) Stage {
	return say(status, rule, e.Reason, e.BasedOn...)
}

func notRun(*Journey, *document.Document) Stage {
	return say(NotRun, "no_agent", "No agent ran: an evaluation reads what is published.")
}

func (j *Journey) discover(d *document.Document) Stage {
	site, api := &d.Interfaces.Website, &d.Interfaces.API
	switch {
	case site.Verdict == document.Yes || site.Verdict == document.Partial:
		return as(Success, "discover_website", site)
	case api.Verdict == document.Yes:
		return as(Success, "discover_description", api)
	case site.Verdict == document.No:
		return as(Failed, "discover_absent", site)
	}
	return as(Unknown, "discover_unread", site)
}

func (j *Journey) choose(d *document.Document) Stage {
	i := &d.Interfaces
	for _, known := range []struct {
		name string
		e    *document.Evaluation
	}{{"api", &i.API}, {"mcp", &i.MCP}, {"cli", &i.CLI}} {
		if known.e.Verdict == document.Yes {
			j.Interface = &known.name
			return as(Success, "interface_"+known.name, known.e)
		}
	}
	switch {
	case i.API.Verdict == document.Partial:
		return as(Unknown, "interface_undescribed", &i.API)
	case i.Website.Verdict == document.Yes || i.Website.Verdict == document.Partial:
		return say(Unknown, "interface_pages",
			"Nothing but pages was found; whether an agent can use them was not tried.",
			i.Website.BasedOn...)
	case i.API.Verdict == document.No && i.MCP.Verdict == document.No && i.CLI.Verdict == document.No:
		return as(Failed, "interface_absent", &i.API)
	}
	return as(Unknown, "interface_unread", &i.API)
}

func acquire(elsewhere bool) func(*Journey, *document.Document) Stage {
	return func(_ *Journey, d *document.Document) Stage { return acquired(d, elsewhere) }
}

func acquired(d *document.Document, elsewhere bool) Stage {
	setup := &d.Auth.Understandable
	if d.Required.Value == document.RequirementNone {
		return say(Success, "credential_not_needed", d.Required.Reason, d.Required.BasedOn...)
	}
	var kinds, obs []string
	for i := range d.Auth.Friction {
		if f := &d.Auth.Friction[i]; stops(f, setup) {
			kinds, obs = append(kinds, f.Kind), append(obs, document.Cited(f)...)
		}
	}
	if len(kinds) > 0 {
		return say(NeedsInput, "credential_needs_person",
			"What is published says what only a person does: "+strings.Join(kinds, ", ")+".", document.Distinct(obs)...)
	}
	switch {
	case selfService(setup) && elsewhere:
		return say(Unknown, "credential_elsewhere",
			"A published request makes a credential, at a host that an agent goes to only where the "+
				"flow's verification is there.", setup.BasedOn...)
	case selfService(setup):
		return as(Success, "credential_self_service", setup)
	case setup.Verdict == document.Yes:
		// A person can read how; the agent reads no prose, and may find no request that it can send.
		return say(Unknown, "credential_setup_told", "How a credential is obtained is documented, and "+
			"no published request is known that an agent can make one by.", setup.BasedOn...)
	case setup.Verdict == document.No:
		// Nothing speaks of one: neither that it is needed, nor that it is not.
		return as(Unknown, "credential_not_spoken_of", setup)
	}
	return as(Unknown, "credential_setup_unclear", setup)
}

// selfService reports whether a published request makes a credential without one.
func selfService(setup *document.Evaluation) bool {
	return strings.HasPrefix(setup.Rule, "setup_self_service")
}

// stops reports whether friction is on the way to a credential. Where no way is told, all of it may
// be. Where one is, what stands on other pages is about something else; and products that are
// sold to companies name sales, whichever way they have for all others.
func stops(f *document.Friction, setup *document.Evaluation) bool {
	if setup.Verdict != document.Yes && !selfService(setup) {
		return true
	}
	told := func(e document.Evidence) bool { return slices.Contains(setup.BasedOn, e.Obs) }
	return f.Kind != "contact_sales" && slices.ContainsFunc(f.Evidence, told)
}

func (j *Journey) authenticate(d *document.Document) Stage {
	required := &d.Required
	switch {
	case required.Value == document.RequirementNone:
		return say(Success, "authentication_not_needed", required.Reason, required.BasedOn...)
	case len(d.Auth.Declared) > 0:
		return say(Success, "authentication_declared",
			fmt.Sprintf("%d ways to authenticate are declared.", len(d.Auth.Declared)),
			document.Cited(d.Auth.Declared)...)
	}
	return say(Unknown, "authentication_undeclared",
		"No document declares how a credential is sent.", required.BasedOn...)
}
