// Package admin is the operations listener: the admin API /api/v1/admin (accounts, keys, catalogs,
// the cluster), metrics, health and profiles. It shares the route table's mechanism with the
// client API. See DESIGN.md in the folder above.
package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/billing"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/rollup"
	"tollgate/server"
	"tollgate/server/audit"
	"tollgate/server/link"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/search"
	"tollgate/server/vault"
)

// Prefix is the path that the admin API's routes begin with.
const Prefix = "/api/v1/admin"

// Cluster is what the node knows about its cluster; cmd adapts it.
type Cluster interface {
	// Status describes the node, its groups and the members, as now; its JSON encoding is the data
	// of GET /cluster.
	Status() any
	// NotReady lists the reasons why this node should not be sent requests; empty when it may.
	NotReady() []Reason
	// Causes are the names that reasons may have.
	Causes() []string
	// Leads reports whether this node leads the billing group, which handles usage events and checks.
	Leads() bool
	// Change changes the members, and returns when it is done. Its error says what was refused, and
	// what to do; it is shown to the operator. It wraps ErrWasMember for the removal of a node that
	// was a member until recently: the client that removed it may not have received the answer.
	Change(ctx context.Context, c MemberChange) error
}

// Reason is why a node should not be sent requests: a fixed name, the group that it is about (""
// for the whole node), and the words.
type Reason struct{ Cause, Group, Text string }

// MemberChange is one change of the cluster's members.
type MemberChange struct {
	// Action is join, promote, remove or transfer.
	Action string
	ID     string `json:"id" rule:"required,min=1,max=32"`
	// Raft, HTTP and Ops are the addresses of one that is joined.
	Raft string `json:"raft" rule:"required,min=1,max=255"`
	HTTP string `json:"http" rule:"max=255"`
	Ops  string `json:"ops" rule:"max=255"`
}

// Sources are what of the billing log is not in memory.
type Sources struct {
	// Events lists usage events, for margins; nil answers 503 there.
	Events journal.Source
	// Keys looks for idempotency keys that have left memory; nil where none ever does.
	Keys idempotency.Finder
	// Counts adds usage up; nil answers 503 there.
	Counts rollup.Source
}

