package follower

import (
	"maps"
	"net/url"
	"slices"

	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/page"
	"tollgate/server/inspect/signup"
	"tollgate/server/inspect/tree"
)

// blocks are requests that texts show and that sign somebody up.
func (p *published) blocks() (ways []way) {
	for _, o := range p.texts {
		for _, r := range signup.Requests(page.Readable(o.MediaType(), o.Text)) {
			ways = p.block(ways, o, r)
		}
	}
	return ways
}

// block adds a way where a shown request is one.
func (p *published) block(ways []way, o *collect.Observation, r *signup.Shown) []way {
	address := r.SignsUp(o.URL)
	if address == "" {
		return ways
	}
	w := way{kind: "code_block", at: o.URL, quote: r.Quote}
	w.first = &fill.Request{Method: r.Method, URL: address, Media: "application/json"}
	var why *fill.Stop
	if r.Form {
		w.first.Media = "application/x-www-form-urlencoded"
		if values, err := url.ParseQuery(r.Body); err == nil {
			fields := map[string]any{}
			for _, name := range slices.Sorted(maps.Keys(values)) {
				value := &tree.Node{Kind: tree.Text, Value: values.Get(name)}
				if fields[name], why = p.fill.Shown(name, value, 0); why != nil {
					break
				}
			}
			w.first.Body = fields
		}
		w.why = unmade(why)
		return append(ways, w)
	}
	if root, err := tree.ParseJSON(r.Body); err == nil {
		w.first.Body, why = p.fill.Shown("", root, 0)
	}
	w.why = unmade(why)
	return append(ways, w)
}
