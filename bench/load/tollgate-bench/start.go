package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tollgate/bench/faultnet"
	"tollgate/bench/load"
	"tollgate/bench/ports"
)

// startTimeout bounds how long a new cluster may take to serve, stopTimeout how long it may take to
// stop.
const (
	startTimeout = time.Minute
	stopTimeout  = 30 * time.Second
)

// tollgate is a cluster of three nodes that `tollgate dev` runs, with all its defaults.
type tollgate struct {
	name, program string
	via           string        // all, leader or followers
	logMiB        int           // after how much log a snapshot is written; 0 leaves the default
	workers       int           // hosted runs at a time, by an agent that waits; 0: no such agent
	delay         time.Duration // of what goes from one node to another
	links         *faultnet.Net // where there is a delay
	data          string
	command       *exec.Cmd
	output        bytes.Buffer
	ended         chan struct{}
	ports         *ports.Block
	ops           map[string]string // operations listeners by node
	again         []node            // nodes that were started again
}

// Name implements load.System.
func (t *tollgate) Name() string { return t.name }

// Start implements load.System.
func (t *tollgate) Start(ctx context.Context, _ load.Answers) (target load.Target, err error) {
	program, err := filepath.Abs(t.program)
	if err != nil {
		return target, fmt.Errorf("--tollgate: %w", err)
	}
	if t.ports, err = ports.Take(9); err != nil {
		return target, err
	}
	if t.data, err = os.MkdirTemp("", "tollgate-bench-"); err != nil {
		return target, errors.Join(fmt.Errorf("data folder: %w", err), t.ports.Close())
	}
	t.output.Reset()
	if t.workers != 0 {
		if err = os.WriteFile(t.waiting(), []byte(waitingScript), 0o700); err != nil {
			return target, errors.Join(fmt.Errorf("agent: %w", err), t.remove())
		}
	}
	if err = t.run(program); err != nil {
		return target, errors.Join(err, t.remove())
	}
	err = t.ready(ctx)
	if err == nil && (t.logMiB+t.workers != 0 || t.delay > 0) {
		// The nodes' files are made by now, and are ours to change.
		if err = errors.Join(t.end(), t.configure()); err == nil {
			if err = t.run(program); err == nil {
				err = t.ready(ctx)
			}
		}
	}
	if err == nil {
		target, err = t.target(ctx)
	}
	if err != nil {
		return target, errors.Join(err, t.Stop())
	}
	return target, nil
}

// during runs the cluster for as long as do takes.
func (t *tollgate) during(ctx context.Context, do func(load.Target) error) (err error) {
	target, err := t.Start(ctx, load.Answers{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, t.Stop()) }()
	return do(target)
}

// target is how the cluster is reached, with the processes that run now.
func (t *tollgate) target(ctx context.Context) (load.Target, error) {
	target, err := connect(ctx, t.data, t.via)
	if err != nil {
		return target, err
	}
	t.ops = map[string]string{}
	for i, p := range target.Processes {
		t.ops[p.Name] = target.Admin.Nodes[i]
	}
	target.System, target.Faults = t.name, t
	return target, nil
}

// run starts `tollgate dev`.
func (t *tollgate) run(program string) error {
	base := t.ports.First
	t.command = exec.Command(program, "dev", "--data", t.data, "--http-port", strconv.Itoa(base),
		"--ops-port", strconv.Itoa(base+3), "--raft-port", strconv.Itoa(base+6))
	if t.workers != 0 {
		t.command.Args = append(t.command.Args, "--agent", waitingAgent+"="+t.waiting())
	}
	t.command.Stdout, t.command.Stderr = &t.output, &t.output
	t.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us; we stop it then
	if err := t.command.Start(); err != nil {
		return fmt.Errorf("start a cluster (make build builds it): %w", err)
	}
	t.ended = make(chan struct{})
	go func() {
		defer close(t.ended)
		if err := t.command.Wait(); err != nil {
			fmt.Fprintln(&t.output, err)
		}
	}()
	return nil
}

// waitingAgent is an agent that says something every five seconds until it is cancelled, and does
// not get in the way: a shell that waits for its input.
const (
	waitingAgent  = "waiting"
	waitingScript = `#!/bin/bash
read -r task
while read -r -t 5 line || [ $? -gt 128 ]; do
  [ -z "$line" ] || break
  echo '{"type":"event","text":"waits"}'
done
`
)

func (t *tollgate) waiting() string { return filepath.Join(t.data, "waiting.sh") }

// setting is one of the nodes' settings, and the flag by which it is changed here.
type setting struct {
	flag  string
	line  *regexp.Regexp
	value int
}

// configure changes how much log the nodes write before a snapshot, and how many workers they have.
func (t *tollgate) configure() error {
	for _, s := range []setting{
		{"--log-mib", logSetting, t.logMiB}, {"--runs", workersSetting, t.workers},
	} {
		if s.value == 0 {
			continue
		}
		if err := t.set(s); err != nil {
			return fmt.Errorf("%s: %w", s.flag, err)
		}
	}
	return t.separate()
}

