package runner

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// How this program is called again for an agent: as its keeper, and as what becomes the agent.
const (
	keepCommand  = "keep-agent"
	startCommand = "start-agent"
)

// sweepEvery is the time between two looks for what is left of an agent.
const sweepEvery = 5 * time.Millisecond

// Called carries out what this program is called for by Exec, in a process of its own, and returns
// the exit code; called reports whether it was. A program that uses Exec begins with it.
func Called(args []string) (code int, called bool) {
	if len(args) < 4 {
		return 0, false
	}
	var err error
	switch args[1] {
	case keepCommand:
		err = keep(args[2], args[3:])
	case startCommand:
		err = become(args[2], args[3:])
	default:
		return 0, false
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "tollgate:", err)
		return 1, true
	}
	return 0, true
}

// kept is a command under a keeper: a process between this one and the agent that all which the
// agent starts falls back to, however it detaches itself. It ends when its lifeline does, or this
// process, or the agent's; and when nothing is left of the agent, and its folder is gone.
func kept(e *Exec, folder string) (cmd *exec.Cmd, lifeline io.Closer, err error) {
	far, near, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	args := append([]string{keepCommand, folder, e.Limits.text()}, e.Command...)
	cmd = exec.Command("/proc/self/exe", args...) // the same program, replaced on disk or not
	cmd.ExtraFiles = []*os.File{far}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd, &rope{near: near, far: far}, nil
}

// rope is a lifeline: a pipe that nothing is written to, and whose other end the keeper has.
type rope struct {
	near, far *os.File
	once      sync.Once
	err       error
}

// Close lets go, once.
func (r *rope) Close() error {
	r.once.Do(func() { r.err = errors.Join(r.near.Close(), r.far.Close()) })
	return r.err
}

// abandon lets the keeper end the agent and all that it has started.
func (p *process) abandon() {
	if err := p.lifeline.Close(); err != nil {
		killGroup(p.cmd) // a descriptor that does not close; the agent goes with its keeper
	}
}

// unkept is what a keeper could not clean up.
func unkept(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("its keeper: %w", err)
}

// keep is the keeper: it starts the agent, waits until it ends or the lifeline does, and then
// leaves nothing of it.
func keep(folder string, limitsAndCommand []string) error {
	runtime.LockOSThread() // the agent is killed when this thread ends, which is with the process
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("keep the agent's descendants: %w", err)
	}
	lifeline := os.NewFile(3, "lifeline")
	syscall.CloseOnExec(3)
	cmd := exec.Command("/proc/self/exe", append([]string{startCommand}, limitsAndCommand...)...)
	cmd.Dir, cmd.Stdin, cmd.Stdout = folder, os.Stdin, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, os.RemoveAll(folder))
	}
	// The agent alone holds its ends of the pipes: they end with it.
	err := errors.Join(os.Stdin.Close(), os.Stdout.Close())
	over, none := make(chan struct{}, 2), make(chan struct{})
	go func() {
		// Nothing is ever written: it ends.
		if _, err := lifeline.Read(make([]byte, 1)); err != nil {
			over <- struct{}{}
		}
	}()
	go reap(cmd.Process.Pid, over, none)
	<-over
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		var spared error
		for _, pid := range descendants(os.Getpid()) {
			// It may have ended meanwhile.
			if failed := syscall.Kill(pid, syscall.SIGKILL); failed != nil && failed != syscall.ESRCH {
				spared = failed
			}
		}
		select {
		case <-none:
			return errors.Join(err, spared, os.RemoveAll(folder))
		case <-tick.C:
		}
	}
}

// reap waits for every descendant that has ended, says when the agent itself has, and when none is
// left.
func reap(agent int, over, none chan<- struct{}) {
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		switch {
		case pid == agent:
			over <- struct{}{}
		case errors.Is(err, syscall.ECHILD):
			close(none)
			return
		}
	}
}

// descendants are the processes that a process has started, and those that they have.
func descendants(of int) (pids []int) {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, file := range stats {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …, where the name may hold anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil || len(fields) < 2 {
			continue
		}
		if parent, err := strconv.Atoi(fields[1]); err == nil {
			children[parent] = append(children[parent], pid)
		}
	}
	pids = children[of]
	for i := 0; i < len(pids); i++ {
		pids = append(pids, children[pids[i]]...)
	}
	return pids
}

// text is the limits as they are handed to the process that becomes the agent.
func (l Limits) text() string {
	return fmt.Sprintf("%d,%d,%d,%d", l.MemoryMiB, l.FileMiB, l.OpenFiles, l.Processes)
}

// become sets the limits and turns this process into the agent.
func become(limits string, command []string) error {
	var l Limits
	if _, err := fmt.Sscanf(limits, "%d,%d,%d,%d",
		&l.MemoryMiB, &l.FileMiB, &l.OpenFiles, &l.Processes); err != nil {
		return fmt.Errorf("limits: %w", err)
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return err
	}
	for _, set := range [...]struct {
		resource int
		most     uint64
	}{
		{unix.RLIMIT_CORE, 0},
		{unix.RLIMIT_FSIZE, uint64(l.FileMiB) << 20},
		{unix.RLIMIT_NOFILE, uint64(l.OpenFiles)},
		{unix.RLIMIT_NPROC, uint64(l.Processes)},
		{unix.RLIMIT_DATA, uint64(l.MemoryMiB) << 20},
	} {
		if set.most == 0 && set.resource != unix.RLIMIT_CORE {
			continue
		}
		limit := syscall.Rlimit{Cur: set.most, Max: set.most}
		if err := syscall.Setrlimit(set.resource, &limit); err != nil {
			return fmt.Errorf("limit %d to %d: %w", set.resource, set.most, err)
		}
	}
	return syscall.Exec(program, command, os.Environ())
}
