package extract

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/openapi"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// BrowserSignIn is the friction of a product whose only published way to a credential is OAuth in
// a browser: a person signs in there and consents.
const BrowserSignIn = "browser_sign_in"

// obtain reads how a program gets a credential without a person, and where only a person gets one.
// It comes after all else that tells of a way. The ways are in the order of the built-in agent.
func (r *reader) obtain() {
	r.filler = fill.New(fill.IdentityOf("", ""))
	r.agentAuth()
	r.provisioning()
	r.workflows()
	r.operations()
	r.shown()
	r.decide()
	if len(r.f.SelfService) > 0 {
		return
	}
	for _, w := range r.wanted {
		r.stop(w.Kind, w.Evidence...)
	}
	r.browserOnly()
}

// stop adds friction.
func (r *reader) stop(kind string, evidence ...document.Evidence) {
	for i := range r.f.Friction {
		if r.f.Friction[i].Kind == kind {
			return
		}
	}
	r.f.Friction = append(r.f.Friction, document.Friction{Kind: kind, Evidence: evidence})
}

// operations finds the operations by which descriptions say that a stranger gets a key. What their
// bodies and answers hold is not kept of a description that was read for an inspection, so one that
// may have such an operation is read once more.
func (r *reader) operations() {
	from := len(r.ways)
	for _, api := range r.f.APIs {
		may := slices.ContainsFunc(api.Operations, func(o openapi.Operation) bool {
			return signup.May(&o)
		})
		if !may || r.over(api.observation) {
			continue
		}
		source, err := openapi.Open(api.observation.Text)
		if err != nil {
			continue
		}
		f, last := r.filler, signup.Finishing(source)
		f.Resolve = source.Resolve
		all := signup.Operations(source)
		for i := range all[:min(len(all), maxWays)] {
			o := &all[i]
			w := r.asked(f.Request(source, api.URL, o.Operation))
			w.wants, w.makes = o.Leads(source, last)
			// Whom or what a path names only the product can say.
			w.makes = w.makes && !strings.Contains(o.Path, "{")
			w.points = o.Points
			r.note(api.Obs, o.Quote, w)
		}
	}
	slices.SortStableFunc(r.ways[from:], func(a, b way) int { return b.points - a.points })
}

// metadata are the roles of OAuth's metadata.
var metadata = []string{
	collect.RoleOAuthResource, collect.RoleOAuthServer, collect.RoleOpenID,
}

// agentAuth finds the agent_auth blocks of OAuth's metadata by which agents register.
func (r *reader) agentAuth() {
	for o, root := range r.objects(metadata...) {
		a, is := signup.AgentAuthOf(root)
		address := Resolved(o.URL, a.URL)
		if !is || address == "" {
			continue
		}
		w := r.asked(&fill.Request{Method: http.MethodPost, URL: address}, nil)
		if a.Identities != nil {
			w.stops = signup.Identity
		}
		r.note(o.ID, a.Block.Quote(o.Text, maxQuote), w)
	}
}

// provisioning finds the provisioning blocks of pricing.json, by which a request begins a plan.
func (r *reader) provisioning() {
	for o, root := range r.objects(collect.RolePricingJSON) {
		for _, p := range signup.Provisions(root) {
			if address := Resolved(o.URL, p.URL); address != "" {
				w := r.asked(r.filler.Provision(root, &p, address))
				r.note(o.ID, p.Block.Quote(o.Text, maxQuote), w)
			}
		}
	}
}

// workflows finds the Arazzo workflows that sign somebody up.
func (r *reader) workflows() {
	for _, o := range r.plain(collect.RoleArazzo) {
		if r.over(o) {
			continue
		}
		root, err := tree.Parse(o.Text)
		if err != nil {
			continue
		}
		for _, w := range signup.Workflows(root) {
			quote := w.Of("workflowId").Quote(o.Text, maxQuote)
			_, _, why := r.filler.Inputs(root, w)
			known := way{makes: true}
			if why != nil {
				known.stops = why.Rule
			}
			r.note(o.ID, quote, known)
		}
	}
}

