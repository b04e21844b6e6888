// Package daemon assembles a node of cluster, engine and server, and runs it: tollgate serve.
package daemon

import (
	"context"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/gofrs/uuid/v5"
	"github.com/prometheus/client_golang/prometheus"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/doctor"
	"tollgate/cmd/tollgate/measure"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/fair"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/console"
	"tollgate/server/console/portal"
	"tollgate/server/link"
	"tollgate/server/outbox"
	"tollgate/server/payments"
	"tollgate/server/search"
	"tollgate/server/tracing"
)

// node is one running node: the cluster's part, and the two listeners in front of it.
type node struct {
	settings config.Config
	log      *slog.Logger
	machine  *billing.Machine
	tenants  *tenants
	cluster  *cluster.Node
	client   *client.API
	// console is the operators' pages.
	console  *console.Console
	portal   *portal.Portal
	payments *payments.Service
	outbox   *outbox.Outbox
	public   *server.Server
	ops      *server.Server
	gate     *server.Gate // of the public listener
	opsGate  *server.Gate
	pairs    map[string]*certs.Pair // certificates in use: peers, http, ops
	closing  chan struct{}
	watchers sync.WaitGroup
	backups  *backupMetrics
	tracing  *tracing.Exporter // nil: nothing is traced
	// trusted are the authorities of other nodes' certificates, wantedFiles the open files that the
	// settings may need, measured what is known of the disk; began is when the process did.
	trusted     []*x509.Certificate
	wantedFiles uint64
	measured    measured
	began       time.Time
}

// openNode starts a node. It returns when both listeners answer, which is before a leader is known.
func openNode(settings config.Config, log *slog.Logger) (*node, error) {
	n := newNode(settings, log)
	if err := n.open(); err != nil {
		return nil, errors.Join(err, n.close())
	}
	return n, nil
}

// newNode is a node that was not opened.
func newNode(settings config.Config, log *slog.Logger) *node {
	return &node{
		settings: settings, log: log, closing: make(chan struct{}), began: time.Now().UTC(),
		wantedFiles: uint64(settings.Connections.Total) + doctor.OwnFiles,
		pairs:       map[string]*certs.Pair{},
		machine:     billing.New(billing.Config{Shard: cluster.ShardBilling, Together: cluster.Together}),
		tenants: &tenants{
			machine: workspace.New(workspace.Config{Shard: cluster.ShardWorkspace}),
		},
	}
}

func (n *node) open() error {
	metrics := admin.NewMetrics()
	if err := fitConnections(&n.settings.Connections, n.log); err != nil {
		return err
	}
	n.gate, n.opsGate = n.gateOf(n.settings.Connections), n.gateOf(n.settings.Connections)
	settings, err := n.clusterConfig()
	if err != nil {
		return err
	}
	settings.Events = measure.Events(metrics.Registry())
	n.backups = newBackupMetrics(metrics.Registry())
	if err = measure.Raft(metrics.Registry()); err != nil {
		return err
	}
	if n.cluster, err = cluster.Open(settings); err != nil {
		return err
	}
	if err = n.listen(metrics); err != nil {
		return err
	}
	n.measure(metrics.Registry())
	n.watchers.Go(func() { n.agree(n.cluster.Billing(), n.proposeLimits) })
	n.watchers.Go(func() { n.agree(n.cluster.Workspace(), n.proposePolicy) })
	n.watchers.Go(n.saveOnSchedule)
	n.watchers.Go(n.keepLogOnSchedule)
	n.lead()
	return nil
}

// lead begins what this node does while it leads a group, until it closes.
func (n *node) lead() {
	ctx, cancel := context.WithCancel(context.Background())
	n.watchers.Go(func() {
		<-n.closing
		cancel()
	})
	api, leads := n.tenants.api, n.cluster.Workspace().Leads
	for _, run := range []func(context.Context){
		n.outbox.Run, n.tenants.workers.Run,
		func(ctx context.Context) { n.payments.Run(ctx, n.cluster.Billing().Leads) },
		func(ctx context.Context) { n.payments.RunTopUps(ctx, n.cluster.Billing().Leads) },
		func(ctx context.Context) { api.Payments.CollectPayments(ctx, leads) },
		func(ctx context.Context) { api.Alerts.DeliverAlerts(ctx, leads) },
		func(ctx context.Context) { api.Flows.KeepSchedules(ctx, leads) },
	} {
		n.watchers.Go(func() { run(ctx) })
	}
}

