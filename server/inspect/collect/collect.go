// Package collect fetches what a product publishes: always the same addresses for the same answers,
// whichever answer comes first. DESIGN.md of server/inspect says in which order.
package collect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/page"
	"tollgate/server/provider/fetch"
)

// Bounds of a collection.
const (
	MaxFetches  = fetch.BudgetFetches
	MaxParallel = fetch.BudgetParallel
	// MaxTime leaves of the 60 s that an inspection may take what its turn and its reading take.
	MaxTime = fetch.BudgetTime - 20*time.Second
	// MaxBytes is what the texts of all answers may hold together.
	MaxBytes = 12 << 20
	maxHops  = fetch.MaxRedirects
	maxHosts = 3
)

// Agent is the product token by which robots.txt knows us.
const Agent = "Tollgate"

// Errors of Run.
var (
	// ErrUnreachable: the home page gives nothing, and nothing else does.
	ErrUnreachable = errors.New("collect: the target answered nothing that can be read")
	// ErrForbidden: the url leads where no inspection goes.
	ErrForbidden = errors.New("collect: not a public http or https address")
)

// Fetcher makes guarded requests; *fetch.Client is one.
type Fetcher interface {
	Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error)
}

// Config is what a collection needs.
type Config struct {
	Fetcher Fetcher
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// Observation is one fetch, with what was read.
type Observation struct {
	document.Observation
	// Text is the body as UTF-8, where the answer is 2xx; quotes are pieces of it.
	Text string
	// Headers are the lines of the headers that are read: Link, WWW-Authenticate.
	Headers []string
	// hop is where the answer redirects to; asked is where the redirects that led here began, and
	// began how that was found.
	hop, asked, began string
	// read is how many bytes of the body were read, kept or not.
	read int
}

// Led reports whether this is a redirect which was followed: what it led to is another observation.
func (o *Observation) Led() bool { return o.hop != "" }

// Named reports whether something which was read names the address; others everybody knows or
// guesses.
func (o *Observation) Named() bool {
	return strings.HasPrefix(o.began, viaLink) || o.began == viaSitemap
}

// OK reports whether there is a text to read.
func (o *Observation) OK() bool { return o.Failure == nil && o.success() }

func (o *Observation) success() bool { return o.Status != nil && *o.Status/100 == 2 }

// MediaType is as the answer says; empty where it says none.
func (o *Observation) MediaType() string { return *cmp.Or(o.ContentType, new(string)) }

// IsHTML reports whether the text is an HTML page.
func (o *Observation) IsHTML() bool { return page.IsHTML(o.MediaType(), o.Text) }

// Absent reports whether the host answered that there is no such document.
func (o *Observation) Absent() bool { return o.Status != nil && *o.Status/100 == 4 }

// Collection is what was fetched.
type Collection struct {
	Target document.Target
	// StartedAt and FinishedAt are when the first fetch began and the last ended.
	StartedAt, FinishedAt time.Time
	Observations          []Observation
	// AnswersEverything reports whether the host answered a path that cannot exist.
	AnswersEverything bool
	Limits            []document.Limit
	// Missed are addresses that were to be read and were not asked for, up to a bound.
	Missed []Missed
	// host is the home page's, after redirects.
	host string
}

// Readable reports whether a fetch came to a 2xx answer with one readable byte of body, be it
// longer or slower than is kept.
func (c *Collection) Readable() bool {
	return slices.ContainsFunc(c.Observations, func(o Observation) bool {
		return o.success() && o.read > 0
	})
}

// Robots is the answer of the home page's host to a request for its robots.txt; nil if none was
// made.
func (c *Collection) Robots() *Observation { return c.robotsOf(c.host) }

func (c *Collection) robotsOf(host string) (answer *Observation) {
	for o := range c.answers(RoleRobots) {
		// The rules are those of the host that was asked, wherever it sent us.
		if hostOf(o.asked) == host {
			answer = o
		}
	}
	return answer
}

// hostOf is the host of an address, as it is written there.
func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Host
}

// answers are the answers of a role that are not redirects, in order.
func (c *Collection) answers(role string) iter.Seq[*Observation] {
	return func(yield func(*Observation) bool) {
		for i := range c.Observations {
			if o := &c.Observations[i]; o.Role == role && o.hop == "" && !yield(o) {
				return
			}
		}
	}
}

