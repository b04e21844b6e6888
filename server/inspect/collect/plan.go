package collect

import "net/url"

// Roles: what was looked for.
const (
	RoleControl       = "control"
	RoleHome          = "home"
	RoleHomeMarkdown  = "home_markdown"
	RoleRobots        = "robots"
	RoleLLMs          = "llms_txt"
	RoleLLMsFull      = "llms_full_txt"
	RoleAuthMD        = "auth_md"
	RoleOAuthResource = "oauth_protected_resource"
	RoleOAuthServer   = "oauth_authorization_server"
	RoleOpenID        = "openid_configuration"
	RoleAgentCard     = "agent_card"
	RoleMCP           = "mcp_server_card"
	RoleAICatalog     = "ai_catalog"
	RoleAPICatalog    = "api_catalog"
	RoleOpenAPI       = "openapi"
	RoleArazzo        = "arazzo"
	RolePricingJSON   = "pricing_json"
	RolePricing       = "pricing"
	RoleSitemap       = "sitemap"
	RoleDocs          = "docs"
	RoleAuthDocs      = "auth_docs"
	RoleSignup        = "signup"
)

// How an address was found.
const (
	viaControl   = "control"
	viaRoot      = "root"
	viaWellKnown = "well_known"
	viaSitemap   = "sitemap"
	viaLink      = "link:"
)

const (
	acceptHTML     = "text/html, */*;q=0.5"
	acceptMarkdown = "text/markdown"
)

// addressed are the documents that a host publishes for readers like us, at places that everybody
// knows. Two places of one role are two answers; the first that can be read counts.
var addressed = []struct{ role, path string }{
	{RoleRobots, "/robots.txt"},
	{RoleLLMs, "/llms.txt"},
	{RoleLLMsFull, "/llms-full.txt"},
	{RoleAuthMD, "/auth.md"},
	{RoleOpenAPI, "/openapi.json"},
	{RoleOpenAPI, "/openapi.yaml"},
	{RoleOpenAPI, "/swagger.json"},
	{RoleAPICatalog, "/.well-known/api-catalog"},
	{RoleOAuthResource, "/.well-known/oauth-protected-resource"},
	{RoleOAuthServer, "/.well-known/oauth-authorization-server"},
	{RoleOpenID, "/.well-known/openid-configuration"},
	{RoleAgentCard, "/.well-known/agent-card.json"},
	{RoleAgentCard, "/.well-known/agent.json"},
	{RoleMCP, "/.well-known/mcp.json"},
	{RoleMCP, "/.well-known/mcp/server-card.json"},
	{RoleAICatalog, "/.well-known/ai-catalog.json"},
	{RolePricingJSON, "/pricing.json"},
	{RoleSitemap, "/sitemap.xml"},
}

func wellKnown(origin *url.URL, home string) []step {
	steps := []step{{role: RoleHomeMarkdown, url: home, via: viaRoot, accept: acceptMarkdown}}
	for _, a := range addressed {
		u := origin.ResolveReference(&url.URL{Path: a.path})
		steps = append(steps, step{role: a.role, url: u.String(), via: viaWellKnown})
	}
	return steps
}

// maxOfRole is how many links of a role are followed.
var maxOfRole = map[string]int{
	RoleOpenAPI: 4, RoleDocs: 4, RoleAuthDocs: 3, RolePricing: 2, RoleSignup: 1, RoleSitemap: 1,
	RoleLLMs: 1, RoleOAuthServer: 1, RoleArazzo: 2,
}

// guesses are pages that are looked for where no link names one. On a host that answers everything
// they would be found whatever they are.
func (r *run) guesses(origin *url.URL, links []step) []step {
	if r.out.AnswersEverything {
		return nil
	}
	found := map[string]bool{}
	for _, s := range links {
		found[s.role] = true
	}
	var steps []step
	for _, g := range []struct{ role, path string }{{RoleDocs, "/docs"}, {RolePricing, "/pricing"}} {
		if !found[g.role] {
			u := origin.ResolveReference(&url.URL{Path: g.path})
			steps = append(steps, step{role: g.role, url: u.String(), via: viaWellKnown})
		}
	}
	return steps
}
