package main

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/cmd/tollgate/config"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/admin"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/verify"
	api "tollgate/server/workspace"
)

// tenants is the node's part of the workspace API: its state machine, its routes, its workers.
type tenants struct {
	machine *workspace.Machine
	api     *api.API
	workers *api.Workers
}

// builtIn are the agents that need no configuration.
var builtIn = map[string]struct {
	about api.Agent
	agent runner.Agent
}{
	"nop": {api.Agent{Name: "nop", Kind: "nop", Version: "1"}, runner.Nop{}},
}

// openTenants makes the workspace API over the second group.
func (n *node) openTenants(guarded *fetch.Client, metrics *admin.Metrics) error {
	group, s := n.cluster.Workspace(), &n.settings.Workspaces
	verifier := &verify.Verifier{Fetch: guarded}
	c := api.Config{
		Machine: n.tenants.machine, Proposer: group, Reader: group, Verifier: verifier,
		PublicURL: n.settings.BaseURL(), Check: guarded.Check,
		Payments: s.Payments == config.PaymentsSandbox, Contact: s.Contact,
		Observe: metrics.Observer("workspace"), Log: n.log, Gate: n.gate, Now: n.cluster.Now,
	}
	agents := map[string]runner.Agent{}
	for _, name := range s.Agents {
		known := builtIn[name]
		c.Agents, agents[name] = append(c.Agents, known.about), known.agent
		for i := range s.Commands {
			if command := &s.Commands[i]; command.Name == name {
				c.Agents[len(c.Agents)-1] = api.Agent{
					Name: name, Kind: "exec", Version: command.Version,
				}
				agents[name] = &runner.Exec{Command: command.Command}
			}
		}
	}
	var err error
	if c.QuoteKey, err = n.sealKey(); err != nil {
		return err
	}
	if n.tenants.api, err = api.New(c); err != nil {
		return err
	}
	n.tenants.workers, err = api.NewWorkers(api.WorkersConfig{
		Machine: n.tenants.machine, Proposer: group, Verifier: verifier, Agents: agents,
		Leads: func() bool {
			_, leads := group.Leads()
			return leads
		},
		Name: n.settings.Node, Workers: s.Workers, Log: n.log,
	})
	return err
}

// publicHandler answers both APIs on one listener.
func (n *node) publicHandler() fasthttp.RequestHandler {
	return n.tenants.api.Handler(n.client.Handler())
}

// agreeOnPolicy brings the configured settings of the workspace API into its log whenever this node
// leads that group and they differ from those in force.
func (n *node) agreeOnPolicy() {
	group := n.cluster.Workspace()
	tick := time.NewTicker(limitsEvery)
	defer tick.Stop()
	for {
		changed := group.RouteChanged()
		if _, leads := group.Leads(); leads {
			n.proposePolicy()
		}
		select {
		case <-n.closing:
			return
		case <-changed:
		case <-tick.C:
		}
	}
}

func (n *node) proposePolicy() {
	s, wanted := &n.settings.Workspaces, workspace.DefaultPolicy()
	wanted.SignupsPerHour, wanted.RunsPerDay = uint32(s.SignupsPerHour), uint32(s.RunsPerDay)
	wanted.FreeRunsPerDay = uint32(s.FreeRunsPerDay)
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
		"outcome", results[0].Outcome)
}

// carryOutRuns lets the workers work until the node closes.
func (n *node) carryOutRuns() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-n.closing
		cancel()
	}()
	n.tenants.workers.Run(ctx)
}