// Holds reports whether an observation read a text, in its body or in one of its header lines.
func (c *Collection) Holds(obs, quote string) bool {
	for i := range c.Observations {
		if o := &c.Observations[i]; o.ID == obs {
			for _, line := range o.Headers {
				if strings.Contains(line, quote) {
					return true
				}
			}
			return strings.Contains(o.Text, quote)
		}
	}
	return false
}

// Find is the answer to what was looked for: the last observation of a role that is not a redirect,
// of those the first that can be read; nil if there is none.
func (c *Collection) Find(role string) (last *Observation) {
	for o := range c.answers(role) {
		if last = o; o.OK() {
			break
		}
	}
	return last
}

// All are the answers of a role that can be read.
func (c *Collection) All(role string) (all []*Observation) {
	for o := range c.answers(role) {
		if o.OK() {
			all = append(all, o)
		}
	}
	return all
}

// Control is the last answer of the home page's host to a path that cannot exist; nil where there
// is none.
func (c *Collection) Control() (last *Observation) {
	for o := range c.answers(RoleControl) {
		if hostOf(o.URL) == c.host {
			last = o
		}
	}
	return last
}

// step is one fetch to make.
type step struct {
	role, url, via, accept string
	// trail are the addresses of the redirects that led here, the first of them first; began is how
	// that was found.
	trail []string
	began string
}

type run struct {
	config Config
	out    *Collection
	budget *fetch.Budget
	// asked are the addresses that were planned, with what they were asked for.
	asked map[string]bool
	// count is how many of a role were planned.
	count map[string]int
	// rules are those of hosts.
	rules map[string]rules
	bytes int
	// port is the one that the target names.
	port uint16
	// missed counts addresses that were not asked for, by why; seen are they.
	missed map[string]int
	seen   map[string]bool
}

// Run collects what a url's host publishes. The run's id decides the path that cannot exist.
func Run(ctx context.Context, config Config, target, runID string) (*Collection, error) {
	if config.Now == nil {
		config.Now = time.Now
	}
	u, err := url.Parse(target)
	if err != nil || u.Host == "" {
		return nil, ErrForbidden
	}
	r := &run{
		config: config, budget: fetch.NewBudget(MaxFetches, MaxParallel, MaxTime),
		asked: map[string]bool{}, count: map[string]int{}, rules: map[string]rules{},
		missed: map[string]int{}, seen: map[string]bool{}, port: fetch.PortIn(u),
		out: &Collection{
			Target:    document.Target{URL: target, Host: u.Host},
			StartedAt: config.Now(),
		},
	}
	if err = r.first(ctx, u, runID); err != nil {
		return nil, err
	}
	origin := r.origin()
	r.wave(ctx, wellKnown(origin, r.homeURL()))
	r.learnRobots(origin.Host)
	from := 0
	for depth := 1; depth <= 2; depth++ {
		to := len(r.out.Observations)
		links := r.links(from, to, depth)
		if depth == 1 {
			links = append(links, r.guesses(origin, links)...)
		}
		r.follow(ctx, links)
		from = to
	}
	r.out.FinishedAt = config.Now()
	r.limits()
	if !r.reached() {
		return nil, ErrUnreachable
	}
	return r.out, ctx.Err()
}

// first makes the control request and reads the home page.
func (r *run) first(ctx context.Context, u *url.URL, runID string) error {
	sum := sha256.Sum256([]byte(runID))
	control := u.ResolveReference(&url.URL{Path: "/" + hex.EncodeToString(sum[:10])})
	r.wave(ctx, []step{
		{role: RoleControl, url: control.String(), via: viaControl},
		{role: RoleHome, url: u.String(), via: viaRoot, accept: acceptHTML},
	})
	origin := r.origin()
	if r.out.host = origin.Host; r.out.Control() == nil {
		// Redirects led to another host, which may answer everything where this one does not.
		r.wave(ctx, []step{{
			role: RoleControl, url: origin.ResolveReference(&url.URL{Path: control.Path}).String(),
			via: viaControl,
		}})
	}
	if o := r.out.Control(); o != nil && o.success() {
		r.out.AnswersEverything = true
	}
	home := r.out.Find(RoleHome)
	if home != nil && home.Failure != nil {
		switch fetch.Rule(*home.Failure) {
		case fetch.RuleURL, fetch.RuleUserinfo, fetch.RuleHost, fetch.RulePort, fetch.RuleAddress,
			fetch.RuleOwn:
			return ErrForbidden
		}
	}
	return ctx.Err()
}

