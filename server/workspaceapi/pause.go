package workspaceapi

import (
	"bytes"
	"fmt"

	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server/provider/runner"
)

// pause is what a run that waits for a person goes on from. It is sealed before it enters the log:
// what an agent leaves for itself cannot be scrubbed without breaking it.
type pause struct {
	Checkpoint []byte `wire:"1"`
	// Answers are what persons answered so far, as far as the agent must not repeat it.
	Answers []string `wire:"2"`
	// Untrue reports whether the verification was not true when the run began: what it finds is the
	// run's doing, though a quote that was read meanwhile has found it, too.
	Untrue bool `wire:"3"`
	// Reached reports whether the product had answered the agent.
	Reached bool `wire:"4"`
}

// checkpointsPurpose derives the key under which pauses are sealed.
const checkpointsPurpose = "tollgate checkpoints of agents"

// sealedPause begins a sealed pause.
var sealedPause = []byte("\x00sealed\x01")

// maxAnswers bounds the answers that are kept for scrubbing; the oldest go.
const maxAnswers = 100

// seal makes a pause as it enters the log.
func (h *held) seal(report *runner.Report) ([]byte, error) {
	checkpoint := report.Checkpoint
	if len(checkpoint) > workspace.MaxCheckpoint {
		return nil, fmt.Errorf("%w: %d bytes, where %d are allowed", runner.ErrCheckpoint,
			len(checkpoint), workspace.MaxCheckpoint)
	}
	h.mu.Lock()
	p := pause{
		checkpoint, h.answered[max(0, len(h.answered)-maxAnswers):], !h.stood,
		h.reached || report.Reached,
	}
	h.mu.Unlock()
	sealed := h.checkpoints.Seal(0, h.id, string(wire.Encode(nil, &p)))
	return append(bytes.Clone(sealedPause), sealed...), nil
}

// unseal opens what a run goes on from; nil where it begins.
func (h *held) unseal(stored []byte) (checkpoint []byte, err error) {
	if len(stored) == 0 {
		return nil, nil
	}
	sealed, ok := bytes.CutPrefix(stored, sealedPause)
	if !ok {
		return nil, fmt.Errorf("%w: a checkpoint is not sealed", runner.ErrUnavailable)
	}
	text, err := h.checkpoints.Open(0, h.id, sealed)
	if err != nil {
		return nil, fmt.Errorf("%w: a checkpoint: %w", runner.ErrUnavailable, err)
	}
	p := pause{Checkpoint: []byte{}}
	if err = wire.Decode([]byte(text), &p); err != nil {
		return nil, fmt.Errorf("%w: a checkpoint: %w", runner.ErrUnavailable, err)
	}
	h.addSecrets(p.Answers...)
	h.stood = h.stood && !p.Untrue
	h.checkpoint, h.reached = p.Checkpoint, p.Reached
	return p.Checkpoint, nil
}
