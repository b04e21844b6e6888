package follower

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// Where a run stops, as journeys name it.
const (
	stepDiscover     = "discover"
	stepAcquire      = "acquire_credential"
	stepAuthenticate = "authenticate"
	stepExecute      = "execute"
)

// The rules that more than one place stops a run by.
const (
	ruleCaptcha   = signup.Captcha
	ruleEmailCode = signup.EmailCode
	rulePassword  = signup.Password
	rulePayment   = signup.Payment
	ruleIdentity  = signup.Identity

	ruleOtherHost    = "other_host"
	ruleNotReachable = "not_reachable"
	ruleNoAnswer     = "no_answer"
	ruleUnusable     = "answer_unusable"
	ruleLimited      = "rate_limited"
	ruleNoKey        = "no_credential_in_answer"
	ruleForeignPause = "checkpoint_foreign"
)

// What this agent may use. A run that one of these ends was not stopped by the product: it is not
// reported as blocked, and it is not charged.
const (
	ruleTime     = "time_budget"
	ruleBytes    = "byte_budget"
	ruleRequests = "request_budget"
	ruleFetches  = "fetch_budget"
	ruleTooLarge = "description_too_large"
	ruleLongWait = "checkpoint_too_large"
)

// ownLimits are the rules that say something of this agent, not of the product.
var ownLimits = []string{
	ruleTime, ruleBytes, ruleRequests, ruleFetches, ruleTooLarge, ruleLongWait, ruleForeignPause,
}

const maxQuote = 200

// stop is why a run goes no further: the rule that decided, and what it read.
type stop struct {
	step, rule, reason, quote string
	// published is what the way is published as: told where the stop itself has read nothing.
	published string
	// final reports whether no other way may be tried: an account may exist, or every way ends
	// here.
	final bool
}

// report is the end of a run that was stopped.
func (s *stop) report() runner.Report {
	reason := s.reason
	if quote := oneLine(s.quote); quote != "" {
		reason += " It says: " + head(quote, maxQuote)
	} else if quote = oneLine(s.published); quote != "" {
		reason += " Published is: " + head(quote, maxQuote)
	}
	return runner.Report{
		Blocked: !slices.Contains(ownLimits, s.rule), Step: s.step, Code: s.rule, Reason: reason,
	}
}

