// Package follower is the built-in agent http. It reads what a product publishes, finds the way to
// a key in it, and goes it; it reads no prose, guesses nothing, and where it cannot go on it names
// the rule that stopped it and what it read. It is a client that follows rules, not an AI agent.
package follower

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"tollgate/server/inspect/fill"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// Bounds of a run.
const (
	// MaxRequests bounds the requests in addition to those that read what is published.
	MaxRequests = 12
	// MaxTime is how long it works.
	MaxTime = 100 * time.Second
	// maxWays is how many published ways are tried where one leads nowhere, maxFollowed how many
	// answers lead on to a further request.
	maxWays     = 4
	maxFollowed = 3
	maxKey      = 4096
)

// Agent is the agent.
type Agent struct {
	// Web is the guarded client by which the product is reached.
	Web *fetch.Client
}

// session is one run.
type session struct {
	task runner.Task
	emit func(runner.Event)
	web  *network
	read *published
	// requests is how many were made.
	requests int
}

// pause is what a run goes on from when a person has answered: the request that their answer is
// missing in. It holds no credential.
type pause struct {
	URL   string         `json:"url"`
	Media string         `json:"media"`
	Body  map[string]any `json:"body"`
	Field string         `json:"field"`
	// Hints are what the answer's schema calls the key; Published is what is said of the request.
	Hints     []string `json:"hints,omitzero"`
	Published string   `json:"published,omitzero"`
	Trial     trial    `json:"trial,omitzero"`
}

// trial is the call by which a key is tried out, and how it is described; without an address there
// is none.
type trial struct {
	URL   string `json:"url"`
	Quote string `json:"quote"`
}

// Run reads, signs up and tries the key out. A context that ends is an error; every other end is a
// report.
func (a *Agent) Run(ctx context.Context, t runner.Task, emit func(runner.Event),
) (runner.Report, error) {
	s := &session{task: t, emit: emit, web: newNetwork(a.Web, t.Hosts)}
	inner, cancel := context.WithTimeout(ctx, MaxTime)
	defer cancel()
	report := s.run(inner)
	report.Reached = s.web.reached()
	if ctx.Err() != nil {
		return runner.Report{}, fmt.Errorf("%w: %w", runner.ErrUnavailable, ctx.Err())
	}
	return report, nil
}

func (s *session) run(ctx context.Context) runner.Report {
	if s.task.Credential == "" {
		return (&stop{
			step: stepExecute, rule: "no_rule_for_task", quote: s.task.Task,
			reason: "The task asks for no key, and this agent follows what is published, not prose.",
		}).report()
	}
	if s.task.Checkpoint != nil {
		return s.resume(ctx)
	}
	var why *stop
	if s.read, why = s.gather(ctx); why != nil {
		return why.report()
	}
	ways, none := []way(nil), notSignedIn
	if s.task.Account != nil {
		ways = s.read.signIns()
	} else {
		ways, none = s.read.ways(), func() *stop { return s.read.nothing(s.web) }
	}
	if len(ways) == 0 {
		return none().report()
	}
	for i := range ways[:min(len(ways), maxWays)] {
		s.say("follows %s: %s", ways[i].kind, ways[i].where())
		got, stopped := s.take(ctx, &ways[i])
		if stopped == nil {
			return s.hand(ctx, got, s.read.trial(s.web))
		}
		stopped.published = ways[i].quote
		why = cmp.Or(why, stopped)
		if stopped.final {
			why = stopped
			break
		}
		s.say("cannot take that way: %s", stopped.rule)
	}
	return why.report()
}

func (s *session) say(format string, args ...any) {
	s.emit(runner.Event{At: time.Now(), Text: fmt.Sprintf(format, args...)})
}

// obtained is what a way led to: a key, or what only a person can tell.
type obtained struct {
	key      string
	question string
	pause    *pause
}

