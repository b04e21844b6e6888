package collect

import (
	"context"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/page"
	"tollgate/server/inspect/robots"
	"tollgate/server/inspect/tree"
	"tollgate/server/provider/fetch"
)

// roleWords tell the role of a link by a segment of its path or by what it is called, in this
// order.
var roleWords = []struct {
	role          string
	segment, text *regexp.Regexp
}{
	{
		RoleAuthDocs,
		regexp.MustCompile(`^(auth|authentication|authorization|api-?keys|` +
			`getting-?started|quick-?start)(\.\w+)?$`),
		regexp.MustCompile(`\b(authentication|api keys?|getting started|quick ?start)\b`),
	},
	{
		RolePricing, regexp.MustCompile(`^(pricing|plans|prices)(\.\w+)?$`),
		regexp.MustCompile(`\b(pricing|plans|prices)\b`),
	},
	{
		RoleDocs,
		regexp.MustCompile(`^(docs?|documentation|developers?|reference|api|api-reference|` +
			`guides?)(\.\w+)?$`),
		regexp.MustCompile(`\b(docs|documentation|developers?|api reference)\b`),
	},
	{
		RoleSignup, regexp.MustCompile(`^(sign-?up|register|join)(\.\w+)?$`),
		regexp.MustCompile(`\b(sign up|create (an )?account|start free|get started)\b`),
	},
}

var (
	description = regexp.MustCompile(`(openapi|swagger|api-docs)[^/]*(\.(json|ya?ml))?$`)
	// workflows is how a link to an Arazzo document looks. No place is known by itself.
	workflows = regexp.MustCompile(`arazzo[^/]*\.(json|ya?ml)$`)
	noPage    = regexp.MustCompile(`\.(png|jpe?g|gif|svg|ico|webp|css|m?js|pdf|zip|gz|woff2?|` +
		`mp4|xml|rss|atom)$`)
	docsHost   = regexp.MustCompile(`^(docs?|developers?)\.`)
	location   = regexp.MustCompile(`<loc>\s*([^<\s]+)\s*</loc>`)
	headerLink = regexp.MustCompile(`<([^<>]+)>\s*;([^<]*)`)
	relOf      = regexp.MustCompile(`(?i)\brel\s*=\s*"?([^";,]+)"?`)
)

// relRoles are the relations of RFC 8631, of RFC 9727 and of sitemaps.
var relRoles = map[string]string{
	"service-desc": RoleOpenAPI, "service-doc": RoleDocs, "sitemap": RoleSitemap,
	"api-catalog": RoleAPICatalog,
}

// roleOf is what a link leads to; empty where it is nothing that is read.
func roleOf(l *page.Link, to *url.URL) string {
	for _, rel := range strings.Fields(l.Rel) {
		if role := relRoles[rel]; role != "" {
			return role
		}
	}
	if strings.HasPrefix(l.Quote, "<link") {
		return ""
	}
	where, text := strings.ToLower(to.Path), strings.ToLower(l.Text)
	base := path.Base(where)
	switch {
	case base == "llms.txt":
		return RoleLLMs
	case workflows.MatchString(base):
		return RoleArazzo
	case description.MatchString(base):
		switch path.Ext(base) {
		case ".json", ".yaml", ".yml":
			return RoleOpenAPI
		case "":
			if strings.Contains(where, "v3/") {
				return RoleOpenAPI
			}
		case ".html", ".htm": // a viewer, which names what it shows
			return RoleDocs
		}
	case noPage.MatchString(base):
		return ""
	}
	for _, w := range roleWords {
		if w.segment.MatchString(base) || len(text) <= 60 && w.text.MatchString(text) {
			return w.role
		}
	}
	if docsHost.MatchString(to.Host) {
		return RoleDocs
	}
	for _, segment := range strings.Split(where, "/") {
		if docs := roleWords[2]; docs.segment.MatchString(segment) {
			return docs.role
		}
	}
	return ""
}

// deeper are the roles that are followed from pages which were themselves found by a link.
var deeper = map[string]bool{
	RoleOpenAPI: true, RoleArazzo: true, RoleAuthDocs: true, RoleDocs: true, RolePricing: true,
}

// links plans what the observations from..to lead to.
func (r *run) links(from, to, depth int) []step {
	var steps []step
	for i := from; i < to; i++ {
		o := &r.out.Observations[i]
		if !o.success() || o.Failure != nil || o.Role == RoleControl {
			continue
		}
		base, err := url.Parse(o.URL)
		if err != nil {
			continue
		}
		for _, l := range r.linksOf(o) {
			reference, err := url.Parse(l.Href)
			if err != nil {
				continue
			}
			u := base.ResolveReference(reference)
			u.Fragment, u.RawFragment = "", ""
			role := roleOf(&l, u)
			if role == "" || depth > 1 && !deeper[role] {
				continue
			}
			via := viaLink + o.ID
			if o.Role == RoleSitemap {
				via = viaSitemap
			}
			steps = r.plan(steps, step{role: role, url: u.String(), via: via})
		}
	}
	return steps
}

