package cluster

import "time"

// versionEvery is how often a node checks whether all members know a newer version than a group has
// agreed on, and whether its data folder records the agreed one.
const versionEvery = 200 * time.Millisecond

// versions makes the groups agree on the version that all members know.
type versions struct {
	*base
	handshaker *handshaker
	peering    *peering
}

// knows is the newest version that a member knows, from the greeting of the connection to it; false
// without a connection: its next build may be another.
func (n *versions) knows(p peer) (version uint32, ok bool) {
	if p.ID != n.config.NodeID {
		if l := n.peering.linkTo(p.ID); l == nil || !l.reachable() {
			return 0, false
		}
	}
	// After the link: what is said on a new one is known before it counts.
	said, ok := n.handshaker.met(p.ID)
	return said.Version, ok && (p.disk == "" || p.disk == said.Disk)
}

// common is the newest version that all members know, with a vote or without. A member that does
// not answer may come back as it was: without it there is none, which is 0.
func (n *versions) common() uint32 {
	common := n.config.knownVersion()
	for _, p := range n.roster() {
		known, ok := n.knows(p)
		if !ok {
			return 0
		}
		common = min(common, known)
	}
	return common
}

// keepVersion proposes, while this node leads, the version that all members know. What a version
// allows is proposed only once that is applied, so no member receives what it does not know.
func (n *versions) keepVersion() {
	for n.Billing().pause(n.Billing().ctx, versionEvery) {
		for _, g := range n.groups {
			g.agree(n.common())
		}
		if err := n.noteVersion(); err != nil {
			n.fatal(err)
			return
		}
	}
}

// noteVersion writes the agreed version into the data folder, so that an older build refuses it at
// once and says why.
func (n *versions) noteVersion() error {
	agreed := n.agreed()
	if agreed <= n.folder.Version {
		return nil
	}
	seen := n.folder
	seen.Version = agreed
	if err := seen.write(n.config.Dir); err != nil {
		return err
	}
	n.folder.Version = agreed // the other fields never change, and are read concurrently
	return nil
}
