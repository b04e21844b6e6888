package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// nodeLogLimit is the length from which a node begins a new log at its next start; the old one is
// kept next to it.
const nodeLogLimit = 8 << 20

// nodeProcess is one running node, a child of this process.
type nodeProcess struct {
	id   string
	pid  int
	log  string
	done chan struct{}
	err  error // what ended it; to be read after done is closed
}

// startNode runs this program's serve command as a child. It is in a process group of its own, so
// that Ctrl-C reaches this process alone, and it is told to stop when this process dies.
func startNode(id, config, log string) (*nodeProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	if info, err := os.Stat(log); err == nil && info.Size() > nodeLogLimit {
		if err = os.Rename(log, log+".1"); err != nil {
			return nil, fmt.Errorf("start %s: %w", id, err)
		}
	}
	output, err := os.OpenFile(log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	command := exec.Command(self, "serve", "--config", config)
	command.Stdout, command.Stderr = output, output
	command.SysProcAttr = childAttributes()
	n := &nodeProcess{id: id, log: log, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The signal at the parent's death comes when the thread dies that started the child: this
		// goroutine keeps it until the child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := command.Start()
		started <- errors.Join(err, output.Close())
		if err == nil {
			n.err = command.Wait()
			close(n.done)
		}
	}()
	if err = <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", id, err)
	}
	n.pid = command.Process.Pid
	return n, nil
}

// running reports whether the node has not ended yet.
func (n *nodeProcess) running() bool {
	select {
	case <-n.done:
		return false
	default:
		return true
	}
}

// ending says how the node ended, with the last lines of its log.
func (n *nodeProcess) ending() string {
	how := "ended"
	if n.err != nil {
		how = "ended: " + n.err.Error()
	}
	return fmt.Sprintf("%s (pid %d) %s\n%s", n.id, n.pid, how, lastLines(n.log, 5))
}

// stopNodes asks processes to end, and kills what is still there after the time limit.
func stopNodes(nodes []*nodeProcess, limit time.Duration) error {
	var problems []error
	for _, n := range nodes {
		if n.running() {
			problems = append(problems, signalProcess(n.pid, syscall.SIGTERM))
		}
	}
	deadline := time.After(limit)
	for _, n := range nodes {
		select {
		case <-n.done:
		case <-deadline:
			problems = append(problems, fmt.Errorf("%s did not stop within %s: killed", n.id, limit),
				signalProcess(n.pid, syscall.SIGKILL))
			<-n.done
			deadline = time.After(time.Second)
		}
	}
	return errors.Join(problems...)
}

// signalProcess sends a signal; a process that is gone needs none.
func signalProcess(pid int, signal syscall.Signal) error {
	if err := syscall.Kill(pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal to process %d: %w", pid, err)
	}
	return nil
}

// lastLines returns the last n lines of a file, indented; nothing when it cannot be read.
func lastLines(file string, n int) string {
	const tail = 8 << 10
	f, err := os.Open(filepath.Clean(file))
	if err != nil {
		return ""
	}
	info, err := f.Stat()
	var text []byte
	if err == nil {
		text, err = io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-tail), tail))
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return ""
	}
	lines := strings.Split(string(bytes.TrimSpace(text)), "\n")
	return "    " + strings.Join(lines[max(0, len(lines)-n):], "\n    ")
}
