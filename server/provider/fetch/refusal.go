package fetch

import (
	"errors"
	"fmt"
	"strings"
)

// Rule names what a request or its answer broke. The values are stable names for logs and metrics.
type Rule string

// The rules, in the order in which they are checked.
const (
	// RuleURL: the address is not an absolute http or https URL, or is longer than 4,096 bytes.
	RuleURL Rule = "url"
	// RuleUserinfo: the URL carries a user name or a password.
	RuleUserinfo Rule = "userinfo"
	// RuleHost: the host is neither a name nor a canonical IP address (127.1, 0x7f000001,
	// 2130706433).
	RuleHost Rule = "host"
	// RulePort: the port is neither 80 nor 443 nor the request's own, nor allowed together with its
	// host.
	RulePort Rule = "port"
	// RuleAddress: the address that was about to be dialled is not public and not configured.
	RuleAddress Rule = "address"
	// RuleOwn: the address is this service's own, or its machine's.
	RuleOwn Rule = "own"
	// RuleBudget: the budget that the request belongs to was used up before it could begin.
	RuleBudget Rule = "budget"
	// RuleTime: the exchange took longer than it may.
	RuleTime Rule = "time"
	// RuleHeaders: the answer's headers are larger than they may be.
	RuleHeaders Rule = "headers"
	// RuleBody: the answer's body is larger than it may be, before or after decoding.
	RuleBody Rule = "body"
	// RuleEncoding: the answer's body is encoded in a way that was not asked for, or is damaged.
	RuleEncoding Rule = "encoding"
	// RuleRedirectCount: the answer is one redirect more than the request follows.
	RuleRedirectCount Rule = "redirect_count"
	// RuleRedirectTarget: the redirect leads to another registrable domain or from https to http.
	RuleRedirectTarget Rule = "redirect_target"
	// RuleRedirectMethod: the answer redirects a request that is neither GET nor HEAD.
	RuleRedirectMethod Rule = "redirect_method"
)

// Refusal is the error of a request that this package stopped. Neither its text nor its fields
// hold a path, a query or userinfo: those of webhook addresses are often secrets.
type Refusal struct {
	Rule Rule
	// Host is host or host:port of the URL, empty where the URL has none.
	Host string
	// Detail is for people.
	Detail string
	// Status is the answer's HTTP status where there was one whose body could not be taken; Read is
	// how many bytes of that were read, decoded.
	Status, Read int
}

func (r *Refusal) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "fetch: refused (%s)", r.Rule)
	if r.Host != "" {
		fmt.Fprintf(&b, " %s", r.Host)
	}
	if r.Detail != "" {
		fmt.Fprintf(&b, ": %s", r.Detail)
	}
	return b.String()
}

// Local reports whether the request, or this hop of it, was stopped before a byte left the machine.
// Time, headers, body and encoding are found only once it was sent.
func (r *Refusal) Local() bool {
	switch r.Rule {
	case RuleURL, RuleUserinfo, RuleHost, RulePort, RuleAddress, RuleOwn, RuleBudget:
		return true
	default:
		return false
	}
}

// Failure is the error of a request that the network or the other side let down: no such host,
// connection refused, a bad certificate, an answer that is not HTTP.
type Failure struct {
	Host string
	Err  error
	// Status is the answer's HTTP status where there was one that broke off; Read is how many bytes
	// of its body were read, decoded.
	Status, Read int
}

// Status is the HTTP status that arrived although Do failed with err, 0 where none did, and how
// many bytes of its body did.
func Status(err error) (status, read int) {
	var refusal *Refusal
	if errors.As(err, &refusal) {
		return refusal.Status, refusal.Read
	}
	var failure *Failure
	if errors.As(err, &failure) {
		return failure.Status, failure.Read
	}
	return 0, 0
}

func (f *Failure) Error() string { return fmt.Sprintf("fetch: %s: %v", f.Host, f.Err) }

func (f *Failure) Unwrap() error { return f.Err }
