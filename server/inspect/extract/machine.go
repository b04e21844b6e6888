package extract

import (
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/robots"
	"tollgate/server/inspect/tree"
)

// machines reads what is published for machines.
func (r *reader) machines() {
	r.robots()
	for _, o := range r.llms() {
		p := r.page(o)
		index := document.IndexFile{
			Title: tree.Cut(p.Title.Value, maxValue), Sections: []string{}, Links: len(p.Links),
		}
		for _, h := range p.Headings {
			if strings.HasPrefix(h.Quote, "## ") && len(index.Sections) < maxCapabilities {
				index.Sections = append(index.Sections, tree.Cut(h.Value, maxValue))
			}
		}
		if e, ok := quoted(o.ID, p.Title.Quote); ok && r.f.LLMs == nil {
			r.f.LLMs = document.Extracted(index, e)
		}
		r.f.Indexes = append(r.f.Indexes, o.ID)
	}
	r.agentCard()
	r.oauth()
	r.mcp()
	for o, root := range r.objects(collect.RoleAPICatalog) {
		if set := root.Of("linkset"); len(set.List()) > 0 {
			r.f.Indexes = append(r.f.Indexes, o.ID)
			r.f.APITexts = add(r.f.APITexts, o.ID, set.Quote(o.Text, maxQuote))
		}
	}
}

func (r *reader) robots() {
	o := r.c.Robots()
	if o == nil {
		return
	}
	r.f.Robots = Robots{Obs: o.ID, Known: o.OK() || o.Absent(), Blocked: map[string]bool{}}
	if !o.OK() {
		return
	}
	file := robots.Parse(o.Text)
	if file.Lines == 0 {
		return
	}
	value := document.RobotsFile{
		Allowed: []string{}, Blocked: []string{}, Sitemaps: short(file.Sitemaps),
		Signals: short(file.Signals),
	}
	var evidence []document.Evidence
	for _, a := range robots.Agents {
		d := file.Decide(a.Name, "/")
		if d.Allowed {
			value.Allowed = append(value.Allowed, a.Name)
			continue
		}
		value.Blocked = append(value.Blocked, a.Name)
		r.f.Robots.Blocked[a.Name] = true
		if e, ok := quoted(o.ID, d.Line); ok && len(evidence) == 0 {
			evidence = append(evidence, e)
		}
	}
	if len(evidence) == 0 {
		evidence = add(evidence, o.ID, strings.TrimSpace(o.Text))
	}
	r.f.Robots.File = document.Extracted(value, evidence...)
}

// short are at most maxListed of a list's texts, each cut to what a value may have.
func short(list []string) []string {
	cut := []string{}
	for _, text := range list[:min(len(list), maxListed)] {
		cut = append(cut, tree.Cut(text, maxValue))
	}
	return cut
}

func (r *reader) agentCard() {
	for o, root := range r.objects(collect.RoleAgentCard) {
		name := root.Of("name")
		skills := root.Of("skills")
		if name.AsText() == "" || skills == nil && root.Of("capabilities") == nil {
			continue
		}
		card := document.AgentFile{Name: tree.Cut(name.AsText(), maxValue), Skills: []string{}}
		for _, s := range skills.List() {
			if text := s.TextOf("name"); text != "" && len(card.Skills) < maxCapabilities {
				card.Skills = append(card.Skills, tree.Cut(text, maxValue))
			}
		}
		if e, ok := quoted(o.ID, name.Quote(o.Text, maxQuote)); ok && r.f.Agent == nil {
			r.f.Agent = document.Extracted(card, e)
			r.f.Indexes = append(r.f.Indexes, o.ID)
		}
	}
}

// oauth reads the metadata of RFC 9728, RFC 8414 and OpenID Connect Discovery.
func (r *reader) oauth() {
	declare := func(o *collect.Observation, n *tree.Node, name, kind string) {
		if e, ok := quoted(o.ID, n.Quote(o.Text, maxQuote)); ok {
			method := document.AuthMethod{Name: name, Type: kind}
			r.f.Methods = append(r.f.Methods, document.Extracted(method, e))
			r.f.Setup = add(r.f.Setup, o.ID, e.Quote)
		}
	}
	for _, kind := range []struct{ role, must, method string }{
		{collect.RoleOAuthResource, "resource", "oauth2"},
		{collect.RoleOAuthServer, "token_endpoint", "oauth2"},
		{collect.RoleOpenID, "token_endpoint", "openIdConnect"},
	} {
		for o, root := range r.objects(kind.role) {
			if n := root.Of(kind.must); n.AsText() != "" {
				declare(o, n, kind.role, kind.method)
			}
		}
	}
	r.challenges()
}

// challenges reads WWW-Authenticate headers: each scheme once, whichever answers ask for it.
func (r *reader) challenges() {
	var schemes []string
	evidence := map[string][]document.Evidence{}
	for i := range r.c.Observations {
		o := &r.c.Observations[i]
		for _, line := range o.Headers {
			challenge, is := strings.CutPrefix(line, "WWW-Authenticate: ")
			scheme, _, _ := strings.Cut(strings.TrimSpace(challenge), " ")
			scheme = strings.ToLower(tree.Cut(strings.TrimRight(scheme, ","), 40))
			if !is || scheme == "" {
				continue
			}
			if evidence[scheme] == nil {
				schemes = append(schemes, scheme)
			}
			evidence[scheme] = add(evidence[scheme], o.ID, line)
		}
	}
	for i := range schemes {
		if len(r.f.Methods) < maxMethods {
			r.f.Methods = append(r.f.Methods, document.Extracted(document.AuthMethod{
				Name: "www_authenticate", Type: "http", Scheme: &schemes[i],
			}, evidence[schemes[i]]...))
		}
	}
}

// mcpKeys are what a card of a Model Context Protocol server has, by one draft or another.
var mcpKeys = []string{
	"mcpServers", "serverInfo", "remotes", "endpoint", "endpoints", "mcp", "servers",
}

func (r *reader) mcp() {
	for o, root := range r.objects(collect.RoleMCP) {
		for _, key := range mcpKeys {
			n := root.Of(key)
			if n.AsText() != "" || (n.Is(tree.Map) || n.Is(tree.List)) && len(n.Items) > 0 {
				r.f.MCPCards = add(r.f.MCPCards, o.ID, n.Quote(o.Text, maxQuote))
				r.f.Indexes = append(r.f.Indexes, o.ID)
				break
			}
		}
	}
	for o, root := range r.objects(collect.RoleAICatalog) {
		entries := 0
		for j := range root.Items {
			for _, entry := range root.Items[j].List() {
				if entry.Is(tree.Map) && len(entry.Items) > 0 {
					entries++
				}
				for k := range entry.Items {
					kind := strings.ToLower(entry.Items[k].AsText())
					if strings.Contains(kind, "mcp") {
						r.f.MCPCards = add(r.f.MCPCards, o.ID, entry.Items[k].Quote(o.Text, maxQuote))
					}
				}
			}
		}
		if entries > 0 {
			r.f.Indexes = append(r.f.Indexes, o.ID)
		}
	}
}
