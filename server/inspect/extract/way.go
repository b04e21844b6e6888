package extract

import (
	"slices"

	"tollgate/server/inspect/document"
	"tollgate/server/inspect/fill"
	"tollgate/server/provider/fetch"
)

// way is a published way to a key, as far as it is known before anything is sent.
type way struct {
	evidence document.Evidence
	// request is its first request, as method and address; empty where that is not known.
	request string
	// stops is the rule by which an agent stops before it sends that; empty where it sends it. wants
	// is the rule of what only a person can tell on the way, after that.
	stops, wants string
	// elsewhere reports whether the request goes to another host than the one that was asked for: an
	// agent goes there only where a flow names it. makes reports whether the answer leads to a key.
	elsewhere, makes bool
	// points say how surely an operation signs somebody up.
	points int
}

// maxWays is how many ways an agent tries where one leads nowhere.
const maxWays = 4

// asked makes a way of its request, or of why none can be made.
func (r *reader) asked(request *fill.Request, why *fill.Stop) way {
	w := way{makes: true}
	if why == nil {
		_, _, why = request.Encoded()
		w.request = request.Method + " " + request.URL
		w.elsewhere = fetch.HostOf(request.URL) != fetch.HostOf(r.f.Target.URL)
	}
	if why != nil {
		w.stops = why.Rule
	}
	return w
}

// note adds a way where what publishes it can be quoted.
func (r *reader) note(obs, quote string, w way) {
	var ok bool
	if w.evidence, ok = quoted(obs, quote); ok {
		r.ways = append(r.ways, w)
	}
}

// decide says what comes of the ways, in the order in which an agent tries them. The first whose
// request it can send decides: there may be an account then. Where there is none, what the first
// wants of a person is what stands in the way. What makes a key apart from the one that decides is
// evidence, too; and where none decides, what makes one at another host.
func (r *reader) decide() {
	var tried []string
	var elsewhere []document.Evidence
	decided := false
	for i := range r.ways {
		w := &r.ways[i]
		again := w.request != "" && slices.Contains(tried, w.request)
		if !decided && (again || len(tried) == maxWays) {
			continue
		}
		tried = append(tried, w.request)
		sent := w.stops == "" && !w.elsewhere
		switch {
		case sent && w.makes && w.wants == "":
			r.f.SelfService = append(r.f.SelfService, w.evidence)
			decided = true
		case decided:
		case w.elsewhere && w.stops == "" && w.makes && w.wants == "":
			elsewhere = append(elsewhere, w.evidence)
		case sent:
			r.wanted = nil
			if w.wants != "" {
				r.want(w.wants, w.evidence)
			}
			return
		case w.stops != "" && w.stops != fill.Unfillable && (len(tried) == 1 || r.wanted != nil):
			r.want(w.stops, w.evidence)
		}
	}
	if !decided && r.wanted == nil && elsewhere != nil {
		r.f.SelfService, r.f.Elsewhere = elsewhere, true
	}
}

// want notes what only somebody else has.
func (r *reader) want(rule string, e document.Evidence) {
	r.wanted = append(r.wanted, document.Friction{Kind: rule, Evidence: []document.Evidence{e}})
}
