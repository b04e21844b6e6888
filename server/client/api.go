// Package client is the client billing API, /api/v1/client: customers, subscriptions, plans,
// entitlement checks, usage events and invoices over one billing state machine. Handlers are thin:
// they read a request, ask the machine or propose a command, and write the answer. See DESIGN.md
// in the folder above.
package client

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/link"
	"tollgate/server/payments"
	"tollgate/server/search"
)

// Prefix is the path that all routes begin with.
const Prefix = "/api/v1/client"

// AuditMode says when the audit event of an entitlement check is safe.
type AuditMode string

const (
	// AuditAsync hands it to replication before the answer leaves (the default).
	AuditAsync AuditMode = "async"
	// AuditCommitted commits it before the answer leaves.
	AuditCommitted AuditMode = "committed"
)

// Config is what the API needs from the node that runs it.
type Config struct {
	Machine  *billing.Machine
	Proposer server.Proposer
	Reader   server.Reader
	// Events lists usage and audit events; nil answers 503 there.
	Events journal.Source
	// Counts adds usage up; nil answers 503 there.
	Counts rollup.Source
	// Search finds records; made when nil.
	Search *search.Searcher
	// Links signs links to the customer portal; nil makes none.
	Links *link.Signer
	// Keys looks for idempotency keys that have left memory; nil where none ever does.
	Keys idempotency.Finder
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	// NodeID is the node's number in the cluster, from 1: the origin of its audit blocks.
	NodeID uint64
	// NoteKeys counts how often API keys are used, with one record a minute for each key in use.
	NoteKeys bool
	// SpoolDir keeps the audit blocks that could not be proposed, over restarts too.
	SpoolDir string
	// SpoolBytes bounds them; 0 is 256 MiB.
	SpoolBytes int64
	// AuditMode is AuditAsync when empty.
	AuditMode AuditMode
	// SandboxHost, when set, is the host that takes sandbox keys, and nothing else does.
	SandboxHost string
	// Payments collects invoices; nil answers that no provider is enabled.
	Payments *payments.Service
	// RateLimit bounds the requests of each API key on this node; zero means no bound.
	RateLimit server.RateLimit
	// Gate bounds what requests hold together; nil means no bound.
	Gate *server.Gate
	// WriteTimeout is how long a command may take before its fate is called unknown (5 s when 0),
	// ReadTimeout how long a linearizable read may wait for a leader (2 s when 0).
	WriteTimeout, ReadTimeout time.Duration
	// Observe is told of every answer, for metrics; may be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	// Tracer traces requests; may be nil.
	Tracer server.Tracer
	Log    *slog.Logger
}