// measure shows in /metrics what is only known of a node that runs.
func (n *node) measure(registry *prometheus.Registry) {
	measure.Build(registry, Version())
	measure.Status(registry, n.cluster.Status)
	measure.Runs(registry, n.tenants.machine.Load)
	measure.Strangers(registry, n.tenants.machine.Strangers)
	measure.Listeners(registry,
		measure.Listener{
			Name: "http", Server: n.public, Gate: n.gate, Connections: n.clientLimits().Connections,
		},
		measure.Listener{
			Name: "ops", Server: n.ops, Gate: n.opsGate, Connections: n.opsLimits().Connections,
		})
	for use, pair := range n.pairs {
		measure.Certificate(registry, use, pair.NotAfter)
	}
}

// grows reports whether a command makes its group's state grow.
func grows(shard uint16, r engine.Record) bool {
	if shard == cluster.ShardBilling {
		return billing.Grows(r)
	}
	return workspace.Grows(r)
}

// weight is an account's part of what is shared out.
func (n *node) weight(shard uint16, f fair.Flow) int {
	if len(n.settings.Weights) == 0 || shard != cluster.ShardBilling {
		return 1
	}
	return max(1, n.settings.Weights[n.machine.AccountOf(f)])
}

// wallClock is the clock of the node with a data folder. A test build steps it.
var wallClock = func(string) func() time.Time { return time.Now }

func (n *node) clusterConfig() (cluster.Config, error) {
	s := &n.settings
	c := cluster.Config{
		NodeID: s.Node, Dir: s.Data, Cluster: s.Cluster, Listen: s.Raft, Dial: s.Dial, Join: s.Join,
		Billing: cluster.Shard{
			Machine: n.machine, Indexer: billing.IndexRecord, KeyOf: billing.JournalKey,
			Count: billing.CountRecord, CountVersions: billing.CountVersions,
		},
		Workspace: cluster.Shard{Machine: n.tenants.machine},
		Limits: cluster.Limits{
			DiskLowBytes: int64(s.DiskReserve) << 20, MemoryBytes: int64(s.MemoryBytes()),
			SnapshotBytes: int64(s.Snapshots.LogMiB) << 20,
			TrailingBytes: int64(s.Snapshots.TrailingMiB) << 20,
		},
		Grows: grows, Weight: n.weight,
		Log: n.log, Now: wallClock(s.Data),
	}
	for _, m := range s.Members {
		c.Members = append(c.Members, cluster.Member(m))
	}
	for _, skip := range s.Skip {
		shard := cluster.ShardBilling
		if skip.Group == "workspace" {
			shard = cluster.ShardWorkspace
		}
		c.Skip = append(c.Skip, cluster.SkipEntry{Shard: shard, Index: skip.Index, CRC: skip.CRC})
	}
	if s.TLS == (config.TLS{}) {
		return c, nil
	}
	pair, err := n.openPair(doctor.UsePeers,
		config.Certificate{Certificate: s.TLS.Certificate, Key: s.TLS.Key})
	if err != nil {
		return c, err
	}
	if n.trusted, err = doctor.Authorities(s.TLS.Authority); err != nil {
		return c, err
	}
	c.TLS, err = pair.Peer(s.TLS.Authority)
	return c, err
}

