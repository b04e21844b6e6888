package runner

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/server/provider/fetch"
)

// What an agent's process may say.
const (
	maxLine  = 64 << 10
	maxLines = 10_000
	// maxCheckpoint is what it may leave for itself, in bytes.
	maxCheckpoint = 8 << 10
)

const (
	// grace is how long at most a cancelled agent has to end by itself before it is killed with all
	// that it has started.
	grace = 5 * time.Second
	// linger is how long what was killed may take to be gone. What the kernel holds longer (a disk
	// that does not answer) holds no worker.
	linger = 10 * time.Second
)

// Exec runs an agent as a local command and speaks with it in newline-delimited JSON: see
// DESIGN.md. The command is the operator's; what a task says reaches it as data on its input, never
// as arguments. It gets PATH and HOME and nothing else of our environment.
type Exec struct {
	// Command is the program and its arguments.
	Command []string
	// Folder is where each run has a folder of its own, which goes with it; see Sweep. Empty is the
	// machine's folder for temporary files.
	Folder string
	// Limits are what each of its processes may use.
	Limits Limits
	// Web is the guarded client by which the run's own proxy reaches the hosts of the task; without
	// it there is no proxy.
	Web *fetch.Client
	// Log gets what could not be cleaned up after a run, which does not make the run bad.
	Log *slog.Logger
}

// Limits are what each process of an agent may use, where the system can tell (Linux); 0 is no
// limit.
type Limits struct {
	// MemoryMiB is of data that it may write (RLIMIT_DATA), FileMiB of one file (RLIMIT_FSIZE).
	MemoryMiB, FileMiB int
	// OpenFiles is how many (RLIMIT_NOFILE). Processes is of all processes and threads of the user
	// that the node runs as (RLIMIT_NPROC); the superuser has none.
	OpenFiles, Processes int
}

// runFolder begins the name of a run's folder.
const runFolder = "tollgate-run-"

// Sweep makes the folder for runs where it is none, and removes what runs of an earlier process
// have left there: one that was killed together with what kept its agents, by a power cut.
func Sweep(folder string) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	left, err := filepath.Glob(filepath.Join(folder, runFolder+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	return err
}

// message is one line, in either direction.
type message struct {
	Type string `json:"type"`
	// Of start and resume.
	Task
	// Of resume and need_human, in base64.
	Checkpoint string `json:"checkpoint,omitzero"`
	// Of resume: what a person answered.
	Answer string `json:"answer,omitzero"`
	// Of event.
	Text string `json:"text,omitzero"`
	// Of credential: the key.
	Value string `json:"value,omitzero"`
	// Of need_human.
	Question string `json:"question,omitzero"`
	// Of done.
	Blocked bool   `json:"blocked,omitzero"`
	Step    string `json:"step,omitzero"`
	Code    string `json:"code,omitzero"`
	Reason  string `json:"reason,omitzero"`
}

// Run starts the command, hands it the task, and reads what it says until it is done, asks for a
// person, ends, or ctx does. Nothing of it is left when Run returns.
func (e *Exec) Run(ctx context.Context, t Task, emit func(Event)) (report Report, err error) {
	dir, err := os.MkdirTemp(e.Folder, runFolder)
	if err != nil {
		return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	defer func() { e.left("its folder", os.RemoveAll(dir)) }()
	cmd, lifeline, err := kept(e, dir)
	if err != nil {
		return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p := &process{cmd: cmd, lifeline: lifeline, ended: make(chan struct{}), grace: grace}
	if t.Grace > 0 {
		p.grace = min(t.Grace, grace)
	}
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	if e.Web != nil {
		way, err := openProxy(e.Web, t.Hosts)
		if err != nil {
			return report, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), lifeline.Close())
		}
		defer func() {
			e.left("its proxy", way.close())
			report.Reached = way.reached.Load()
		}()
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"} {
			cmd.Env = append(cmd.Env, name+"="+way.url())
		}
	}
	if err = p.start(); err != nil {
		return report, errors.Join(fmt.Errorf("%w: %w", ErrUnavailable, err), lifeline.Close())
	}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() { p.watch(ctx, over) })
	report, err = p.converse(t, bufio.NewReaderSize(p.out, maxLine), emit)
	close(over)
	watching.Wait()
	e.left("its processes", p.end())
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return report, err
}

// left logs what a run left behind.
func (e *Exec) left(what string, err error) {
	if err != nil && e.Log != nil {
		e.Log.Warn("something is left of an agent", "what", what, "error", err)
	}
}

