// Package dev runs a cluster for development on this machine, as child processes, with what is
// tried out on it: a demo account, a sample product, an identity provider, a trace, the tour.
package dev

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"tollgate/cluster"
	"tollgate/cmd/tollgate/cli"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/devdata"
	"tollgate/engine"
	api "tollgate/sdk/go"
)

// Command runs a cluster of node processes on this machine.
type Command struct {
	HTTPPort int    `name:"http-port" default:"8080" help:"Port of the first node's client API; the others follow."`
	OpsPort  int    `default:"9080" help:"Port of the first node's operations listener."`
	RaftPort int    `default:"7080" help:"Port on which the first node talks to the others."`
	Data     string `default:".tollgate" help:"Folder for everything the cluster keeps."`
	Nodes    int    `default:"3" help:"Number of nodes: 1, 3, 5, 7 or 9."`
	Limits   string `default:"dev" enum:"dev,production" help:"dev raises the workspace API's limits, production keeps them; for a new folder."`
	Node     string `placeholder:"ID" help:"Start only this node again, of a running cluster."`

	sampleFlags   `embed:""`
	identityFlags `embed:""`
}

// readyTimeout bounds how long nodes may take to serve: they read their snapshot and log first.
const readyTimeout = 2 * time.Minute

// Run runs the cluster until a signal ends it.
func (c *Command) Run(ctx context.Context) error {
	folder, err := filepath.Abs(c.Data)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	data := devdata.Folder(folder)
	if c.Node != "" {
		return restartNode(data, c.Node)
	}
	unlock, err := devdata.Lock(filepath.Join(folder, "dev.lock"), false)
	if errors.Is(err, devdata.ErrLocked) {
		return fmt.Errorf("%s is in use: another `tollgate dev` runs there", c.Data)
	}
	if err != nil {
		return err
	}
	return errors.Join(c.run(ctx, data), unlock())
}

func (c *Command) run(ctx context.Context, data devdata.Folder) error {
	if err := data.Remove(); err != nil { // a dev that was killed left it
		return err
	}
	if err := c.listenIdentity(data); err != nil {
		return err
	}
	wanted, err := c.Configs(data)
	if err != nil {
		return err
	}
	if err = c.checkSame(data, wanted); err != nil {
		return err
	}
	// Before the folder is made: it keeps its ports for good.
	if err = checkFree(wanted); err != nil {
		return err
	}
	keys, configs, err := c.Prepare(data, wanted)
	if err != nil {
		return err
	}
	site, err := c.serveSample()
	if err != nil {
		return err
	}
	issuer, err := c.serveIdentity(keys, configs)
	if err != nil {
		return errors.Join(err, site.close())
	}
	return errors.Join(c.runNodes(ctx, data, keys, configs), site.close(), issuer.close())
}

// runNodes runs the nodes until ctx ends.
func (c *Command) runNodes(ctx context.Context, data devdata.Folder, keys devdata.Keys,
	configs []config.Config,
) (err error) {
	fmt.Printf("Starting %d nodes in %s …\n", len(configs), c.Data)
	var nodes []*nodeProcess
	for _, node := range configs {
		started, startErr := startNode(node.Node, data.NodeConfig(node.Node), data.NodeLog(node.Node))
		if startErr != nil {
			return errors.Join(startErr, stopNodes(nodes, stopLimit(configs)))
		}
		nodes = append(nodes, started)
	}
	if err = c.serve(ctx, data, keys, configs, nodes); err != nil {
		return errors.Join(err, stopNodes(nodes, stopLimit(configs)))
	}
	fmt.Println("\nStopping …")
	err = errors.Join(stopNodes(nodes, stopLimit(configs)), stopRestarted(data, configs),
		data.Remove())
	if err == nil {
		fmt.Println("Stopped. The data stays in", c.Data)
	}
	return err
}

// serve brings the cluster to where a user can use it, and then watches it until ctx ends.
func (c *Command) serve(ctx context.Context, data devdata.Folder, keys devdata.Keys,
	configs []config.Config, nodes []*nodeProcess,
) error {
	ready, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	running := devdata.Running{Account: demoAccount, Keys: keys, SampleProduct: c.url()}
	if c.listener != nil {
		running.Identity = c.identityURL()
	}
	for i, node := range configs {
		if err := waitReady(ready, node.Ops, nodes); err != nil {
			if ctx.Err() != nil {
				return nil // stopped before it was ready
			}
			return err
		}
		running.Nodes = append(running.Nodes, devdata.Node{
			ID: node.Node, HTTP: node.HTTP, Ops: node.Ops, Raft: node.Raft, PID: nodes[i].pid,
		})
	}
	if err := provision(ready, data, &running); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if err := errors.Join(awaitVersion(ready, &running), data.Save(running)); err != nil {
		return err
	}
	c.printSummary(running, &configs[0].SignIn)
	watch(ctx, c.Data, nodes)
	return nil
}

