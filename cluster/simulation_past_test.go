package cluster

import (
	"errors"
	"time"
)

// keepDisk keeps a copy of a node's disk, as it is at this moment, running or not.
func (s *simulation) keepDisk(id string) { s.copies[id] = s.disks[id].Clone() }

// putBack puts the copy of a node's disk in its place. Who stays is one that heard of all that the
// node has promised; the other, which may be the only one to have the entries, is away by then. It
// is found out, unless nothing was promised since. A node that was refused comes back as a new one.
func (s *simulation) putBack(id string) {
	if s.replaced != "" || !s.allRun() {
		return
	}
	if s.copies[id] == nil || s.random.IntN(2) == 0 {
		s.keepDisk(id)
	}
	others := s.others(id)
	s.random.Shuffle(2, func(i, j int) { others[i], others[j] = others[j], others[i] })
	stays, leaves := others[0], others[1]
	s.net.cutLink(addressOf(stays), addressOf(leaves))
	s.net.cutLink(addressOf(leaves), addressOf(stays))
	s.sleep(200, 2000)
	s.net.isolate(addressOf(leaves))
	time.Sleep(3 * time.Second) // whoever stays hears once a second
	for _, off := range []string{leaves, id} {
		if len(s.fatals(off)) > 0 {
			return
		}
		if err := s.turnOff(off); err != nil {
			testLog().Info("closed", "node", off, "error", err)
		}
	}
	whole := s.disks[id]
	s.disks[id], s.copies[id] = s.copies[id], nil
	s.net.mend()
	s.saw("disk put back")
	s.at.Lock()
	n, err := Open(s.nodes.config(id))
	if err == nil {
		s.nodes.node[id] = n
	}
	s.at.Unlock()
	if err != nil {
		if !errors.Is(err, ErrDamaged) { // node.json is on another disk, and says that there is more
			s.note(err)
		}
		s.disks[id] = whole
		return
	}
	time.Sleep(3 * time.Second)
	fatal := s.fatals(id)
	// A copy that knows another folder of the one that stays does not speak with it.
	if len(fatal) == 0 {
		s.turnOn(leaves)
		time.Sleep(3 * time.Second)
		fatal = s.fatals(id)
	}
	if len(fatal) == 0 {
		s.saw("put back, and nothing was missing")
		return
	}
	if !errors.Is(fatal[0], ErrPutBack) {
		s.note(fatal[0])
	}
	s.saw("put back, and refused")
	s.replace(id) // somebody may know the start that was refused
}

// allRun starts who is off; false when one has ended by itself, or does at once.
func (s *simulation) allRun() bool {
	s.net.mend()
	for _, id := range three {
		if s.group(id) == nil {
			s.turnOn(id)
		}
	}
	time.Sleep(2 * time.Second)
	for _, id := range three {
		if len(s.fatals(id)) > 0 {
			return false
		}
	}
	return true
}