// plan adds a step where fewer of its role than are followed are planned, and it stays within the
// site.
func (r *run) plan(steps []step, s step) []step {
	planned := slices.ContainsFunc(steps, func(other step) bool { return other.url == s.url })
	if planned || !strings.HasPrefix(s.url, "http") || r.asked[" "+s.url] ||
		r.asked[acceptHTML+" "+s.url] {
		return steps
	}
	switch {
	case !fetch.SameSite(s.url, s.url): // nothing that could be fetched
		return steps
	case !fetch.SameSite(s.url, r.homeURL()):
		r.miss(&s, MissedOther)
		return steps
	case s.via == viaSitemap && r.count[s.role] > 0:
		return steps
	case r.count[s.role] >= maxOfRole[s.role]:
		r.miss(&s, MissedMore)
		return steps
	}
	r.count[s.role]++
	return append(steps, s)
}

// linksOf are the links of what was read, by its kind.
func (r *run) linksOf(o *Observation) []page.Link {
	var links []page.Link
	for _, line := range o.Headers {
		value, isLink := strings.CutPrefix(line, "Link: ")
		if !isLink {
			continue
		}
		for _, m := range headerLink.FindAllStringSubmatch(value, 50) {
			if rel := relOf.FindStringSubmatch(m[2]); rel != nil {
				links = append(links, page.Link{Href: m[1], Rel: strings.ToLower(rel[1]), Quote: "<link"})
			}
		}
	}
	switch o.Role {
	case RoleRobots:
		for _, sitemap := range robots.Parse(o.Text).Sitemaps {
			links = append(links, page.Link{Href: sitemap, Rel: "sitemap"})
		}
	case RoleSitemap:
		for _, m := range location.FindAllStringSubmatch(o.Text, page.MaxLinks) {
			links = append(links, page.Link{Href: m[1]})
		}
	case RoleAPICatalog:
		links = append(links, catalogLinks(o.Text)...)
	case RoleHome, RoleHomeMarkdown, RoleLLMs, RoleAuthMD, RoleDocs, RoleAuthDocs:
		p := page.Of(o.MediaType(), o.Text)
		for _, s := range p.Specs {
			links = append(links, page.Link{Href: s.Href, Rel: "service-desc"})
		}
		links = append(links, p.Links...)
	}
	return links
}

// catalogLinks reads a linkset (RFC 9264): each context's relations are lists of targets.
func catalogLinks(text string) []page.Link {
	root, err := tree.ParseJSON(text)
	if err != nil {
		return nil
	}
	var links []page.Link
	for _, context := range root.Of("linkset").List() {
		for i, rel := range context.Keys {
			for _, target := range context.Items[i].List() {
				href := target.TextOf("href")
				if relRoles[rel] != "" && href != "" && len(links) < page.MaxLinks {
					links = append(links, page.Link{Href: href, Rel: rel})
				}
			}
		}
	}
	return links
}

// rules are the robots.txt of a host: its file, or why nothing may be read there.
type rules struct {
	file *robots.File
	why  string
}

// learnRobots takes the rules of a host from the observation of its robots.txt, by RFC 9309: absent
// allows everything, out of reach forbids everything.
func (r *run) learnRobots(host string) {
	r.rules[host] = rules{why: MissedUnruled}
	switch answer := r.out.robotsOf(host); {
	case answer == nil:
	case answer.OK():
		r.rules[host] = rules{file: robots.Parse(answer.Text)}
	case answer.Absent() || answer.Status != nil && *answer.Status/100 == 3:
		r.rules[host] = rules{file: robots.Parse("")}
	}
}

// follow makes the fetches that robots.txt of their hosts allow, and those that they redirect to
// where those of theirs do.
func (r *run) follow(ctx context.Context, steps []step) {
	for len(steps) > 0 {
		steps = r.hop(ctx, r.allowed(ctx, steps))
	}
}

// allowed are the steps that robots.txt of their hosts allow, which it asks for where they are not
// known.
func (r *run) allowed(ctx context.Context, steps []step) (allowed []step) {
	var asks []step
	hosts := []string{}
	for _, s := range steps {
		u, err := url.Parse(s.url)
		if err != nil {
			continue
		}
		if _, known := r.rules[u.Host]; !known && len(r.rules) <= maxHosts {
			r.rules[u.Host] = rules{why: MissedUnruled}
			hosts = append(hosts, u.Host)
			at := u.ResolveReference(&url.URL{Path: "/robots.txt"})
			asks = append(asks, step{role: RoleRobots, url: at.String(), via: viaWellKnown})
		}
	}
	r.wave(ctx, asks)
	for _, host := range hosts {
		r.learnRobots(host)
	}
	for i := range steps {
		u, err := url.Parse(steps[i].url)
		if err != nil {
			continue
		}
		ruled, known := r.rules[u.Host]
		switch {
		case !known:
			r.miss(&steps[i], MissedHosts)
		case ruled.file == nil:
			r.miss(&steps[i], ruled.why)
		case !ruled.file.Decide(Agent, u.RequestURI()).Allowed:
			r.miss(&steps[i], MissedRobots)
		default:
			allowed = append(allowed, steps[i])
		}
	}
	return allowed
}
