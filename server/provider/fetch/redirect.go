package fetch

import (
	"net/http"
	"net/url"
)

// portable are the headers that are forwarded to another origin. An allow list, not a deny list:
// any name can carry a key (X-Api-Key, Idempotency-Key, webhook-signature).
var portable = []string{"Accept", "Accept-Encoding", "Accept-Language", "User-Agent"}

// redirects reports whether an answer is a redirect that can be followed by asking again.
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
	to, err := next(from, answer.Header.Get("Location"))
	if err != nil {
		return nil, err
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

// next is where a redirect leads to, if that is within the same registrable domain and no step from
// https to http.
func next(from *target, location string) (*target, error) {
	refuse := func(rule Rule, detail string) (*target, error) {
		return nil, &Refusal{Rule: rule, Host: from.hostPort(), Detail: detail}
	}
	if len(location) > maxURL {
		return refuse(RuleURL, "the redirect is longer than 4,096 bytes")
	}
	reference, err := url.Parse(location)
	if err != nil {
		return refuse(RuleURL, "the redirect leads to an invalid URL")
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
	return to, nil
}

// Next is where an answer that was not followed redirects to, by the rules by which Do follows;
// empty where it is not a redirect. For callers that count each hop as a request.
func Next(answer *Response) (string, error) {
	if !redirects(answer) {
		return "", nil
	}
	from, err := parseTarget(answer.URL)
	if err != nil {
		return "", err
	}
	to, err := next(from, answer.Header.Get("Location"))
	if err != nil {
		return "", err
	}
	return to.url.String(), nil
}

// SameSite reports whether two URLs belong to one registrable domain; a URL that cannot be fetched
// belongs to none.
func SameSite(a, b string) bool {
	one, err := parseTarget(a)
	if err != nil {
		return false
	}
	other, err := parseTarget(b)
	return err == nil && one.sameSite(other)
}
