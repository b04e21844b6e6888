package peer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"
)

const (
	// startTimeout bounds how long a server may take until it serves, stopTimeout how long it may
	// take to end before it is killed.
	startTimeout = 30 * time.Second
	stopTimeout  = 15 * time.Second
	// maxOutput bounds what is kept of a server's output, its end.
	maxOutput = 16 << 10
)

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	t.text = t.text[max(0, len(t.text)-maxOutput):]
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// process is a program that was started, until stop.
type process struct {
	name    string
	command *exec.Cmd
	output  tail
	done    chan struct{}
}

// start runs a program in a group of its own: Ctrl-C is for the harness, which stops it then.
func start(name string, command *exec.Cmd) (*process, error) {
	p := &process{name: name, command: command, done: make(chan struct{})}
	if command.Stdout == nil {
		command.Stdout = &p.output
	}
	command.Stderr = &p.output
	if command.SysProcAttr == nil {
		command.SysProcAttr = &syscall.SysProcAttr{}
	}
	command.SysProcAttr.Setpgid = true
	endWithParent(command.SysProcAttr)
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.done)
		if err := command.Wait(); err != nil {
			fmt.Fprintf(&p.output, "%v\n", err)
		}
	}()
	return p, nil
}

// listening waits until the program takes connections at every address.
func (p *process) listening(ctx context.Context, addresses ...string) error {
	deadline := time.Now().Add(startTimeout)
	for _, address := range addresses {
		for {
			conn, err := net.DialTimeout("tcp", address, time.Second)
			if err == nil {
				if err = conn.Close(); err != nil {
					return fmt.Errorf("%s: %w", p.name, err)
				}
				break
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("%s does not listen on %s: %w\n%s", p.name, address, err, &p.output)
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s: %w", p.name, ctx.Err())
			case <-p.done:
				return fmt.Errorf("%s ended:\n%s", p.name, &p.output)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// stop ends the program with a signal, and kills it when it does not end.
func (p *process) stop(signal os.Signal) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	err := p.command.Process.Signal(signal)
	select {
	case <-p.done:
		return nil
	case <-time.After(stopTimeout):
		return errors.Join(err, fmt.Errorf("%s did not end within %s and was killed", p.name,
			stopTimeout), p.command.Process.Kill())
	}
}

// freeAddress is one on 127.0.0.1 that no process uses yet.
func freeAddress() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("a free port: %w", err)
	}
	return ln.Addr().String(), ln.Close()
}

// ErrNotInstalled means that a system's program is not on this machine.
var ErrNotInstalled = errors.New("not installed (bench/peers.sh install)")

// find returns where a Debian package keeps a program: on the PATH, or in one of the folders.
func find(program string, folders ...string) (string, error) {
	if path, err := exec.LookPath(program); err == nil {
		return path, nil
	}
	for _, folder := range folders {
		if path, err := exec.LookPath(folder + "/" + program); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", program, ErrNotInstalled)
}
