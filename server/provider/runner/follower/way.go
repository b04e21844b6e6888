package follower

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"

	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/signup"
)

// way is a published way to a key.
type way struct {
	// kind is agent_auth, pricing, arazzo, openapi or code_block; at the document that names it.
	kind, at string
	// quote is what is said of it there.
	quote string
	// first is the request that it begins with; nil where the way cannot be
	// taken, for the reason in why.
	first *fill.Request
	why   *stop
	// hints are what the answer calls the key.
	hints []string
	// api and operation are its description, where it has one.
	api       *api
	operation *openapi.Operation
	// tokens is where an assertion is exchanged for a key, of OAuth's metadata.
	tokens string
	// flow is an Arazzo workflow.
	flow *workflow
}

// where says which document and which request.
func (w *way) where() string {
	text := shortPath(w.at)
	if w.first != nil {
		text += ", " + w.first.Method + " " + shortPath(w.first.URL)
	}
	return text
}

// ways are the published ways, in the order in which they are tried: what is meant for agents
// first, prose last.
func (p *published) ways() []way {
	all := slices.Concat(p.agentAuth(), p.provisioning(), p.workflows(), p.operations(), p.blocks())
	var ways []way
	for i := range all {
		if !slices.ContainsFunc(ways, func(w way) bool { return w.same(&all[i]) }) {
			ways = append(ways, all[i])
		}
	}
	return ways
}

// same reports whether two ways are one request: prose often repeats what the description says.
func (w *way) same(o *way) bool {
	return w.first != nil && o.first != nil && w.first.Method == o.first.Method &&
		w.first.URL == o.first.URL
}

// take goes a way.
func (s *session) take(ctx context.Context, w *way) (*obtained, *stop) {
	if w.why != nil {
		w.why.quote = cmp.Or(w.why.quote, w.quote)
		return nil, w.why
	}
	if w.flow != nil {
		return s.walk(ctx, w.flow)
	}
	if !s.web.allows(w.first.URL) {
		return nil, &stop{
			step: stepAcquire, rule: ruleOtherHost, quote: w.quote,
			reason: "The way leads to a host that is none of the task's.",
		}
	}
	said, why := s.send(ctx, w.first)
	if why != nil {
		return nil, why
	}
	return s.conclude(ctx, w, said)
}

// send makes a request of a way; a stop means that it was not accepted.
func (s *session) send(ctx context.Context, r *fill.Request) (*answer, *stop) {
	said, why := s.ask(ctx, r)
	if why != nil {
		return nil, why
	}
	return said, said.refused()
}

// conclude takes the key from what a way answers, or goes on to what that leads to.
func (s *session) conclude(ctx context.Context, w *way, said *answer) (*obtained, *stop) {
	known, named := map[string]string{}, w.hints
	done := map[string]bool{}
	if w.operation != nil {
		done[w.operation.Name()] = true
	}
	for followed := 0; ; followed++ {
		if key, name := credentialIn(said.root, named); key != "" {
			s.say("the answer holds a key, in %q", head(name, 60))
			return &obtained{key: key}, nil
		}
		if followed == maxFollowed {
			break
		}
		for _, f := range fieldsOf(said.root) {
			if _, is := known[signup.PlainName(f.name)]; !is && len(known) < fill.MaxFields {
				known[signup.PlainName(f.name)] = f.value
			}
		}
		next, why := s.next(w, known, done)
		if why != nil {
			why.final = true // something was made already
			return nil, why
		}
		if next == nil {
			break
		}
		if next.person != nil {
			return next.person, nil
		}
		if said, why = s.send(ctx, next.request); why != nil {
			why.final = true
			return nil, why
		}
		named = slices.Concat(next.hints, w.hints)
	}
	if captchaWords.MatchString(head(said.text, 4096)) {
		return nil, said.stop(ruleCaptcha, "The product wants a CAPTCHA solved")
	}
	if emailWords.MatchString(head(said.text, 4096)) {
		return nil, said.stop(ruleEmailCode, "The product wants an e-mail address confirmed")
	}
	return nil, said.stop(ruleNoKey, "It was taken, and the answer holds no key")
}

