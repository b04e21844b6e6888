package torture

import "slices"

// judgeClient is the client that judge appears as in histories.
const judgeClient = workers

// asker sends an event again, or takes it back or amends it again, until the answer is definite,
// and adds that to the history; false when there was none.
type asker func(u *usage, what kind) (outcome, bool)

// clear asks about what a counter's history leaves open, as long as that settles something. Where
// still is set nothing of the clients is on its way any more, and everything is settled. It is
// false when there was no answer.
func (c *counter) clear(still bool, ask asker) bool {
	for before := c.doubtful() + 1; c.doubtful() < before; {
		before = c.doubtful()
		for _, what := range []kind{takeBack, amend, record} { // in this order: the first make room
			for _, u := range c.doubts(what) {
				out, ok := ask(u, what)
				if !ok {
					return false
				}
				c.refused(u, what, out, still)
			}
		}
	}
	return true
}

// doubts lists the events of which it is not known whether they were counted, taken back or
// amended; amendments that make room come first.
func (c *counter) doubts(k kind) (open []*usage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range c.keys {
		if k == record && u.doubtful || k == takeBack && u.voidDoubtful ||
			k == amend && u.amendDoubtful {
			open = append(open, u)
		}
	}
	if k == amend {
		slices.SortStableFunc(open, func(a, b *usage) int { return a.to - a.units - b.to + b.units })
	}
	return open
}

// doubtful is how much is not known.
func (c *counter) doubtful() int {
	return len(c.doubts(record)) + len(c.doubts(takeBack)) + len(c.doubts(amend))
}

// refused notes a refusal. An earlier attempt, whose answer no client saw, may still be on its way:
// a server that was paused goes on with what it had read. So a refusal is the last word only where
// that would be refused, too, whatever comes before it.
func (c *counter) refused(u *usage, what kind, why outcome, still bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case why == absent && !still && u.doubtful: // the event may come, and then this
	case why == overLimit && !still && c.roomMayCome(u):
	case why == absent, why == overLimit, why == gone:
		u.settled(what)
	}
}

// roomMayCome reports whether another event may be taken back, or get a smaller quantity, yet.
func (c *counter) roomMayCome(u *usage) bool {
	return slices.ContainsFunc(c.keys, func(o *usage) bool {
		return o != u && (o.voidDoubtful || o.amendDoubtful && o.to < o.units)
	})
}

// settled ends the doubt about what was refused for good.
func (u *usage) settled(what kind) {
	switch what {
	case record:
		u.doubtful = false
	case takeBack:
		u.voidDoubtful = false
	case amend:
		u.amendDoubtful = false
	}
}
