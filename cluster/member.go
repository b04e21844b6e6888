package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// promoteLag is how many entries a node may be behind and still be given a vote. Entries that
	// come meanwhile reach it as they reach every other.
	promoteLag = 64
	// changeRetry is how often a change is tried again while leadership moves.
	changeRetry = 50 * time.Millisecond
	// changeQueue is how long a change may wait in raft for the one before it.
	changeQueue = time.Second
	// maxChangeBytes bounds a change that another node asks for.
	maxChangeBytes = 4 << 10
)

// changeKind names a change of the members.
type changeKind string

const (
	changeJoin     changeKind = "join"
	changePromote  changeKind = "promote"
	changeRemove   changeKind = "remove"
	changeTransfer changeKind = "transfer"
)

// change is what the leader of a group is asked to do: the payload of callChange, as JSON.
type change struct {
	Kind changeKind `json:"kind"`
	// Check asks whether it could be done, and does nothing.
	Check  bool   `json:"check"`
	Member Member `json:"member"`
	Disk   string `json:"disk"`
	// WithinMS is how long the caller waits.
	WithinMS int64 `json:"withinMs"`
}

// changed is its answer.
type changed struct {
	// Elsewhere reports whether another node leads, and nothing was done.
	Elsewhere bool   `json:"elsewhere"`
	Error     string `json:"error"`
	// Members are those who are, when the one to be removed is none.
	Members []string `json:"members,omitempty"`
}

// membership changes the members of a group, while this node leads it.
type membership struct {
	*core
	electorate *electorate
	router     *router
	handover   *handover
	tiering    *tiering
	// changing is one token, for who looks at the configuration to change it, or hands over.
	changing chan struct{}
}

// changes are changes of the members, in both groups.
type changes struct {
	*base
	peering  *peering
	changing sync.Mutex // one change at a time
	unheard  string     // under changing: whose removal may have been done
}

// Join makes the node at an address a member without a vote, in both groups. It must wait to be
// joined (Config.Join, an empty folder), or be that member already: then its addresses are changed.
// HTTP and Ops that are empty are what the node says of itself, or what the list has. Errors wrap
// ErrMembers.
func (n *changes) Join(ctx context.Context, m Member) error {
	if m.ID == "" || len(m.ID) > maxOrigin {
		return unchanged("a member needs an id of 1 to %d bytes", maxOrigin)
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

// visit asks a node that is to be joined who it is.
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

// Promote gives a member without a vote its vote, in both groups, when it has caught up in both.
// Errors wrap ErrMembers.
func (n *changes) Promote(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changePromote, Member: Member{ID: id}})
}

// Remove takes a member out of both groups, alive or not. One that leads hands over first. It is
// refused when what remains would have no majority, and when neither group has it: unless this node
// has asked for that removal before, and did not hear how it went. Errors wrap ErrMembers.
func (n *changes) Remove(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changeRemove, Member: Member{ID: id}})
}

// Transfer gives the leadership of both groups to a voter. Errors wrap ErrMembers.
func (n *changes) Transfer(ctx context.Context, id string) error {
	return n.changeBoth(ctx, change{Kind: changeTransfer, Member: Member{ID: id}})
}

