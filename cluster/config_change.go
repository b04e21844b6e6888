package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
)

const (
	// promoteLag is how many entries a node may be behind and still be given a vote. Entries that
	// come meanwhile reach it as they reach every other.
	promoteLag = 64
	// changeQueue is how long a change may wait in raft for the one before it.
	changeQueue = time.Second
)

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
	// the change. It shows that by refusing to bootstrap a cluster, which it answers in its turn.
	release := m.transport.holdBack(s.ID)
	defer release()
	changed := add(s.ID, to, index, changeQueue)
	if err := m.raft.BootstrapCluster(raft.Configuration{}).Error(); err == nil {
		return nil, unchanged("group %s began anew", m.name)
	}
	return changed, nil
}

// configChange is a leader about to change its group's configuration, as that is now.
type configChange struct {
	membership *membership
	route      *route
	servers    []raft.Server
	// index is that of the configuration's entry: raft makes no change to another one, as there is
	// when this node was deposed meanwhile, another leader made a change, and it was elected again.
	index uint64
}

var errNoConfiguration = errors.New("this node has not applied a configuration yet; try again")

// beginChange looks at the configuration; ErrNotLeader when this node does not lead. The index is
// read before the servers: if they are newer, raft refuses the change, and it is tried again.
func (m *membership) beginChange() (*configChange, error) {
	r := m.router.route.Load()
	if !r.ready {
		return nil, fmt.Errorf("%w group %s", ErrNotLeader, m.name)
	}
	index, err := m.electorate.configIndex()
	if err == nil && index == 0 { // raft would take that as no condition
		err = errNoConfiguration
	}
	if err != nil {
		return nil, unchanged("group %s: %w", m.name, err)
	}
	return &configChange{membership: m, route: r, servers: m.servers().Servers, index: index}, nil
}

func (s *configChange) find(id string) (raft.Server, bool) {
	i := slices.IndexFunc(s.servers, func(x raft.Server) bool { return string(x.ID) == id })
	if i < 0 {
		return raft.Server{}, false
	}
	return s.servers[i], true
}

func (s *configChange) refuse(format string, args ...any) error {
	return unchanged("group %s: %s", s.membership.name, fmt.Sprintf(format, args...))
}

// join adds a member without a vote, or changes the addresses of one that is there.
func (s *configChange) join(ctx context.Context, c change) error {
	m := s.membership
	wanted := peer{Member: c.Member, disk: c.Disk}
	wanted.since[m.shard] = m.raft.LastIndex() + 1 // past the removal of whom it replaces
	for _, x := range s.servers {
		p := peerOf(x, int(m.shard))
		if p.ID != wanted.ID && p.Raft == wanted.Raft {
			return s.refuse("%s is the address of %s", p.Raft, p.ID)
		}
		if p.ID == wanted.ID && p.disk != wanted.disk {
			return s.refuse("%s is a member with another data folder: remove it first", p.ID)
		}
	}
	old, member := s.find(wanted.ID)
	if member {
		wanted.since = peerOf(old, int(m.shard)).since
	}
	to := wanted.address(m.shard)
	switch {
	case c.Check, member && old.Address == to:
		return nil
	case member:
		future, err := m.readdress(old, to, s.index)
		if err != nil {
			return err
		}
		return m.decide(ctx, future)
	}
	return m.decide(ctx, m.raft.AddNonvoter(raft.ServerID(wanted.ID), to, s.index,
		m.config.RPCTimeout))
}

// promote gives a member its vote, when it is known to have caught up.
func (s *configChange) promote(ctx context.Context, c change) error {
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
	m := s.membership
	promoted := m.raft.AddVoter(x.ID, x.Address, s.index, m.config.RPCTimeout)
	// Raft sends the entry before it counts the new vote, so the node may acknowledge it too early,
	// and then counts with the entry after it. An idle group would have no such entry.
	m.raft.Barrier(m.config.RPCTimeout)
	return m.decide(ctx, promoted)
}

// remove takes a member out. This node hands over first, and the next leader does it. That there
// is not such a member is said to who checks only: else it has been done.
func (s *configChange) remove(ctx context.Context, c change) error {
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
	m := s.membership
	if string(x.ID) == m.config.NodeID {
		if err := m.handover.handOver(ctx, ""); err != nil && !errors.Is(err, ErrNotLeader) {
			return s.refuse("%v", err)
		}
		return fmt.Errorf("%w group %s any more", ErrNotLeader, m.name)
	}
	return s.takeOut(ctx, x.ID)
}

// takeOut removes a member from the configuration that was looked at.
func (s *configChange) takeOut(ctx context.Context, id raft.ServerID) error {
	m := s.membership
	return m.decide(ctx, m.raft.RemoveServer(id, s.index, m.config.RPCTimeout))
}

