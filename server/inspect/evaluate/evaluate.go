// Package evaluate says what the facts of an inspection mean, by named rules: each verdict has a
// name, a reason from a template and the observations that it rests on. It is a pure function of
// the facts. Unknown means that not enough was observed, never that something is missing.
package evaluate

import (
	"fmt"
	"slices"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/openapi"
)

// Version is the version of the rules: a document says by which it was made.
const Version = "4"

// words are how much visible text a page must have to be read without scripts, in bytes.
const words = 200

// Evaluate makes the document of a run.
func Evaluate(f *extract.Facts, runID string) *document.Document {
	e := &evaluator{f: f}
	required := e.required()
	d := &document.Document{
		Schema:       document.Version,
		Generator:    document.Generator{Tool: "tollgate", Version: Version, RunID: runID},
		Target:       f.Target,
		StartedAt:    f.StartedAt,
		FinishedAt:   f.FinishedAt,
		Product:      f.Product,
		Observations: f.Observations,
		Interfaces: document.Interfaces{
			Website: e.website(), API: e.api(), MCP: e.mcp(), CLI: e.cli(),
		},
		Capabilities: f.Capabilities,
		Auth: document.Auth{
			Declared: f.Methods, Mentions: f.Mentions, Requirement: e.requirement(&required),
			Understandable: e.understandable(&required), Friction: f.Friction,
		},
		Required: required,
		Pricing: document.Pricing{
			Model: f.Model, Plans: f.Plans, ObservedPrices: f.Prices, Determinable: e.cost(),
			Ambiguities: e.ambiguities(),
		},
		MachineAccess: document.MachineAccess{
			Robots: f.Robots.File, LLMs: f.LLMs, Agent: f.Agent, CrawlersAllowed: e.crawlers(),
			Index: e.index(),
		},
		Limits: append([]document.Limit{
			{Code: "no_script_rendering", Reason: "Pages were read as they are sent; no script ran."},
			{Code: "no_login", Reason: "Nothing behind a sign-in was read."},
			{Code: "no_model_interpretation", Reason: "No language model read or wrote anything."},
		}, f.Limits...),
	}
	d.Unknowns = unknowns(d)
	return d
}

type evaluator struct{ f *extract.Facts }

func say(verdict document.Verdict, rule, reason string, basedOn ...string) document.Evaluation {
	return document.Evaluation{
		Verdict: verdict, Rule: rule, Reason: reason, BasedOn: document.Distinct(basedOn),
		Method: document.MethodRule,
	}
}

// maxQuotes is how many pieces of evidence a verdict shows.
const maxQuotes = 3

// shows makes an evaluation that shows where what it rests on stands.
func shows(verdict document.Verdict, rule, reason string, evidence ...document.Evidence,
) document.Evaluation {
	e := say(verdict, rule, reason, document.Cited(evidence)...)
	for _, piece := range evidence {
		if !slices.Contains(e.Evidence, piece) && len(e.Evidence) < maxQuotes {
			e.Evidence = append(e.Evidence, piece)
		}
	}
	return e
}

func (e *evaluator) website() document.Evaluation {
	h := &e.f.Home
	switch {
	case h.Late:
		return say(document.Unknown, "website_unread", "There was no time to read the home page.", h.Obs)
	case h.Read && h.Letters >= words:
		return say(document.Yes, "website_readable",
			"The home page has text that is readable without scripts.", h.Obs)
	case h.Read && h.Script > 0:
		return say(document.Partial, "website_needs_scripts",
			"The home page answers, but shows little without running its scripts.", h.Obs)
	case h.Read:
		return say(document.Yes, "website_short", "The home page answers, with little text.", h.Obs)
	case h.Status == 404 || h.Status == 410:
		return say(document.No, "website_absent",
			fmt.Sprintf("The address answers %d.", h.Status), h.Obs)
	case h.Status != 0 && h.Failure == "":
		return say(document.Unknown, "website_refused",
			fmt.Sprintf("The home page answers %d to this reader.", h.Status), h.Obs)
	default:
		return say(document.Unknown, "website_unread",
			"The home page could not be read: "+h.Failure+".", h.Obs)
	}
}

