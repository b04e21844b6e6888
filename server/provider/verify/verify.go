// Package verify decides whether a run passed: by calls of its own to the product, never by the
// agent's report. See DESIGN.md in the folder of the workspace API for the meaning of answers.
package verify

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"tollgate/server/provider/fetch"
)

// Check is the verification of a flow.
type Check struct {
	URL string
	// Status is the status that the right answer has; 0 is any 2xx.
	Status int
	// Contains is what the right answer contains; empty is anything.
	Contains string
	// Credential is how the key is sent: bearer, token or x-api-key; empty if there is none.
	Credential string
	// RunID replaces {run_id} in Contains.
	RunID string
	// Port is that of the flow's own address; 0 is none.
	Port uint16
}

// RunMark is the placeholder of the run's id in a flow's texts.
const RunMark = "{run_id}"

// Verifier makes verification calls. Safe for concurrent use.
type Verifier struct {
	// Fetch is the guarded client.
	Fetch *fetch.Client
	// Pause is how long it waits before the one retry after 429 and 5xx; 1 s when 0.
	Pause time.Duration
}

// MaxCalls is the most calls that a verification makes. MaxTime is the most time that these take:
// each is repeated once after a pause.
const (
	MaxCalls = 5
	MaxTime  = MaxCalls * (2*fetch.MaxTime + retryPause)

	retryPause = time.Second
)

// Answer is what a call came to.
type Answer int

// The answers.
const (
	// Unknown: no answer, 429 or 5xx, or none that proves anything.
	Unknown Answer = iota
	// Refused: 401 or 403.
	Refused
	// Soft: another answer than the right one. It counts as refused only where the real key gets
	// the right one at the same address: else the address may answer everyone so.
	Soft
	// Accepted: the right answer.
	Accepted
)

// Call is one call.
type Call struct {
	// Case is none, wrong, real or plain.
	Case   string
	Status int
	Answer Answer
	// Note is what else was seen: no_answer (none within time and size), not_fetched (the address
	// is none that may be reached), redirect, cached, retried.
	Note string
}

// Preflight is the result of verification calls for a quote. Without a credential NoKey is the
// result of the plain call.
type Preflight struct {
	NoKey, WrongKey Answer
	AlreadyTrue     bool
}

// Preflight calls a verification before any run: without a key and with a wrong one where there is
// a credential, else as it will be called after a run.
func (v *Verifier) Preflight(ctx context.Context, c Check) (p Preflight) {
	if c.Credential == "" {
		p.NoKey = v.call(ctx, &c, "plain", "").Answer
		p.AlreadyTrue = p.NoKey == Accepted
		return p
	}
	p.NoKey = v.call(ctx, &c, "none", "").Answer
	wrong, err := wrongUnseen()
	if err != nil {
		return p
	}
	// The second finds products that accept any token of the right form. Both must be refused, by
	// answers that say something.
	for _, key := range wrong {
		answer := v.call(ctx, &c, "wrong", key).Answer
		if p.WrongKey = max(p.WrongKey, answer); answer == Unknown || answer == Accepted {
			p.WrongKey = answer
			break
		}
	}
	return p
}

// Outcome is a verification's result for a run.
type Outcome int

// The outcomes.
const (
	Passed Outcome = iota + 1
	Blocked
	Inconclusive
)

// NoCredential is the code of a verdict about an agent that obtained no key, at a product that
// requires one.
const NoCredential = "no_credential"

// Verdict is a verification that was carried out.
type Verdict struct {
	Outcome Outcome
	// Code and Reason are why it did not pass.
	Code, Reason string
	Calls        []Call
}

// Refused reports whether a call of the verdict counts as refused.
func (d *Verdict) Refused(c Call) bool {
	return c.Answer == Refused || c.Answer == Soft && c.Case != "plain" && d.Outcome == Passed
}

// Decide verifies after a run. key is what the agent obtained; empty when it obtained none. The key
// is in memory only, and in nothing that is returned.
func (v *Verifier) Decide(ctx context.Context, c Check, key string) Verdict {
	if c.Credential == "" {
		call := v.call(ctx, &c, "plain", "")
		verdict := Verdict{Calls: []Call{call}}
		switch call.Answer {
		case Accepted:
			verdict.Outcome = Passed
		case Unknown:
			verdict.give(Inconclusive, "verification_unavailable", "The verification gave no answer.")
		default:
			verdict.give(Blocked, "verification_failed", "The verification is not as the flow wants it.")
		}
		return verdict
	}
	return v.decideKey(ctx, &c, key)
}

// step is a call to make: its case, and the key to send. Of a probe only acceptance counts: its key
// may not be of the product's form.
type step struct {
	name, key string
	probe     bool
}

