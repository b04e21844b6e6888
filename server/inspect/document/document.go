// Package document is the inspection document svc/interface@1: its types, its description, made
// from those types, and the check that a document cites only what was observed.
package document

// Version is the version identifier of the document.
const Version = "svc/interface@1"

// How a value came about.
const (
	MethodExtracted = "extracted"
	MethodRule      = "rule"
)

// Verdict is what a rule says.
type Verdict string

// The verdicts. Unknown means that not enough was observed.
const (
	Yes     Verdict = "yes"
	Partial Verdict = "partial"
	No      Verdict = "no"
	Unknown Verdict = "unknown"
)

// Requirement reports whether calls need a credential.
type Requirement string

// The requirements.
const (
	RequirementNone        Requirement = "none"
	RequirementRequired    Requirement = "required"
	RequirementMixed       Requirement = "mixed"
	RequirementNotDeclared Requirement = "not_declared"
	RequirementUnknown     Requirement = "unknown"
)

// Where the security of an operation is declared.
const (
	SourceOperation = "operation"
	SourceGlobal    = "global"
	SourceAbsent    = "absent"
)

// Document is an inspection.
type Document struct {
	Schema        string        `json:"schema" about:"version identifier of the document" enum:"svc/interface@1"`
	Generator     Generator     `json:"generator" about:"what made the document"`
	Target        Target        `json:"target" about:"what was inspected"`
	StartedAt     string        `json:"startedAt" about:"when the first fetch began" format:"date-time"`
	FinishedAt    string        `json:"finishedAt" about:"when the last fetch ended" format:"date-time"`
	Product       Product       `json:"product" about:"how the product describes itself"`
	Observations  []Observation `json:"observations" about:"every fetch, in order"`
	Interfaces    Interfaces    `json:"interfaces" about:"ways to use the product"`
	Capabilities  []Capability  `json:"capabilities" about:"from OpenAPI tags, else from operations without tags, else from llms.txt sections"`
	Auth          Auth          `json:"authentication" about:"how a caller proves who it is"`
	Required      AuthRequired  `json:"authentication_requirement" about:"whether operations need a credential, from OpenAPI alone"`
	Pricing       Pricing       `json:"pricing" about:"what it costs"`
	MachineAccess MachineAccess `json:"machineAccess" about:"what is published for machines"`
	AgentJourneys []string      `json:"agentJourneys" about:"empty in this version"`
	Unknowns      []Unresolved  `json:"unknowns" about:"every unknown verdict and every fact that was not found, with why"`
	Limits        []Limit       `json:"limits" about:"what this run could not do"`
}

// Generator is what made the document.
type Generator struct {
	Tool    string `json:"tool" about:"name of the tool"`
	Version string `json:"version" about:"version of its rules"`
	RunID   string `json:"runId" about:"the run that this is the result of"`
}

// Target is what was inspected.
type Target struct {
	URL  string `json:"url" about:"as it was asked for"`
	Host string `json:"host" about:"host, with the port where it is not the scheme's own"`
}

// Observation is one HTTP fetch.
type Observation struct {
	ID            string  `json:"id" about:"name of the observation within the document"`
	Role          string  `json:"role" about:"what was looked for"`
	URL           string  `json:"url" about:"what was asked"`
	Status        *int    `json:"status" about:"HTTP status; null where no answer came"`
	ContentType   *string `json:"contentType" about:"as the answer says; null where it says none"`
	Bytes         int     `json:"bytes" about:"length of the decoded body"`
	SHA256        *string `json:"sha256" about:"of the decoded body, in hex; null where none was read"`
	FetchedAt     string  `json:"fetchedAt" about:"when the answer was complete" format:"date-time"`
	DiscoveredVia string  `json:"discoveredVia" about:"root, well_known, sitemap, control, or link:<observation>"`
	Excerpt       string  `json:"excerpt" about:"beginning of the body, at most 240 bytes"`
	Failure       *string `json:"failure" about:"why there is no body to read; null where there is one"`
}