// Config is what the operations listener needs from the node that runs it.
type Config struct {
	Machine  *billing.Machine
	Proposer server.Proposer
	Reader   server.Reader
	Cluster  Cluster
	// KeyHash is the SHA-256 of the admin key.
	KeyHash [32]byte
	// Metrics is served at /metrics; made by NewMetrics.
	Metrics *Metrics
	// Audits is the client API's audit recorder, for metrics; may be nil.
	Audits func() audit.Stats
	Sources
	// Links signs links to the customer portal; nil makes none.
	Links *link.Signer
	// Search finds records; made when nil.
	Search *search.Searcher
	// SealKey is the node's key for secrets, the same on every node: API keys that are made with an
	// Idempotency-Key are derived from it, so that the answer can be given again.
	SealKey [32]byte
	// Acts lists what operators did for owners of workspaces, newest first, with numbers below
	// before (0: all): at most limit, looking at no more than scan acts; next is where the next
	// page begins, 0 when there is none. It is not ok when this node cannot tell, unless the list
	// may be stale. nil lists none.
	Acts func(before uint32, limit, scan int, stale bool) (list []audit.Act, next uint32, ok bool)
	// Payments seals and checks the settings of payment providers; nil refuses them.
	Payments *payments.Service
	// Outbox checks webhook endpoints and makes their secrets; nil makes none.
	Outbox *outbox.Outbox
	// Backup writes a backup of the whole cluster, of what this node has when stale, at a pace in
	// bytes a second (0: the default). ErrBackupRunning, ErrNotCurrent: nothing was written. nil
	// answers 503.
	Backup func(ctx context.Context, w io.Writer, stale bool, pace int) error
	// Vitals says how the node itself is; its JSON encoding is the data of GET /node. nil answers
	// 503.
	Vitals func() any
	// More are routes of other parts of the node, which this listener serves and describes with its
	// own.
	More []server.Route
	// Pages are served, too, and described nowhere.
	Pages []server.Route
	// Gate bounds what requests hold together; nil means no bound.
	Gate *server.Gate
	// WriteTimeout and ReadTimeout bound commands (5 s when 0) and linearizable reads (2 s when 0).
	WriteTimeout, ReadTimeout time.Duration
	// SettleTimeout is how long an advanced clock may take to let everything happen that is due by
	// then before the answer is that it goes on (60 s when 0).
	SettleTimeout time.Duration
	// Now is the cluster's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// API answers the operations listener. Safe for concurrent use.
type API struct {
	*base
	keyHash [32]byte
	table   *server.Table
	// document is the OpenAPI document of the routes below Prefix.
	document server.Document

	accounts  accounts
	catalogs  catalogs
	customers customers
	credits   credits
	invoices  invoices
	providers providers
	hooks     hooks
	clocks    clocks
	finders   finders
	portals   portals
	nodeTools nodeTools
}

// New makes the operations listener's handler.
func New(c Config) (a *API, err error) {
	if c.Machine == nil || c.Proposer == nil || c.Reader == nil || c.Cluster == nil ||
		c.Metrics == nil || c.KeyHash == ([32]byte{}) || c.SealKey == ([32]byte{}) {
		return nil, errors.New(
			"admin: Machine, Proposer, Reader, Cluster, Metrics, KeyHash and SealKey must be set")
	}
	c.WriteTimeout = cmp.Or(c.WriteTimeout, 5*time.Second)
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 2*time.Second)
	c.SettleTimeout = cmp.Or(c.SettleTimeout, settlePatience)
	c.Log = cmp.Or(c.Log, slog.Default())
	if c.Now == nil {
		c.Now = time.Now
	}
	a = newAPI(&c)
	routes := slices.Concat(a.routes(), a.platformRoutes(), a.providers.paymentRoutes(),
		a.invoices.invoiceRoutes(), a.clocks.clockRoutes(), a.credits.poolRoutes(),
		a.credits.creditRoutes(), a.accounts.termsRoutes(), a.hooks.webhookRoutes(),
		a.accounts.budgetRoutes(), a.hooks.deliveryRoutes(),
		a.nodeTools.backupRoutes(), a.nodeTools.memberRoutes(),
		a.customers.customerRoutes(), a.customers.reservationRoutes(),
		a.catalogs.previewRoutes(), a.catalogs.planRoutes(), a.finders.searchRoutes(),
		a.portals.portalRoutes())
	server.DescribePaths(routes, pathParams)
	own := slices.Clone(routes)
	a.document = server.Later(func() (text []byte, err error) {
		about := description()
		if about.Tags, err = server.Illustrate(own, guideText, examples); err != nil {
			return nil, err
		}
		if err = declaredRefusals.Declare(own); err != nil {
			return nil, err
		}
		return server.OpenAPI(slices.Concat(own, c.More), about)
	})
	server.Bodiless(routes, fieldless)
	routes = slices.Concat(routes, a.plainRoutes(), c.More, c.Pages)
	a.table, err = server.NewTable(routes, server.TableConfig{
		Authenticate: a.authenticate, Observe: c.Metrics.Observer("admin"), Log: c.Log,
		Gate: c.Gate, Head: true, KnownQuery: true,
	})
	if err != nil {
		return nil, err
	}
	if err := c.Metrics.registry.Register(newStateCollector(&c)); err != nil {
		return nil, fmt.Errorf("admin: metrics: %w", err)
	}
	return a, nil
}

// newAPI makes what the rows of the route table are handled by.
func newAPI(c *Config) *API {
	b := newBase(c)
	if c.Search == nil {
		c.Search = search.New(search.Config{Machine: c.Machine, Events: c.Events})
	}
	return &API{
		base: b, keyHash: c.KeyHash,
		accounts:  accounts{b, vault.New(c.SealKey, "tollgate API keys"), c.Acts},
		catalogs:  catalogs{b},
		customers: customers{b},
		credits:   credits{b},
		invoices:  invoices{b, c.Metrics},
		providers: providers{b, c.Payments},
		hooks:     hooks{b, c.Outbox},
		clocks:    clocks{b, c.SettleTimeout},
		finders:   finders{b, c.Search},
		portals:   portals{b, c.Links},
		nodeTools: nodeTools{b, c.Cluster, c.Metrics.handler(), c.Vitals, c.Backup},
	}
}

// Handler answers requests.
func (a *API) Handler() fasthttp.RequestHandler { return a.table.Serve }

// Table carries rows out for another part of this process, which proves itself that it may.
func (a *API) Table() *server.Table { return a.table }

// KeyMatches reports whether a text is the admin key; in constant time.
func (a *API) KeyMatches(key []byte) bool {
	hash := sha256.Sum256(key)
	return subtle.ConstantTimeCompare(hash[:], a.keyHash[:]) == 1
}

// authenticate compares the presented key with the configured one, in constant time.
func (a *API) authenticate(x *server.Exchange) *server.Fault {
	key, ok := server.PresentedKey(x.Ctx)
	if matches := a.KeyMatches(key); !ok || !matches {
		return server.FaultKey
	}
	return nil
}

// Document is the OpenAPI document of the API.
func (a *API) Document() ([]byte, error) { return a.document() }
