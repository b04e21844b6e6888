package workspaceapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/leader"
	"tollgate/server/provider/runner"
	"tollgate/server/provider/verify"
	"tollgate/server/vault"
)

// How a worker holds a run.
const (
	defaultLease = 60 * time.Second
	// beats is how many heartbeats fit a lease. The agent is cancelled when the last quarter of the
	// lease begins, and has half of that quarter to end by itself: the rest is for killing it and, of
	// the leases that the settings allow between machines, for clocks that are 10 s apart.
	beats       = 4
	killDivisor = 2
	// cancelPoll is how often a worker asks whether its run was cancelled.
	cancelPoll = 500 * time.Millisecond
	// queuePoll is how often the queue is looked at.
	queuePoll = 100 * time.Millisecond
	// maxVerification bounds a verification, retries included, with some time to spare.
	maxVerification = verify.MaxTime + 15*time.Second
)

// WorkersConfig is what carries out hosted runs.
type WorkersConfig struct {
	Machine  *workspace.Machine
	Proposer server.Proposer
	Verifier *verify.Verifier
	// Agents are the configured agents by name.
	Agents map[string]runner.Agent
	// Leads reports whether this node leads the workspace group: only its leader starts runs.
	Leads func() (term uint64, ok bool)
	// SealKey is the QuoteKey of the API: people's answers, and checkpoints, are sealed under it.
	SealKey [32]byte
	// Name is the node's, for the record of the run.
	Name string
	// Workers is how many runs go on at a time; 4 when 0.
	Workers int
	// Lease is how long a run stays a worker's that is not heard of; 60 s when 0. Four heartbeats
	// fit it.
	Lease time.Duration
	Log   *slog.Logger
}

// Workers carries out hosted runs on the node that leads, until its context ends.
type Workers struct {
	config WorkersConfig
	// answers and checkpoints open what persons answered, and what agents go on from.
	answers, checkpoints *vault.Vault
	// access opens what runs sign in with.
	access *vault.Vault
	// beat is the time between two heartbeats.
	beat time.Duration
}

// NewWorkers makes the pool; Run starts it.
func NewWorkers(c WorkersConfig) (*Workers, error) {
	if c.Machine == nil || c.Proposer == nil || c.Verifier == nil || c.Leads == nil {
		return nil, errors.New("workspace: Machine, Proposer, Verifier and Leads must be set")
	}
	c.Workers = cmp.Or(c.Workers, 4)
	c.Lease = cmp.Or(c.Lease, defaultLease)
	c.Log = cmp.Or(c.Log, slog.Default())
	return &Workers{
		config: c, answers: vault.New(c.SealKey, answersPurpose),
		checkpoints: vault.New(c.SealKey, checkpointsPurpose),
		access:      vault.New(c.SealKey, accessPurpose), beat: c.Lease / beats,
	}, nil
}

// Run claims and carries out runs until ctx ends, and returns when all have let go. A run that is
// cut off by that is reported as lost, once; where that cannot be said, its lease ends, which is
// the same.
func (w *Workers) Run(ctx context.Context) {
	loop := leader.Loop[int, struct{}]{
		Leads: w.config.Leads, Every: queuePoll, Due: w.due,
		Do: func(ctx context.Context, _ int, _ struct{}, _ int) (time.Duration, bool) {
			return w.claim(ctx), false
		},
	}
	loop.Run(ctx)
}

// due offers a worker that is idle for each run that waits.
func (w *Workers) due(idle func(int) bool, offer func(int, struct{})) {
	queued, _ := w.config.Machine.Load()
	for worker := 0; worker < w.config.Workers && queued > 0; worker++ {
		if idle(worker) {
			queued--
			offer(worker, struct{}{})
		}
	}
}

// claim carries out the run that has waited longest. Where it gets none, the worker rests until the
// queue is looked at again.
func (w *Workers) claim(ctx context.Context) (rest time.Duration) {
	var held workspace.ClaimedRun
	before := time.Now()
	r := w.propose(workspace.KindClaimRun, &workspace.ClaimRun{
		Worker: w.config.Name, LeaseMS: w.config.Lease.Milliseconds(),
	})
	if r.Outcome != engine.OutcomeDone || !decoded(r.Value, &held) {
		return queuePoll
	}
	w.work(ctx, &held, before.Add(w.config.Lease))
	return 0
}

func (w *Workers) propose(kind engine.Kind, c wire.Fielder) engine.Result {
	records := [1]engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}
	var results [1]engine.Result
	w.config.Proposer.Propose(time.Now().Add(5*time.Second), records[:], results[:])
	return results[0]
}