// Evidence is where a fact is.
type Evidence struct {
	Obs   string `json:"obs" rule:"min=1" about:"id of the observation"`
	Quote string `json:"quote" rule:"min=1" about:"bytes of its body, or one of its header lines, as they are"`
}

// Fact is a value that was read, with where it is.
type Fact[T any] struct {
	Value    T          `json:"value" about:"what was read"`
	Method   string     `json:"method" about:"how the value came about" enum:"extracted"`
	Evidence []Evidence `json:"evidence" about:"where it stands"`
}

// Extracted makes a fact.
func Extracted[T any](value T, evidence ...Evidence) *Fact[T] {
	return &Fact[T]{Value: value, Method: MethodExtracted, Evidence: evidence}
}

// Evaluation is what a rule says.
type Evaluation struct {
	Verdict Verdict  `json:"verdict" about:"unknown: not enough was observed" enum:"yes,partial,no,unknown"`
	Reason  string   `json:"reason" about:"why, from the rule's template"`
	Rule    string   `json:"rule" about:"name of the rule"`
	BasedOn []string `json:"basedOn" about:"ids of the observations that it rests on"`
	Method  string   `json:"method" about:"how the verdict came about" enum:"rule"`
	// Evidence may be empty: a rule may rest on what is not there.
	Evidence []Evidence `json:"evidence" about:"where what it rests on stands, some of it; empty where the rule rests on what is not there"`
}

// Product is how the product describes itself.
type Product struct {
	Name        *Fact[string] `json:"name" about:"null when not found"`
	Description *Fact[string] `json:"description" about:"null when not found"`
	Category    *Fact[string] `json:"category" about:"null when not found"`
}

// Interfaces are ways to use the product.
type Interfaces struct {
	Website Evaluation `json:"website" about:"a page that can be read without running scripts"`
	API     Evaluation `json:"api" about:"an HTTP API"`
	MCP     Evaluation `json:"mcp" about:"a Model Context Protocol server"`
	CLI     Evaluation `json:"cli" about:"a command-line tool"`
}

// Capability is one thing that the product can do.
type Capability struct {
	Name     string     `json:"name" about:"as it is published"`
	Source   string     `json:"source" about:"where it is published" enum:"openapi_tag,openapi_operation,llms_section"`
	Evidence []Evidence `json:"evidence" about:"where it stands"`
}

// AuthMethod is a declared way to authenticate.
type AuthMethod struct {
	Name   string  `json:"name" about:"name of the scheme, or the document that declares it"`
	Type   string  `json:"type" about:"apiKey, http, oauth2, openIdConnect, mutualTLS, basic, or as declared"`
	Scheme *string `json:"scheme" about:"for http: bearer, basic, …; null elsewhere"`
	In     *string `json:"in" about:"for apiKey: header, query or cookie; null elsewhere"`
	Field  *string `json:"field" about:"for apiKey: name of the header, parameter or cookie; null elsewhere"`
}

// AuthMention is a way to authenticate that a text mentions.
type AuthMention struct {
	Term     string     `json:"term" about:"api_key, bearer, oauth, access_token or basic"`
	Evidence []Evidence `json:"evidence" about:"where it stands"`
}

// Friction is something that stops an agent on the way to a credential.
type Friction struct {
	Kind     string     `json:"kind" about:"what stops an agent: captcha, browser_sign_in, contact_sales, …"`
	Evidence []Evidence `json:"evidence" about:"where it stands"`
}

// Auth is how a caller proves who it is.
type Auth struct {
	Declared       []*Fact[AuthMethod] `json:"declared" about:"methods that a machine-readable document declares"`
	Mentions       []AuthMention       `json:"mentions" about:"methods that a text mentions"`
	Requirement    Evaluation          `json:"requirement" about:"yes: every operation needs a credential; partial: some do; no: none does"`
	Understandable Evaluation          `json:"agentCanUnderstandSetup" about:"whether the way to a credential can be read"`
	Friction       []Friction          `json:"friction" about:"what stops an agent on that way"`
}