// homeURL is where the home page came from, after redirects.
func (r *run) homeURL() string {
	if home := r.out.Find(RoleHome); home != nil {
		return home.URL
	}
	return r.out.Target.URL
}

func (r *run) origin() *url.URL {
	u, err := url.Parse(r.homeURL())
	if err != nil { // it was fetched
		u = &url.URL{}
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host, Path: "/"}
}

// reached reports whether anything answered: the home page, or any document.
func (r *run) reached() bool {
	for i := range r.out.Observations {
		o := &r.out.Observations[i]
		if o.success() || o.Role == RoleHome && o.Status != nil && o.hop == "" {
			return true
		}
	}
	return false
}

// wave makes the fetches of a list, and those that they redirect to. What it appends is in the
// list's order.
func (r *run) wave(ctx context.Context, steps []step) {
	for len(steps) > 0 {
		steps = r.hop(ctx, steps)
	}
}

// hop makes the fetches of a list; next are those that they redirect to.
func (r *run) hop(ctx context.Context, steps []step) (next []step) {
	var fresh []step
	for _, s := range steps {
		if key := s.accept + " " + s.url; !r.asked[key] {
			r.asked[key] = true
			fresh = append(fresh, s)
		}
	}
	for len(fresh) > 0 {
		n := min(len(fresh), MaxParallel)
		for i, o := range r.batch(ctx, fresh[:n]) {
			next = r.commit(next, &fresh[i], o)
		}
		fresh = fresh[n:]
	}
	return next
}

// batch makes up to MaxParallel fetches at once. Answers are taken together, so that those which
// are read but not yet counted are few.
func (r *run) batch(ctx context.Context, steps []step) []*Observation {
	made := make([]*Observation, len(steps))
	var all sync.WaitGroup
	for i := range steps {
		if len(r.out.Observations)+i >= MaxFetches {
			r.miss(&steps[i], MissedFetches)
			continue
		}
		all.Go(func() { made[i] = r.fetch(ctx, &steps[i]) })
	}
	all.Wait()
	return made
}

// commit takes an answer, and plans where it redirects to.
func (r *run) commit(next []step, s *step, o *Observation) []step {
	if o == nil {
		return next
	}
	if o.Failure != nil && *o.Failure == string(fetch.RuleBudget) {
		r.miss(s, MissedTime)
		return next
	}
	o.ID = fmt.Sprintf("obs_%d", len(r.out.Observations)+1)
	if r.bytes += len(o.Text); r.bytes > MaxBytes {
		r.bytes -= len(o.Text)
		o.fail(failTotal)
	}
	trail := append(slices.Clone(s.trail), s.url)
	switch {
	case o.hop == "":
	case slices.Contains(trail, o.hop):
		o.fail(failLoop)
	case len(s.trail) >= maxHops:
		o.fail(string(fetch.RuleRedirectCount))
	default:
		next = append(next, step{
			role: s.role, url: o.hop, via: viaLink + o.ID, accept: s.accept, trail: trail,
			began: o.began,
		})
	}
	r.out.Observations = append(r.out.Observations, *o)
	return next
}

// Failures that package fetch does not name.
const (
	// failTotal: the texts of all answers are longer than they may be together.
	failTotal = "total_size"
	// failLoop: redirects lead back to where they came from.
	failLoop = "redirect_loop"
)

// fail leaves an observation without anything to read.
func (o *Observation) fail(why string) { o.Text, o.hop, o.Failure = "", "", &why }

// fetch makes one fetch. It touches nothing of the run that changes.
func (r *run) fetch(ctx context.Context, s *step) *Observation {
	o := &Observation{
		asked: append(s.trail[:len(s.trail):len(s.trail)], s.url)[0], began: cmp.Or(s.began, s.via),
		Observation: document.Observation{Role: s.role, URL: s.url, DiscoveredVia: s.via},
	}
	request := &fetch.Request{URL: s.url, Budget: r.budget, Port: r.port, Header: http.Header{
		"User-Agent": {Agent + "/1 (inspection)"}, "Accept": {"*/*"},
	}}
	if s.accept != "" {
		request.Header.Set("Accept", s.accept)
	}
	answer, err := r.config.Fetcher.Do(ctx, request)
	o.FetchedAt = Stamp(r.config.Now())
	if err != nil {
		o.fail(failureOf(err))
		status, read := fetch.Status(err)
		if o.read = read; status != 0 {
			o.Status = &status
		}
		return o
	}
	o.take(answer)
	return o
}

// Stamp is an instant as documents have it.
func Stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }
