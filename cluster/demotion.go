package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// keysPatience is how long the leader waits for a voter whose files lack keys that could leave
	// memory. Files are made ahead by a quarter of what memory may hold, so such a voter has been
	// behind for long, or makes no files.
	keysPatience = time.Minute
	// keysSaid is after how long the leader reports that it waits.
	keysSaid = 15 * time.Second
)

// demotion is what the leader knows about voters whose files are behind.
type demotion struct {
	tiering *tiering
	late    map[string]lateVoter
}

// lateVoter is a voter that has held keys in memory since then, because its files lack them.
type lateVoter struct {
	since         time.Time
	said, leftOut bool
}

// keepDemoting lets keys leave memory while this node leads, if there are more than memory may hold
// and the voters have them in files.
func (t *tiering) keepDemoting() {
	if t.keys == nil {
		return
	}
	m, d := t.keys.machine, demotion{tiering: t}
	for t.pause(t.ctx, keysLook) {
		if !t.router.route.Load().ready {
			d.late = nil
			t.keys.heldUp.Store(nil)
			continue
		}
		goal := m.KeysToDemote()
		if goal == 0 && len(d.late) == 0 {
			continue
		}
		said, voters := t.askCoverage()
		if goal == 0 {
			d.forget(said)
			continue
		}
		if len(said) <= voters/2 {
			t.log.Warn("idempotency keys stay in memory: too few voters say what their files have",
				"voters", voters, "answered", len(said))
			t.pause(t.ctx, keysRetry)
			continue
		}
		if through := d.through(goal, said, voters); through > m.KeySpan().Memory {
			t.proposer.proposeOwn(m.Demotion(through))
		}
	}
}

// through is the number before which keys may leave memory, at most goal: a majority of the voters
// has those keys in files, and so has every voter that the leader waits for. said is what the
// voters that answer have. The leader does not wait for a voter that does not answer or lacks keys
// already; for one with fewer keys than another it waits keysPatience. See keyfiles/DESIGN.md, "Who
// is waited for".
func (d *demotion) through(goal uint64, said map[string]uint64, voters int) uint64 {
	numbers := slices.Sorted(maps.Values(said))
	goal = min(goal, numbers[len(numbers)-1])
	through := min(goal, numbers[len(numbers)-1-voters/2]) // a majority has the keys before it
	late := make(map[string]lateVoter)
	for id, covered := range said {
		if covered >= goal {
			continue
		}
		v, known := d.late[id]
		if !known {
			v.since = time.Now()
		}
		v.leftOut = d.tiering.keys.lacks(covered) > 0 || time.Since(v.since) >= keysPatience
		if !v.leftOut {
			through = min(through, covered)
		}
		late[id] = v
	}
	d.late = late
	d.report(said)
	return through
}

// forget drops the voters that have caught up. The others stay listed although nothing waits for
// them, so that the status shows them between two demotions.
func (d *demotion) forget(said map[string]uint64) {
	for id := range d.late {
		if covered, answered := said[id]; answered && d.tiering.keys.lacks(covered) == 0 {
			delete(d.late, id)
		}
	}
	d.report(said)
}

// report shows the voters that are behind: always in the status, and once in the log if it lasts.
func (d *demotion) report(said map[string]uint64) {
	t := d.tiering
	var names []string
	for id, v := range d.late {
		if !v.leftOut && time.Since(v.since) < keysSaid {
			continue
		}
		names = append(names, id)
		if v.said {
			continue
		}
		v.said = true
		d.late[id] = v
		span := t.keys.machine.KeySpan()
		t.log.Warn("the files of a voter are behind: idempotency keys wait for it in memory, for a "+
			"minute at most, and then leave it, so that this voter is not ready until it has them",
			"voter", id, "covered", said[id], "leftMemory", span.Memory, "inMemory", span.InMemory())
	}
	slices.Sort(names)
	t.keys.heldUp.Store(&names)
}

// askCoverage asks the voters before which number their files have all keys. It returns the
// answers, this node's included, and the number of voters.
func (t *tiering) askCoverage() (said map[string]uint64, voters int) {
	list := t.electorate.voters()[0]
	said = map[string]uint64{t.config.NodeID: t.keys.Covered()}
	others := slices.DeleteFunc(slices.Clone(list), func(id raft.ServerID) bool {
		return string(id) == t.config.NodeID
	})
	for id, s := range t.askProgress(t.config.RPCTimeout, others) {
		said[string(id)] = s.covered
	}
	return said, len(list)
}
