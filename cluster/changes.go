package cluster

import (
	"context"
	"errors"
	"sync"

	"tollgate/engine"
)

// changes are changes of the members, in both groups.
type changes struct {
	*base
	peering     *peering
	changing    sync.Mutex // one change at a time
	unconfirmed string     // under changing: a member whose removal may have been done
}

// Join makes the node at an address a member of both groups without a vote. The node must wait to
// be joined (Config.Join, an empty folder). If it is that member already, its addresses are
// changed. Empty HTTP and Ops come from the node itself, or from the list. Errors wrap ErrMembers.
func (n *changes) Join(ctx context.Context, m Member) error {
	if m.ID == "" || len(m.ID) > engine.MaxNodeID {
		return unchanged("a member needs an id of 1 to %d bytes", engine.MaxNodeID)
	}
	if err := m.checkAddresses(); err != nil {
		return unchanged("%w", err)
	}
	from, err := n.visit(m)
	if err != nil {
		return err
	}
	known, member := n.member(m.ID)
	if member && known.disk != from.Disk {
		return unchanged("%s is a member with another data folder: remove it first", m.ID)
	}
	if agreed := n.agreed(); from.Version < agreed {
		return unchanged("the cluster has agreed on version %d, the build of %s knows up to %d: start "+
			"a newer one there", agreed, m.ID, from.Version)
	}
	said := Member{HTTP: from.HTTP, Ops: from.Ops}.reachedWith(m.Raft)
	m = m.completedBy(said).completedBy(n.config.describe(known.Member))
	return n.changeBoth(ctx, change{Kind: changeJoin, Member: m, Disk: from.Disk})
}

// visit asks a node that wants to join for its identity.
func (n *changes) visit(m Member) (greeting, error) {
	conn, from, err := n.peering.port.visit(m.Raft, streamLink, n.config.RPCTimeout)
	if err == nil {
		err = conn.Close()
	}
	_, member := n.member(m.ID)
	switch {
	case from.Node == "":
		return from, unchanged("%s does not answer as a node of this cluster: is %s started, with "+
			"`join: true` and a certificate of the cluster? %w", m.Raft, m.ID, err)
	case from.Node != m.ID:
		return from, unchanged("node %s answers at %s, not %s", from.Node, m.Raft, m.ID)
	case !member && !from.Waiting:
		return from, unchanged("the folder of %s is not empty, or it was started without `join: "+
			"true`: stop it, empty its folder, start it with `join: true`", m.ID)
	case err != nil:
		return from, unchanged("%w", err)
	}
	return from, nil
}

// Promote gives a member its vote in both groups, once it has caught up in both.
// Errors wrap ErrMembers.
func (n *changes) Promote(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changePromote, Member: Member{ID: id}})
}

// Remove takes a member out of both groups, alive or not; a leader hands over first. It is refused
// if the rest would have no majority. It is also refused if neither group has the member, unless
// this node asked for that removal before and got no answer. Errors wrap ErrMembers.
func (n *changes) Remove(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changeRemove, Member: Member{ID: id}})
}

// Transfer gives the leadership of both groups to a voter. Errors wrap ErrMembers.
func (n *changes) Transfer(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changeTransfer, Member: Member{ID: id}})
}

// changeBoth asks both groups whether a change can be made, and then makes it. It is idempotent: a
// change that was interrupted between the groups is repeated as a whole.
func (n *changes) changeBoth(ctx context.Context, c change) error {
	if !n.changing.TryLock() {
		return unchanged("another change is under way")
	}
	defer n.changing.Unlock()
	if err := n.checkBoth(ctx, c); err != nil {
		return err
	}
	if c.Kind == changeRemove {
		n.unconfirmed = c.Member.ID
	}
	for i, g := range n.groups {
		if err := g.askLeader(ctx, c); err != nil {
			if i > 0 {
				return unchanged("in group %s; in group %s it was done: repeat it: %w", g.name,
					n.groups[0].name, WhyUnchanged(err))
			}
			return err
		}
	}
	if n.unconfirmed == c.Member.ID {
		n.unconfirmed = ""
	}
	n.config.Log.Info("the members have changed", "change", c.Kind, "member", c.Member.ID)
	return nil
}

// checkBoth asks both groups whether a change can be made. A member of either can be removed.
func (n *changes) checkBoth(ctx context.Context, c change) error {
	c.Check = true
	absent := 0
	for _, g := range n.groups {
		err := g.askLeader(ctx, c)
		if refusal := (*noMemberError)(nil); errors.As(err, &refusal) {
			past := n.past.Load()
			refusal.was = past != nil && past.wasMember(c.Member.ID)
			if absent++; absent < len(n.groups) || n.unconfirmed == c.Member.ID {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}
