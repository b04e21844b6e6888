// Package extract reads facts out of what was collected. It is a pure function: the same collection
// gives the same facts, and each of them says where it is. What they mean is for package
// evaluate to say.
package extract

import (
	"context"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/openapi"
)

// Facts are what was read.
type Facts struct {
	Target                document.Target
	StartedAt, FinishedAt string
	Observations          []document.Observation
	AnswersEverything     bool
	Limits                []document.Limit

	Home    Page
	Product document.Product
	// APIs are the descriptions that were read; BrokenAPIs are answers that were read, look like
	// one and are none, with why.
	APIs       []API
	BrokenAPIs []Broken
	// Unread is what was to be read and was not.
	Unread []Unread
	// Spoken are the answers with text that was read, in order.
	Spoken []string
	// APITexts, MCPTexts and CLITexts are where texts speak of them; MCPCards and CLIInstalls are
	// what a caller can use at once.
	APITexts, MCPTexts, CLITexts, MCPCards, CLIInstalls []document.Evidence

	Capabilities []document.Capability
	Access
	Pricing

	Robots Robots
	LLMs   *document.Fact[document.IndexFile]
	Agent  *document.Fact[document.AgentFile]
	// Indexes are the answers that hold an index made for agents.
	Indexes []string
}

// Access is how a caller obtains a credential and signs in with it.
type Access struct {
	Methods  []*document.Fact[document.AuthMethod]
	Mentions []document.AuthMention
	// Setup are texts that say how a credential is obtained.
	Setup []document.Evidence
	// SelfService are texts that say that a request without a credential makes one.
	SelfService []document.Evidence
	// Elsewhere reports whether all of these go to another host than the one that was asked for.
	Elsewhere bool
	Friction  []document.Friction
}

// Pricing is what the product says of its prices.
type Pricing struct {
	Model    *document.Fact[string]
	Plans    []*document.Fact[document.Plan]
	Prices   []*document.Fact[string]
	OnDemand []document.Evidence
	// PricingPages are the pages about prices that were read.
	PricingPages []string
	// PricingRead reports whether all of them could be read: they have text without running
	// scripts, and it was searched to its end.
	PricingRead bool
}

// Page is the home page.
type Page struct {
	// Obs is its observation; empty where it was not asked for.
	Obs string
	// Read reports whether there is a text, Late that there was no time for it; Status is 0 where
	// no answer came.
	Read, Late      bool
	Status          int
	Failure         string
	Letters, Script int
}

// API is a description that was read.
type API struct {
	// Obs is its observation, and URL where that is from.
	Obs, URL string
	*openapi.Description
	observation *collect.Observation
}

// Broken is an answer that looks like a description and is none.
type Broken struct{ Obs, Why string }

// Gap is why something that was to be read was not.
type Gap uint8

// The gaps. Absent: a link names it, and it is not there. Elsewhere: it is on another domain. More:
// there are more of its kind than are read. Refused: the host does not show it to this reader.
// Failed: there is no answer that can be read. Left: it was not asked for.
const (
	GapAbsent Gap = iota
	GapElsewhere
	GapMore
	GapRefused
	GapFailed
	GapLeft
)

// Unread is something that was to be read and was not.
type Unread struct {
	Role string
	// Obs is its observation, or the one that names it; it may be empty.
	Obs string
	Gap Gap
	// Named reports whether something which was read names it, Present that the host answered 2xx.
	// Why is for people.
	Named, Present bool
	Why            string
}

// Robots is what robots.txt came to.
type Robots struct {
	Obs string
	// Known reports whether its rules are known: it was read, or there is none.
	Known   bool
	File    *document.Fact[document.RobotsFile]
	Blocked map[string]bool
}

// Bounds of what is listed.
const (
	maxEvidence     = 5
	maxCapabilities = 200
	maxPlans        = 50
	maxPrices       = 50
	maxMethods      = 200
	maxListed       = 50
	maxQuote        = 240
	maxValue        = 500
)

// Extract reads the facts of a collection, however long that takes.
func Extract(c *collect.Collection) *Facts { return Within(context.Background(), c) }

// Within is Extract as long as the context lasts. What it has no time for is not read, and Limits
// says so: that alone makes two runs over one collection differ.
func Within(ctx context.Context, c *collect.Collection) *Facts {
	f := &Facts{
		Target: c.Target, StartedAt: collect.Stamp(c.StartedAt), FinishedAt: collect.Stamp(c.FinishedAt),
		AnswersEverything: c.AnswersEverything, Limits: c.Limits,
	}
	for i := range c.Observations {
		f.Observations = append(f.Observations, c.Observations[i].Observation)
	}
	r := newReader(ctx, c, f)
	r.home()
	r.gaps()
	r.descriptions()
	r.machines()
	r.texts()
	r.obtain()
	r.product()
	r.prices()
	r.capabilities()
	r.limits()
	return f
}