// work carries one run out: agent, verification, and the one last word. The lease holds at least
// until the given instant.
func (w *Workers) work(pool context.Context, claimed *workspace.ClaimedRun, until time.Time) {
	run, flow, ok := w.config.Machine.Job(claimed.Run, claimed.Token)
	if !ok {
		return
	}
	wall := time.Duration(claimed.WallEnd-w.config.Machine.Stamp()) * time.Millisecond
	ctx, stop := context.WithCancelCause(pool)
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, max(wall, time.Second), errWall)
	defer cancel()
	h := &held{
		Workers: w, ClaimedRun: *claimed, stop: stop, pool: pool, until: until,
		id: idText(markRun, run.ID), run: &run, flow: &flow,
		stood: flow.AlreadyTrue,
	}
	said := make(chan struct{})
	var beating sync.WaitGroup
	beating.Go(func() { h.beatUntil(said) })
	defer beating.Wait()
	defer close(said)
	report, err := h.act(ctx)
	if err != nil && ctx.Err() == nil {
		w.config.Log.Warn("an agent was not available", "run", h.id,
			"error", h.fit(err.Error(), workspace.MaxReasonBytes))
	}
	if err == nil && ctx.Err() == nil && report.Question != "" && !h.handed() {
		var sealed []byte
		if sealed, err = h.seal(&report); err == nil {
			events, _ := h.told()
			h.say(workspace.KindAwaitPerson, &workspace.AwaitPerson{
				Run: run.ID, Token: h.Token, Checkpoint: sealed,
				Question: h.fit(report.Question, workspace.MaxQuestionBytes), Events: events,
				Steps: used(report.Steps), Tokens: used(report.Tokens),
			})
			return
		}
	}
	last := h.decide(ctx, &report, err)
	h.noteFound(last.Calls)
	last.Run, last.Token = run.ID, h.Token
	last.Events, _ = h.told()
	h.say(workspace.KindFinishRun, last)
}

// task is what the agent is told, with what a person answered and what it goes on from in
// plaintext.
func (h *held) task() (t runner.Task, err error) {
	flow := h.flow
	t = runner.Task{
		RunID: h.id, URL: flow.URL, Task: strings.ReplaceAll(flow.Task, verify.RunMark, h.id),
		SuccessCriteria: flow.SuccessCriteria, Credential: flow.Credential, Hosts: hostsOf(flow),
		Steps: int(h.run.Steps), Tokens: int(h.run.Tokens),
		Grace: h.config.Lease / beats / killDivisor,
	}
	if t.Account, err = h.account(); err != nil {
		return t, err
	}
	if t.Checkpoint, err = h.unseal(h.run.Checkpoint); err != nil || len(h.Answer) == 0 {
		return t, err
	}
	if t.Answer, err = h.answers.Open(0, h.id, h.Answer); err != nil {
		return t, fmt.Errorf("%w: a person's answer: %w", runner.ErrUnavailable, err)
	}
	h.addSecrets(answerSecrets(t.Answer)...)
	return t, nil
}

// act lets the agent work. An agent that panics is one that was lost; of what it panicked with,
// only the kind is logged: the text may hold anything.
func (h *held) act(ctx context.Context) (report runner.Report, err error) {
	agent, known := h.config.Agents[h.run.Agent.Name]
	if !known {
		return report, fmt.Errorf("%w: none is called so any more", runner.ErrUnavailable)
	}
	task, err := h.task()
	if err != nil {
		return report, err
	}
	defer func() {
		if cause := recover(); cause != nil {
			h.config.Log.Error("an agent panicked", "run", h.id, "cause", fmt.Sprintf("%T", cause),
				"stack", string(debug.Stack()))
			report, err = runner.Report{}, fmt.Errorf("%w: it panicked", runner.ErrUnavailable)
		}
	}()
	report, err = agent.Run(ctx, task, h.emit)
	if report.Credential != "" {
		h.emit(runner.Event{Credential: report.Credential})
	}
	if err == nil && !h.obtains() && h.handed() {
		// Heartbeats store what it says: an event before may have held the key.
		err = fmt.Errorf("%w: it handed a key over that it was not asked for", runner.ErrUnavailable)
	}
	report.Reached = report.Reached || h.reached
	return report, err
}

// used is how much an agent reports that it has used, as the state keeps it.
func used(n int) uint32 { return uint32(max(0, min(n, math.MaxInt32))) }

