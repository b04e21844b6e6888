package cluster

import (
	"sync"

	"github.com/hashicorp/raft"
)

// departed are the members that a group has lost since this node's process began, by id. Somebody
// may have asked another node for a removal, and not have heard how it went: who repeats it here
// is to be told from who mistypes a name.
type departed struct {
	mu     sync.Mutex
	known  bool
	before map[string]bool
	gone   map[string]bool
}

// maxDeparted bounds how many are remembered.
const maxDeparted = 256

// follow takes in a configuration that was committed. The first is compared with that of the newest
// snapshot.
func (d *departed) follow(now, snapshot raft.Configuration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.known {
		d.known, d.before = true, idsOf(snapshot)
	}
	members := idsOf(now)
	if d.gone == nil || len(d.gone) > maxDeparted {
		d.gone = make(map[string]bool)
	}
	for id := range d.before {
		if !members[id] {
			d.gone[id] = true
		}
	}
	for id := range members {
		delete(d.gone, id)
	}
	d.before = members
}

func (d *departed) has(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.gone[id]
}

func idsOf(c raft.Configuration) map[string]bool {
	ids := make(map[string]bool, len(c.Servers))
	for _, s := range c.Servers {
		ids[string(s.ID)] = true
	}
	return ids
}