// stepsFor are none, two wrong keys, real, none. Where the agent obtained no key they are none and
// two wrong keys, to find out whether only a key was missing.
func stepsFor(key string) ([]step, error) {
	if key == "" {
		wrong, err := wrongUnseen()
		if err != nil {
			return nil, err
		}
		return []step{
			{name: "none"}, {name: "wrong", key: wrong[0]}, {name: "wrong", key: wrong[1], probe: true},
		}, nil
	}
	steps := []step{{name: "none"}}
	wrong, err := wrongFor(key)
	if err != nil {
		return nil, err
	}
	for _, other := range wrong {
		steps = append(steps, step{name: "wrong", key: other})
	}
	return append(steps, step{name: "real", key: key}, step{name: "none"}), nil
}

// decideKey makes the calls with and without keys: the difference is the proof.
func (v *Verifier) decideKey(ctx context.Context, c *Check, key string) (d Verdict) {
	steps, err := stepsFor(key)
	if err != nil {
		d.give(Inconclusive, "verification_unavailable", "No wrong key could be made.")
		return d
	}
	answers := map[string][]Answer{}
	for _, step := range steps {
		call := v.call(ctx, c, step.name, step.key)
		d.Calls = append(d.Calls, call)
		if step.probe && call.Answer != Accepted {
			continue
		}
		answers[step.name] = append(answers[step.name], call.Answer)
		if call.Answer == Unknown {
			d.give(Inconclusive, "verification_unavailable", "The verification gave no answer.")
			return d
		}
	}
	switch {
	case slices.Contains(answers["none"], Accepted):
		d.give(Inconclusive, "answers_without_key", "The verification answers without a key.")
	case slices.Contains(answers["wrong"], Accepted):
		d.give(Inconclusive, "answers_wrong_key",
			"The verification accepts a wrong key that looks like a real one.")
	case key != "" && answers["real"][0] == Accepted:
		d.Outcome = Passed
	case slices.Contains(answers["none"], Soft) || slices.Contains(answers["wrong"], Soft):
		d.give(Inconclusive, "verification_unclear",
			"The verification accepts every call, and no key was seen to work at its address.")
	case key == "":
		d.give(Inconclusive, NoCredential, "The agent obtained no key.")
	case answers["real"][0] == Soft:
		d.give(Blocked, "verification_failed",
			"What the agent's key is answered is not as the flow wants it.")
	default:
		d.give(Blocked, "key_refused", "The key that the agent obtained does not work.")
	}
	return d
}

func (d *Verdict) give(o Outcome, code, reason string) {
	d.Outcome, d.Code, d.Reason = o, code, reason
}

// call makes one call on a connection of its own; after 429 and 5xx once more.
func (v *Verifier) call(ctx context.Context, c *Check, name, key string) Call {
	call := v.try(ctx, c, name, key)
	if call.Status != http.StatusTooManyRequests && call.Status < 500 {
		return call
	}
	timer := time.NewTimer(cmp.Or(v.Pause, retryPause))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return call
	case <-timer.C:
	}
	if call = v.try(ctx, c, name, key); call.Note == "" {
		call.Note = "retried"
	}
	return call
}

func (v *Verifier) try(ctx context.Context, c *Check, name, key string) Call {
	call := Call{Case: name}
	header := http.Header{"Connection": {"close"}, "Cache-Control": {"no-cache"}}
	switch {
	case key == "":
	case c.Credential == "x-api-key":
		header.Set("X-Api-Key", key)
	case c.Credential == "token":
		header.Set("Authorization", "Token "+key)
	default:
		header.Set("Authorization", "Bearer "+key)
	}
	answer, err := v.Fetch.Do(ctx, &fetch.Request{
		URL: c.URL, Header: header, Port: c.Port, Fresh: true,
	})
	if err != nil {
		call.Note = "no_answer"
		if refusal := (*fetch.Refusal)(nil); errors.As(err, &refusal) && refusal.Local() {
			call.Note = "not_fetched"
		}
		return call
	}
	call.Status = answer.Status
	if fromCache(answer.Header) {
		call.Note = "cached"
	}
	call.Answer = c.judge(answer)
	if answer.Status >= 300 && answer.Status < 400 {
		call.Note = "redirect"
	}
	return call
}

// fromCache reports whether an answer's headers tell of a cache that gave it: Age (RFC 9111), a hit
// by Cache-Status (RFC 9211), and X-Cache and similar headers.
func fromCache(header http.Header) bool {
	if header.Get("Age") != "" {
		return true
	}
	for _, name := range [...]string{"Cache-Status", "X-Cache", "Cf-Cache-Status"} {
		for _, value := range header.Values(name) {
			if strings.Contains(strings.ToLower(value), "hit") {
				return true
			}
		}
	}
	return false
}

// judge classifies an answer.
func (c *Check) judge(answer *fetch.Response) Answer {
	switch status := answer.Status; {
	case status == http.StatusTooManyRequests || status >= 500:
		return Unknown
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		if status == c.Status {
			break
		}
		return Refused
	}
	right := answer.Status == c.Status || c.Status == 0 && answer.Status/100 == 2
	text := strings.ReplaceAll(c.Contains, RunMark, c.RunID)
	if right && bytes.Contains(answer.Body, []byte(text)) {
		return Accepted
	}
	return Soft
}