// decide is what the run comes to. The agent's own account never makes it pass.
func (h *held) decide(ctx context.Context, report *runner.Report, err error) *workspace.FinishRun {
	last := &workspace.FinishRun{
		Status: workspace.RunFailed, Outcome: workspace.OutcomeInconclusive,
		Step: h.fit(report.Step, 80),
	}
	switch {
	case ctx.Err() != nil:
		return cutShort(ctx, last)
	case err != nil:
		last.Code, last.Reason = "provider_unavailable", "The agent was not available."
		if errors.Is(err, errAccess) {
			last.Code = "test_access_missing"
			last.Reason = "The test credentials of the flow's host were taken away before it began."
		}
		if errors.Is(err, runner.ErrCheckpoint) {
			last.Reason = fmt.Sprintf("The agent left no checkpoint that can be kept (%d bytes).",
				workspace.MaxCheckpoint)
		}
		return last
	case report.Question != "" || h.betrayed():
		last.Code = "human_after_credential"
		last.Reason = "The agent asked for a person when it had a key already."
		return last
	}
	calling, cancel := context.WithTimeout(ctx, maxVerification)
	defer cancel()
	verdict := h.config.Verifier.Decide(calling, CheckOf(h.flow, h.id), report.Credential)
	if ctx.Err() != nil { // what was called says nothing of the product
		return cutShort(ctx, last)
	}
	scrubberOf(report.Credential).verdict(&verdict)
	last.Status, last.Code, last.Reason = workspace.RunCompleted, verdict.Code, verdict.Reason
	last.Calls = callsOf(&verdict)
	switch verdict.Outcome {
	case verify.Passed:
		last.Outcome, last.Proof = workspace.OutcomePassed, "run"
		if h.stood {
			last.Proof = "standing"
		}
		h.doubt(last)
	case verify.Blocked:
		last.Outcome = workspace.OutcomeBlocked
	}
	switch {
	case report.Blocked:
		h.stopped(last, report, &verdict)
	case report.Code != "" && verdict.Code == verify.NoCredential:
		// What the agent says of itself: a limit of its own is not the product's doing.
		last.Code = h.fit(report.Code, 64)
		last.Reason = cmp.Or(h.fit(report.Reason, workspace.MaxReasonBytes), last.Reason)
	}
	return last
}

// stopped is the end of a run whose agent reports that it was stopped. Where and why is its own
// account; that it got nowhere is the verification's; and where it brings no key, what carried its
// requests has to have seen that it was at the product: its word alone is not charged.
func (h *held) stopped(last *workspace.FinishRun, report *runner.Report, verdict *verify.Verdict) {
	switch {
	case verdict.Outcome == verify.Blocked:
	case verdict.Code == verify.NoCredential && report.Reached:
	case verdict.Code == verify.NoCredential:
		last.Code = "product_not_reached"
		last.Reason = "The agent reports that it was stopped, and no answer of the product has " +
			"reached it."
		return
	default:
		return
	}
	last.Outcome = workspace.OutcomeBlocked
	last.Code = cmp.Or(h.fit(report.Code, 64), last.Code)
	last.Reason = cmp.Or(h.fit(report.Reason, workspace.MaxReasonBytes), last.Reason)
}

// cutShort is the end of a run whose agent, or whose verification, was ended from outside.
func cutShort(ctx context.Context, last *workspace.FinishRun) *workspace.FinishRun {
	last.Code, last.Reason = workspace.CodeWorkerLost, "The worker that ran it was stopped."
	if errors.Is(context.Cause(ctx), errWall) {
		last.Code, last.Reason = workspace.CodeWallTimeout, "It took too long."
	}
	return last
}

// doubt takes back a pass of the agent that does nothing, unless it is of what stood before; http
// does nothing where no key is to be obtained.
func (h *held) doubt(last *workspace.FinishRun) {
	idle := h.run.Agent.Idle() || h.run.Agent.Kind == "http" && !h.obtains()
	if !idle || last.Proof == "standing" && !ofItsRun(h.flow) {
		return
	}
	last.Outcome, last.Proof, last.Code = workspace.OutcomeInconclusive, "", "agent_did_nothing"
	last.Reason = "The agent did nothing that could have made this true."
}

func callsOf(verdict *verify.Verdict) []workspace.Call {
	made := make([]workspace.Call, 0, len(verdict.Calls))
	for _, c := range verdict.Calls {
		made = append(made, workspace.Call{
			Case: c.Case, Status: uint32(c.Status), Matched: c.Answer == verify.Accepted,
			Refused: verdict.Refused(c), Note: c.Note,
		})
	}
	return made
}
