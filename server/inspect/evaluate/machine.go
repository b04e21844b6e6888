package evaluate

import (
	"fmt"
	"slices"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/document"
	"tollgate/server/inspect/extract"
	"tollgate/server/inspect/robots"
)

// crawlers reports whether AI agents may read the home page. Agents that act for a user count most;
// that training alone is blocked does not count.
func (e *evaluator) crawlers() document.Evaluation {
	r := &e.f.Robots
	if !r.Known {
		return say(document.Unknown, "crawlers_rules_unread",
			"robots.txt could not be read, so its rules are not known.", r.Obs)
	}
	if r.File == nil {
		return say(document.Yes, "crawlers_no_rules", "No robots.txt restricts anybody.", r.Obs)
	}
	blocked, all := map[robots.Purpose]int{}, map[robots.Purpose]int{}
	for _, a := range robots.Agents {
		all[a.Purpose]++
		if r.Blocked[a.Name] {
			blocked[a.Purpose]++
		}
	}
	user, search := blocked[robots.ForUser], blocked[robots.ForSearch]
	switch {
	case user == all[robots.ForUser]:
		return say(document.No, "crawlers_users_blocked",
			"robots.txt blocks every known agent that acts for a user.", r.Obs)
	case user+search > 0:
		return say(document.Partial, "crawlers_some_blocked", fmt.Sprintf(
			"robots.txt blocks %d agents that act for a user and %d that search.", user, search), r.Obs)
	case blocked[robots.ForTraining] > 0:
		return say(document.Yes, "crawlers_training_blocked",
			"robots.txt blocks training alone.", r.Obs)
	}
	return say(document.Yes, "crawlers_allowed", "robots.txt blocks no known AI agent.", r.Obs)
}

func (e *evaluator) index() document.Evaluation {
	if len(e.f.Indexes) > 0 {
		return say(document.Yes, "index_published", "An index made for agents is published.",
			e.f.Indexes...)
	}
	var unread []string
	for _, role := range indexes {
		unread = append(unread, e.unread(role, func(u *extract.Unread) bool {
			return u.Gap != extract.GapAbsent || u.Named
		})...)
	}
	if len(unread) > 0 || e.limited("reading_time") {
		return say(document.Unknown, "index_unread",
			"Not every place where an index would be could be read.", append(unread, e.asked()...)...)
	}
	return say(document.No, "index_absent", "No index made for agents was found.", e.asked()...)
}

// indexes are the roles of answers that are an index made for agents.
var indexes = []string{
	collect.RoleLLMs, collect.RoleAgentCard, collect.RoleMCP, collect.RoleAICatalog,
	collect.RoleAPICatalog,
}

// asked are the observations of the places where an index would be.
func (e *evaluator) asked() []string {
	var ids []string
	for i := range e.f.Observations {
		if o := &e.f.Observations[i]; slices.Contains(indexes, o.Role) {
			ids = append(ids, o.ID)
		}
	}
	return ids
}
