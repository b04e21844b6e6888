package follower

import (
	"tollgate/server/inspect/collect"
	"tollgate/server/inspect/page"
	"tollgate/server/inspect/signup"
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
	request, why := p.fill.Shows(r, address)
	w.first, w.why = request, unmade(why)
	return append(ways, w)
}
