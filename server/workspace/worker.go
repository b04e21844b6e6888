package workspace

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/verify"
)

// How a worker holds a run.
const (
	lease     = 60 * time.Second
	heartbeat = 15 * time.Second
	// idle is how often the queue is looked at.
	idle = 100 * time.Millisecond
	// verifying is the most that a verification takes, retries included.
	verifying = 90 * time.Second
)

// WorkersConfig is what carries out hosted runs.
type WorkersConfig struct {
	Machine  *state.Machine
	Proposer server.Proposer
	Verifier *verify.Verifier
	// Agents are the configured agents by name.
	Agents map[string]runner.Agent
	// Leads says whether this node leads the workspace group: only its leader starts runs.
	Leads func() bool
	// Name is the node's, for the record of the run.
	Name string
	// Workers is how many runs go on at a time; 4 when 0.
	Workers int
	Log     *slog.Logger
}

// Workers carries out hosted runs on the node that leads, until its context ends.
type Workers struct {
	config WorkersConfig
	slots  chan struct{}
	busy   sync.WaitGroup
}

// NewWorkers makes the pool; Run starts it.
func NewWorkers(c WorkersConfig) (*Workers, error) {
	if c.Machine == nil || c.Proposer == nil || c.Verifier == nil || c.Leads == nil {
		return nil, errors.New("workspace: Machine, Proposer, Verifier and Leads must be set")
	}
	if c.Workers == 0 {
		c.Workers = 4
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	return &Workers{config: c, slots: make(chan struct{}, c.Workers)}, nil
}

// Run claims and carries out runs until ctx ends, and returns when all have let go. A run that is
// cut off is not reported: its lease ends, and it counts as lost and is returned.
func (w *Workers) Run(ctx context.Context) {
	tick := time.NewTicker(idle)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			w.busy.Wait()
			return
		case <-tick.C:
		}
		for w.config.Leads() && ctx.Err() == nil && w.claim(ctx) {
			continue
		}
	}
}

// claim starts the run that has waited longest; false when there is none, or no room.
func (w *Workers) claim(ctx context.Context) bool {
	if queued, _ := w.config.Machine.Load(); queued == 0 {
		return false
	}
	select {
	case w.slots <- struct{}{}:
	default:
		return false
	}
	var held state.ClaimedRun
	r := w.propose(state.KindClaimRun, &state.ClaimRun{
		Worker: w.config.Name, LeaseMS: lease.Milliseconds(),
	})
	if r.Outcome != engine.OutcomeDone || !decoded(r.Value, &held) {
		<-w.slots
		return false
	}
	w.busy.Go(func() {
		defer func() { <-w.slots }()
		w.work(ctx, &held)
	})
	return true
}

func (w *Workers) propose(kind engine.Kind, c wire.Fielder) engine.Result {
	records := [1]engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}
	var results [1]engine.Result
	w.config.Proposer.Propose(time.Now().Add(5*time.Second), records[:], results[:])
	return results[0]
}

// held is a run that this worker has, with what its agent did since the last heartbeat.
type held struct {
	*Workers
	state.ClaimedRun
	stop context.CancelFunc

	mu     sync.Mutex
	events []state.RunEvent
}

// tell keeps an event for the next heartbeat; what an agent says is cut and bounded.
func (h *held) tell(e runner.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.events) < state.MaxRunEvents {
		h.events = append(h.events, state.RunEvent{
			At: e.At.UnixMilli(), Text: cut(e.Text, state.MaxEventBytes),
		})
	}
}

func (h *held) told() []state.RunEvent {
	h.mu.Lock()
	defer h.mu.Unlock()
	events := h.events
	h.events = nil
	return events
}

// cut shortens a text to at most n bytes of whole characters, without control characters.
func cut(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// beat extends the lease until ctx ends; when the run is not this worker's any more it stops it.
func (h *held) beat(ctx context.Context) {
	tick := time.NewTicker(heartbeat)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		r := h.propose(state.KindExtendLease, &state.ExtendLease{
			Run: h.ClaimedRun.Run, Token: h.Token, LeaseMS: lease.Milliseconds(), Events: h.told(),
		})
		if r.Outcome == engine.OutcomeFenced || r.Outcome == engine.OutcomeRecordUnknown {
			h.stop()
			return
		}
	}
}