// unmade is the stop of a request that cannot be made; nil where why is.
func unmade(why *fill.Stop) *stop {
	if why == nil {
		return nil
	}
	return &stop{step: stepAcquire, rule: why.Rule, reason: why.Reason}
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// head is the beginning of a text, of at most n bytes.
func head(text string, n int) string { return tree.Cut(strings.ToValidUTF8(text, "?"), n) }

// answer is an answer to a request of ours.
type answer struct {
	what   string
	status int
	header http.Header
	text   string
	// root is its body where that is JSON, else nil.
	root *tree.Node
}

func read(r *fetch.Response, what string) *answer {
	a := &answer{what: what, status: r.Status, header: r.Header, text: string(r.Body)}
	if root, err := tree.ParseJSON(a.text); err == nil {
		a.root = root
	}
	return a
}

// stop is a stop because of the answer. What a success says is never quoted, for it may hold what
// is secret; its fields are named.
func (a *answer) stop(rule, reason string) *stop {
	s := &stop{
		step: stepAcquire, rule: rule, reason: fmt.Sprintf("%s (%s → %d).", reason, a.what, a.status),
		quote: a.text, final: true,
	}
	if a.status/100 == 2 {
		s.quote = ""
		if a.root.Is(tree.Map) {
			s.quote = "fields " + head(strings.Join(a.root.Keys, ", "), maxQuote)
		}
	}
	if oneLine(s.quote) == "" {
		s.quote = fmt.Sprintf("HTTP %d", a.status)
	}
	return s
}

var (
	captchaWords = regexp.MustCompile(`(?i)captcha|turnstile|prove (that )?you('re| are) (a )?human`)
	emailWords   = regexp.MustCompile(`(?i)\be-?mail[ _-]?(code|verification|confirmation)\b|` +
		`\b(verify|confirm|check) your (e-?mail|inbox)\b|` +
		`\b(verification|confirmation) (code|e-?mail)\b|` +
		`\be-?mail_?(not_verified|unverified)\b`)
)

// refused says why a sign-up was not taken; nil where it was.
func (a *answer) refused() *stop {
	text := head(a.text, 4096)
	switch {
	case a.status/100 == 2:
		return nil
	case a.status/100 == 3:
		s := a.stop("redirected", "The request is sent elsewhere, where nothing is posted")
		s.quote = "Location: " + shortPath(a.header.Get("Location"))
		return s
	case captchaWords.MatchString(text):
		return a.stop(ruleCaptcha, "The product wants a CAPTCHA solved")
	case a.status == 402:
		return a.stop(rulePayment, "The product wants to be paid first")
	case a.status == 404 || a.status == 405 || a.status == 410 || a.status == 501:
		s := a.stop("way_absent", "What is published is not there")
		s.final = false
		return s
	case a.status == 429:
		s := a.stop(ruleLimited, "The product takes no more requests now")
		if after := a.header.Get("Retry-After"); after != "" {
			s.quote = "Retry-After: " + head(after, 40)
		}
		return s
	case a.status >= 500:
		return a.stop("product_error", "The product fails")
	case emailWords.MatchString(text):
		return a.stop(ruleEmailCode, "The product wants an e-mail address confirmed")
	case a.status == 401:
		return a.stop("signup_needs_login", "Signing up needs a credential already")
	default:
		return a.stop("signup_refused", "The product does not take the request")
	}
}

// failed says why there is no answer. Errors' texts name addresses of this machine: they stay here.
func failed(err error, what string) *stop {
	s := &stop{step: stepAcquire, final: true}
	rule := "network"
	if refusal := (*fetch.Refusal)(nil); errors.As(err, &refusal) {
		rule = string(refusal.Rule)
	}
	switch fetch.Rule(rule) {
	case ruleForeign:
		s.rule, s.final = ruleOtherHost, false
		s.reason = "The way leads to a host that is none of the task's."
	case fetch.RuleURL, fetch.RuleUserinfo, fetch.RuleHost, fetch.RulePort, fetch.RuleAddress,
		fetch.RuleOwn:
		s.rule, s.final = ruleNotReachable, false
		s.reason = fmt.Sprintf("%s leads where no agent goes (%s).", what, rule)
	case fetch.RuleBody, fetch.RuleEncoding, fetch.RuleHeaders:
		s.rule = ruleUnusable
		s.reason = fmt.Sprintf("%s has an answer that cannot be taken (%s).", what, rule)
	case fetch.RuleBudget:
		s.rule = ruleBytes
		s.reason = fmt.Sprintf("%s was not sent: the run's read limit is reached.", what)
	default:
		s.rule = ruleNoAnswer
		s.reason = fmt.Sprintf("%s has no answer (%s).", what, rule)
	}
	return s
}

// unreachable says why a home page gives nothing to go by; nil where it does.
func unreachable(home *collect.Observation) *stop {
	s := &stop{step: stepDiscover, final: true}
	switch {
	case home == nil:
		s.rule, s.reason = ruleNoAnswer, "The product does not answer."
	case home.Failure != nil && home.Status == nil:
		s.rule = ruleNoAnswer
		s.reason = fmt.Sprintf("The product's page has no answer (%s).", *home.Failure)
	case home.Failure != nil:
		s.rule = ruleUnusable
		s.reason = fmt.Sprintf("The product's page cannot be taken (%s).", *home.Failure)
	case *home.Status == 429:
		s.rule, s.reason = ruleLimited, "The product takes no more requests now (429)."
	case *home.Status >= 500:
		s.rule, s.reason = "product_unavailable", fmt.Sprintf("The product fails (%d).", *home.Status)
	case *home.Status == 401 || *home.Status == 403:
		s.rule = "access_refused"
		s.reason = fmt.Sprintf("The product's page is not shown to agents (%d).", *home.Status)
	default:
		return nil
	}
	if home != nil && home.Status != nil {
		s.quote = cmp.Or(home.Excerpt, fmt.Sprintf("HTTP %d", *home.Status))
	}
	return s
}
