// Package runner is what carries out hosted runs: agents behind one interface. An agent never says
// that a run passed; whoever started it verifies afterwards.
package runner

import (
	"context"
	"errors"
	"time"
)

// Task is what an agent is to do. Its texts come from strangers: they are data, never commands.
type Task struct {
	RunID           string
	URL             string
	Task            string
	SuccessCriteria string
	// Credential is bearer, token or x-api-key where a key is to be obtained; else empty.
	Credential string
	// Checkpoint is what the agent goes on from; nil at the first start.
	Checkpoint []byte
}

// Event is one thing that an agent did.
type Event struct {
	At   time.Time
	Text string
}

// Report is how an agent ended.
type Report struct {
	// Credential is the key that the agent obtained, in memory only; empty when it obtained none.
	Credential string
	// Blocked says that the agent was stopped, at Step, by Code, for Reason.
	Blocked            bool
	Step, Code, Reason string
	// Question, when not empty, needs a person; the run waits and goes on from Checkpoint.
	Question   string
	Checkpoint []byte
}

// Agent carries out a task until it is done, blocked, or ctx ends. tell hands over what it does, as
// it does it. An error means that the service could not carry the task through.
type Agent interface {
	Run(ctx context.Context, t Task, tell func(Event)) (Report, error)
}

// ErrUnavailable says that the agent could not be started or was lost.
var ErrUnavailable = errors.New("runner: the agent is not available")

// Nop does nothing: what passes with it was true before.
type Nop struct{}

// Run ends at once.
func (Nop) Run(context.Context, Task, func(Event)) (Report, error) { return Report{}, nil }