// work carries one run out: agent, verification, and the one last word.
func (w *Workers) work(ctx context.Context, claimed *state.ClaimedRun) {
	run, flow, ok := w.config.Machine.Job(claimed.Run, claimed.Token)
	if !ok {
		return
	}
	wall := time.Duration(claimed.WallEnd-w.config.Machine.Stamp()) * time.Millisecond
	ctx, stop := context.WithTimeout(ctx, max(wall, time.Second))
	defer stop()
	h := &held{Workers: w, ClaimedRun: *claimed, stop: stop}
	var beating sync.WaitGroup
	beating.Go(func() { h.beat(ctx) })
	report, err := w.act(ctx, h, &run, &flow)
	if err == nil && report.Question != "" && report.Credential == "" {
		stop()
		beating.Wait()
		w.propose(state.KindAwaitPerson, &state.AwaitPerson{
			Run: run.ID, Token: h.Token, Question: cut(report.Question, state.MaxQuestionBytes),
			Checkpoint: report.Checkpoint[:min(len(report.Checkpoint), state.MaxCheckpoint)],
			Events:     h.told(),
		})
		return
	}
	last := w.decide(ctx, &run, &flow, &report, err)
	stop()
	beating.Wait()
	last.Run, last.Token, last.Events = run.ID, h.Token, h.told()
	if r := w.propose(state.KindFinishRun, last); r.Outcome != engine.OutcomeDone {
		w.config.Log.Warn("a run's end was not taken", "run", idText(markRun, run.ID),
			"outcome", r.Outcome)
	}
}

// act lets the agent work. An agent that panics is one that was lost.
func (w *Workers) act(ctx context.Context, h *held, run *state.RunView, flow *state.FlowView,
) (report runner.Report, err error) {
	name, _, _ := strings.Cut(run.Agent, " ")
	agent, known := w.config.Agents[name]
	if !known {
		return report, runner.ErrUnavailable
	}
	defer func() {
		if cause := recover(); cause != nil {
			w.config.Log.Error("an agent panicked", "run", idText(markRun, run.ID), "cause", cause)
			err = runner.ErrUnavailable
		}
	}()
	id := idText(markRun, run.ID)
	return agent.Run(ctx, runner.Task{
		RunID: id, URL: flow.URL, Task: strings.ReplaceAll(flow.Task, verify.RunMark, id),
		SuccessCriteria: flow.SuccessCriteria, Credential: flow.Credential,
		Checkpoint: run.Checkpoint,
	}, h.tell)
}

// decide is what the run comes to. The agent's own account never makes it pass.
func (w *Workers) decide(ctx context.Context, run *state.RunView, flow *state.FlowView,
	report *runner.Report, err error,
) *state.FinishRun {
	last := &state.FinishRun{
		Status: state.RunFailed, Outcome: state.OutcomeInconclusive, Step: cut(report.Step, 80),
	}
	switch {
	case err != nil || ctx.Err() != nil:
		last.Code, last.Reason = "provider_unavailable", "The agent was not available."
		return last
	case report.Question != "":
		last.Code = "human_after_credential"
		last.Reason = "The agent asked for a person after it had handed a key over."
		return last
	case report.Blocked:
		last.Status, last.Outcome = state.RunCompleted, state.OutcomeBlocked
		last.Code, last.Reason = cut(report.Code, 64), cut(report.Reason, state.MaxReasonBytes)
		return last
	}
	ctx, cancel := context.WithTimeout(ctx, verifying)
	defer cancel()
	verdict := w.config.Verifier.Decide(ctx, CheckOf(flow, idText(markRun, run.ID)), report.Credential)
	scrub(&verdict, report.Credential)
	last.Status, last.Code, last.Reason = state.RunCompleted, verdict.Code, verdict.Reason
	last.Calls = callsOf(verdict.Calls)
	switch verdict.Outcome {
	case verify.Passed:
		last.Outcome, last.Proof = state.OutcomePassed, "run"
		if flow.AlreadyTrue {
			last.Proof = "standing"
		}
		w.doubt(run, flow, last)
	case verify.Blocked:
		last.Outcome = state.OutcomeBlocked
	}
	return last
}

// doubt takes back a pass of the agent that does nothing where only a run could have made it true.
func (w *Workers) doubt(run *state.RunView, flow *state.FlowView, last *state.FinishRun) {
	if !strings.Contains(run.Agent, " nop ") ||
		flow.Credential == "" && !strings.Contains(flow.VerificationContains, verify.RunMark) {
		return
	}
	last.Outcome, last.Proof, last.Code = state.OutcomeInconclusive, "", "agent_did_nothing"
	last.Reason = "The agent did nothing that could have made this true."
}

// scrub takes the key out of what is stored, should the product have echoed it.
func scrub(v *verify.Verdict, key string) {
	if key == "" {
		return
	}
	v.Reason = strings.ReplaceAll(v.Reason, key, "[key]")
	for i := range v.Calls {
		v.Calls[i].Note = strings.ReplaceAll(v.Calls[i].Note, key, "[key]")
	}
}

func callsOf(calls []verify.Call) []state.Call {
	made := make([]state.Call, 0, len(calls))
	for _, c := range calls {
		made = append(made, state.Call{
			Case: c.Case, Status: uint32(c.Status), Matched: c.Answer == verify.Accepted,
			Refused: c.Answer == verify.Refused || c.Answer == verify.Soft, Note: c.Note,
		})
	}
	return made
}
