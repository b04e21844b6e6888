package load

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	api "tollgate/sdk/go"
)

// Hosted measures checks and single events during hosted runs of the workspace API, and without
// them, in turns on one cluster. The cluster must have an agent that goes on until it is cancelled,
// as many workers as runs, and raised limits, as `tollgate dev` has them.
type Hosted struct {
	// Checks and Events are what is measured; their Target is the cluster.
	Checks, Events Config
	// Agent is the name of the agent whose runs go on.
	Agent string
	// Runs is how many go on at a time, 1 to 1,000; Rounds is how often it is measured
	// during them, and once more without.
	Runs, Rounds int
	// Calm is how long after the last run was cancelled nothing is measured: its agent may still be
	// ending. 0 is five seconds.
	Calm time.Duration
	// Progress is told what happens.
	Progress Progress `json:"-"`

	tenants []tenant
}

// RunsReport is what came of Hosted.
type RunsReport struct {
	Runs   int
	Rounds []RunsRound
	// Checks is the median of the rounds' checks a second during runs by those without; Event is the
	// same of the p99 of single events.
	Checks, Event float64
}

// RunsRound is one round: checks a second, and p99 of single events, during runs and without. What
// is without is the mean of the measurements before and after: a machine that grows slower or
// faster, and a cluster that holds more and more, favour neither.
type RunsRound struct {
	Checks, ChecksBeside float64
	Event, EventBeside   time.Duration
}

const (
	// freeRuns is how many runs a workspace that has an owner has for nothing.
	freeRuns = 5
	maxRuns  = 1000
	// runsPatience bounds how long it may take until all runs go on, or none does.
	runsPatience = 2 * time.Minute
	runsRunning  = `tollgate_runs{state="running"} `
)

// tenant is a workspace with flows, of which each can have one run.
type tenant struct {
	key   string
	flows []hostedFlow
}

type hostedFlow struct{ id, fingerprint, run string }

// Measure carries the measurement out. It is a *Refusal when a run ended meanwhile.
func (h *Hosted) Measure(ctx context.Context) (report RunsReport, err error) {
	if h.Runs < 1 || h.Runs > maxRuns || h.Rounds < 1 || len(h.Checks.Admin.Nodes) == 0 {
		return report, fmt.Errorf("%d runs, %d rounds: want 1 to %d runs of a cluster of `tollgate dev`",
			h.Runs, h.Rounds, maxRuns)
	}
	// The verification that no run reaches: nothing is true there.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return report, fmt.Errorf("prepare runs: %w", err)
	}
	product := &http.Server{Handler: http.NotFoundHandler(), ReadTimeout: time.Minute}
	ended := make(chan error, 1)
	go func() { ended <- product.Serve(listener) }()
	defer func() {
		err = errors.Join(err, product.Close())
		if served := <-ended; !errors.Is(served, http.ErrServerClosed) {
			err = errors.Join(err, served)
		}
	}()
	if err = h.prepare(ctx, "http://"+listener.Addr().String()); err != nil {
		return report, fmt.Errorf("prepare runs: %w", err)
	}
	report.Runs = h.Runs
	before, err := sideOf(ctx, h.Checks, h.Events)
	if err != nil {
		return report, err
	}
	for n := range h.Rounds {
		beside, err := h.beside(ctx)
		if err != nil {
			return report, err
		}
		after, err := sideOf(ctx, h.Checks, h.Events)
		if err != nil {
			return report, err
		}
		without := mean(before, after)
		round := RunsRound{
			Checks: without.Checks, ChecksBeside: beside.Checks,
			Event: without.P99, EventBeside: beside.P99,
		}
		report.Rounds, before = append(report.Rounds, round), after
		h.Progress.say("round %d: %.0f checks/s, %.0f during runs; event p99 %s, %s", n+1, round.Checks,
			round.ChecksBeside, round.Event, round.EventBeside)
	}
	report.sum()
	return report, nil
}

// beside measures while runs go on, all of them from its begin to its end.
func (h *Hosted) beside(ctx context.Context) (s PagesSide, err error) {
	if err = h.startAll(ctx); err != nil {
		return s, err
	}
	if s, err = sideOf(ctx, h.Checks, h.Events); err != nil {
		return s, err
	}
	going, err := h.going(ctx)
	if err == nil && going != h.Runs {
		err = refuse("%d of %d runs ended while it was measured", h.Runs-going,
			h.Runs)
	}
	if err != nil {
		return s, err
	}
	return s, h.cancelAll(ctx)
}

// sum fills in the medians of the rounds' ratios.
func (r *RunsReport) sum() {
	r.Checks = middle(r.Rounds, func(o RunsRound) float64 { return o.ChecksBeside / o.Checks })
	r.Event = middle(r.Rounds, func(o RunsRound) float64 {
		return float64(o.EventBeside) / float64(o.Event)
	})
}

