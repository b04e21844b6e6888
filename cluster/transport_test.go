package cluster

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"
)

func alone(heartbeat time.Duration) *lease { return newLease(heartbeat, "a", func(bool) {}) }

func yes() bool { return true }

// pairOf is a wrapped transport and a bare one that is connected to it.
func pairOf(
	t *testing.T, quiet time.Duration, stands func() bool,
) (*transport, *raft.InmemTransport) {
	_, inner := raft.NewInmemTransport("a")
	_, other := raft.NewInmemTransport("b")
	inner.Connect("b", other)
	other.Connect("a", inner)
	w := newTransport(inner, alone(testHeartbeat), quiet, stands)
	w.start()
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w, other
}

// Trap: a late TimeoutNow unseats a leader whose lease runs.
func TestTimeoutNowIsRefused(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	err := other.TimeoutNow("a", "a", &raft.TimeoutNowRequest{}, &raft.TimeoutNowResponse{})
	require.ErrorIs(t, err, errTransfer)
	select {
	case rpc := <-w.Consumer():
		require.Fail(t, "it came through", "%T", rpc.Command)
	default:
	}
	require.ErrorIs(t, w.TimeoutNow("b", "b", nil, nil), errTransfer, "nor is it sent")
}

// Trap: the transfer flag makes nodes vote although they know a leader.
func TestTransferFlagIsCleared(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	req := &raft.RequestVoteRequest{Term: 9, LeadershipTransfer: true}
	done := make(chan error, 1)
	go func() { done <- other.RequestVote("a", "a", req, &raft.RequestVoteResponse{}) }()
	rpc := <-w.Consumer()
	require.False(t, rpc.Command.(*raft.RequestVoteRequest).LeadershipTransfer)
	require.True(t, req.LeadershipTransfer, "the other nodes' copy is not touched")
	rpc.Respond(&raft.RequestVoteResponse{Term: 9}, nil)
	require.NoError(t, <-done)
}

// Trap: a node that was restarted forgot whom it follows, and would vote at once.
func TestNoVotesRightAfterAStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := pairOf(t, testHeartbeat, yes)
		vote := func() error {
			req := &raft.RequestVoteRequest{Term: 9}
			return other.RequestVote("a", "a", req, &raft.RequestVoteResponse{})
		}
		prevote := func() error {
			req := &raft.RequestPreVoteRequest{Term: 9}
			return other.RequestPreVote("a", "a", req, &raft.RequestPreVoteResponse{})
		}
		time.Sleep(testHeartbeat - 1)
		require.ErrorIs(t, vote(), errQuiet)
		require.ErrorIs(t, prevote(), errQuiet)
		time.Sleep(time.Nanosecond)
		go func() {
			for range 2 {
				rpc := <-w.Consumer()
				switch rpc.Command.(type) {
				case *raft.RequestVoteRequest:
					rpc.Respond(&raft.RequestVoteResponse{Granted: true}, nil)
				default:
					rpc.Respond(&raft.RequestPreVoteResponse{Granted: true}, nil)
				}
			}
		}()
		require.NoError(t, vote())
		require.NoError(t, prevote())
		require.NoError(t, w.Close())
	})
}

// Trap: a deposed leader sends entries of its successor's as its own. Whoever took them would have
// a log that is ahead of its term, and refuse to start with that: its vote might be lost.
func TestEntriesOfALaterTermAreNotTaken(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	request := &raft.AppendEntriesRequest{Term: 2, Entries: []*raft.Log{
		{Index: 8, Term: 2}, {Index: 9, Term: 3},
	}}
	done := make(chan error, 1)
	go func() { done <- other.AppendEntries("a", "a", request, &raft.AppendEntriesResponse{}) }()
	select {
	case err := <-done:
		require.ErrorIs(t, err, errDeposed)
	case rpc := <-w.Consumer():
		require.Fail(t, "it came through", "%v", rpc.Command)
	}
}

func TestPipeliningIsOff(t *testing.T) {
	w, _ := pairOf(t, 0, yes)
	_, err := w.AppendEntriesPipeline("b", "b")
	require.ErrorIs(t, err, raft.ErrPipelineReplicationNotSupported)
	require.Implements(t, (*raft.WithPreVote)(nil), w, "pre-vote stays on")
	require.Implements(t, (*raft.WithClose)(nil), w, "raft closes it")
}

func TestWrongClockDoesNotAskForVotes(t *testing.T) {
	w, _ := pairOf(t, 0, func() bool { return false })
	require.ErrorIs(t, w.RequestVote("b", "b", &raft.RequestVoteRequest{Term: 2}, nil), errClock)
	require.ErrorIs(t, w.RequestPreVote("b", "b", &raft.RequestPreVoteRequest{Term: 2}, nil), errClock)
}

