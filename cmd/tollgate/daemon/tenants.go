package daemon

import (
	"bytes"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/cmd/tollgate/config"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/admin"
	"tollgate/server/client"
	"tollgate/server/console/owner"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/mail"
	"tollgate/server/provider/payment"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/runner/follower"
	"tollgate/server/provider/verify"
	"tollgate/server/workspaceapi"
)

// tenants is the node's part of the workspace API: its state machine, its routes, its workers.
type tenants struct {
	machine *workspace.Machine
	api     *workspaceapi.API
	workers *workspaceapi.Workers
	// pages are those of owners; nil where sign-in is not configured.
	pages *owner.Pages
	// mails keeps mails that are not sent; nil where they are.
	mails *mail.Folder
	// mail sends mails, those of billing's endpoints too; nil: none are sent.
	mail mail.Sender
}

// builtIn are the agents that need no configuration. A change of what http does is a new version:
// quotes name it.
func builtIn(web *fetch.Client) map[workspaceapi.Agent]runner.Agent {
	return map[workspaceapi.Agent]runner.Agent{
		{Name: config.AgentHTTP, Kind: "http", Version: "1"}: &follower.Agent{Web: web},
		{Name: config.AgentNop, Kind: "nop", Version: "1"}:   runner.Nop{},
	}
}

// openTenants makes the workspace API over the second group.
func (n *node) openTenants(metrics *admin.Metrics) error {
	group, s := n.cluster.Workspace(), &n.settings.Workspaces
	verifying, err := n.outboundClient()
	if err != nil {
		return err
	}
	inspecting, err := n.outboundClient()
	if err != nil {
		return err
	}
	verifier := &verify.Verifier{Fetch: verifying}
	c := workspaceapi.Config{
		Machine: n.tenants.machine, Proposer: group, Reader: group, Verifier: verifier,
		PublicURL: n.settings.BaseURL(), Check: verifying.CheckAt,
		Payments: s.Payments != config.PaymentsNone, Contact: s.Contact,
		Inspector: inspect.New(inspecting, n.cluster.Now),
		Observe:   metrics.Observer("workspace"), Tracer: n.tracer("workspace"),
		Log: n.log, Gate: n.gate, Now: n.cluster.Now,
	}
	c.Mail = n.tenants.mail
	if c.Hooks, err = n.openHooks(); err != nil {
		return err
	}
	agents, err := n.openAgents(&c)
	if err != nil {
		return err
	}
	if c.QuoteKey, err = n.sealKey(); err != nil {
		return err
	}
	if c.SignIn, err = n.openSignIn(workspace.SurfaceWorkspaces); err != nil {
		return err
	}
	if c.SignIn.Configured() {
		c.Console = c.SignIn.Origin() + owner.Root
	}
	if c.Proxies, err = config.ParseNetworks(n.settings.Proxies); err != nil {
		return fmt.Errorf("proxies: %w", err)
	}
	if s.Payments == config.PaymentsStripe {
		if c.Cards, err = n.openStripe(); err != nil {
			return err
		}
	}
	if n.tenants.api, err = workspaceapi.New(c); err != nil {
		return err
	}
	if c.Console != "" {
		// The pages need sign-in.
		if n.tenants.pages, err = owner.New(owner.Config{
			Machine: n.tenants.machine, Reader: group, Workspaces: n.tenants.api,
			Visitors: owner.SignedIn{Service: c.SignIn}, Origin: c.SignIn.Origin(),
			Observe: metrics.Observer("owner"), Gate: n.gate, Now: n.cluster.Now, Log: n.log,
		}); err != nil {
			return err
		}
	}
	n.tenants.workers, err = workspaceapi.NewWorkers(workspaceapi.WorkersConfig{
		Machine: n.tenants.machine, Proposer: group, Verifier: verifier, Agents: agents,
		Leads: group.Leads, Name: n.settings.Node, SealKey: c.QuoteKey,
		Workers: s.Workers, Lease: s.Lease, Log: n.log,
	})
	return err
}

// openStripe makes the provider that purchases are paid to.
func (n *node) openStripe() (payment.CardProvider, error) {
	s := &n.settings.Workspaces.Stripe
	web, err := n.outboundClient()
	if err != nil {
		return nil, err
	}
	stripe, err := payment.NewStripe(web, payment.StripeConfig{
		BaseURL: s.BaseURL, SecretKey: payment.Secret(s.SecretKey),
		WebhookSecret: payment.Secret(s.WebhookSecret), Live: s.Live, Tag: workspaceapi.PurchaseTag,
	})
	if err != nil {
		return nil, fmt.Errorf("workspaces.stripe: %w", err)
	}
	return stripe, nil
}