// transfer hands leadership over.
func (s *configChange) transfer(ctx context.Context, c change) error {
	m := s.membership
	if c.Member.ID == m.config.NodeID {
		return nil
	}
	to, err := m.handover.successor(s.route.term, c.Member.ID)
	if err != nil {
		return s.refuse("%v", err)
	}
	if err := s.hasRoom(ctx, to.ID); err != nil || c.Check {
		return err
	}
	if err := m.handover.handOver(ctx, c.Member.ID); err != nil && !errors.Is(err, ErrNotLeader) {
		return s.refuse("%v", err)
	}
	return nil
}

// hasRoom refuses a node whose disk is nearly full: it would hand leadership on at once.
func (s *configChange) hasRoom(ctx context.Context, id raft.ServerID) error {
	reply, err := s.membership.request(ctx, string(id), callProgress, nil)
	if err != nil {
		return s.refuse("%s does not say how much room its disk has: %v", id, err)
	}
	if said, ok := parseProgress(reply); ok && said.room == 0 {
		return s.refuse("the disk of %s is nearly full: make room there, or name another node", id)
	}
	return nil
}

// names are the members' ids, with and without a vote.
func (s *configChange) names() []string {
	var ids []string
	for _, x := range s.servers {
		ids = append(ids, string(x.ID))
	}
	slices.Sort(ids)
	return ids
}

func (s *configChange) voters() []raft.ServerID {
	return configVoters(raft.Configuration{Servers: s.servers})
}

// answers reports whether a node has answered this leader within the last two heartbeats.
func (s *configChange) answers(id raft.ServerID) bool {
	m := s.membership
	sent, ok := m.lease.ackedAt(s.route.term, id)
	return string(id) == m.config.NodeID ||
		ok && monotonic()-sent.mono < int64(2*m.config.HeartbeatTimeout)
}

// quorate refuses voters of whom no majority answers: nothing could be written any more.
func (s *configChange) quorate(voters []raft.ServerID) error {
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
func (s *configChange) caughtUp(ctx context.Context, x raft.Server) error {
	m := s.membership
	committed, applied := m.raft.CommitIndex(), m.machine.Applied()
	index, _ := m.transport.matched.of(s.route.term, x.ID)
	if !s.answers(x.ID) {
		return s.refuse("%s does not answer", x.ID)
	}
	if index+promoteLag < committed {
		return s.refuse("the log of %s is %d entries behind: wait, see `tollgate cluster status`",
			x.ID, committed-index)
	}
	reply, err := m.request(ctx, string(x.ID), callProgress, nil)
	if err != nil {
		return s.refuse("%s does not say how far it is: %v", x.ID, err)
	}
	said, ok := parseProgress(reply)
	switch {
	case !ok:
		return s.refuse("%s does not say how far it is", x.ID)
	case said.applied+promoteLag < applied:
		return s.refuse("%s has applied %d entries less: wait", x.ID, applied-said.applied)
	case said.missing > 0:
		return s.refuse("%s has yet to fetch %d segments of the journal: wait", x.ID, said.missing)
	case m.tiering.keys != nil && m.tiering.keys.lacks(said.covered) > 0:
		return s.refuse("%s has yet to put idempotency keys into files: wait", x.ID)
	}
	return nil
}

// decide waits for raft's word on a change of the configuration. What it leaves unknown is tried
// again by the caller, who then finds it done or not.
func (m *membership) decide(ctx context.Context, future raft.IndexFuture) error {
	if err := m.await(ctx, future); err != nil {
		return fmt.Errorf("%w: group %s: %w", ErrNotLeader, m.name, err)
	}
	return nil
}

// ErrMembers means that the members were not changed, and why.
var ErrMembers = errors.New("cluster: the members were not changed")

// unchangedError is an ErrMembers.
type unchangedError struct{ why error }

func unchanged(format string, args ...any) error {
	return &unchangedError{fmt.Errorf(format, args...)}
}

func (e *unchangedError) Error() string { return ErrMembers.Error() + ": " + e.why.Error() }

func (e *unchangedError) Unwrap() []error { return []error{ErrMembers, e.why} }

// WhyUnchanged is what an ErrMembers gives for a reason, for those who say by themselves that the
// members were not changed; any other error is returned as it is.
func WhyUnchanged(err error) error {
	if e := (*unchangedError)(nil); errors.As(err, &e) {
		return e.why
	}
	return err
}

// noMemberError reports whether a group has no member of that name.
type noMemberError struct {
	id      string
	members []string
	// was: it has been one, as far as this node's folder knows.
	was bool
}

// WasMember reports whether an error is the refusal to remove a node that is no longer a member:
// the caller who asked for that removal may not have heard of its end.
func WasMember(err error) bool {
	var absent *noMemberError
	return errors.As(err, &absent) && absent.was
}

func (e *noMemberError) Error() string {
	return fmt.Sprintf("%s is not a member (members: %s)", e.id, strings.Join(e.members, ", "))
}