// answering makes a bare transport answer appends with f.
func answering(
	t *testing.T, other *raft.InmemTransport,
	f func(*raft.AppendEntriesRequest) *raft.AppendEntriesResponse,
) {
	stop := make(chan struct{})
	t.Cleanup(func() { close(stop) })
	go func() {
		for {
			select {
			case rpc := <-other.Consumer():
				rpc.Respond(f(rpc.Command.(*raft.AppendEntriesRequest)), nil)
			case <-stop:
				return
			}
		}
	}()
}

func TestAppendsAreStampedWhenTheyAreSent(t *testing.T) {
	w, other := pairOf(t, 0, yes)
	var answered atomic.Int64
	answering(t, other, func(req *raft.AppendEntriesRequest) *raft.AppendEntriesResponse {
		answered.Store(monotonic())
		return &raft.AppendEntriesResponse{Term: max(req.Term, 7), Success: req.Term >= 7}
	})
	w.lease.voters = func() [2][]raft.ServerID {
		return [2][]raft.ServerID{{"a", "b"}, {"a", "b"}}
	}
	w.lease.begin(8)
	send := func(term uint64) {
		req := &raft.AppendEntriesRequest{Term: term}
		require.NoError(t, w.AppendEntries("b", "b", req, &raft.AppendEntriesResponse{}))
	}
	before := monotonic()
	send(8)
	require.GreaterOrEqual(t, w.lease.acks["b"].mono, before)
	require.Less(t, w.lease.acks["b"].mono, answered.Load())
	_, ok := w.lease.holds()
	require.True(t, ok)
	w.lease.end(8)
	send(6) // answered with term 7
	require.GreaterOrEqual(t, w.lease.dead, uint64(6))
}

// --- Trap 1, on a real network: see TestHeartbeatsDoNotOvertake.

// switchable is a stream layer that a test can partition.
type switchable struct {
	net.Listener
	cut   atomic.Bool
	mu    sync.Mutex
	conns []net.Conn
}

func (s *switchable) keep(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
}

func (s *switchable) Dial(a raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	if s.cut.Load() {
		return nil, errors.New("partitioned")
	}
	c, err := net.DialTimeout("tcp", string(a), timeout)
	if err == nil {
		s.keep(c)
	}
	return c, err
}

func (s *switchable) Accept() (net.Conn, error) {
	for {
		c, err := s.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !s.cut.Load() {
			s.keep(c)
			return c, nil
		}
		if err := c.Close(); err != nil {
			return nil, err
		}
	}
}

// part cuts the node off, or ends all its connections for good.
func (s *switchable) part() {
	s.cut.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if err := c.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			panic(err)
		}
	}
	s.conns = nil
}

// gate holds back what is not a heartbeat, as if it arrived later on a connection of its own.
type gate struct {
	*raft.NetworkTransport
	shut    atomic.Bool
	open    chan struct{}
	out     chan raft.RPC
	closing chan struct{}
	once    sync.Once
	beats   chan struct{} // one token per heartbeat that was dealt with
}

func newGate(n *raft.NetworkTransport) *gate {
	g := &gate{
		NetworkTransport: n, open: make(chan struct{}), out: make(chan raft.RPC),
		closing: make(chan struct{}), beats: make(chan struct{}, 10_000),
	}
	go g.run()
	return g
}

func isHeartbeat(rpc raft.RPC) bool {
	a, ok := rpc.Command.(*raft.AppendEntriesRequest)
	return ok && len(a.Entries) == 0 && a.PrevLogEntry == 0 && a.LeaderCommitIndex == 0
}

func (g *gate) pass(rpc raft.RPC) {
	select {
	case g.out <- rpc:
	case <-g.closing:
	}
}

func (g *gate) run() {
	for {
		select {
		case rpc := <-g.NetworkTransport.Consumer():
			if g.shut.Load() && !isHeartbeat(rpc) {
				go func() {
					select {
					case <-g.open:
						g.pass(rpc)
					case <-g.closing:
					}
				}()
				continue
			}
			g.pass(rpc)
			if g.shut.Load() {
				g.beats <- struct{}{}
			}
		case <-g.closing:
			return
		}
	}
}

func (g *gate) Consumer() <-chan raft.RPC { return g.out }

func (g *gate) Close() error {
	g.once.Do(func() { close(g.closing) })
	return g.NetworkTransport.Close()
}

func (g *gate) SetHeartbeatHandler(f func(raft.RPC)) {
	g.NetworkTransport.SetHeartbeatHandler(func(rpc raft.RPC) {
		f(rpc)
		if g.shut.Load() {
			g.beats <- struct{}{}
		}
	})
}

// listFSM keeps what was applied.
type listFSM struct {
	mu   sync.Mutex
	list []string
}

func (f *listFSM) Apply(l *raft.Log) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, fmt.Sprintf("%d:%s", l.Index, l.Data))
	return nil
}

func (f *listFSM) Snapshot() (raft.FSMSnapshot, error) { return nil, io.EOF }
func (f *listFSM) Restore(io.ReadCloser) error         { return nil }

func (f *listFSM) String() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return strings.Join(f.list, " ")
}

