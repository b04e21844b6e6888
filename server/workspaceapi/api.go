// Package workspaceapi is the Agent-Task Workspace API, /v1: signup, keys, flows, quotes, runs,
// purchases, issues and notifications over one workspace state machine. Handlers are thin: they
// read a request, ask the machine or propose a command, and write the answer. See DESIGN.md.
package workspaceapi

import (
	"cmp"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/identity"
	"tollgate/server/inspect"
	inspection "tollgate/server/inspect/document"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/payment"
	"tollgate/server/provider/verify"
	"tollgate/server/provider/webhook"
	"tollgate/server/vault"
)

// Agent is an agent that the runner can start.
type Agent = workspace.Agent

// Config is what the API needs from the node that runs it.
type Config struct {
	Machine  *workspace.Machine
	Proposer server.Proposer
	Reader   server.Reader
	// PublicURL is where the API is reached from outside, http(s)://host without a path.
	PublicURL string
	// QuoteKey signs quotes; the same on every node.
	QuoteKey [32]byte
	// Inspector makes inspections and evaluations.
	Inspector *inspect.Inspector
	// Verifier makes verification calls; nil leaves quotes without a preflight.
	Verifier *verify.Verifier
	// Check reports whether a URL may be fetched at all, where this port may be too, without
	// touching the network; nil takes all that are well-formed.
	Check func(url string, port uint16) error
	// Agents are what can run flows, the default one first; none answers execution_unavailable.
	Agents []Agent
	// Payments reports whether purchases can be paid; else they answer hosting_not_configured.
	// Cards is the provider, the built-in sandbox when nil.
	Payments bool
	Cards    payment.CardProvider
	// Mail and Hooks send alerts; without one its channel cannot be set.
	Mail  mail.Sender
	Hooks *webhook.Sender
	// Proxies are the networks of proxies in front, whose word about a caller's address counts.
	Proxies []netip.Prefix
	// SignIn lets people and agents sign in; nil answers authentication_not_configured.
	SignIn *identity.Service
	// Console is where the owner's pages are, such as https://tollgate.example/console; empty where
	// no one can sign in, so that there are none.
	Console string
	// Contact is where more runs can be asked for.
	Contact string
	// Gate bounds what requests hold together; nil means no bound.
	Gate *server.Gate
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	// WriteTimeout is how long a command may take before its fate is called unknown (5 s when 0),
	// ReadTimeout how long a read may wait for a leader (2 s when 0).
	WriteTimeout, ReadTimeout time.Duration
	// Observe is told of every answer, for metrics; may be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	// Tracer traces requests; may be nil.
	Tracer server.Tracer
	Log    *slog.Logger
}

// API answers requests. Safe for concurrent use.
type API struct {
	*base
	table    *server.Table
	document server.Document
	listing  []byte
	// inspection describes the inspection document.
	inspection []byte

	Flows     *Flows
	Runs      *Runs
	Purchases *Purchases
	Payments  *Payments
	Alerts    *Alerts
	Members   *Members
	Operator  *Operator
}

// New makes the API.
func New(c Config) (*API, error) {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.Inspector == nil ||
		c.PublicURL == "" {
		return nil, errors.New(
			"workspace: Machine, Proposer, Reader, Inspector and PublicURL must be set")
	}
	c = c.withDefaults()
	a := &API{base: newBase(&c)}
	err := a.makeSubjects(&c)
	if err != nil {
		return nil, err
	}
	routes := a.routes()
	own := slices.Clone(routes)
	a.document = server.Later(func() (text []byte, err error) {
		about := description()
		if about.Tags, err = server.Illustrate(own, guideText, examples, peopleExamples,
			refusalExamples); err != nil {
			return nil, err
		}
		return server.OpenAPI(own, about)
	})
	a.listing = a.listRoutes(routes)
	if a.inspection, err = inspection.Describe().Bytes(); err != nil {
		return nil, err
	}
	if a.Payments.open() {
		routes = append(routes, a.Payments.paymentRoutes()...)
	}
	a.table, err = server.NewTable(routes, server.TableConfig{
		Authenticate: a.authenticate, NewCaller: func() server.Caller { return new(Caller) },
		Observe: c.Observe, Tracer: c.Tracer, Log: c.Log, AnyMedia: true, Gate: c.Gate, Codes: tableCodes,
		Internal: a.pageRoutes(),
		// The document knows one pair for a body that did not arrive, whether slowly or never.
		Statuses: map[string]int{"request_aborted": errorTable["request_aborted"].Status},
		Challenge: `Bearer resource_metadata="` + c.PublicURL +
			`/.well-known/oauth-protected-resource"`,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
}

// makeSubjects makes what the rows of the route table are handled by.
func (a *API) makeSubjects(c *Config) (err error) {
	if a.Payments, err = newPayments(a.base, c); err != nil {
		return err
	}
	a.Purchases = &Purchases{a.base, a.Payments}
	a.Flows = &Flows{
		base: a.base, verifier: c.Verifier, quoteKey: c.QuoteKey,
		access: vault.New(c.QuoteKey, accessPurpose),
	}
	a.Runs = &Runs{
		base: a.base, flows: a.Flows, purchases: a.Purchases, inspector: c.Inspector,
		answers: vault.New(c.QuoteKey, answersPurpose),
	}
	a.Alerts = &Alerts{
		base: a.base, vault: vault.New(c.QuoteKey, alertsPurpose), mail: c.Mail, hooks: c.Hooks,
		console: c.Console,
	}
	a.Members = &Members{a.base, a.Purchases, c.Proxies}
	a.Operator = &Operator{a.base, a.Alerts, a.Payments}
	return nil
}

func (c Config) withDefaults() Config {
	if c.Now == nil {
		c.Now = time.Now
	}
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 2*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.Contact = cmp.Or(c.Contact, c.PublicURL+"/v1/feedback")
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	return c
}

// Handler answers what the workspace API has a path for, and hands everything else on.
func (a *API) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if a.table.Knows(ctx) {
			a.table.Serve(ctx)
			return
		}
		next(ctx)
	}
}

// Routes are the rows of the route table, for tests and metrics.
func (a *API) Routes() []*server.Route { return a.table.Routes() }

// Document is the OpenAPI document of the API.
func (a *API) Document() ([]byte, error) { return a.document() }
