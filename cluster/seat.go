package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// seat is a leader about to change its group's configuration, as that is now.
type seat struct {
	group   *Group
	route   *route
	servers []raft.Server
	// index is that of the configuration's entry: raft makes no change to another one, as there is
	// when this node was deposed meanwhile, somebody else made a change, and it was elected again.
	index uint64
}

// takeSeat looks at the configuration; ErrNotLeader when this node does not lead. The index is read
// before the servers: if they are newer, raft refuses the change, and it is tried again.
func (g *Group) takeSeat() (*seat, error) {
	r := g.route.Load()
	if !r.ready {
		return nil, fmt.Errorf("%w group %s", ErrNotLeader, g.name)
	}
	index, err := g.configIndex()
	if err != nil {
		return nil, unchanged("group %s: %w", g.name, err)
	}
	return &seat{group: g, route: r, servers: g.servers().Servers, index: index}, nil
}

// snapshotMembers is the configuration of the newest snapshot, without members where there is none.
func (g *Group) snapshotMembers() raft.Configuration {
	found, err := g.snapshots.List()
	if err != nil || len(found) == 0 {
		return raft.Configuration{}
	}
	return found[0].Configuration
}

// configIndex is the index of the committed configuration: the newest that this node has applied,
// or that its newest snapshot has. Raft's own GetConfiguration tells none, whatever it promises.
func (g *Group) configIndex() (uint64, error) {
	index := g.configured.Load()
	found, err := g.snapshots.List()
	if err == nil && len(found) > 0 {
		index = max(index, found[0].ConfigurationIndex)
	}
	return index, err
}

