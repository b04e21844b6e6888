package fetch

import (
	"net/http"
	"net/url"
)

// portable are the headers that go along to another origin. A list of what is safe, not of what is
// secret: any name can carry a key (X-Api-Key, Idempotency-Key, webhook-signature).
var portable = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}

// redirects says that an answer is a redirect that can be followed by asking again.
func redirects(r *Response) bool {
	switch r.Status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return r.Header.Get("Location") != ""
	default:
		return false
	}
}

// follow decides where the next hop goes. The guard judges it again there, by name and by address.
func (x *exchange) follow(from *target, answer *Response, spent bool) (*target, error) {
	refuse := func(rule Rule, detail string) (*target, error) {
		return nil, &Refusal{Rule: rule, Host: from.hostPort(), Detail: detail}
	}
	if x.method != http.MethodGet && x.method != http.MethodHead {
		return refuse(RuleRedirectMethod, "a "+x.method+" is not repeated elsewhere")
	}
	if spent {
		return refuse(RuleRedirectCount, "one redirect too many")
	}
	location := answer.Header.Get("Location")
	if len(location) > maxURL {
		return refuse(RuleURL, "the redirect is longer than 4,096 bytes")
	}
	reference, err := url.Parse(location)
	if err != nil {
		return refuse(RuleURL, "the redirect leads to what is no URL")
	}
	to, err := newTarget(from.url.ResolveReference(reference))
	if err != nil {
		return nil, err
	}
	if !to.sameSite(from) {
		return refuse(RuleRedirectTarget, "leads to another registrable domain, "+to.host)
	}
	if from.url.Scheme == "https" && to.url.Scheme == "http" {
		return refuse(RuleRedirectTarget, "leads from https to http")
	}
	if !to.sameOrigin(from) {
		kept := make(http.Header, len(portable))
		for _, name := range portable {
			if values := x.header.Values(name); len(values) > 0 {
				kept[name] = values
			}
		}
		x.header = kept
	}
	return to, nil
}