// changeBoth asks both groups whether a change can be made, and then makes it. One that was
// interrupted between the groups is repeated as a whole: what is done already is found done.
func (n *changes) changeBoth(ctx context.Context, c change) error {
	if !n.changing.TryLock() {
		return unchanged("another change is under way")
	}
	defer n.changing.Unlock()
	if err := n.checkBoth(ctx, c); err != nil {
		return err
	}
	if c.Kind == changeRemove {
		n.unheard = c.Member.ID
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
	if n.unheard == c.Member.ID {
		n.unheard = ""
	}
	n.config.Log.Info("the members have changed", "change", c.Kind, "member", c.Member.ID)
	return nil
}

// checkBoth asks both groups whether a change can be made. Whom one of them has, can be removed.
func (n *changes) checkBoth(ctx context.Context, c change) error {
	c.Check = true
	absent, was := 0, false
	for _, g := range n.groups {
		err := g.askLeader(ctx, c)
		if nobody := (*noMemberError)(nil); errors.As(err, &nobody) {
			was = was || g.departed.has(c.Member.ID)
			nobody.was = was
			if absent++; absent < len(n.groups) || n.unheard == c.Member.ID {
				continue
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// askLeader brings a change to whoever leads the group, again while leadership moves.
func (m *membership) askLeader(ctx context.Context, c change) error {
	for {
		r := m.router.route.Load()
		err := fmt.Errorf("group %s has no leader that can be reached", m.name)
		if r.ready {
			err = m.change(ctx, c)
			if err == nil || errors.Is(err, ErrMembers) {
				return err
			}
		}
		for _, id := range m.likelyLeaders(r) {
			answer, aerr := m.askChange(ctx, id, c)
			switch {
			case aerr != nil || answer.Elsewhere:
				continue
			case answer.Members != nil:
				return unchanged("%w", &noMemberError{id: c.Member.ID, members: answer.Members})
			case answer.Error != "":
				return unchanged("%s", answer.Error)
			}
			return nil
		}
		if !m.pause(ctx, changeRetry) {
			return unchanged("or it is not known: repeat the command: %w", errors.Join(ctx.Err(), err))
		}
	}
}

// likelyLeaders are the other nodes to ask for a change: the leader, where one is known, and else
// everybody. A node that has moved is told of no leader before the members know its new address.
func (m *membership) likelyLeaders(r *route) []string {
	if r.leader != "" {
		return slices.DeleteFunc([]string{r.leader}, func(id string) bool {
			return id == m.config.NodeID
		})
	}
	var ids []string
	for _, s := range m.servers().Servers {
		if string(s.ID) != m.config.NodeID {
			ids = append(ids, string(s.ID))
		}
	}
	return ids
}

// askChange sends a change to the leader on another node.
func (m *membership) askChange(ctx context.Context, leader string, c change) (changed, error) {
	if end, ok := ctx.Deadline(); ok {
		c.WithinMS = time.Until(end).Milliseconds()
	}
	payload, err := json.Marshal(c)
	if err != nil {
		return changed{}, err
	}
	reply, err := m.request(ctx, leader, callChange, payload)
	if err != nil {
		return changed{}, err
	}
	var answer changed
	if err := json.Unmarshal(reply, &answer); err != nil {
		return changed{}, fmt.Errorf("%w: %w", errMessage, err)
	}
	return answer, nil
}

// changeWithin bounds a change that was asked for without a limit.
const changeWithin = 30 * time.Second

// serveChange carries out what another node has asked for.
func (m *membership) serveChange(payload []byte) []byte {
	var c change
	answer := changed{Error: "malformed change"}
	if len(payload) <= maxChangeBytes && json.Unmarshal(payload, &c) == nil {
		within := time.Duration(c.WithinMS) * time.Millisecond
		if within <= 0 || within > changeWithin {
			within = changeWithin
		}
		ctx, cancel := context.WithTimeout(m.ctx, within)
		err := m.change(ctx, c)
		cancel()
		answer = changed{}
		if nobody := (*noMemberError)(nil); errors.As(err, &nobody) {
			answer.Members = nobody.members
		}
		switch {
		case errors.Is(err, ErrNotLeader):
			answer.Elsewhere = true
		case err != nil:
			answer.Error = WhyUnchanged(err).Error()
		}
	}
	text, err := json.Marshal(answer)
	if err != nil {
		return nil
	}
	return text
}

// change makes a change, or says why not; ErrNotLeader when another node is to be asked.
func (m *membership) change(ctx context.Context, c change) error {
	select {
	case m.changing <- struct{}{}:
		defer func() { <-m.changing }()
	case <-ctx.Done():
		return unchanged("group %s: another change is under way", m.name)
	}
	here, err := m.takeSeat()
	if err != nil {
		return err
	}
	switch c.Kind {
	case changeJoin:
		return here.join(ctx, c)
	case changePromote:
		return here.promote(ctx, c)
	case changeRemove:
		return here.remove(ctx, c)
	case changeTransfer:
		return here.transfer(ctx, c)
	}
	return unchanged("this version knows no change %q", c.Kind)
}

// readdress writes another address of a server into the configuration at an index, with or without
// a vote as it has it. The caller holds changing.
func (m *membership) readdress(
	s raft.Server, to raft.ServerAddress, index uint64,
) (raft.IndexFuture, error) {
	if !slices.Contains(m.servers().Servers, s) {
		return nil, unchanged("%s has changed meanwhile", s.ID)
	}
	add := m.raft.AddNonvoter
	if s.Suffrage == raft.Voter {
		add = m.raft.AddVoter
	}
	// Raft writes the peer's new address while an append to it may be under way, and reads the peer
	// when that returns, without its lock. So none returns until raft's main goroutine is done with
	// the change; it tells by refusing to begin a cluster, which it answers in its turn.
	release := m.transport.holdBack(s.ID)
	defer release()
	changed := add(s.ID, to, index, changeQueue)
	if err := m.raft.BootstrapCluster(raft.Configuration{}).Error(); err == nil {
		return nil, unchanged("group %s began anew", m.name)
	}
	return changed, nil
}
