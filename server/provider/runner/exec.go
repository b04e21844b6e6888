package runner

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// What an agent's process may say.
const (
	maxLine  = 64 << 10
	maxLines = 10_000
)

// grace is how long a cancelled agent has to end by itself before its process group is killed.
const grace = 5 * time.Second

// Exec runs an agent as a local command and speaks with it in newline-delimited JSON: see
// DESIGN.md. The command is the operator's; what a task says reaches it as data on its input, never
// as arguments. It gets PATH and HOME and nothing else of our environment.
type Exec struct {
	// Command is the program and its arguments.
	Command []string
	// Dir is where it runs; empty is a folder of its own that goes with the run.
	Dir string
}

// message is one line, in either direction.
type message struct {
	Type string `json:"type"`
	// Of start and resume.
	RunID           string `json:"runId,omitzero"`
	URL             string `json:"url,omitzero"`
	Task            string `json:"task,omitzero"`
	SuccessCriteria string `json:"successCriteria,omitzero"`
	Credential      string `json:"credential,omitzero"`
	// Of resume and need_human, in base64.
	Checkpoint string `json:"checkpoint,omitzero"`
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
func (e *Exec) Run(ctx context.Context, t Task, tell func(Event)) (report Report, err error) {
	dir := e.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "tollgate-run-"); err != nil {
			return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}
	cmd := exec.Command(e.Command[0], e.Command[1:]...)
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
	ownGroup(cmd)
	in, err := cmd.StdinPipe()
	if err != nil {
		return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if err = cmd.Start(); err != nil {
		return report, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	p := &process{cmd: cmd, in: in}
	stop := context.AfterFunc(ctx, p.cancel)
	report, err = p.converse(t, bufio.NewReaderSize(out, maxLine), tell)
	stop()
	p.end()
	if ctx.Err() != nil {
		return Report{}, fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
	return report, err
}

// process is a running command.
type process struct {
	cmd *exec.Cmd
	mu  sync.Mutex // guards in
	in  io.WriteCloser
	// killer kills the group of a cancelled agent that does not end.
	killer *time.Timer
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

// cancel tells the agent to end, and makes sure that it does.
func (p *process) cancel() {
	p.mu.Lock()
	p.killer = time.AfterFunc(grace, func() { killGroup(p.cmd) })
	p.mu.Unlock()
	if err := p.send(&message{Type: "cancel"}); err != nil {
		killGroup(p.cmd) // it does not listen any more
	}
}

// end leaves nothing of the process and its children.
func (p *process) end() {
	killGroup(p.cmd)
	p.mu.Lock()
	if p.killer != nil {
		p.killer.Stop()
	}
	p.mu.Unlock()
	// How it ended says nothing: it was killed.
	if err := p.cmd.Wait(); err != nil {
		return
	}
}

// converse hands over the task and reads lines until the agent has said its last word.
func (p *process) converse(t Task, out *bufio.Reader, tell func(Event)) (r Report, err error) {
	start := message{
		Type: "start", RunID: t.RunID, URL: t.URL, Task: t.Task, SuccessCriteria: t.SuccessCriteria,
		Credential: t.Credential,
	}
	if t.Checkpoint != nil {
		start.Type, start.Checkpoint = "resume", base64.StdEncoding.EncodeToString(t.Checkpoint)
	}
	if err = p.send(&start); err != nil {
		return r, fmt.Errorf("%w: it does not read: %w", ErrUnavailable, err)
	}
	for range maxLines {
		line, err := out.ReadSlice('\n')
		if err != nil {
			return r, fmt.Errorf("%w: it ended without done: %w", ErrUnavailable, err)
		}
		var m message
		if err = json.Unmarshal(line, &m); err != nil {
			return r, fmt.Errorf("%w: a line that is no message", ErrUnavailable)
		}
		switch m.Type {
		case "event":
			tell(Event{At: time.Now(), Text: m.Text})
		case "heartbeat":
		case "credential":
			r.Credential = m.Value
		case "need_human":
			r.Question = m.Question
			if r.Checkpoint, err = base64.StdEncoding.DecodeString(m.Checkpoint); err != nil {
				return r, fmt.Errorf("%w: a checkpoint that is no base64", ErrUnavailable)
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
