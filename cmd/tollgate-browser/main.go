// Tollgate-browser is the agent browser: it signs up by the form that a product shows to persons,
// in a real Chromium. It speaks the protocol of exec agents (server/provider/runner/DESIGN.md) on
// its standard input and output, follows rules and no prose, and names the rule that stopped it.
package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// maxTime is how long a run works.
const maxTime = 90 * time.Second

// task is what the agent is told: start, or resume with a checkpoint and a person's answer.
type task struct {
	Type, RunID, URL, Task, Credential, Answer string
	Hosts                                      []string
	Checkpoint                                 []byte // base64 in JSON
	// Account is a test account to sign in with, which this agent cannot.
	Account *struct{ Host string }
}

// say writes a message. Who does not read it has gone.
func say(fields map[string]any) {
	line, err := json.Marshal(fields)
	if err == nil {
		_, err = fmt.Println(string(line))
	}
	if err != nil {
		os.Exit(1)
	}
}

func event(format string, args ...any) {
	say(map[string]any{"type": "event", "text": fmt.Sprintf(format, args...)})
}

// stop is why a run goes no further: step, rule and what was seen.
type stop struct{ step, rule, reason string }

// acquiring is a stop on the way to a key.
func acquiring(rule, reason string) *stop { return &stop{"acquire_credential", rule, reason} }

// ownLimits are rules that say something of this agent, not of the product: a run that one of them
// ends is not reported as blocked.
var ownLimits = []string{
	"time_budget", "page_budget", "checkpoint_too_large", "checkpoint_foreign", "signs_up_only",
}

func (s *stop) Error() string { return s.rule + ": " + s.reason }

func main() {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<10)
	var t task
	if !in.Scan() || json.Unmarshal(in.Bytes(), &t) != nil {
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxTime)
	defer cancel()
	go func() { // cancel, or a server that has gone
		for in.Scan() {
			if strings.Contains(in.Text(), `"cancel"`) {
				break
			}
		}
		cancel()
	}()
	if t.Credential == "" {
		say(map[string]any{
			"type": "done", "blocked": true, "step": "execute", "code": "no_rule_for_task",
			"reason": "The task asks for no key, and this agent follows forms, not prose.",
		})
		return
	}
	if t.Account != nil {
		// Not blocked: another account than the owner's would prove something else.
		say(map[string]any{
			"type": "done", "blocked": false, "step": "authenticate", "code": "signs_up_only",
			"reason": "The flow has a test account, and this agent only signs up. Choose the agent http.",
		})
		return
	}
	if err := t.run(ctx); err != nil {
		// No done: the run is returned, for the service could not carry it through.
		fmt.Fprintln(os.Stderr, "tollgate-browser:", err)
		os.Exit(1)
	}
}

// run works until there is a key, a question or a stop. An error is of the browser's.
func (t *task) run(ctx context.Context) error {
	b, err := openBrowser(ctx, os.Getenv("HTTP_PROXY"))
	if err != nil {
		return err
	}
	got, err := t.signUp(b)
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = acquiring("time_budget",
			fmt.Sprintf("The run has taken the %.0f seconds that it may.", maxTime.Seconds()))
	}
	err = cmp.Or(err, b.close())
	why := (*stop)(nil)
	switch {
	case errors.As(err, &why):
		say(map[string]any{
			"type": "done", "blocked": !slices.Contains(ownLimits, why.rule),
			"step": why.step, "code": why.rule, "reason": why.reason,
		})
	case err != nil:
		return err
	case got.question != "":
		say(map[string]any{
			"type": "need_human", "question": got.question, "checkpoint": got.checkpoint,
		})
	default:
		say(map[string]any{"type": "credential", "value": got.key})
		say(map[string]any{"type": "done", "step": "authenticate"})
	}
	return nil
}
