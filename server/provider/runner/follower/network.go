package follower

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"

	"tollgate/server/inspect/collect"
	"tollgate/server/provider/fetch"
)

const (
	// maxMoved is what a run may be answered in all, in bytes.
	maxMoved = 24 << 20
	// patience is how many requests may stay unanswered before the product has answered any.
	patience = 2
)

// network is the guarded client, held to the hosts of the task and to what a run may move. A
// product that never answers costs two timeouts, not forty.
type network struct {
	web   *fetch.Client
	hosts []string

	mu       sync.Mutex // guards all below
	moved    int
	silent   int
	answered bool
	// first is why the first request without a good answer has none.
	first error
}

func newNetwork(web *fetch.Client, hosts []string) *network {
	return &network{web: web, hosts: hosts}
}

// allows reports whether an address is one of the task's hosts.
func (n *network) allows(address string) bool {
	host := fetch.HostOf(address)
	return host != "" && slices.Contains(n.hosts, host)
}

// Do makes a request to a host of the task.
func (n *network) Do(ctx context.Context, r *fetch.Request) (*fetch.Response, error) {
	u, err := url.Parse(r.URL)
	if err != nil || !n.allows(r.URL) {
		return nil, &fetch.Refusal{Rule: ruleForeign, Detail: "not a host of the task"}
	}
	if err := n.spent(); err != nil {
		return nil, err
	}
	asked := *r
	asked.Port, asked.Fresh = fetch.PortIn(u), true // no connection of one run is another's
	asked.Header = r.Header.Clone()
	if asked.Header == nil {
		asked.Header = http.Header{}
	}
	asked.Header.Set("User-Agent", collect.Agent+"/1 (http agent)")
	answer, err := n.web.Do(ctx, &asked)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err != nil && n.first == nil {
		n.first = err
	}
	switch refusal := (*fetch.Refusal)(nil); {
	case err == nil:
		n.answered = true
		n.moved += len(answer.Body)
	case errors.As(err, &refusal) && answered(refusal.Rule):
		n.answered = true
		n.moved += fetch.MaxBody
	case refusal == nil || !refusal.Local(): // what was not sent took no time
		n.silent++
	}
	return answer, err
}

// answered reports whether a rule is about an answer: there is one, and it cannot be taken.
func answered(rule fetch.Rule) bool {
	return rule == fetch.RuleBody || rule == fetch.RuleEncoding || rule == fetch.RuleHeaders
}

// reached reports whether the product has answered.
func (n *network) reached() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.answered
}

// ruleForeign is the rule of an address that is none of the task's.
const ruleForeign = fetch.Rule("host_of_task")

// full reports whether the run's read limit is reached.
func (n *network) full() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.moved > maxMoved
}

// spent is why nothing more is asked: the run's read limit is reached, or the product has not
// answered, as the first time.
func (n *network) spent() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.moved > maxMoved {
		return &fetch.Refusal{Rule: fetch.RuleBudget, Detail: "the run's read limit is reached"}
	}
	if !n.answered && n.silent >= patience {
		return n.first
	}
	return nil
}