// lead is what an answer without a key leads to: a further request, or a person who knows what is
// missing in it.
type lead struct {
	request *fill.Request
	// hints are what the answer to it calls the key.
	hints  []string
	person *obtained
}

// next is where an answer without a key leads: an operation that needs no credential, wants what
// the answer has given, and finishes something. Where one field is missing that a person was sent,
// the person is asked. Nil where nothing follows.
func (s *session) next(w *way, known map[string]string, done map[string]bool) (*lead, *stop) {
	if assertion := known["identityassertion"]; assertion != "" && w.tokens != "" && !done[w.tokens] {
		done[w.tokens] = true
		return &lead{request: &fill.Request{
			Method: http.MethodPost, URL: w.tokens, Media: "application/x-www-form-urlencoded",
			Body: map[string]any{
				"grant_type": "urn:ietf:params:oauth:grant-type:jwt-bearer", "assertion": assertion,
			},
		}}, nil
	}
	if w.api == nil {
		return nil, nil
	}
	for _, person := range []bool{false, true} {
		for i := range w.api.Operations {
			o := &w.api.Operations[i]
			if done[o.Name()] || !signup.GoesOn(o) {
				continue
			}
			missing, is := signup.Lacks(w.api.Source, o, func(name string) bool {
				_, have := known[signup.PlainName(name)]
				return have
			})
			if !is || missing == "" == person {
				continue
			}
			done[o.Name()] = true
			return s.lead(w.api, o, known, missing)
		}
	}
	return nil, nil
}

// lead makes the request of an operation from what is known; of what is missing a person is asked.
func (s *session) lead(a *api, o *openapi.Operation, known map[string]string, missing string) (
	*lead, *stop,
) {
	f := s.read.fill
	f.Resolve, f.Known = a.Resolve, known
	if missing != "" {
		f.Known = withAnswer(known, missing)
	}
	r, why := f.Request(a.Source, a.url, o)
	if why != nil {
		return nil, unmade(why)
	}
	names := signup.AnswerOf(a.Source, o).Names
	l := &lead{request: r, hints: names}
	if missing == "" {
		return l, nil
	}
	node, _ := a.Node(o)
	body, _ := r.Body.(map[string]any)
	delete(body, missing)
	l.person = &obtained{
		question: fmt.Sprintf("The product has sent a code by e-mail to %s. Which one? (%s wants %q)",
			f.Mail, o.Name(), missing),
		pause: &pause{
			URL: r.URL, Media: r.Media, Body: body, Field: missing, Hints: names,
			Published: head(a.Quote(node), maxQuote),
		},
	}
	return l, nil
}

func withAnswer(known map[string]string, name string) map[string]string {
	with := map[string]string{signup.PlainName(name): "?"}
	for k, v := range known {
		with[k] = v
	}
	return with
}

// operations are the operations by which descriptions say that a stranger signs up, the surest
// first.
func (p *published) operations() (ways []way) {
	points := map[*openapi.Operation]int{}
	for i := range p.apis {
		a := &p.apis[i]
		for _, o := range signup.Operations(a.Source) {
			points[o.Operation] = o.Points
			ways = append(ways, p.operation(a, o.Operation, "openapi", o.Names))
		}
	}
	slices.SortStableFunc(ways, func(a, b way) int {
		return points[b.operation] - points[a.operation]
	})
	return ways
}

// operation is the way by an operation of a description.
func (p *published) operation(a *api, o *openapi.Operation, kind string, hints []string) way {
	node, _ := a.Node(o)
	w := way{kind: kind, at: a.url, quote: a.Quote(node), api: a, operation: o, hints: hints}
	f := p.fill
	f.Resolve = a.Resolve
	r, why := f.Request(a.Source, a.url, o)
	w.first, w.why = r, unmade(why)
	return w
}