// process is a running command, under what keeps it.
type process struct {
	cmd *exec.Cmd
	out *os.File
	// ended is closed when the keeper has ended, as how says.
	ended chan struct{}
	how   error
	// lifeline is what the keeper lives by: all of the agent ends with it.
	lifeline io.Closer
	// grace is how long it has to end by itself.
	grace time.Duration

	mu sync.Mutex // guards writing to in
	in io.WriteCloser
}

func (p *process) start() (err error) {
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	far, out, err := os.Pipe()
	if err != nil {
		return err
	}
	p.out, p.cmd.Stdout = far, out
	if err = errors.Join(p.cmd.Start(), out.Close()); err != nil {
		return errors.Join(err, far.Close())
	}
	go func() {
		p.how = p.cmd.Wait()
		close(p.ended)
	}()
	return nil
}

func (p *process) send(m *message) error {
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.in.Write(append(line, '\n'))
	return err
}

// watch ends the agent if ctx ends before over is closed: it sends a cancel message, waits for the
// grace period, then kills the agent and everything that it started. If that takes too long, or
// something still holds the output after the keeper has ended, watch closes the output.
func (p *process) watch(ctx context.Context, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-p.ended:
	case <-ctx.Done():
		p.askToEnd(over)
		p.abandon()
	}
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-over:
	case <-late.C:
		p.closeOutput()
	}
}

// askToEnd sends the agent a cancel message and returns after the grace period, or at once if the
// agent does not read it.
func (p *process) askToEnd(over <-chan struct{}) {
	told := make(chan error, 1)
	go func() { told <- p.send(&message{Type: "cancel"}) }()
	late := time.NewTimer(p.grace)
	defer late.Stop()
	for listens := true; listens; {
		select {
		case <-over:
			return
		case err := <-told:
			listens = err == nil
		case <-late.C:
			listens = false
		}
	}
}

// closeOutput reads the agent no more. That it is closed already is not an error.
func (p *process) closeOutput() {
	if err := p.out.Close(); err != nil {
		return
	}
}

// end leaves nothing of the process and of what it has started. The error says what is left.
func (p *process) end() error {
	p.abandon()
	defer p.closeOutput()
	late := time.NewTimer(linger)
	defer late.Stop()
	select {
	case <-p.ended:
		return unkept(p.how)
	case <-late.C:
		return errors.Join(errors.New("it does not end though it was killed"), p.cmd.Process.Kill())
	}
}

// converse sends the task and reads messages until the agent's last one.
func (p *process) converse(t Task, out *bufio.Reader, emit func(Event)) (r Report, err error) {
	start := message{Type: "start", Task: t}
	if t.Checkpoint != nil {
		start.Type, start.Checkpoint = "resume", base64.StdEncoding.EncodeToString(t.Checkpoint)
		start.Answer = t.Answer
	}
	if err = p.send(&start); err != nil {
		return r, fmt.Errorf("%w: it does not read: %w", ErrUnavailable, err)
	}
	var keys keyring
	for range maxLines {
		line, err := out.ReadSlice('\n')
		if err != nil {
			return r, fmt.Errorf("%w: it ended without done: %w", ErrUnavailable, err)
		}
		var m message
		if err = json.Unmarshal(line, &m); err != nil {
			return r, fmt.Errorf("%w: a line that is not a message", ErrUnavailable)
		}
		switch m.Type {
		case "event":
			emit(Event{At: time.Now(), Text: m.Text})
		case "heartbeat":
		case "credential":
			if !keys.take(m.Value) {
				return r, fmt.Errorf("%w: a credential that is none, or too many", ErrUnavailable)
			}
			r.Credential = m.Value
			emit(Event{At: time.Now(), Credential: m.Value})
		case "need_human":
			r.Question = m.Question
			if r.Checkpoint, err = base64.StdEncoding.DecodeString(m.Checkpoint); err != nil ||
				len(r.Checkpoint) > maxCheckpoint {
				return r, ErrCheckpoint
			}
			return r, nil
		case "done":
			r.Blocked, r.Step, r.Code, r.Reason = m.Blocked, m.Step, m.Code, m.Reason
			return r, nil
		default:
			return r, fmt.Errorf("%w: a message of an unknown type", ErrUnavailable)
		}
	}
	return r, fmt.Errorf("%w: it says too much", ErrUnavailable)
}