// listen puts the two listeners in front of the cluster node.
func (n *node) listen(metrics *admin.Metrics) error {
	group := n.cluster.Billing()
	service, err := n.paymentService()
	if err != nil {
		return err
	}
	if n.tenants.mail, n.tenants.mails, err = n.openMail(); err != nil {
		return err
	}
	if n.outbox, err = n.openOutbox(); err != nil {
		return err
	}
	n.payments = service
	n.openTracing(metrics.Registry())
	secret, err := n.sealKey()
	if err != nil {
		return err
	}
	links := link.New(secret, n.settings.BaseURL())
	finder := search.New(search.Config{
		Machine: n.machine, Events: group.Events(), Keys: group.KeyFinder(),
	})
	n.client, err = client.New(client.Config{
		Payments: service, Search: finder, Links: links,
		Machine: n.machine, Proposer: group, Reader: group, Events: group.Events(),
		Counts: group.Rollups(), NoteKeys: true,
		Now: n.cluster.Now, Keys: group.KeyFinder(), NodeID: n.number(), SpoolDir: n.settings.Data,
		AuditMode:   client.AuditMode(n.settings.Audit),
		SandboxHost: n.settings.SandboxHost, Observe: metrics.Observer("client"), Log: n.log,
		Tracer: n.tracer("client"), RateLimit: server.RateLimit(n.settings.RateLimit), Gate: n.gate,
	})
	if err != nil {
		return err
	}
	if err = n.openTenants(metrics); err != nil {
		return err
	}
	settings := admin.Config{
		More:    n.tenants.api.Operator.Routes(),
		Acts:    n.tenants.api.Operator.Acts,
		Machine: n.machine, Proposer: group, Reader: group, Cluster: clusterView{n.cluster},
		Payments: service, Outbox: n.outbox, Search: finder,
		Sources: admin.Sources{
			Events: group.Events(), Keys: group.KeyFinder(), Counts: group.Rollups(),
		},
		Links: links, Metrics: metrics, Audits: n.client.AuditStats, Log: n.log, Backup: n.backup,
		Gate: n.opsGate, Vitals: n.vitals, Now: n.cluster.Now,
	}
	hash, err := hex.DecodeString(n.settings.AdminKeyHash)
	if err != nil {
		return fmt.Errorf("adminKeyHash: %w", err)
	}
	copy(settings.KeyHash[:], hash)
	settings.SealKey = secret
	if settings.Pages, err = n.mailRoutes(); err != nil {
		return err
	}
	operators, err := n.openOperators()
	if err != nil {
		return err
	}
	if operators != nil {
		settings.Pages = append(settings.Pages, operators.Service.Routes()...)
	}
	operations, err := admin.New(settings)
	if err != nil {
		return err
	}
	if err = n.openPortal(metrics, links); err != nil {
		return err
	}
	public, ops := n.documents(operations)
	n.public, err = n.listenFor(doctor.UseHTTP, public(n.publicHandler()), n.clientLimits())
	if err != nil {
		return err
	}
	if n.console, err = n.openConsole(operations, metrics, operators); err != nil {
		return err
	}
	n.ops, err = n.listenFor(
		doctor.UseOps, ops(n.console.Handler(operations.Handler())), n.opsLimits(),
	)
	return err
}

// openConsole makes the operators' pages, which call the rows of both APIs.
func (n *node) openConsole(
	api *admin.API, metrics *admin.Metrics, operators *console.SignedIn,
) (*console.Console, error) {
	c := console.Config{
		Admin: api.Table(), Client: n.client.Table(), SignedIn: operators,
		PublicURL: n.settings.OpsBase(),
		Machine:   n.machine, Reader: n.cluster.Billing(), Gate: n.opsGate, Log: n.log,
		Observe: metrics.Observer("console"), Load: func() (l console.Load) {
			l.Requests, l.Bounds, l.Buckets = metrics.Served("client")
			l.Events = n.machine.Stats().UsageEvents
			return l
		},
		Findings: n.findings,
	}
	if n.settings.SignIn.KeySignsIn() {
		c.KeyMatches = api.KeyMatches
	}
	return console.New(c)
}

// number is the origin of this node's audit blocks: that of its data folder, so that a node that is
// replaced, under its old name even, is another origin.
func (n *node) number() uint64 {
	number, err := strconv.ParseUint(n.cluster.Disk(), 16, 64)
	if err != nil || number == 0 {
		return 1 // a folder's number is 16 hex digits, drawn at random
	}
	return number
}

// limitsTimeout bounds one proposal of the limits; limitsEvery is how often a leader compares them.
const (
	limitsTimeout = 5 * time.Second
	limitsEvery   = 10 * time.Second
)

