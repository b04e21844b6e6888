package cluster

import (
	"maps"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// keysPatience is how long the leader waits for the files of a voter that answers and lacks keys
	// that could leave memory but for it. Files are made ahead by a quarter of what memory may hold,
	// so a voter that is not as far has been behind for long, or makes none.
	keysPatience = time.Minute
	// keysSaid is after how long it says that it waits.
	keysSaid = 15 * time.Second
)

// demotion is what the leader knows of voters whose files are behind.
type demotion struct {
	tiering *tiering
	late    map[string]lateVoter
}

// lateVoter is a voter that lacks keys in files which could leave memory but for it, since then.
type lateVoter struct {
	since         time.Time
	said, leftOut bool
}

// keepDemoting lets keys leave memory while this node leads, when there are more than memory may
// hold and the voters have them in files.
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

// through is the number before which keys may leave memory, up to goal: a majority of the voters
// has those in files, and so has everyone who is waited for. said is what those have that answer.
//
// One that does not answer is not waited for, nor one that lacks keys already; one that has fewer
// than another is, during keysPatience. See keyfiles/DESIGN.md, "Who is waited for".
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

// forget the voters that have what left memory. The others stay named, although nothing waits for
// them: keys leave memory now and then only, and the status is to show them in between.
func (d *demotion) forget(said map[string]uint64) {
	for id := range d.late {
		if covered, answered := said[id]; answered && d.tiering.keys.lacks(covered) == 0 {
			delete(d.late, id)
		}
	}
	d.report(said)
}

// tell says which voters are behind, once in the log when it lasts, and always in the status.
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

// askCoverage asks the voters up to which number their files have the keys; it returns the answers,
// this node's included, and how many voters there are.
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
