// Package runner is what carries out hosted runs: agents behind one interface. An agent never says
// that a run passed; the caller verifies afterwards.
package runner

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Task is what an agent is to do. Its texts come from strangers: they are data, never commands.
type Task struct {
	RunID           string `json:"runId,omitzero"`
	URL             string `json:"url,omitzero"`
	Task            string `json:"task,omitzero"`
	SuccessCriteria string `json:"successCriteria,omitzero"`
	// Credential is bearer, token or x-api-key where a key is to be obtained; else empty.
	Credential string `json:"credential,omitzero"`
	// Hosts are the hosts, with their ports where they have one, that the task is about: the
	// agent's requests go there and nowhere else.
	Hosts []string `json:"hosts,omitzero"`
	// Account is what the agent signs in with, in place of signing up; nil if it has none.
	Account *Account `json:"account,omitzero"`
	// Checkpoint is what the agent goes on from; nil at the first start.
	Checkpoint []byte `json:"-"`
	// Answer is what a person answered, ≤ 500 characters; in memory only.
	Answer string `json:"-"`
	// Steps and Tokens are what the run has used before it waited for a person: they count against
	// what an agent may use in one run.
	Steps  int `json:"-"`
	Tokens int `json:"-"`
	// Grace is how long an agent that is cancelled has to end by itself; 0 is 5 s, which is the
	// most.
	Grace time.Duration `json:"-"`
}

// Account is an account for tests that the flow's owner has at the product. It is for its host and
// no other, and in memory only.
type Account struct {
	// Host is as Task.Hosts has it.
	Host string `json:"host"`
	// Username is a name or an e-mail address.
	Username string `json:"username"`
	Password string `json:"password"`
	// Note is what its owner says about signing in, ≤ 500 characters.
	Note string `json:"note,omitzero"`
}

// Event is one thing that an agent did.
type Event struct {
	At   time.Time
	Text string
	// Credential, when not empty, is a key that the agent handed over. It is reported at once, so
	// that it can be scrubbed from stored texts even if the agent is lost before it reports.
	Credential string
}

// Report is how an agent ended.
type Report struct {
	// Credential is the key that the agent obtained, the last where it handed several over, in
	// memory only; empty when it obtained none.
	Credential string
	// Blocked reports whether the product stopped the agent, at Step, by Code, for Reason. Without
	// it they say by which limit of its own the agent ended, which is not the product's doing.
	Blocked            bool
	Step, Code, Reason string
	// Reached reports whether the product has answered the agent, as what carries its requests has
	// seen: the agent's own word has no part in it.
	Reached bool
	// Question, when not empty, needs a person; the run waits and goes on from Checkpoint.
	Question   string
	Checkpoint []byte
	// Steps and Tokens are what a run that needs a person has used by now, those of its Task
	// included; 0 where the agent counts none.
	Steps, Tokens int
}

// MaxKey bounds a key that an agent hands over, in bytes; maxKeyBytes bounds all keys of one run,
// maxKeys their number. Scrubbing the agent's output looks for each of them.
const (
	MaxKey      = 4 << 10
	maxKeys     = 16
	maxKeyBytes = 8 << 10
)

// keyring counts the keys that an agent hands over in one run.
type keyring struct{ keys, bytes int }

// take counts a key; false where it is none, too long, or one too many.
func (k *keyring) take(key string) bool {
	if key == "" || len(key) > MaxKey || k.keys == maxKeys || k.bytes+len(key) > maxKeyBytes {
		return false
	}
	k.keys, k.bytes = k.keys+1, k.bytes+len(key)
	return true
}

// Agent carries out a task until it is done, blocked, or ctx ends. tell hands over what it does, as
// it does it. An error means that the service could not carry the task through.
type Agent interface {
	Run(ctx context.Context, t Task, emit func(Event)) (Report, error)
}

// ErrUnavailable means that the agent could not be started or was lost.
var ErrUnavailable = errors.New("runner: the agent is not available")

// ErrCheckpoint means that an agent asked for a person and left what cannot be kept for it: too
// much or no base64. It is never cut: half a checkpoint is none.
var ErrCheckpoint = fmt.Errorf("%w: its checkpoint cannot be kept", ErrUnavailable)

// Nop does nothing: what passes with it was true before.
type Nop struct{}

// Run ends at once.
func (Nop) Run(context.Context, Task, func(Event)) (Report, error) { return Report{}, nil }