func (c *Config) complete() error {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.SpoolDir == "" || c.NodeID == 0 {
		return errors.New("client: Machine, Proposer, Reader, SpoolDir and NodeID must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.SpoolBytes = cmp.Or(c.SpoolBytes, 256<<20)
	c.AuditMode = cmp.Or(c.AuditMode, AuditAsync)
	if c.AuditMode != AuditAsync && c.AuditMode != AuditCommitted {
		return fmt.Errorf("client: audit mode %q is neither async nor committed", c.AuditMode)
	}
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 2*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	c.SandboxHost = strings.ToLower(c.SandboxHost)
	return nil
}

// API answers requests until Close. Its own handlers are those of events and checks. Safe for
// concurrent use.
type API struct {
	base        // by value: a check reads it without a pointer between
	sandboxHost string
	events      journal.Source     // nil answers 503
	counts      rollup.Source      // nil answers 503
	keys        idempotency.Finder // nil where no key ever leaves memory
	searcher    *search.Searcher
	links       *link.Signer
	table       *server.Table
	limits      *server.RateLimiter
	document    server.Document
	uses        *keyUses            // nil where they are not noted
	signings    *server.RateLimiter // see signedEvents

	customers     customers
	subscriptions subscriptions
	invoices      invoices
	budgets       budgets
	pools         pools
}

// New makes the API and starts its audit recorder; blocks that an earlier process left in the spool
// are proposed first.
func New(c Config) (*API, error) {
	if err := c.complete(); err != nil {
		return nil, err
	}
	a := newAPI(&c)
	routes := slices.Concat(a.routes(), a.customers.customerRoutes(),
		a.subscriptions.lifecycleRoutes(), a.correctionRoutes(), a.invoices.invoiceRoutes(),
		a.invoices.paymentRoutes(), a.customers.clockRoutes(), a.usageRoutes(),
		a.reservationRoutes(), a.searchRoutes(), a.portalRoutes(), a.budgets.budgetRoutes(),
		a.pools.poolRoutes())
	server.DescribePaths(routes, pathParams)
	for i := range routes {
		if signs(&routes[i]) {
			routes[i].Params = append(routes[i].Params, actorParam)
		}
	}
	own := slices.Clone(routes)
	a.document = server.Later(func() (text []byte, err error) {
		about := description()
		if about.Tags, err = server.Illustrate(own, guideText, examples); err != nil {
			return nil, err
		}
		if err = declaredRefusals.Declare(own); err != nil {
			return nil, err
		}
		return server.OpenAPI(own, about)
	})
	server.Bodiless(routes, fieldless)
	if c.Payments != nil {
		routes = append(routes, c.Payments.Routes()...)
	}
	var err error
	a.table, err = server.NewTable(routes, server.TableConfig{
		Authenticate: a.authenticate, NewCaller: func() server.Caller { return new(Caller) },
		Observe: c.Observe, Tracer: c.Tracer, Preflight: a.preflight, Log: c.Log,
		Unannounced: func(x *server.Exchange, bytes int) *server.Fault {
			return a.limits.TakeBytes(x, principal(x).KeyID, bytes)
		},
		Gate: c.Gate, Head: true, KnownQuery: true,
	})
	if err != nil {
		return nil, err
	}
	if a.audits, err = audit.Open(audit.Options{
		Proposer: c.Proposer, Dir: c.SpoolDir, Bytes: c.SpoolBytes, Origin: c.NodeID,
		Boot: uint64(c.Now().UnixNano()), Committed: c.AuditMode == AuditCommitted, Log: c.Log,
	}); err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	if c.NoteKeys {
		a.uses = countKeyUses(c.Proposer, c.Log)
	}
	return a, nil
}

func newAPI(c *Config) *API {
	a := &API{
		base: base{
			machine: c.Machine, proposer: c.Proposer, reader: c.Reader, now: c.Now, log: c.Log,
			writeTimeout: c.WriteTimeout, readTimeout: c.ReadTimeout,
		},
		sandboxHost: c.SandboxHost, events: c.Events, counts: c.Counts, keys: c.Keys,
		limits: server.NewRateLimiter(c.RateLimit, c.Now), searcher: c.Search,
		links: c.Links, signings: server.NewRateLimiter(signedEvents, c.Now),
	}
	if a.searcher == nil {
		a.searcher = search.New(search.Config{Machine: c.Machine, Events: c.Events, Keys: c.Keys})
	}
	a.customers, a.subscriptions = customers{&a.base}, subscriptions{&a.base}
	a.budgets, a.pools = budgets{&a.base}, pools{&a.base}
	a.invoices = invoices{&a.base, c.Payments}
	return a
}

// Table carries rows out for another part of this process, which names whom they answer (a
// Principal) and proves itself that it may.
func (a *API) Table() *server.Table { return a.table }

// Handler answers requests; everything outside Prefix is a 404 in the workspace API's shape.
func (a *API) Handler() fasthttp.RequestHandler { return a.table.Serve }

// AuditStats says how the audit recorder is doing, for metrics.
func (a *API) AuditStats() audit.Stats { return a.audits.Stats() }

// Close records what was checked, into the log or the spool, and how often keys were used, and
// stops. Requests must have ended.
func (a *API) Close() error {
	a.uses.close()
	return a.audits.Close()
}

// Document is the OpenAPI document of the API.
func (a *API) Document() ([]byte, error) { return a.document() }