// agree calls propose, which compares the configured settings with those in force, whenever this
// node leads a group.
func (n *node) agree(group *cluster.Group, propose func()) {
	tick := time.NewTicker(limitsEvery)
	defer tick.Stop()
	for {
		changed := group.RouteChanged()
		if _, leads := group.Leads(); leads {
			propose()
		}
		select {
		case <-n.closing:
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

// proposeLimits brings the configured limits into the log where they differ from those in force.
func (n *node) proposeLimits() {
	wanted := billing.SetLimits{
		KeyRetentionMS: n.settings.Limits.KeyRetention.Milliseconds(),
		WindowMS:       n.settings.Limits.EventWindow.Milliseconds(),
		MaxKeys:        n.settings.MaxKeys(), MaxKeysInMemory: n.settings.MaxKeysInMemory(),

		AuditRetentionMS: n.settings.Limits.AuditRetention.Milliseconds(),
		AccountCustomers: uint64(n.settings.Limits.CustomersPerAccount),
		AccountKeys:      uint64(n.settings.Limits.KeysPerAccount),
		AccountCatalog:   uint64(n.settings.Limits.CatalogPerAccount),
		AccountEndpoints: uint64(n.settings.Limits.WebhooksPerAccount),
		CustomerHolds:    uint64(n.settings.Limits.ReservationsPerCustomer),
		EnvironmentHolds: uint64(n.settings.Limits.ReservationsPerEnvironment),
		HoldMS:           n.settings.Limits.MaxReservation.Milliseconds(),
		MaxReservations:  n.settings.MaxReservations(),
	}
	// What is wanted may be more than there can be: it is not to be proposed again and again.
	if now := n.machine.Limits(); wanted.Over(now) == now {
		return
	}
	records := []engine.Record{n.machine.Repeatable(
		billing.KindSetLimits, wire.Encode(nil, &wanted),
		func() [16]byte { return uuid.Must(uuid.NewV7()) },
	)}
	results := make([]engine.Result, 1)
	n.cluster.Billing().Propose(time.Now().Add(limitsTimeout), records, results)
	n.log.Info("limits proposed", "keyRetention", n.settings.Limits.KeyRetention,
		"eventWindow", n.settings.Limits.EventWindow, "maxKeys", wanted.MaxKeys,
		"maxReservations", wanted.MaxReservations, "auditRetention", n.settings.Limits.AuditRetention,
		"outcome", results[0].Outcome)
}

// retireTimeout bounds how long a node that stops tries to hand leadership over.
const retireTimeout = 2 * time.Second

// retire hands leadership over while this node still serves, and forwards the commands that it gets
// to the new leader, so that no client waits for an election.
func (n *node) retire(ctx context.Context) {
	if n.cluster == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, retireTimeout)
	defer cancel()
	if err := n.cluster.Retire(ctx); err != nil {
		n.log.Warn("stops as the leader: the others elect another", "error", err)
	}
}

// settleTimeout is how long a stop waits at least for what runs next to requests, even where
// stopTimeout is over. The cluster's part is to be closed before the process is killed.
const settleTimeout = 3 * time.Second

// settle waits for what runs next to requests, until ctx ends.
func (n *node) settle(ctx context.Context) {
	until, _ := ctx.Deadline()
	if least := time.Now().Add(settleTimeout); until.Before(least) {
		until = least
	}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	settled := make(chan struct{})
	go func() {
		n.watchers.Wait()
		close(settled)
	}()
	select {
	case <-settled:
	case <-timer.C:
		n.log.Warn("stops although some of its own work has not ended")
	}
}

// close stops what open started, in the opposite order: leadership is handed over, clients are let
// go, requests under way are answered, audit events leave for the log or the spool, then the
// cluster's part ends.
func (n *node) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), n.settings.StopTimeout)
	defer cancel()
	n.retire(ctx)
	if n.public != nil {
		n.public.Drain(ctx, n.settings.Drain)
	}
	close(n.closing)
	var problems []error
	for _, listener := range []*server.Server{n.public, n.ops} {
		if listener == nil {
			continue
		}
		if err := listener.Shutdown(ctx); err != nil {
			problems = append(problems, fmt.Errorf("stop listening: %w", err))
		}
	}
	if n.console != nil {
		n.console.Close()
	}
	if n.client != nil {
		problems = append(problems, n.client.Close())
	}
	if n.tracing != nil {
		n.watchers.Go(n.tracing.Close)
	}
	n.settle(ctx)
	if n.cluster != nil {
		problems = append(problems, n.cluster.Close())
	}
	return errors.Join(problems...)
}