// harmless are limits that by themselves leave nothing out in which something else could stand:
// descriptions are not searched for words, and what else was not read is judged by its gap.
var harmless = []string{
	"description_lists", "description_part", "description_unread",
	collect.MissedOther, collect.MissedMore,
}

// limited reports whether the run met a limit.
func (e *evaluator) limited(code string) bool {
	return slices.ContainsFunc(e.f.Limits, func(l document.Limit) bool { return l.Code == code })
}

// told are roles of answers in which anything may be told.
var told = []string{collect.RoleDocs, collect.RoleAuthDocs}

// looked reports whether enough was read to say that something is not there: a home page that has
// text without scripts, and all else that was to be read. What a link names and is not there, or
// is on another domain, matters where it has one of the roles in which the thing would stand; that
// there are more pages of documentation than are read does not matter.
func (e *evaluator) looked(roles ...string) bool {
	for _, limit := range e.f.Limits {
		if !slices.Contains(harmless, limit.Code) {
			return false
		}
	}
	for _, u := range e.f.Unread {
		switch matters := slices.Contains(roles, u.Role); u.Gap {
		case extract.GapAbsent:
			if matters && u.Named && !slices.Contains(told, u.Role) {
				return false
			}
		case extract.GapElsewhere:
			if matters {
				return false
			}
		case extract.GapMore:
			if matters && !slices.Contains(told, u.Role) {
				return false
			}
		default:
			return false
		}
	}
	return e.f.Home.Read && e.f.Home.Letters >= words
}

// absent is the verdict on what nothing speaks of; roles are where it would be.
func (e *evaluator) absent(name, what string, roles ...string) document.Evaluation {
	if e.looked(roles...) {
		return say(document.No, name+"_absent",
			"No document and no text that was read speaks of "+what+".", e.f.Spoken...)
	}
	return say(document.Unknown, name+"_not_observed",
		"Too little was read to say whether there is "+what+".", e.f.Home.Obs)
}

// unread are the observations of what was not read of a role, or of what names it, as far as it is
// of a kind; empty where nothing names what was not asked for. A nil kind is any.
func (e *evaluator) unread(role string, is func(*extract.Unread) bool) (ids []string) {
	for i := range e.f.Unread {
		if u := &e.f.Unread[i]; u.Role == role && (is == nil || is(u)) {
			ids = append(ids, u.Obs)
		}
	}
	return ids
}

func named(u *extract.Unread) bool   { return u.Named }
func present(u *extract.Unread) bool { return u.Present }

func (e *evaluator) api() document.Evaluation {
	operations, formats := 0, []document.Evidence{}
	for _, api := range e.f.APIs {
		operations += len(api.Operations)
		formats = append(formats, document.Evidence{Obs: api.Obs, Quote: api.Format.Quote})
	}
	if operations > 0 {
		return shows(document.Yes, "api_described",
			fmt.Sprintf("An API description with %d operations is published.", operations), formats...)
	}
	if ids := e.unread(collect.RoleOpenAPI, present); len(ids) > 0 {
		return say(document.Unknown, "api_description_unread",
			"The host answers where an API description would be, and the answer was not read.", ids...)
	}
	switch {
	case len(e.f.APIs) > 0:
		return shows(document.Partial, "api_description_empty",
			"An API description is published that has no operation.", formats...)
	case len(e.f.BrokenAPIs) > 0:
		return say(document.Partial, "api_description_broken",
			"An API description is published, but "+e.f.BrokenAPIs[0].Why+".", e.f.BrokenAPIs[0].Obs)
	case len(e.f.APITexts) > 0:
		return shows(document.Partial, "api_mentioned",
			"Texts speak of an API, but no description of it was found.", e.f.APITexts...)
	}
	if ids := e.unread(collect.RoleOpenAPI, named); len(ids) > 0 {
		return say(document.Unknown, "api_description_not_read",
			"A link names an API description that was not read.", ids...)
	}
	return e.absent("api", "an API", append(told, collect.RoleOpenAPI, collect.RoleAPICatalog)...)
}