// separate leads the nodes through proxies that take a while each way: a delay of the kernel's
// needs a module that few machines have.
func (t *tollgate) separate() (err error) {
	if t.delay == 0 {
		return nil
	}
	addresses := map[string]string{}
	for i := range 3 {
		addresses[fmt.Sprintf("node%d", i+1)] = fmt.Sprintf("127.0.0.1:%d", t.ports.First+6+i)
	}
	if t.links, err = faultnet.OpenSlow(addresses, t.delay); err != nil {
		return err
	}
	for node := range addresses {
		ways, err := json.Marshal(t.links.Dial(node)) // which is YAML, too
		if err != nil {
			return err
		}
		file := filepath.Join(t.data, node, "config.yaml")
		if err = t.change(file, dialSetting, string(ways)); err != nil {
			return err
		}
	}
	return nil
}

// set changes a setting in each node's file.
func (t *tollgate) set(s setting) error {
	files, err := filepath.Glob(filepath.Join(t.data, "*", "config.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(errors.New("no configuration of a node"), err)
	}
	for _, file := range files {
		if err = t.change(file, s.line, strconv.Itoa(s.value)); err != nil {
			return err
		}
	}
	return nil
}

// change changes a line of a file behind its name.
func (t *tollgate) change(file string, line *regexp.Regexp, value string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if !line.Match(text) {
		return fmt.Errorf("%s has no such setting", file)
	}
	return os.WriteFile(file, line.ReplaceAll(text, []byte("${1}"+value)), 0o600)
}

var (
	logSetting     = regexp.MustCompile(`(?m)^(\s+logMiB: )\d+`)
	workersSetting = regexp.MustCompile(`(?m)^(\s+workers: )\d+`)
	dialSetting    = regexp.MustCompile(`(?m)^(\s*dial: ).*$`)
)

// ready waits until the cluster serves.
func (t *tollgate) ready(ctx context.Context) error {
	deadline := time.After(startTimeout)
	for {
		if _, err := os.Stat(filepath.Join(t.data, "dev.json")); err == nil {
			return nil
		}
		select {
		case <-t.ended:
			return fmt.Errorf("the cluster did not start:\n%s", &t.output)
		case <-deadline:
			return errors.New("the cluster did not start in time")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Stop implements load.System.
func (t *tollgate) Stop() error {
	if t.data == "" {
		return nil
	}
	return errors.Join(t.end(), t.stopAgain(), t.remove())
}

// remove removes the data, and lets others have the ports.
func (t *tollgate) remove() error {
	err := errors.Join(os.RemoveAll(t.data), t.ports.Close())
	if t.links != nil {
		err = errors.Join(err, t.links.Close())
	}
	t.data, t.links = "", nil
	return err
}

// end stops `tollgate dev`, which stops its nodes.
func (t *tollgate) end() (err error) {
	select {
	case <-t.ended:
	default:
		err = t.command.Process.Signal(syscall.SIGTERM)
	}
	select {
	case <-t.ended:
	case <-time.After(stopTimeout):
		err = errors.Join(err, errors.New("the cluster did not stop"), t.command.Process.Kill())
		<-t.ended
	}
	return err
}

// cluster is what dev.json says.
type cluster struct {
	Account    string `json:"account"`
	AdminKey   string `json:"adminKey"`
	SandboxKey string `json:"sandboxKey"`
	Nodes      []struct {
		ID   string `json:"id"`
		HTTP string `json:"http"`
		Ops  string `json:"ops"`
		PID  int    `json:"pid"`
	} `json:"nodes"`
}

// connect reads of dev.json how the cluster of a data folder is reached.
func connect(ctx context.Context, data, via string) (target load.Target, err error) {
	file := filepath.Join(data, "dev.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return target, fmt.Errorf("without --url, --key and --start: %w", err)
	}
	var c cluster
	if err = json.Unmarshal(text, &c); err != nil {
		return target, fmt.Errorf("%s: %w", file, err)
	}
	target = load.Target{
		System: "tollgate", Key: c.SandboxKey,
		Admin: load.Admin{Key: c.AdminKey, Account: c.Account},
	}
	for _, node := range c.Nodes {
		target.Processes = append(target.Processes, load.Process{Name: node.ID, PID: node.PID})
		target.Admin.Nodes = append(target.Admin.Nodes, node.Ops)
	}
	target.Syncs = target.Admin.Syncs
	leader := ""
	if via != "all" {
		if leader, err = target.Admin.Leader(ctx); err != nil {
			return target, err
		}
	}
	for _, node := range c.Nodes {
		if via == "all" || (node.ID == leader) == (via == "leader") {
			target.Nodes = append(target.Nodes, node.HTTP)
		}
	}
	return target, nil
}

// tollgateNamed returns a cluster that is measured through all nodes, or through some of them:
// tollgate, tollgate-leader or tollgate-followers; or with a network between them: tollgate-1ms.
func tollgateNamed(name, program string) (*tollgate, error) {
	t := &tollgate{name: name, program: program, via: "all"}
	_, via, chosen := strings.Cut(name, "-")
	switch {
	case chosen && (via == "leader" || via == "followers"):
		t.via = via
	case chosen && via == "1ms":
		t.delay = time.Millisecond
	case chosen:
		return nil, fmt.Errorf("no system %q: want tollgate, tollgate-leader, tollgate-followers or "+
			"tollgate-1ms", name)
	}
	return t, nil
}
