package follower

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/suggest"
	"tollgate/server/inspect/tree"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// published is what the product publishes, as far as the agent reads it.
type published struct {
	*collect.Collection
	facts *extract.Facts
	// home is the task's own address.
	home string
	fill fill.Filler
	// account is what is signed in with; nil where an account is to be made.
	account *runner.Account
	apis    []api
	// metadata, prices and arazzo are documents that are JSON objects (Arazzo may be YAML), in the
	// order in which they are tried.
	metadata, prices, arazzo []paper
	// texts are what people read.
	texts []*collect.Observation
	// broken are descriptions that could not be read.
	broken []string
	// large is the address of a description that is larger than this agent reads.
	large string
}

// paper is a document that was read as a tree.
type paper struct {
	url, text string
	root      *tree.Node
}

// api is a description and where it is.
type api struct {
	url string
	*openapi.Source
}

// gather reads what is published, by the collection of an inspection: the same addresses in the
// same order, robots.txt obeyed.
func (s *session) gather(ctx context.Context) (*published, *stop) {
	c, err := collect.Run(ctx, collect.Config{Fetcher: s.web}, s.task.URL, s.task.RunID)
	switch {
	case ctx.Err() != nil:
		return nil, outOfTime()
	case errors.Is(err, collect.ErrForbidden):
		return nil, &stop{
			step: stepDiscover, rule: ruleNotReachable, reason: "The address leads where no agent goes.",
		}
	case err != nil && s.web.first != nil:
		why := failed(s.web.first, "the product's page")
		why.step = stepDiscover
		return nil, why
	case err != nil:
		return nil, &stop{
			step: stepDiscover, rule: "no_page",
			reason: "The product has no page that can be read: it leads from one address to the next.",
		}
	}
	p := &published{
		Collection: c, facts: extract.Extract(c), home: s.task.URL, account: s.task.Account,
		fill: fill.New(fill.IdentityOf(s.task.RunID, s.task.Task)),
	}
	if p.account != nil {
		p.fill.Account = &fill.Account{Username: p.account.Username, Password: p.account.Password}
	}
	s.say("has asked for %d documents of the product's", len(c.Observations))
	p.describe()
	for _, role := range []string{
		collect.RoleOAuthResource, collect.RoleOAuthServer, collect.RoleOpenID,
	} {
		p.metadata = append(p.metadata, p.objects(role)...)
	}
	s.more(ctx, p)
	for _, o := range p.All(collect.RoleArazzo) {
		if root, err := tree.Parse(o.Text); err == nil && root.Is(tree.Map) {
			p.arazzo = append(p.arazzo, paper{o.URL, o.Text, root})
		}
	}
	p.prices = append(p.objects(collect.RolePricingJSON), p.objects(collect.RolePricing)...)
	for _, role := range []string{
		collect.RoleAuthMD, collect.RoleLLMs, collect.RoleLLMsFull, collect.RoleAuthDocs,
		collect.RoleDocs, collect.RoleHomeMarkdown, collect.RoleHome,
	} {
		p.texts = append(p.texts, c.All(role)...)
	}
	return p, nil
}

// objects are the answers of a role that are JSON objects.
func (p *published) objects(role string) (papers []paper) {
	for _, o := range p.All(role) {
		if root, err := tree.ParseJSON(o.Text); err == nil && root.Is(tree.Map) {
			papers = append(papers, paper{o.URL, o.Text, root})
		}
	}
	return papers
}

// describe reads the descriptions, one text once.
func (p *published) describe() {
	seen := map[string]bool{}
	for i := range p.Observations {
		o := &p.Observations[i]
		switch {
		case o.Role != collect.RoleOpenAPI:
		case !o.OK():
			switch {
			case o.Failure == nil || o.Status == nil || *o.Status/100 != 2:
			case *o.Failure == string(fetch.RuleBody) || *o.Failure == "total_size":
				p.large = cmp.Or(p.large, shortPath(o.URL))
			default:
				p.broken = append(p.broken, shortPath(o.URL)+" cannot be taken ("+*o.Failure+")")
			}
		case !seen[*o.SHA256]:
			seen[*o.SHA256] = true
			source, err := openapi.Open(o.Text)
			if err == nil {
				p.apis = append(p.apis, api{o.URL, source})
			} else if !errors.Is(err, openapi.ErrNotOpenAPI) && !o.IsHTML() {
				p.broken = append(p.broken, shortPath(o.URL)+" cannot be read")
			}
		}
	}
}

