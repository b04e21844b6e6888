package faultnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Namespaces is a network between nodes that the kernel makes: each of them in a network namespace
// of its own, with one cable to a switch. What is cut is packets: they get lost, and TCP repeats
// them ever more seldom, as between machines. The process that opens it must run in a namespace of
// its own (Enclose), in which the switch is; with that process all of it is gone. Nodes are cut off
// each other only: the opener, on 10.77.0.254, reaches each that is plugged in. It is safe for
// concurrent use.
type Namespaces struct {
	mu    sync.Mutex
	nodes map[string]place
	undo  map[string]place // what mends a fault, by its command, and where
	err   error            // the first trouble in making or mending a fault
}

// place is a node's namespace.
type place struct {
	file    *os.File
	address string
}

const (
	// enclosed is an environment variable of a process that Enclose has prepared.
	enclosed = "FAULTNET_ENCLOSED"
	// subnet is that of the nodes, which no other process can see.
	subnet = "10.77.0."
	// commandTimeout bounds one command, which takes 2 ms.
	commandTimeout = 5 * time.Second
)

// Enclosed reports whether this process runs in a network namespace of its own.
func Enclosed() bool { return os.Getenv(enclosed) != "" }

// Enclose prepares a command that runs in a network namespace of its own, and dies with the
// thread that starts it. Without the privilege to make one, where the kernel allows it, the command
// gets a user namespace, too, in which it has it.
func Enclose(command *exec.Cmd) {
	a := &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() != 0 {
		a.Cloneflags |= syscall.CLONE_NEWUSER
		a.UidMappings = []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}
		a.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}}
	}
	command.SysProcAttr = a
	command.Env = append(command.Environ(), enclosed+"=1")
}

// OpenNamespaces makes a namespace for each node and the switch between them. It needs the commands
// `ip` and `ss` (iproute2).
func OpenNamespaces(nodes []string) (*Namespaces, error) {
	if !Enclosed() {
		return nil, errors.New("faultnet: not in a network namespace of its own: nothing was made")
	}
	n := &Namespaces{nodes: make(map[string]place), undo: make(map[string]place)}
	err := run("", "ip", "link", "set", "lo", "up")
	err = errors.Join(err, run("", "ip", "link", "add", "switch", "type", "bridge"))
	err = errors.Join(err, run("", "ip", "addr", "add", subnet+"254/24", "dev", "switch"))
	err = errors.Join(err, run("", "ip", "link", "set", "switch", "up"))
	for i, id := range nodes {
		if err == nil {
			err = n.plugIn(id, fmt.Sprintf("%s%d", subnet, i+1))
		}
	}
	if err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// plugIn makes a node's namespace. Addresses of its own are looked up after the rules by which
// packets get lost, not first of all.
func (n *Namespaces) plugIn(id, address string) error {
	made := make(chan error, 1)
	p := place{address: address}
	go func() {
		runtime.LockOSThread() // for good: the thread ends with this function
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			p.file, err = os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		}
		made <- err
	}()
	if err := <-made; err != nil {
		return fmt.Errorf("faultnet: a network namespace for %s: %w", id, err)
	}
	n.nodes[id] = p
	there := fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), p.file.Fd())
	err := run("", "ip", "link", "add", "name", id, "type", "veth",
		"peer", "name", "eth0", "netns", there)
	if err == nil {
		err = run("", "ip", "link", "set", "dev", id, "master", "switch", "up")
	}
	for _, command := range []string{
		"link set lo up", "addr add " + address + "/24 dev eth0", "link set eth0 up",
		"rule add pref 100 table local", "rule del pref 0",
	} {
		if err == nil {
			err = p.run("ip " + command)
		}
	}
	return err
}

// Host is the address at which nodes reach the opener of the network, without a port.
func (n *Namespaces) Host() string { return subnet + "254" }

// Address is a node's, without a port.
func (n *Namespaces) Address(id string) string { return n.nodes[id].address }

// Dial is nil: nodes reach each other at their own addresses.
func (n *Namespaces) Dial(string) map[string]string { return nil }

// Enter moves the calling goroutine into a node's namespace. Its thread must be locked, and not be
// unlocked any more.
func (n *Namespaces) Enter(id string) error {
	if err := unix.Setns(int(n.nodes[id].file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("faultnet: enter the namespace of %s: %w", id, err)
	}
	return nil
}

// Hold loses all packets from one node to another.
func (n *Namespaces) Hold(from, to string) {
	rule := "pref 5 from " + n.nodes[from].address + " blackhole"
	n.spoil(n.nodes[to], "ip rule add "+rule, "ip rule del "+rule)
}

// Isolate loses all packets between a node and the others.
func (n *Namespaces) Isolate(id string) {
	for other := range n.nodes {
		if other != id {
			n.Hold(id, other)
			n.Hold(other, id)
		}
	}
}

// Unplug pulls a node's cable: it has no route to anybody, and clients do not reach it either.
func (n *Namespaces) Unplug(id string) {
	n.spoil(n.nodes[id], "ip link set eth0 down", "ip link set eth0 up")
}

// Break ends the connections between two nodes, with what is under way in them.
func (n *Namespaces) Break(from, to string) {
	n.note(n.nodes[from].run("ss --kill --tcp --numeric dst " + n.nodes[to].address))
}

// Mend restores every link. What was lost is sent again when TCP's patience ends.
func (n *Namespaces) Mend() {
	n.mu.Lock()
	undo := n.undo
	n.undo = make(map[string]place)
	n.mu.Unlock()
	for key, p := range undo {
		_, command, _ := strings.Cut(key, ": ")
		n.note(p.run(command))
	}
}

// spoil carries a fault out that is not there yet.
func (n *Namespaces) spoil(p place, command, undo string) {
	n.mu.Lock()
	key := p.address + ": " + undo
	_, done := n.undo[key]
	n.undo[key] = p
	n.mu.Unlock()
	if !done {
		n.note(p.run(command))
	}
}

// note keeps the first error for Close to tell.
func (n *Namespaces) note(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.err == nil {
		n.err = err
	}
}

// Close takes the switch and its cables away, and lets the namespaces go, which end with the last
// process in them. It tells the first fault that could not be made or mended.
func (n *Namespaces) Close() error {
	problems := []error{n.err}
	for id, p := range n.nodes {
		problems = append(problems, run("", "ip", "link", "del", "dev", id), p.file.Close())
	}
	return errors.Join(append(problems, run("", "ip", "link", "del", "dev", "switch"))...)
}

// run runs a command in a node's namespace.
func (p place) run(command string) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // for good
		err := unix.Setns(int(p.file.Fd()), unix.CLONE_NEWNET)
		if err == nil {
			words := strings.Fields(command)
			err = run(p.address, words[0], words[1:]...)
		}
		done <- err
	}()
	return <-done
}

// run runs a command in the namespace of the calling thread.
func run(at, name string, arguments ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	output, err := exec.CommandContext(ctx, name, arguments...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("faultnet: %s %s %v: %w: %s", at, name, arguments, err, output)
	}
	return nil
}