// hand hands the key over, and makes the call that it is for.
func (s *session) hand(ctx context.Context, got *obtained, try trial) runner.Report {
	if got.pause != nil {
		got.pause.Trial = try
		left, err := json.Marshal(got.pause, json.Deterministic(true))
		if err != nil || len(left) > 8<<10 {
			return (&stop{
				step: stepAcquire, rule: ruleLongWait, quote: got.question,
				reason: "What the run would go on from is too large to be kept.",
			}).report()
		}
		return runner.Report{Question: got.question, Checkpoint: left}
	}
	s.emit(runner.Event{At: time.Now(), Text: "hands a key over", Credential: got.key})
	report := runner.Report{}
	if why := s.use(ctx, got.key, try); why != nil {
		report = why.report()
	}
	report.Credential = got.key
	return report
}

// resume makes the request that a person's answer was missing in.
func (s *session) resume(ctx context.Context) runner.Report {
	var p pause
	if err := json.Unmarshal(s.task.Checkpoint, &p); err != nil || p.Body == nil {
		return (&stop{
			step: stepAcquire, rule: ruleForeignPause, reason: "The checkpoint is none of this agent's.",
		}).report()
	}
	answer := strings.TrimSpace(s.task.Answer)
	if answer == "" {
		return (&stop{
			step: stepAcquire, rule: ruleEmailCode, published: p.Published,
			reason: "The product wants a code from an e-mail, and no one has provided it.",
		}).report()
	}
	p.Body[p.Field] = answer
	said, why := s.send(ctx, &fill.Request{
		Method: http.MethodPost, URL: p.URL, Media: p.Media, Body: p.Body,
	})
	if why != nil {
		why.published = p.Published
		return why.report()
	}
	key, _ := credentialIn(said.root, p.Hints)
	if key == "" {
		return said.stop(ruleNoKey, "The code was taken, and the answer holds no key").report()
	}
	return s.hand(ctx, &obtained{key: key}, p.Trial)
}

// use makes the call that the key is for, where the description has one that needs nothing else.
func (s *session) use(ctx context.Context, key string, try trial) *stop {
	if try.URL == "" {
		return nil
	}
	header := http.Header{}
	switch s.task.Credential {
	case "x-api-key":
		header.Set("X-Api-Key", key)
	case "token":
		header.Set("Authorization", "Token "+key)
	default:
		header.Set("Authorization", "Bearer "+key)
	}
	said, why := s.ask(ctx, &fill.Request{Method: http.MethodGet, URL: try.URL, Header: header})
	switch {
	case why != nil:
		why.step = stepExecute
	case said.status == 401 || said.status == 403:
		why = said.stop("key_refused", "The call that the description names refuses the key")
		why.step = stepAuthenticate
	case said.status/100 != 2:
		why = said.stop("call_failed", "The call that the description names does not succeed")
		why.step = stepExecute
	}
	if why != nil { // what answers to a key may repeat it
		why.quote, why.published = "", try.Quote
	}
	return why
}

// ask makes a request. A stop means that there is no readable answer.
func (s *session) ask(ctx context.Context, r *fill.Request) (*answer, *stop) {
	what := r.Method + " " + shortPath(r.URL)
	if s.requests++; s.requests > MaxRequests {
		return nil, &stop{
			step: stepAcquire, rule: ruleRequests, final: true,
			reason: fmt.Sprintf("The run has made the %d requests that it may.", MaxRequests),
		}
	}
	header := http.Header{"Accept": {"application/json, */*;q=0.5"}}
	for name, values := range r.Header {
		header[name] = values
	}
	body, media, unsent := r.Encoded()
	if unsent != nil {
		return nil, unmade(unsent)
	}
	if media != "" {
		header.Set("Content-Type", media)
	}
	response, err := s.web.Do(ctx, &fetch.Request{
		Method: r.Method, URL: r.URL, Header: header, Body: body,
	})
	if err != nil {
		why := failed(err, what)
		if ctx.Err() != nil {
			why = outOfTime()
		}
		s.say("%s → %s", what, why.rule)
		return nil, why
	}
	s.say("%s → %d", what, response.Status)
	return read(response, what), nil
}

// outOfTime is the end of a run that has worked as long as it may.
func outOfTime() *stop {
	return &stop{
		step: stepAcquire, rule: ruleTime, final: true,
		reason: fmt.Sprintf("The run has taken the %.0f seconds that it may.", MaxTime.Seconds()),
	}
}

// shortPath is what is said of an address: in a query there may be a secret.
func shortPath(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "?"
	}
	return head(u.EscapedPath(), 120)
}