// watch reports nodes that end, until ctx ends.
func watch(ctx context.Context, folder string, nodes []*nodeProcess) {
	ended := make(chan *nodeProcess, len(nodes))
	for _, n := range nodes {
		go func() {
			<-n.done
			ended <- n
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-ended:
			fmt.Printf("\n%s\n  Start it again with: %s dev --data %s --node %s\n",
				n.ending(), os.Args[0], folder, n.id)
		}
	}
}

// waitReady waits until the node at an operations address reports that it can serve.
func waitReady(ctx context.Context, ops string, nodes []*nodeProcess) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	client, err := api.New([]string{ops}, "", 1)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		if cli.AskReady(ctx, client) == nil {
			return nil
		}
		for _, n := range nodes {
			if !n.running() {
				return errors.New("a node did not start: " + n.ending())
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the node at %s is not ready (see its node.log): %w", ops, ctx.Err())
		case <-tick.C:
		}
	}
}

// agreeTimeout bounds how long a cluster may take to agree on the version of this build: with a
// member that is away, or older, it does not.
const agreeTimeout = 10 * time.Second

// awaitVersion waits until every node takes all commands: a new cluster agrees on its version once
// its nodes have heard of each other, and some commands answer 503 upgrading before that.
func awaitVersion(ctx context.Context, running *devdata.Running) error {
	ctx, cancel := context.WithTimeout(ctx, agreeTimeout)
	defer cancel()
	for _, node := range running.Nodes {
		client, err := api.New([]string{node.Ops}, running.AdminKey, 1)
		if err != nil {
			return err
		}
		for !agreed(ctx, client) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(cli.AskEvery):
			}
		}
		client.Close()
	}
	return nil
}

// agreed reports whether a node knows both groups to have agreed on the version of this build.
func agreed(ctx context.Context, client *api.Client) bool {
	var status cluster.Status
	_, err := client.Call(ctx, "GET", cli.ClusterPath, nil, &status)
	return err == nil && len(status.Groups) > 0 &&
		!slices.ContainsFunc(status.Groups, func(g cluster.GroupStatus) bool {
			return g.Version < engine.Version
		})
}

// port is an address that a node listens on, and the flag that it comes from.
type port struct{ flag, address string }

func portsOf(nodes []config.Config) []port {
	var ports []port
	for _, node := range nodes {
		ports = append(ports, port{"--http-port", node.HTTP}, port{"--ops-port", node.Ops},
			port{"--raft-port", node.Raft})
	}
	return ports
}

// checkFree says which of the nodes' ports another program uses, or another node.
func checkFree(nodes []config.Config) error {
	ports := portsOf(nodes)
	users := map[string]string{}
	for _, p := range ports {
		if other := users[p.address]; other != "" {
			return fmt.Errorf("%s is a port of both %s and %s: each takes %d in a row",
				p.address, other, p.flag, len(nodes))
		}
		users[p.address] = p.flag
	}
	for _, p := range ports {
		listener, err := net.Listen("tcp", p.address)
		if err != nil {
			return fmt.Errorf("%s cannot be used (%w): stop what listens there, or choose another %s",
				p.address, err, p.flag)
		}
		if err = listener.Close(); err != nil {
			return fmt.Errorf("%s: %w", p.address, err)
		}
	}
	return nil
}

func stopLimit(configs []config.Config) time.Duration {
	return configs[0].StopTimeout + 5*time.Second
}

// stopRestarted stops nodes that `tollgate dev --node` started again: they hold their folders.
func stopRestarted(data devdata.Folder, configs []config.Config) error {
	deadline := time.Now().Add(stopLimit(configs))
	for _, node := range configs {
		lock := devdata.NodeLock(data.NodeFolder(node.Node))
		pid, err := devdata.Holder(lock)
		if err != nil {
			return err
		}
		for signal := syscall.SIGTERM; pid != 0; {
			if err = signalProcess(pid, signal); err != nil {
				return err
			}
			if signal = 0; time.Now().After(deadline) {
				signal = syscall.SIGKILL
			}
			time.Sleep(50 * time.Millisecond)
			if pid, err = devdata.Holder(lock); err != nil {
				return err
			}
		}
	}
	return nil
}

// restartNode becomes a node of a cluster that runs: the process keeps its id, which dev.json then
// names, and Ctrl-C stops the node.
func restartNode(data devdata.Folder, id string) error {
	file := data.NodeConfig(id)
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("no node %q in %s: %w", id, data, err)
	}
	pid, err := devdata.Holder(devdata.NodeLock(data.NodeFolder(id)))
	if err != nil {
		return err
	}
	if pid != 0 {
		return fmt.Errorf("%s is running, as process %d", id, pid)
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	if err = data.SetPID(id, os.Getpid()); err != nil {
		return err
	}
	fmt.Printf("Starting %s as process %s. Ctrl-C stops it.\n", id, strconv.Itoa(os.Getpid()))
	if err = syscall.Exec(self, []string{self, "serve", "--config", file}, os.Environ()); err != nil {
		return fmt.Errorf("start %s: %w", id, err)
	}
	return nil
}