func (s *seat) find(id string) (raft.Server, bool) {
	i := slices.IndexFunc(s.servers, func(x raft.Server) bool { return string(x.ID) == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return s.servers[i], true
}

func (s *seat) refuse(format string, args ...any) error {
	return unchanged("group %s: %s", s.group.name, fmt.Sprintf(format, args...))
}

// join adds a member without a vote, or changes the addresses of one that is there.
func (s *seat) join(ctx context.Context, c change) error {
	g := s.group
	wanted := peer{Member: c.Member, disk: c.Disk}
	wanted.since[g.shard] = g.raft.LastIndex() + 1 // past the removal of whom it replaces
	for _, x := range s.servers {
		p := peerOf(x, int(g.shard))
		if p.ID != wanted.ID && p.Raft == wanted.Raft {
			return s.refuse("%s is the address of %s", p.Raft, p.ID)
		}
		if p.ID == wanted.ID && p.disk != wanted.disk {
			return s.refuse("%s is a member with another data folder: remove it first", p.ID)
		}
	}
	old, member := s.find(wanted.ID)
	if member {
		wanted.since = peerOf(old, int(g.shard)).since
	}
	to := wanted.address(g.shard)
	switch {
	case c.Check, member && old.Address == to:
		return nil
	case member:
		future, err := g.readdress(old, to, s.index)
		if err != nil {
			return err
		}
		return g.decide(ctx, future)
	}
	return g.decide(ctx, g.raft.AddNonvoter(raft.ServerID(wanted.ID), to, s.index,
		g.config.RPCTimeout))
}

// promote gives a member its vote, when it is known to have caught up.
func (s *seat) promote(ctx context.Context, c change) error {
	x, member := s.find(c.Member.ID)
	switch {
	case !member:
		return s.refuse("%s is not a member: join it first", c.Member.ID)
	case x.Suffrage == raft.Voter:
		return nil
	}
	if err := s.caughtUp(ctx, x); err != nil {
		return err
	}
	if err := s.quorate(append(s.voters(), x.ID)); err != nil || c.Check {
		return err
	}
	g := s.group
	return g.decide(ctx, g.raft.AddVoter(x.ID, x.Address, s.index, g.config.RPCTimeout))
}

// remove takes a member out. This node hands over first, and the next leader does it. That there
// is not such a member is said to who checks only: else it has been done.
func (s *seat) remove(ctx context.Context, c change) error {
	x, member := s.find(c.Member.ID)
	switch {
	case !member && c.Check:
		return unchanged("%w", &noMemberError{id: c.Member.ID, members: s.names()})
	case !member:
		return nil
	}
	rest := slices.DeleteFunc(s.voters(), func(id raft.ServerID) bool { return id == x.ID })
	if len(rest) == 0 {
		return s.refuse("%s is the last voter, without which there is no cluster: join and promote "+
			"another node first; or, to end the cluster, stop it", x.ID)
	}
	if err := s.quorate(rest); err != nil || c.Check {
		return err
	}
	g := s.group
	if string(x.ID) == g.config.NodeID {
		if err := g.handOver(ctx, ""); err != nil && !errors.Is(err, ErrNotLeader) {
			return s.refuse("%v", err)
		}
		return fmt.Errorf("%w group %s any more", ErrNotLeader, g.name)
	}
	return s.takeOut(ctx, x.ID)
}

// takeOut removes a member from the configuration that was looked at.
func (s *seat) takeOut(ctx context.Context, id raft.ServerID) error {
	g := s.group
	return g.decide(ctx, g.raft.RemoveServer(id, s.index, g.config.RPCTimeout))
}

// transfer hands leadership over.
func (s *seat) transfer(ctx context.Context, c change) error {
	g := s.group
	if c.Member.ID == g.config.NodeID {
		return nil
	}
	to, err := g.successor(s.route.term, c.Member.ID)
	if err != nil {
		return s.refuse("%v", err)
	}
	if err := s.hasRoom(ctx, to.ID); err != nil || c.Check {
		return err
	}
	if err := g.handOver(ctx, c.Member.ID); err != nil && !errors.Is(err, ErrNotLeader) {
		return s.refuse("%v", err)
	}
	return nil
}

// hasRoom refuses a node whose disk is nearly full: it would hand leadership on at once.
func (s *seat) hasRoom(ctx context.Context, id raft.ServerID) error {
	reply, err := s.group.request(ctx, string(id), callProgress, nil)
	if err != nil {
		return s.refuse("%s does not say how much room its disk has: %v", id, err)
	}
	if said, ok := standingOf(reply); ok && said.room == 0 {
		return s.refuse("the disk of %s is nearly full: make room there, or name another node", id)
	}
	return nil
}

// names are the members' ids, with and without a vote.
func (s *seat) names() []string {
	var ids []string
	for _, x := range s.servers {
		ids = append(ids, string(x.ID))
	}
	slices.Sort(ids)
	return ids
}

func (s *seat) voters() []raft.ServerID {
	return configVoters(raft.Configuration{Servers: s.servers})
}

// answers reports whether a node has answered this leader within the last two heartbeats.
func (s *seat) answers(id raft.ServerID) bool {
	g := s.group
	sent, ok := g.lease.heard(s.route.term, id)
	return string(id) == g.config.NodeID ||
		ok && monotonic()-sent.mono < int64(2*g.config.HeartbeatTimeout)
}

// quorate refuses voters of whom no majority answers: nothing could be written any more.
func (s *seat) quorate(voters []raft.ServerID) error {
	alive := 0
	var silent []raft.ServerID
	for _, id := range voters {
		if s.answers(id) {
			alive++
		} else {
			silent = append(silent, id)
		}
	}
	if need := len(voters)/2 + 1; alive < need {
		return s.refuse("%d of %d voters would answer, and %d are needed: bring back %v, or join and "+
			"promote another node, first", alive, len(voters), need, silent)
	}
	return nil
}

// caughtUp refuses a node that lacks something. How far its log is, this leader has seen itself;
// what it has applied, and whether its journal is whole, the node says.
func (s *seat) caughtUp(ctx context.Context, x raft.Server) error {
	g := s.group
	committed, applied := g.raft.CommitIndex(), g.machine.Applied()
	index, _ := g.transport.matched.of(s.route.term, x.ID)
	if !s.answers(x.ID) {
		return s.refuse("%s does not answer", x.ID)
	}
	if index+promoteLag < committed {
		return s.refuse("the log of %s is %d entries behind: wait, see `tollgate cluster status`",
			x.ID, committed-index)
	}
	reply, err := g.request(ctx, string(x.ID), callProgress, nil)
	if err != nil {
		return s.refuse("%s does not say how far it is: %v", x.ID, err)
	}
	said, ok := standingOf(reply)
	switch {
	case !ok:
		return s.refuse("%s does not say how far it is", x.ID)
	case said.applied+promoteLag < applied:
		return s.refuse("%s has applied %d entries less: wait", x.ID, applied-said.applied)
	case said.missing > 0:
		return s.refuse("%s has yet to fetch %d segments of the journal: wait", x.ID, said.missing)
	case g.keys != nil && g.keys.lacks(said.covered) > 0:
		return s.refuse("%s has yet to put idempotency keys into files: wait", x.ID)
	}
	return nil
}

// progressNow is the answer to callProgress: the index applied, the number of journal segments that
// are missing, the number before which keys are in files, and the room on the disk, four varints;
// empty while the group cannot say.
func (g *Group) progressNow() []byte {
	if g.halted.Load() != nil {
		return nil
	}
	missing, covered := 0, uint64(0)
	select {
	case <-g.restored:
	default:
		return nil
	}
	if g.segments != nil {
		missing = len(g.segments.Missing())
	}
	if g.keys != nil {
		covered = g.keys.Covered()
	}
	reply := binary.AppendUvarint(nil, g.machine.Applied())
	reply = binary.AppendUvarint(binary.AppendUvarint(reply, uint64(missing)), covered)
	return binary.AppendUvarint(reply, g.room())
}

// decide waits for raft's word on a change of the configuration. What it leaves unknown is tried
// again by the caller, who then finds it done or not.
func (g *Group) decide(ctx context.Context, future raft.IndexFuture) error {
	done := make(chan error, 1)
	go func() { done <- future.Error() }() // raft that shuts down may leave it unanswered
	var err error
	select {
	case err = <-done:
	case <-ctx.Done():
		err = ctx.Err()
	case <-g.closing:
		err = errHalted
	}
	if err != nil {
		return fmt.Errorf("%w: group %s: %w", ErrNotLeader, g.name, err)
	}
	return nil
}
