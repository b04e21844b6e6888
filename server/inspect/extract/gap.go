package extract

import (
	"cmp"
	"fmt"

	"tollgate/server/inspect/collect"
)

// unlinked are roles whose absence says nothing: the home page is judged by itself, and its form in
// Markdown is the same page.
var unlinked = map[string]bool{
	collect.RoleControl: true, collect.RoleHome: true, collect.RoleHomeMarkdown: true,
}

func (r *reader) gaps() {
	for i := range r.c.Observations {
		o := &r.c.Observations[i]
		if unlinked[o.Role] || o.OK() || o.Led() {
			continue
		}
		if gap, why, is := r.gapOf(o); is {
			r.f.Unread = append(r.f.Unread, Unread{
				Role: o.Role, Obs: o.ID, Gap: gap, Named: o.Named(), Why: why,
				Present: *cmp.Or(o.Status, new(int))/100 == 2,
			})
		}
	}
	for _, m := range r.c.Missed {
		u := Unread{
			Role: m.Role, Obs: m.Obs, Gap: GapLeft, Named: m.Obs != "", Why: "it was not asked for",
		}
		switch m.Why {
		case collect.MissedOther:
			u.Gap, u.Why = GapElsewhere, "it is on another domain"
		case collect.MissedMore:
			u.Gap, u.Why = GapMore, "more of its kind are linked than are read"
		case collect.MissedRobots, collect.MissedUnruled:
			u.Why = "robots.txt forbids it"
		}
		r.f.Unread = append(r.f.Unread, u)
	}
}

// gapOf says why an answer cannot be read; false where there is nothing that could be: an address
// that nothing names answers as one that cannot exist does, by a status that says so or by a
// redirect. A body that was not read says nothing, whatever the others are: what it holds is not
// known. A status of 4xx needs no body.
func (r *reader) gapOf(o *collect.Observation) (gap Gap, why string, is bool) {
	status := *cmp.Or(o.Status, new(int))
	if o.Failure != nil && status/100 != 4 {
		if status/100 == 3 && !o.Named() && r.likeControl(o) {
			return gap, why, false
		}
		gap = GapFailed
		if *o.Failure == "redirect_target" {
			gap = GapElsewhere
		}
		return gap, "there is no answer that can be read (" + *o.Failure + ")", true
	}
	why = fmt.Sprintf("it answers %d", status)
	switch {
	case status >= 500:
		return GapFailed, why, true
	case status == 404 || status == 410:
		return GapAbsent, why, o.Named()
	case status == 401 || status == 403 || status == 429 || status == 451:
		return GapRefused, why, o.Named() || !r.likeControl(o)
	default:
		return GapAbsent, why, o.Named()
	}
}

// likeControl reports whether an answer is, by status and failure, the one to a path that cannot
// exist.
func (r *reader) likeControl(o *collect.Observation) bool {
	c := r.c.Control()
	if c == nil || c.Status == nil || o.Status == nil || *c.Status != *o.Status {
		return false
	}
	return *o.Status/100 == 4 || (c.Failure == nil) == (o.Failure == nil) &&
		(c.Failure == nil || *c.Failure == *o.Failure)
}
