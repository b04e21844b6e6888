// Package workspace is the Agent-Task Workspace API, /v1: signup, keys, flows, quotes, runs,
// purchases, issues and notifications over one workspace state machine. Handlers are thin: they
// read a request, ask the machine or propose a command, and write the answer. See DESIGN.md.
package workspace

import (
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/payment"
	"tollgate/server/provider/verify"
)

// Agent is an agent that the runner can start.
type Agent struct{ Name, Kind, Version string }

// String is how the state names an agent: name, kind, version.
func (a Agent) String() string { return a.Name + " " + a.Kind + " " + a.Version }

// Config is what the API needs from the node that runs it.
type Config struct {
	Machine  *state.Machine
	Proposer server.Proposer
	Reader   server.Reader
	// PublicURL is where the API is reached from outside, http(s)://host without a path.
	PublicURL string
	// QuoteKey signs quotes; the same on every node.
	QuoteKey [32]byte
	// Verifier makes verification calls; nil leaves quotes without a preflight.
	Verifier *verify.Verifier
	// Check says whether a URL may be fetched at all, without touching the network; nil takes all
	// that are well-formed.
	Check func(url string) error
	// Agents are what can run flows, the default one first; none answers execution_unavailable.
	Agents []Agent
	// Payments says that purchases can be paid, by the built-in sandbox provider; else they answer
	// hosting_not_configured.
	Payments bool
	// Contact is where more runs can be asked for.
	Contact string
	// Gate bounds what requests hold together; nil is no bound.
	Gate *server.Gate
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	// WriteTimeout is how long a command may take before its fate is called unknown (5 s when 0),
	// ReadTimeout how long a read may wait for a leader (2 s when 0).
	WriteTimeout, ReadTimeout time.Duration
	// Observe is told of every answer, for metrics; may be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	Log     *slog.Logger
}

// API answers requests. Safe for concurrent use.
type API struct {
	config   Config
	machine  *state.Machine
	table    *server.Table
	document []byte
	listing  []byte
	// sandbox is the built-in payment provider; nil where purchases cannot be paid.
	sandbox *payment.Sandbox
}

// New makes the API.
func New(c Config) (*API, error) {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.PublicURL == "" {
		return nil, errors.New("workspace: Machine, Proposer, Reader and PublicURL must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.WriteTimeout == 0 {
		c.WriteTimeout = 5 * time.Second
	}
	if c.ReadTimeout == 0 {
		c.ReadTimeout = 2 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Contact == "" {
		c.Contact = c.PublicURL + "/v1/feedback"
	}
	c.PublicURL = strings.TrimSuffix(c.PublicURL, "/")
	a := &API{config: c, machine: c.Machine}
	routes := a.routes()
	var err error
	if a.document, err = server.OpenAPI(routes, description()); err != nil {
		return nil, err
	}
	a.listing = a.listRoutes(routes)
	if c.Payments {
		if err = a.openDesk(); err != nil {
			return nil, err
		}
		routes = append(routes, a.deskRoutes()...)
	}
	a.table, err = server.NewTable(routes, server.TableConfig{
		Authenticate: a.authenticate, Observe: c.Observe, Log: c.Log, AnyMedia: true,
		Gate:  c.Gate,
		Codes: tableCodes,
		Challenge: `Bearer resource_metadata="` + c.PublicURL +
			`/.well-known/oauth-protected-resource"`,
	})
	if err != nil {
		return nil, err
	}
	return a, nil
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

// read answers from memory that holds every acknowledged write. answer may run more than once; it
// returns a refusal, or has written the answer.
func (a *API) read(x *server.Exchange, answer func() *refusal) {
	deadline := time.Now().Add(a.config.ReadTimeout)
	for time.Now().Before(deadline) {
		ticket, outcome := a.config.Reader.BeginRead(deadline)
		if outcome != engine.OutcomeDone {
			break
		}
		refused := answer()
		if !a.config.Reader.ReadStands(ticket) {
			continue
		}
		if refused != nil {
			a.refuse(x, *refused)
		}
		return
	}
	a.refuse(x, no("workspace_busy"))
}

// fresh waits until this node's memory holds what was acknowledged anywhere.
func (a *API) fresh() bool {
	return server.Fresh(a.config.Reader, time.Now().Add(a.config.ReadTimeout))
}

// propose brings one command into the log.
func (a *API) propose(kind engine.Kind, c wire.Fielder) engine.Result {
	records := [1]engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}
	var results [1]engine.Result
	a.config.Proposer.Propose(time.Now().Add(a.config.WriteTimeout), records[:], results[:])
	return results[0]
}

// do proposes a command and refuses what was not carried out; ok says that it was.
func (a *API) do(x *server.Exchange, kind engine.Kind, c wire.Fielder) (r engine.Result, ok bool) {
	if r = a.propose(kind, c); r.Outcome != engine.OutcomeDone {
		a.refuseOutcome(x, r)
		return r, false
	}
	// The command is applied where it was proposed; a follower answers from its own memory.
	if !a.fresh() {
		a.refuse(x, no("outcome_unknown"))
		return r, false
	}
	return r, true
}

func (a *API) now() int64 { return a.machine.Clock(a.config.Now().UnixMilli()) }