// more reads what an inspection does not: the metadata of a resource that is not its host's root
// (RFC 9728, 3.1).
func (s *session) more(ctx context.Context, p *published) {
	base, err := url.Parse(p.home)
	if err != nil {
		return
	}
	if at := strings.TrimSuffix(base.Path, "/"); at != "" {
		for _, name := range []string{"oauth-protected-resource", "oauth-authorization-server"} {
			to := url.URL{Scheme: base.Scheme, Host: base.Host, Path: "/.well-known/" + name + at}
			if read := s.fetch(ctx, to.String()); read != nil {
				p.metadata = append(p.metadata, *read)
			}
		}
	}
}

// fetch reads one more document; nil where it is none.
func (s *session) fetch(ctx context.Context, address string) *paper {
	said, why := s.ask(ctx, &fill.Request{Method: "GET", URL: address})
	if why != nil || said.status != 200 {
		return nil
	}
	root, err := tree.Parse(said.text)
	if err != nil || !root.Is(tree.Map) {
		return nil
	}
	return &paper{address, said.text, root}
}

// nothing is the stop where no way is published: what stands in an agent's way by the product's own
// words where it says so. Where this agent did not read all of it, it cannot know.
func (p *published) nothing(web *network) *stop {
	home := p.Find(collect.RoleHome)
	if why := unreachable(home); why != nil {
		return why
	}
	if why := p.unread(web); why != nil {
		why.step, why.quote = stepDiscover, home.Excerpt
		return why
	}
	s := &stop{
		step: stepDiscover, quote: cmp.Or(home.Excerpt, fmt.Sprintf("HTTP %d", *home.Status)),
		reason: "Nothing published says how a program gets a key.",
	}
	switch {
	case p.AnswersEverything && len(p.apis) == 0:
		s.rule = "answers_everything"
		s.reason = "The host answers every path alike, and none of it is a document."
	case len(p.broken) > 0:
		s.rule = "description_unreadable"
		s.reason = "No way to a key was found, and a description was not read: " +
			strings.Join(p.broken[:min(len(p.broken), 3)], "; ") + "."
	case len(p.facts.Friction) > 0:
		s.rule = p.facts.Friction[0].Kind
		s.quote = p.facts.Friction[0].Evidence[0].Quote
	default:
		s.rule = "no_way_published"
	}
	return s
}

// unread is which of this agent's own limits left something unread; nil where none did.
func (p *published) unread(web *network) *stop {
	left := func(code string) bool {
		return slices.ContainsFunc(p.Limits, func(l document.Limit) bool { return l.Code == code })
	}
	switch {
	case p.large != "":
		return &stop{rule: ruleTooLarge, reason: fmt.Sprintf(
			"No way to a key was found, and %s is larger than the %d MiB that this agent reads.",
			p.large, fetch.MaxBody>>20)}
	case web.full():
		return &stop{rule: ruleBytes, reason: fmt.Sprintf(
			"No way to a key was found in the %d MiB that a run may read.", maxMoved>>20)}
	case left("time_budget"):
		return &stop{rule: ruleTime, reason: fmt.Sprintf(
			"No way to a key was found in the %.0f seconds that a run reads.", collect.MaxTime.Seconds())}
	case left("fetch_budget"):
		return &stop{rule: ruleFetches, reason: fmt.Sprintf(
			"No way to a key was found in the %d addresses that a run reads.", collect.MaxFetches)}
	default:
		return nil
	}
}

// trial is the call by which a key is tried out: the test that an inspection would suggest, where
// that is at a host of the task.
func (p *published) trial(web *network) trial {
	t := suggest.Suggest(p.facts).Test
	if t == nil || !web.allows(t.URL) {
		return trial{}
	}
	return trial{t.URL, head(t.Evidence[0].Quote, maxQuote)}
}
