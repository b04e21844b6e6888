package workspaceapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

// held is a run that this worker has, with what its agent has said and not yet stored.
type held struct {
	*Workers
	workspace.ClaimedRun
	id   string
	run  *workspace.RunView
	flow *workspace.FlowView
	// stop ends the agent and the verification; pool ends with the pool.
	stop context.CancelCauseFunc
	pool context.Context

	mu sync.Mutex // guards all below
	// until is when the lease is over at the earliest, by this machine's own clock.
	until  time.Time
	events []runner.Event
	// keys are those that the agent has handed over, answered what of persons' answers it must not
	// repeat either.
	keys, answered []string
	// checkpoint is what it went on from, and reached reports whether the product had answered
	// it by then.
	checkpoint []byte
	reached    bool
	// stood reports whether the verification was true before the run.
	stood bool
}

// obtains reports whether the run is about a key. What its agent says is then stored only once it
// has ended and all keys are known: what is in a log cannot be taken out of it.
func (h *held) obtains() bool { return h.flow.Credential != "" }

// emit keeps what an agent says; what it hands over is known to the scrubber from then on.
func (h *held) emit(e runner.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e.Credential != "" {
		h.keys = append(h.keys, e.Credential)
	}
	if e.Text == "" {
		return
	}
	if len(e.Text) > maxTold {
		e.Text = fmt.Sprintf("(%d bytes, left out)", len(e.Text))
	}
	h.events = append(h.events, runner.Event{At: e.At, Text: strings.Clone(e.Text)})
	h.events = h.events[max(0, len(h.events)-workspace.MaxRunEvents):]
}

// handed reports whether the agent has handed a key over.
func (h *held) handed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.keys) > 0
}

// addSecrets has the scrubber take out what persons answered, too.
func (h *held) addSecrets(secrets ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answered = append(h.answered, secrets...)
}

// scrubber takes out what the agent must not repeat; hidden reports whether the key is not known
// yet that the run is about. The lock is held.
func (h *held) scrubber() (s scrubber, hidden bool) {
	return scrubberOf(slices.Concat(h.keys, h.answered)...), h.obtains() && len(h.keys) == 0
}

// fit is a text of the agent's as it may be stored: without what it must not repeat, and only then
// cut, so that no half of a key is left. Where the key is not known that the run is about, nothing
// that could be one is left.
func (h *held) fit(text string, maximum int) string {
	h.mu.Lock()
	s, hidden := h.scrubber()
	h.mu.Unlock()
	return s.fit(text, maximum, hidden)
}

func (s scrubber) fit(text string, maximum int, hidden bool) string {
	if len(text) > maxTold {
		return cut(fmt.Sprintf("(%d bytes, left out)", len(text)), maximum)
	}
	if text = masked(s.clean(text)); hidden {
		text = veiled(text)
	}
	return cut(text, maximum)
}

// told takes what the agent has said out, fit to be stored. What could not be stored may be put
// back.
func (h *held) told() (events []workspace.RunEvent, back func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, hidden := h.scrubber()
	taken := h.events
	for _, e := range taken {
		events = append(events, workspace.RunEvent{
			At: e.At.UnixMilli(), Text: s.fit(e.Text, workspace.MaxEventBytes, hidden),
		})
	}
	h.events = nil
	return events, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.events = append(taken, h.events...)
		h.events = h.events[max(0, len(h.events)-workspace.MaxRunEvents):]
	}
}

// betrayed reports whether what was stored of the run, or is left of it in its checkpoint, has a
// key that was handed over only afterwards.
func (h *held) betrayed() bool {
	h.mu.Lock()
	s, checkpoint := scrubberOf(h.keys...), string(h.checkpoint)
	h.mu.Unlock()
	for _, e := range h.run.Events {
		if s.holds(e.Text) {
			return true
		}
	}
	return s.holds(h.run.Question) || s.holds(checkpoint)
}

// ellipsis ends a text that was cut.
const ellipsis = "…"

// cut shortens a text to at most n bytes of whole characters, without control characters; one that
// is shortened says so at its end, where there is room.
func cut(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == utf8.RuneError {
			return ' '
		}
		return r
	}, text)
	if len(text) <= n {
		return text
	}
	end := ellipsis
	if n < len(end) {
		end = ""
	}
	n -= len(end)
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + end
}

// Why a worker lets go of a run.
var (
	errWall  = errors.New("workspace: the run's time is over")
	errTaken = errors.New("workspace: the run is not this worker's any more")
	errLease = errors.New("workspace: the lease could not be extended")
)

// beatUntil extends the lease until the last word was said. When the run is not this worker's any
// more it stops the agent: at once where this node's own memory says so, else with the refused
// heartbeat. Where it is not heard at all it stops the agent a quarter of the lease before that is
// over: the agent has its grace, and is gone when another run may begin.
func (h *held) beatUntil(said <-chan struct{}) {
	lease := h.config.Lease
	cut := time.AfterFunc(time.Until(h.until)-lease/beats, func() { h.stop(errLease) })
	defer cut.Stop()
	tick, look := time.NewTicker(h.Workers.beat), time.NewTicker(cancelPoll)
	defer tick.Stop()
	defer look.Stop()
	for {
		select {
		case <-said:
			return
		case <-look.C:
			if h.config.Machine.Holds(h.ClaimedRun.Run, h.Token) {
				continue
			}
			h.stop(errTaken)
			return
		case <-tick.C:
		}
		before := time.Now()
		switch o := h.beat(); {
		case o == engine.OutcomeDone:
			h.mu.Lock()
			h.until = before.Add(lease)
			h.mu.Unlock()
			cut.Reset(time.Until(before.Add(lease - lease/beats)))
			tick.Reset(h.Workers.beat)
		case uncertain(o):
			tick.Reset(min(cancelPoll, h.Workers.beat)) // sooner: there may be a leader again
		default:
			h.stop(errTaken)
			return
		}
	}
}

// beat extends the lease once, and stores what the agent has said meanwhile.
func (h *held) beat() engine.Outcome {
	beat := &workspace.ExtendLease{
		Run: h.ClaimedRun.Run, Token: h.Token, LeaseMS: h.config.Lease.Milliseconds(),
	}
	back := func() {}
	if !h.obtains() {
		beat.Events, back = h.told()
	}
	o := h.propose(workspace.KindExtendLease, beat).Outcome
	if uncertain(o) && o != engine.OutcomeUnknown {
		back()
	}
	return o
}

// uncertain reports whether a command was not decided upon, as far as this node knows: repeating it
// may help.
func uncertain(o engine.Outcome) bool {
	switch o {
	case engine.OutcomeUnavailable, engine.OutcomeOverloaded, engine.OutcomeUnknown,
		engine.OutcomeDiskLow, engine.OutcomeDeferred:
		return true
	}
	return false
}

// say says a run's last word until it is known what became of it, or the lease is over: an election
// must not lose what was verified. A pool that ends says it once.
func (h *held) say(kind engine.Kind, word wire.Fielder) {
	for {
		o := h.propose(kind, word).Outcome
		if o == engine.OutcomeDone {
			return
		}
		h.mu.Lock()
		left := time.Until(h.until)
		h.mu.Unlock()
		if !uncertain(o) || left <= 0 || h.pool.Err() != nil {
			h.config.Log.Warn("a run's last word was not taken", "run", h.id, "outcome", o)
			return
		}
		again := time.NewTimer(min(left, cancelPoll))
		select {
		case <-h.pool.Done():
		case <-again.C:
		}
		again.Stop()
	}
}