// shown finds the requests of texts that sign somebody up.
func (r *reader) shown() {
	for o := range r.spoken() {
		written, text := o.Text, o.Text
		if o.IsHTML() {
			written = strings.Join(r.page(o).Runs, "\n")
			text = html.UnescapeString(written)
		}
		lines := strings.Split(written, "\n")
		for _, request := range signup.Requests(text) {
			quote := request.Quote
			if !strings.Contains(o.Text, quote) { // marked up: the line on which it begins
				quote = lines[min(strings.Count(text[:request.At], "\n"), len(lines)-1)]
			}
			if address := request.SignsUp(o.URL); address != "" {
				r.note(o.ID, quote, r.asked(r.filler.Shows(request, address)))
			}
		}
	}
}

// browserGrants are the grants of OAuth for which a person signs in with a browser, and those that
// only go on from one of them.
var browserGrants = []string{
	"authorization_code", "implicit", "refresh_token",
	"urn:ietf:params:oauth:grant-type:device_code", "urn:openid:params:grant-type:ciba",
}

// browserFlows are the same as descriptions name them.
var browserFlows = []string{"authorizationCode", "implicit", "accessCode", "deviceAuthorization"}

// anotherWay is a text about a credential that OAuth does not give.
var anotherWay = regexp.MustCompile(`(?i)\bAPI[ -]?keys?\b|\bpersonal access tokens?\b|` +
	`/v\d/(signup|sign-up|register|keys)\b`)

// browserOnly finds products that publish OAuth in a browser and no other way: by the grants of
// their metadata (without grants RFC 8414 and OpenID Connect Discovery say authorization code and
// implicit), or by the flows of all schemes of their descriptions.
func (r *reader) browserOnly() {
	for _, e := range r.f.Setup {
		if anotherWay.MatchString(e.Quote) {
			return
		}
	}
	var evidence []document.Evidence
	for o, root := range r.objects(metadata[1:]...) {
		shown := root.Of("authorization_endpoint")
		if shown.AsText() == "" && root.Of("token_endpoint").AsText() == "" {
			continue
		}
		if grants := root.Of("grant_types_supported"); grants.Is(tree.List) {
			if slices.ContainsFunc(grants.List(), func(n tree.Node) bool {
				return !slices.Contains(browserGrants, n.AsText())
			}) {
				return
			}
			shown = grants
		}
		if shown == nil {
			shown = root.Of("token_endpoint")
		}
		evidence = add(evidence, o.ID, shown.Quote(o.Text, maxQuote))
	}
	if len(evidence) == 0 {
		evidence = r.browserSchemes()
	}
	if len(evidence) > 0 {
		r.stop(BrowserSignIn, evidence...)
	}
}

// browserSchemes are the schemes of descriptions, where all of them are signing in with a browser.
func (r *reader) browserSchemes() (evidence []document.Evidence) {
	for _, api := range r.f.APIs {
		for i := range api.Schemes {
			s := &api.Schemes[i]
			browser := s.Type == "openIdConnect" || s.Type == "oauth2" && len(s.Flows) > 0 &&
				!slices.ContainsFunc(s.Flows, func(flow string) bool {
					return !slices.Contains(browserFlows, flow) && !strings.HasPrefix(flow, "x-")
				})
			if !browser {
				return nil
			}
			evidence = add(evidence, api.Obs, s.Quote)
		}
	}
	return evidence
}

// Resolved is an address as a document writes it, relative to where the document is; empty
// where it is none.
func Resolved(at, href string) string {
	base, err := url.Parse(at)
	if err != nil || href == "" {
		return ""
	}
	to, err := base.Parse(href)
	if err != nil {
		return ""
	}
	return to.String()
}
