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
	// promoteLag is how many entries a node may lag and still get a vote.
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
	// changing is one token: held to read and change the configuration, or to hand over.
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

// change is a request to the leader of a group: the payload of callChange, as JSON.
type change struct {
	Kind changeKind `json:"kind"`
	// Check asks whether the change could be made, without making it.
	Check  bool   `json:"check"`
	Member Member `json:"member"`
	Disk   string `json:"disk"`
	// WithinMS is how long the caller waits.
	WithinMS int64 `json:"withinMs"`
}

type changed struct {
	// Elsewhere reports whether another node leads, and nothing was done.
	Elsewhere bool   `json:"elsewhere"`
	Error     string `json:"error"`
	// Members are the present members if the one to remove is not among them.
	Members []string `json:"members,omitempty"`
}

// readdress changes the address of a server in the configuration of an index, and keeps its vote.
// The caller holds changing.
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
	// Raft writes the peer's new address while an append to it may be in flight, and reads the peer
	// without its lock when that append returns. So no append returns until raft's main goroutine has
	// finished the change, which its answer to BootstrapCluster proves.
	release := m.transport.holdBack(s.ID)
	defer release()
	changed := add(s.ID, to, index, changeQueue)
	if err := m.raft.BootstrapCluster(raft.Configuration{}).Error(); err == nil {
		return nil, unchanged("group %s began anew", m.name)
	}
	return changed, nil
}

// configChange is a change that this leader makes to the present configuration.
type configChange struct {
	membership *membership
	route      *route
	servers    []raft.Server
	// index is the configuration's log index. Raft refuses the change if the configuration has changed
	// since, for example under another leader between two terms of this one.
	index uint64
}

var errNoConfiguration = errors.New("this node has not applied a configuration yet; try again")

// beginChange reads the configuration; ErrNotLeader if this node does not lead. It reads the index
// before the servers: if they are newer, raft refuses the change, and it is tried again.
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

// join adds a member without a vote, or changes the addresses of a present one.
func (s *configChange) join(ctx context.Context, c change) error {
	m := s.membership
	wanted := peer{Member: c.Member, disk: c.Disk}
	wanted.since[m.shard] = m.raft.LastIndex() + 1 // past the removal of the one it replaces
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

// promote gives a member its vote once it has caught up.
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
	// Raft sends the entry before it counts the new vote, so it may miss the new node's
	// acknowledgement and count only that of the next entry. In an idle group, the barrier is the next
	// entry.
	m.raft.Barrier(m.config.RPCTimeout)
	return m.decide(ctx, promoted)
}

// remove removes a member. To remove itself, the leader hands over, and the next leader removes it.
// Only a check reports that the member is unknown: otherwise it has been removed already.
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
		return s.refuse("%s is the last voter: join and promote another node first; or, to end the "+
			"cluster, stop it", x.ID)
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

// takeOut removes a member from the configuration.
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

// quorate refuses a set of voters without a majority that answers: no write would succeed.
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

// caughtUp refuses a node that lags. The leader knows how far its log is; the node reports what it
// has applied and whether its journal is whole.
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

// decide waits for raft to make a change. If the result stays unknown, the caller tries again, and
// finds the change made or not.
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

// WhyUnchanged returns the reason in an ErrMembers, for callers that add their own words; it
// returns any other error as it is.
func WhyUnchanged(err error) error {
	if e := (*unchangedError)(nil); errors.As(err, &e) {
		return e.why
	}
	return err
}

// noMemberError means that a group has no member of that name.
type noMemberError struct {
	id      string
	members []string
	// was: according to this node's folder, it was a member before.
	was bool
}

// WasMember reports whether an error refuses to remove a former member: the answer to an earlier
// removal may have been lost.
func WasMember(err error) bool {
	var absent *noMemberError
	return errors.As(err, &absent) && absent.was
}

func (e *noMemberError) Error() string {
	return fmt.Sprintf("%s is not a member (members: %s)", e.id, strings.Join(e.members, ", "))
}
