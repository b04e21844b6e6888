package collect

import (
	"fmt"
	"strings"

	"tollgate/server/inspect/document"
	"tollgate/server/provider/fetch"
)

// Missed is an address that was to be read and was not asked for.
type Missed struct {
	// Role is what it was looked for as; Obs is the observation that names it, empty where none
	// does.
	Role, Obs string
	// Why is one of the reasons below, which are the codes of their limits.
	Why string
}

// Why an address was not asked for.
const (
	MissedFetches = "fetch_budget"
	MissedTime    = "time_budget"
	MissedRobots  = "robots"
	// MissedUnruled: the robots.txt of its host could not be read, which forbids everything.
	MissedUnruled = "robots_unread"
	// MissedHosts: it is on one host more than are asked for their rules.
	MissedHosts = "hosts"
	// MissedMore: there are more links of its role than are followed.
	MissedMore  = "links"
	MissedOther = "other_domains"
)

// maxMissed is how many addresses that were not asked for are told apart.
const maxMissed = 1_000

// miss notes an address that is not asked for, once.
func (r *run) miss(s *step, why string) {
	if r.seen[s.url] || len(r.seen) == maxMissed {
		return
	}
	r.seen[s.url] = true
	r.missed[why]++
	_, obs, _ := strings.Cut(s.via, viaLink)
	r.out.Missed = append(r.out.Missed, Missed{Role: s.role, Obs: obs, Why: why})
}

// limits says what was not done.
func (r *run) limits() {
	add := func(n int, code, reason string, arguments ...any) {
		if n > 0 {
			r.out.Limits = append(r.out.Limits, document.Limit{
				Code: code, Reason: fmt.Sprintf(reason, append([]any{n}, arguments...)...),
			})
		}
	}
	add(r.missed[MissedFetches], MissedFetches, "%d addresses were not read: a run makes %d fetches.",
		MaxFetches)
	add(r.missed[MissedTime], MissedTime, "%d addresses were not read: a run fetches for %d seconds.",
		int(MaxTime.Seconds()))
	add(r.missed[MissedRobots], MissedRobots,
		"%d links were not followed: robots.txt of their host forbids it.")
	add(r.missed[MissedUnruled], MissedUnruled,
		"%d links were not followed: robots.txt of their host could not be read.")
	add(r.missed[MissedHosts], MissedHosts,
		"%d links were not followed: those of the home page's host and %d others are.", maxHosts)
	add(r.missed[MissedMore], MissedMore,
		"%d links were not followed: of each kind some are.")
	add(r.missed[MissedOther], MissedOther,
		"%d links were not followed: they leave the registrable domain.")
	failed := map[string]int{}
	for i := range r.out.Observations {
		// What answers 4xx needs no body.
		if o := &r.out.Observations[i]; o.Failure != nil && !o.Absent() {
			failed[*o.Failure]++
		}
	}
	add(failed[string(fetch.RuleBody)], "answer_size",
		"%d answers were not read: they are longer than %d MiB.", fetch.MaxBody>>20)
	add(failed[failTotal], failTotal,
		"%d answers were not kept: all texts together may have %d MiB.", MaxBytes>>20)
}
