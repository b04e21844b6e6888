package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"tollgate/bench/load"
	api "tollgate/sdk/go"
)

// readyTimeout bounds how long a node may take that is started again: it reads its snapshot,
// applies its log and catches up.
const readyTimeout = 10 * time.Minute

// node is a process of a cluster that was started again.
type node struct {
	command *exec.Cmd
	ended   chan struct{}
	output  string // the file of it
}

// Leader implements load.Faults.
func (t *tollgate) Leader(ctx context.Context) (load.Process, error) {
	for deadline := time.Now().Add(startTimeout); ; {
		// dev.json names the processes that run now.
		target, err := connect(ctx, t.data, "all")
		if err == nil {
			var leader string
			if leader, err = target.Admin.Leader(ctx); err == nil {
				for _, p := range target.Processes {
					if p.Name == leader {
						return p, nil
					}
				}
				err = errors.New("there is no leader")
			}
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return load.Process{}, err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Restart implements load.Faults: what `tollgate dev --node` does, and waiting until it is ready.
// A process that was killed holds its folder for some milliseconds more.
func (t *tollgate) Restart(ctx context.Context, name string) (load.Process, error) {
	for deadline := time.Now().Add(stopTimeout); ; time.Sleep(5 * time.Millisecond) {
		n, err := t.start(name)
		if err != nil {
			return load.Process{}, fmt.Errorf("start %s: %w", name, err)
		}
		err = n.ready(ctx, t.ops[name])
		if !errors.Is(err, errHeld) || time.Now().After(deadline) {
			t.again = append(t.again, n)
			return load.Process{Name: name, PID: n.command.Process.Pid}, err
		}
	}
}

// start runs `tollgate dev --node`, which becomes the node.
func (t *tollgate) start(name string) (n node, err error) {
	program, err := filepath.Abs(t.program)
	if err != nil {
		return n, fmt.Errorf("--tollgate: %w", err)
	}
	n.output = filepath.Join(t.data, name+".again.log")
	output, err := os.Create(n.output)
	if err != nil {
		return n, fmt.Errorf("its output: %w", err)
	}
	n.command = exec.Command(program, "dev", "--data", t.data, "--node", name)
	n.command.Stdout, n.command.Stderr = output, output
	n.command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err = errors.Join(n.command.Start(), output.Close()); err != nil {
		return n, err
	}
	n.ended = make(chan struct{})
	go func() {
		defer close(n.ended)
		// It is killed, mostly; one that ends too early is told by its being away.
		_ = n.command.Wait()
	}()
	return n, nil
}

// errHeld means that the node's folder is held by the process before.
var errHeld = errors.New("the process before is not quite gone")

// ready waits until the node's operations listener reports that it can serve.
func (n node) ready(ctx context.Context, ops string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	client, err := api.New([]string{ops}, "", 1)
	if err != nil {
		return fmt.Errorf("ready: %w", err)
	}
	defer client.Close()
	for {
		answer, err := client.Try(ctx, api.Request{Method: "GET", Path: "/readyz"})
		if err == nil && answer.Status == 200 {
			return nil
		}
		select {
		case <-n.ended:
			text, err := os.ReadFile(n.output)
			if bytes.Contains(text, []byte("is running, as process")) {
				return errHeld
			}
			return errors.Join(fmt.Errorf("the node at %s ended before it was ready:\n%s", ops, text), err)
		case <-ctx.Done():
			return fmt.Errorf("the node at %s is not ready: %w", ops, errors.Join(ctx.Err(), err))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// stopAgain waits for nodes that were started again, which `tollgate dev` stops with its own, and
// kills those that it left.
func (t *tollgate) stopAgain() (err error) {
	for _, n := range t.again {
		select {
		case <-n.ended:
			continue
		case <-time.After(stopTimeout):
		}
		err = errors.Join(err, errors.New("a node did not stop"), n.command.Process.Kill())
		<-n.ended
	}
	t.again = nil
	return err
}