// AuthRequired reports whether operations need a credential.
type AuthRequired struct {
	Value      Requirement  `json:"value" about:"mixed: operations differ" enum:"none,required,mixed,not_declared,unknown"`
	Reason     string       `json:"reason" about:"why, from the rule's template"`
	BasedOn    []string     `json:"basedOn" about:"ids of the observations that it rests on"`
	Rule       string       `json:"rule" about:"name of the rule"`
	Operations []OpRequired `json:"operations" about:"each operation that was read"`
}

// OpRequired reports whether one operation needs a credential.
type OpRequired struct {
	Operation   string      `json:"operation" about:"method and path"`
	Value       Requirement `json:"value" about:"none needs an explicit empty list or an anonymous alternative" enum:"none,required,not_declared,unknown"`
	Reason      string      `json:"reason" about:"why, from the rule's template"`
	BasedOn     []string    `json:"basedOn" about:"ids of the observations that it rests on"`
	Rule        string      `json:"rule" about:"name of the rule"`
	Source      string      `json:"source" about:"where it is declared" enum:"operation,global,absent"`
	SchemeNames []string    `json:"schemeNames" about:"security schemes that are named"`
}

// Plan is a published offer.
type Plan struct {
	Name     *string `json:"name" about:"null when not said"`
	Price    *string `json:"price" about:"a number as it is written; null when not said"`
	Currency *string `json:"currency" about:"null when not said"`
	Interval *string `json:"interval" about:"null when not said"`
}

// Ambiguity is something about the price that cannot be told.
type Ambiguity struct {
	Reason  string   `json:"reason" about:"what cannot be told"`
	Rule    string   `json:"rule" about:"name of the rule"`
	BasedOn []string `json:"basedOn" about:"ids of the observations that it rests on"`
}

// Pricing is what it costs.
type Pricing struct {
	Model          *Fact[string]   `json:"model" about:"free, subscription, usage or on_request; null when not found"`
	Plans          []*Fact[Plan]   `json:"plans" about:"offers that a machine-readable document states"`
	ObservedPrices []*Fact[string] `json:"observedPrices" about:"prices that stand in a text"`
	Determinable   Evaluation      `json:"agentCanDetermineCost" about:"whether a price can be read before buying"`
	Ambiguities    []Ambiguity     `json:"ambiguities" about:"what cannot be told about the price"`
}

// MachineAccess is what is published for machines.
type MachineAccess struct {
	Robots          *Fact[RobotsFile] `json:"robots" about:"null when not found"`
	LLMs            *Fact[IndexFile]  `json:"llmsTxt" about:"null when not found"`
	Agent           *Fact[AgentFile]  `json:"agentJson" about:"A2A agent card; null when not found"`
	CrawlersAllowed Evaluation        `json:"aiCrawlersAllowed" about:"agents that act for a user and that search; training alone does not count"`
	Index           Evaluation        `json:"hasAgentReadableIndex" about:"an index made for agents"`
}

// RobotsFile is what robots.txt says to AI agents about the home page.
type RobotsFile struct {
	Allowed  []string `json:"allowed" about:"known AI agents that may read the home page"`
	Blocked  []string `json:"blocked" about:"known AI agents that may not"`
	Sitemaps []string `json:"sitemaps" about:"sitemaps that it names"`
	Signals  []string `json:"signals" about:"Content-Signal lines"`
}

// IndexFile is what llms.txt holds.
type IndexFile struct {
	Title    string   `json:"title" about:"its first heading"`
	Sections []string `json:"sections" about:"its second-level headings"`
	Links    int      `json:"links" about:"how many links it has"`
}

// AgentFile is what an agent card holds.
type AgentFile struct {
	Name   string   `json:"name" about:"name of the agent"`
	Skills []string `json:"skills" about:"names of its skills"`
}

// Unresolved is an unknown verdict, or a fact that was not found.
type Unresolved struct {
	Field  string `json:"field" about:"path within the document"`
	Reason string `json:"reason" about:"why it is not known"`
}

// Limit is something that this run could not do.
type Limit struct {
	Code   string `json:"code" about:"name of the limit"`
	Reason string `json:"reason" about:"what was not done"`
}