func (e *evaluator) mcp() document.Evaluation {
	switch {
	case len(e.f.MCPCards) > 0:
		return shows(document.Yes, "mcp_published", "A card of an MCP server is published.",
			e.f.MCPCards...)
	case len(e.f.MCPTexts) > 0:
		return shows(document.Partial, "mcp_mentioned",
			"Texts speak of an MCP server, but no card of it was found.", e.f.MCPTexts...)
	}
	return e.absent("mcp", "an MCP server", append(told, collect.RoleMCP, collect.RoleAICatalog)...)
}

func (e *evaluator) cli() document.Evaluation {
	switch {
	case len(e.f.CLIInstalls) > 0:
		return shows(document.Yes, "cli_installable", "A command that installs a tool is published.",
			e.f.CLIInstalls...)
	case len(e.f.CLITexts) > 0:
		return shows(document.Partial, "cli_mentioned",
			"Texts speak of a command-line tool, but no command that installs it was found.",
			e.f.CLITexts...)
	}
	return e.absent("cli", "a command-line tool", told...)
}

// required is authentication_requirement: the operations of all descriptions together.
func (e *evaluator) required() document.AuthRequired {
	var r document.AuthRequired
	var values []document.Requirement
	unread := e.unread(collect.RoleOpenAPI, nil)
	complete, listed := len(e.f.BrokenAPIs)+len(unread) == 0, 0
	for _, api := range e.f.APIs {
		r.BasedOn = append(r.BasedOn, api.Obs)
		complete = complete && len(api.Incomplete) == 0
		for i := range api.Operations {
			o := &api.Operations[i]
			if listed += sizeOf(o); listed > maxListed {
				complete = false
				break
			}
			values = append(values, o.Security.Value)
			r.Operations = append(r.Operations, document.OpRequired{
				Operation: o.Name(), Value: o.Security.Value, Reason: o.Security.Reason,
				BasedOn: []string{api.Obs}, Rule: o.Security.Rule, Source: o.Security.Source,
				SchemeNames: o.Security.Names,
			})
		}
	}
	for _, broken := range e.f.BrokenAPIs {
		r.BasedOn = append(r.BasedOn, broken.Obs)
	}
	r.BasedOn = document.Distinct(append(r.BasedOn, unread...))
	r.Value, r.Rule, r.Reason = openapi.Combine(values, complete)
	return r
}

// maxListed is how long the names of all operations, and of the schemes of each, may be together
// with operationSize for each, in bytes: a host could name two hundred schemes for thousands.
const (
	maxListed     = 1 << 20
	operationSize = 100
)

func sizeOf(o *openapi.Operation) int {
	size := operationSize + len(o.Method) + len(o.Path) + len(o.Security.Reason)
	for _, name := range o.Security.Names {
		size += len(name)
	}
	return size
}

func (e *evaluator) requirement(r *document.AuthRequired) document.Evaluation {
	verdicts := map[document.Requirement]document.Verdict{
		document.RequirementRequired: document.Yes, document.RequirementMixed: document.Partial,
		document.RequirementNone: document.No,
	}
	if verdict := verdicts[r.Value]; verdict != "" {
		return say(verdict, "requirement_"+string(r.Value), r.Reason, r.BasedOn...)
	}
	if len(e.f.Methods) > 0 {
		return say(document.Partial, "requirement_method_declared",
			"Ways to authenticate are declared, but not which operations need them.",
			document.Cited(e.f.Methods)...)
	}
	return say(document.Unknown, "requirement_"+string(r.Value), r.Reason, r.BasedOn...)
}