// prepare makes workspaces with owners, and their flows.
func (h *Hosted) prepare(ctx context.Context, product string) error {
	for left := h.Runs; left > 0; left -= freeRuns {
		var signed api.SignedUp
		label := api.SignupRequest{Label: "bench"}
		err := h.call(ctx, call{path: "/v1/signup", body: label}, 201, &signed)
		if err != nil {
			return err
		}
		err = h.call(ctx, call{
			path: "/api/v1/admin/workspaces/" + signed.Workspace + "/claim", admin: true,
			body: map[string]string{"owner": "bench@example.com"},
		}, 200, nil)
		if err != nil {
			return err
		}
		t := tenant{key: signed.Key}
		for range min(left, freeRuns) {
			flow, err := h.flow(ctx, signed.Key, product)
			if err != nil {
				return err
			}
			t.flows = append(t.flows, flow)
		}
		h.tenants = append(h.tenants, t)
	}
	return nil
}

func (h *Hosted) flow(ctx context.Context, key, product string) (f hostedFlow, err error) {
	var saved struct{ Flow api.Flow }
	var quoted struct{ Quote api.Quote }
	err = h.call(ctx, call{key: key, path: "/v1/flows", body: api.FlowRequest{
		Name: "wait", URL: product + "/", Task: "Wait.", SuccessCriteria: "None.", Access: "public",
		Agent: h.Agent, Verification: api.FlowVerification{URL: product + "/", Contains: "done"},
	}}, 201, &saved)
	if err == nil {
		err = h.call(ctx, call{
			method: "GET", key: key, path: "/v1/flows/" + saved.Flow.ID + "/quote",
		}, 200, &quoted)
	}
	return hostedFlow{id: saved.Flow.ID, fingerprint: quoted.Quote.Fingerprint}, err
}

// startAll starts a run of every flow and waits until all of them have a worker.
func (h *Hosted) startAll(ctx context.Context) error {
	name := time.Now().UnixNano()
	for i := range h.tenants {
		t := &h.tenants[i]
		for k := range t.flows {
			err := h.start(ctx, t.key, &t.flows[k], fmt.Sprintf("bench-%d-%d", name, k))
			if err != nil {
				return fmt.Errorf("start run %d: %w", i*freeRuns+k+1, err)
			}
		}
	}
	return h.until(ctx, h.Runs)
}

// start starts a flow's run. While the agents of the round before are ending as many runs wait as
// may, and it is asked again.
func (h *Hosted) start(ctx context.Context, key string, f *hostedFlow, repeat string) error {
	ctx, cancel := context.WithTimeout(ctx, runsPatience)
	defer cancel()
	for {
		var started api.Started
		err := h.call(ctx, call{
			key: key, path: "/v1/flows/" + f.id + "/run",
			body: api.StartRequest{Fingerprint: f.fingerprint}, repeat: repeat,
		}, 202, &started)
		if api.IsStatus(err, 503) && ctx.Err() == nil {
			pause(ctx, 100*time.Millisecond)
			continue
		}
		f.run = started.Run.ID
		return err
	}
}

func (h *Hosted) cancelAll(ctx context.Context) error {
	for _, t := range h.tenants {
		for _, f := range t.flows {
			err := h.call(ctx, call{key: t.key, path: "/v1/runs/" + f.run + "/cancel"}, 200, nil)
			if err != nil {
				return fmt.Errorf("cancel a run: %w", err)
			}
		}
	}
	err := h.until(ctx, 0)
	pause(ctx, cmp.Or(h.Calm, 5*time.Second))
	return err
}

// going is how many runs have a worker.
func (h *Hosted) going(ctx context.Context) (int, error) {
	n, err := metric(ctx, h.Checks.Admin.Nodes[0], runsRunning)
	return int(n), err
}

// until waits until so many runs go on.
func (h *Hosted) until(ctx context.Context, runs int) error {
	ctx, cancel := context.WithTimeout(ctx, runsPatience)
	defer cancel()
	for {
		going, err := h.going(ctx)
		if err == nil && going == runs {
			return nil
		}
		if ctx.Err() != nil {
			return errors.Join(fmt.Errorf("%d runs go on, and not %d", going, runs), err)
		}
		pause(ctx, 50*time.Millisecond)
	}
}

// call is a request of the workspace API, or of the operator's tools.
type call struct {
	method, path, key string
	body              any
	repeat            string // Idempotency-Key
	admin             bool
}

// call makes a request of the first node and wants a status; into may be nil.
func (h *Hosted) call(ctx context.Context, c call, want int, into any) error {
	node := h.Checks.Nodes[0]
	if c.admin {
		node, c.key = h.Checks.Admin.Nodes[0], h.Checks.Admin.Key
	}
	r := api.Request{Method: cmp.Or(c.method, "POST"), Path: c.path}
	if c.body != nil {
		text, err := json.Marshal(c.body)
		if err != nil {
			return fmt.Errorf("%s: %w", c.path, err)
		}
		r.Body = text
	}
	if c.repeat != "" {
		r.Header = map[string]string{"Idempotency-Key": c.repeat}
	}
	answer, err := ask(ctx, node, c.key, r)
	if err == nil && answer.Status != want {
		err = cmp.Or(answer.Err(), fmt.Errorf("want %d, have %d", want, answer.Status))
	}
	if err == nil && into != nil {
		err = json.Unmarshal(answer.Body, into)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", c.path, err)
	}
	return nil
}