// rivals is three rafts on TCP, of which a is patient: it stands for a leader that was paused.
type rivals struct {
	t       *testing.T
	layers  map[string]*switchable
	gates   map[string]*gate
	rafts   map[string]*raft.Raft
	fsms    map[string]*listFSM
	servers []raft.Server
	door    chan<- raft.RPC // of a's raft
}

func newRivals(t *testing.T, wrap func(*gate) (raft.Transport, chan<- raft.RPC)) *rivals {
	r := &rivals{
		t: t, layers: make(map[string]*switchable), gates: make(map[string]*gate),
		rafts: make(map[string]*raft.Raft), fsms: make(map[string]*listFSM),
	}
	for _, id := range three {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		r.layers[id] = &switchable{Listener: l}
		r.servers = append(r.servers, raft.Server{
			ID: raft.ServerID(id), Address: raft.ServerAddress(l.Addr().String()),
		})
	}
	r.open("a", 20*time.Second, wrap)
	r.open("b", 2500*time.Millisecond, wrap)
	r.open("c", 2500*time.Millisecond, wrap)
	t.Cleanup(func() {
		for _, l := range r.layers {
			l.part()
		}
		for _, raft := range r.rafts {
			require.NoError(t, raft.Shutdown().Error())
		}
	})
	return r
}

func (r *rivals) open(
	id string, heartbeat time.Duration, wrap func(*gate) (raft.Transport, chan<- raft.RPC),
) {
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = raft.ServerID(id), raftLogger(testLog(), nil, nil)
	c.HeartbeatTimeout, c.ElectionTimeout = heartbeat, heartbeat
	c.LeaderLeaseTimeout = heartbeat
	r.gates[id] = newGate(raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: r.layers[id], MaxPool: 3, Timeout: 5 * time.Second, Logger: c.Logger,
	}))
	store, snaps := raft.NewInmemStore(), raft.NewInmemSnapshotStore()
	trans, door := wrap(r.gates[id])
	require.NoError(r.t, raft.BootstrapCluster(c, store, store, snaps, trans,
		raft.Configuration{Servers: r.servers}))
	r.fsms[id] = &listFSM{}
	var err error
	r.rafts[id], err = raft.NewRaft(c, r.fsms[id], store, store, snaps, trans)
	require.NoError(r.t, err)
	if id == "a" {
		r.door = door
	}
}

func (r *rivals) leader(except string) string {
	leader := ""
	require.Eventually(r.t, func() bool {
		for id, raft := range r.rafts {
			if id != except && raft.State().String() == "Leader" {
				leader = id
				return true
			}
		}
		return false
	}, 30*time.Second, 5*time.Millisecond)
	return leader
}

// race lets a deposed leader append while the new leader's heartbeat arrives and its entries do
// not. It reports whether the replicas came to differ.
func (r *rivals) race() bool {
	t := r.t
	r.door <- raft.RPC{
		Command:  &raft.TimeoutNowRequest{RPCHeader: header()},
		RespChan: make(chan raft.RPCResponse, 1),
	}
	require.Equal(t, "a", r.leader(""), "it was told to stand")
	require.NoError(t, r.rafts["a"].Apply([]byte("base"), time.Second).Error())
	require.Eventually(t, func() bool {
		return r.fsms["b"].String() != "" && r.fsms["c"].String() != ""
	}, 10*time.Second, time.Millisecond)
	r.layers["a"].part()
	next := r.leader("a")
	require.NoError(t, r.rafts[next].Apply([]byte("acknowledged"), time.Second).Error())
	g := r.gates["a"]
	g.shut.Store(true)
	r.layers["a"].cut.Store(false)
	<-g.beats
	x, y := r.rafts["a"].Apply([]byte("X"), time.Second), r.rafts["a"].Apply([]byte("Y"), time.Second)
	t.Log("the deposed leader says:", x.Error(), y.Error())
	g.shut.Store(false)
	close(g.open)
	require.NoError(t, r.rafts[next].Apply([]byte("last"), time.Second).Error())
	require.Eventually(t, func() bool {
		return strings.Contains(r.fsms["a"].String(), "last")
	}, 20*time.Second, 5*time.Millisecond)
	return r.fsms["a"].String() != r.fsms[next].String()
}

// Trap 1: with raft's own transport, a heartbeat of a new leader is dealt with beside raft's main
// goroutine, and a deposed leader appends its own entries at the new leader's indexes and term:
// replicas differ for good. With the handler switched off the heartbeat waits its turn.
func TestHeartbeatsDoNotOvertake(t *testing.T) {
	r := newRivals(t, func(g *gate) (raft.Transport, chan<- raft.RPC) {
		w := newTransport(g, alone(time.Second), 0, yes)
		w.start()
		return w, w.consumer
	})
	require.False(t, r.race(), "replicas differ")
	for id, f := range r.fsms {
		require.NotContains(t, f.String(), ":X", "on %s", id)
	}
}