// understandable reports whether an agent can read how it gets a credential and how it sends it.
func (e *evaluator) understandable(r *document.AuthRequired) document.Evaluation {
	declared, obtained := len(e.f.Methods) > 0, len(e.f.Setup) > 0
	switch {
	case r.Value == document.RequirementNone:
		return say(document.Yes, "setup_not_needed", "No operation needs a credential.", r.BasedOn...)
	case len(e.f.SelfService) > 0 && declared:
		return e.declared(shows(document.Yes, "setup_self_service",
			"A published request makes a credential without one, and how it is sent is declared.",
			e.f.SelfService...))
	case len(e.f.SelfService) > 0:
		return shows(document.Partial, "setup_self_service_undeclared",
			"A published request makes a credential without one, but not how it is sent is declared.",
			e.f.SelfService...)
	case declared && obtained:
		return e.declared(shows(document.Yes, "setup_declared_and_told",
			"How a credential is sent is declared, and how one is obtained is documented.", e.f.Setup...))
	case obtained:
		return shows(document.Partial, "setup_told",
			"How a credential is obtained is documented, but no document declares how it is sent.",
			e.f.Setup...)
	case declared:
		return say(document.Partial, "setup_declared",
			"How a credential is sent is declared, but not how one is obtained.",
			document.Cited(e.f.Methods)...)
	case len(e.f.Mentions) > 0:
		return say(document.Partial, "setup_mentioned",
			"Texts mention credentials, but not how one is obtained.",
			document.Cited(e.f.Mentions)...)
	}
	return e.absent("setup", "a way to a credential", append(told, collect.RoleOpenAPI)...)
}

// declared adds to what a verdict rests on where ways to authenticate are declared.
func (e *evaluator) declared(v document.Evaluation) document.Evaluation {
	v.BasedOn = document.Distinct(append(document.Cited(e.f.Methods), v.BasedOn...))
	return v
}

// pricing are the roles of answers that have prices.
var pricing = []string{collect.RolePricing, collect.RolePricingJSON}

func (e *evaluator) cost() document.Evaluation {
	plans, prices := document.Cited(e.f.Plans), document.Cited(e.f.Prices)
	switch {
	case len(plans) > 0:
		return say(document.Yes, "cost_in_data", "Offers with prices are published as data.", plans...)
	case len(prices) > 0 && len(e.f.PricingPages) > 0:
		return say(document.Yes, "cost_in_text", "A page about prices states them.",
			append(prices, e.f.PricingPages...)...)
	case len(prices) > 0:
		return say(document.Partial, "cost_in_passing",
			"Prices stand in texts, but no page about prices was read.", prices...)
	case e.f.Model != nil && e.f.Model.Value != "on_request":
		return say(document.Partial, "cost_model_only",
			"How prices are calculated is documented, but no price is.", document.Cited(e.f.Model)...)
	case len(e.f.OnDemand) > 0 && e.looked(pricing...):
		return shows(document.No, "cost_on_request", "Prices are given on request only.",
			e.f.OnDemand...)
	case len(e.f.PricingPages) > 0 && !e.f.PricingRead:
		return say(document.Unknown, "cost_page_unread",
			"A page about prices is longer than is read, or shows little without running its scripts.",
			e.f.PricingPages...)
	case len(e.f.PricingPages) > 0 && e.looked(pricing...):
		return say(document.No, "cost_not_stated",
			"A page about prices was read that states none.", e.f.PricingPages...)
	}
	return e.absent("cost", "a price", pricing...)
}

func (e *evaluator) ambiguities() []document.Ambiguity {
	var all []document.Ambiguity
	for _, p := range e.f.Plans {
		if p.Value.Currency == nil {
			all = append(all, document.Ambiguity{
				Reason: "An offer states a price without a currency.", Rule: "price_without_currency",
				BasedOn: document.Cited(p),
			})
			break
		}
	}
	if len(e.f.OnDemand) > 0 && len(e.f.Prices)+len(e.f.Plans) > 0 {
		all = append(all, document.Ambiguity{
			Reason: "Some prices are stated, and some are given on request only.",
			Rule:   "price_partly_on_request", BasedOn: document.Cited(e.f.OnDemand),
		})
	}
	return all
}