// openAgents makes the configured agents, and names them to the API.
func (n *node) openAgents(c *workspaceapi.Config) (map[string]runner.Agent, error) {
	s, agents := &n.settings.Workspaces, map[string]runner.Agent{}
	web, err := n.outboundClient()
	if err != nil {
		return nil, err
	}
	kinds := map[string]workspaceapi.Agent{}
	for about, agent := range builtIn(web) {
		kinds[about.Name], agents[about.Name] = about, agent
	}
	folder := filepath.Join(n.settings.Data, "agents")
	if err := runner.Sweep(folder); err != nil {
		return nil, fmt.Errorf("the folder of agents: %w", err)
	}
	for i := range s.Commands {
		command := &s.Commands[i]
		kinds[command.Name] = workspaceapi.Agent{
			Name: command.Name, Kind: "exec",
			Version: command.Version,
		}
		agents[command.Name] = &runner.Exec{
			Command: command.Command, Web: web, Folder: folder, Log: n.log,
			Limits: runner.Limits(command.Limits.OrDefaults()),
		}
	}
	for i := range s.Models {
		model, err := n.openModel(&s.Models[i], web)
		if err != nil {
			return nil, err
		}
		name := s.Models[i].Name
		kinds[name] = workspaceapi.Agent{Name: name, Kind: "llm", Version: s.Models[i].Version}
		agents[name] = model
	}
	for _, name := range s.Agents {
		c.Agents = append(c.Agents, kinds[name])
	}
	return agents, nil
}

// openModel makes an agent whose steps a language model chooses. Its endpoint is reached by a
// guarded client of its own, which waits longer, and may go to the endpoint's port.
func (n *node) openModel(m *config.AgentModel, web *fetch.Client) (*runner.LLM, error) {
	endpoint, err := url.Parse(m.URL)
	if err != nil {
		return nil, fmt.Errorf("workspaces.models %s: %w", m.Name, err)
	}
	var hosts []string
	if endpoint.Port() != "" {
		hosts = []string{endpoint.Host}
	}
	client, err := n.clientFor("workspaces.models "+m.Name, true, hosts, m.AllowNetworks)
	if err != nil {
		return nil, err
	}
	agent := &runner.LLM{
		Endpoint: runner.Endpoint{
			URL: m.URL, Dialect: runner.Dialect(m.Dialect), Model: m.Model, Client: client,
		},
		Web: web, Steps: m.Steps, Tokens: m.Tokens,
	}
	if m.KeyFile != "" {
		key, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("workspaces.models %s: keyFile: %w", m.Name, err)
		}
		agent.Endpoint.Key = strings.TrimSpace(string(key))
	}
	return agent, nil
}

// clientPaths is how the targets of the client API's requests begin.
var clientPaths = []byte(client.Prefix + "/")

// publicHandler answers both APIs, and the pages of workspaces' owners, on one listener. Only the
// client API has paths below its prefix, so the other tables are not asked about those.
func (n *node) publicHandler() fasthttp.RequestHandler {
	billing := n.client.Handler()
	others := n.tenants.api.Handler(billing)
	if n.tenants.pages != nil {
		others = n.tenants.pages.Handler(others)
	}
	others = n.portal.Handler(others)
	return func(ctx *fasthttp.RequestCtx) {
		if bytes.HasPrefix(ctx.Request.Header.RequestURI(), clientPaths) {
			billing(ctx)
			return
		}
		others(ctx)
	}
}

// policyOf are the settings that decide results.
func policyOf(s *config.Workspaces) workspace.SetPolicy {
	p := workspace.DefaultPolicy()
	p.SignupsPerHour, p.RunsPerDay = uint32(s.SignupsPerHour), uint32(s.RunsPerDay)
	p.FreeRunsPerDay, p.CreditsRun = uint32(s.FreeRunsPerDay), uint32(s.Credits.Run)
	p.CreditsInspection = uint32(s.Credits.Inspection)
	p.CreditsEvaluation = uint32(s.Credits.Evaluation)
	if s.UnclaimedDays > 0 {
		p.UnclaimedMS = (time.Duration(s.UnclaimedDays) * 24 * time.Hour).Milliseconds()
		p.EmptyMS = (time.Duration(s.EmptyHours) * time.Hour).Milliseconds()
	}
	return p
}

// proposePolicy brings the configured settings of the workspace API into its log where they differ
// from those in force.
func (n *node) proposePolicy() {
	wanted := policyOf(&n.settings.Workspaces)
	if n.tenants.machine.Policy() == wanted {
		return
	}
	records := []engine.Record{{
		Kind: workspace.KindSetPolicy, Payload: wire.Encode(nil, &wanted),
	}}
	results := make([]engine.Result, 1)
	n.cluster.Workspace().Propose(time.Now().Add(limitsTimeout), records, results)
	n.log.Info("workspace settings proposed", "signupsPerHour", wanted.SignupsPerHour,
		"runsPerDay", wanted.RunsPerDay, "freeRunsPerDay", wanted.FreeRunsPerDay,
		"creditsRun", wanted.CreditsRun, "outcome", results[0].Outcome)
}
