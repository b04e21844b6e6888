package cluster

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"
	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/journal"
)

// A reader never joins a question that was asked before it came: the answer may be from before
// the write that it must see.
func TestReadersJoinTheNextQuestion(t *testing.T) {
	var x readIndex
	var asked []*round
	ask := func(r *round) { asked = append(asked, r) }
	first := x.join(ask)
	require.Len(t, asked, 1)
	second, third := x.join(ask), x.join(ask)
	require.Len(t, asked, 1, "one at a time")
	require.NotSame(t, first, second)
	require.Same(t, second, third, "who waits shares the next one")
	x.answer(first, 7, true)
	<-first.done
	require.True(t, first.ok)
	require.EqualValues(t, 7, first.index)
	require.Equal(t, []*round{first, second}, asked)
	x.answer(first, 9, true) // late, or twice
	require.EqualValues(t, 7, first.index)
	x.abandon()
	<-second.done
	require.False(t, second.ok)
	x.answer(second, 9, true)
	require.False(t, second.ok)
	require.NotSame(t, second, x.join(ask))
	require.Len(t, asked, 3)
}

// A follower's question waits for a majority when the leader's lease has lapsed, and is not
// answered by a leader that is cut off.
func TestReadIndexNeedsALeaderThatIsOne(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		g := c.billing(leader)
		asks := func(g *Group) []byte {
			answer := make(chan []byte, 1)
			g.serveReadIndex([]byte{100}, func(b []byte) { answer <- b })
			return <-answer
		}
		ask := func() []byte { return asks(g) }
		require.NotEmpty(t, ask())
		// Now: once the leader is cut off, this one may be elected.
		require.Empty(t, asks(c.billing(c.others(leader)[0])), "a follower is not a leader")
		g.lease.mu.Lock()
		clear(g.lease.acks) // as if nobody had answered for long
		g.lease.publish()
		g.lease.mu.Unlock()
		_, ok := g.lease.holds()
		require.False(t, ok)
		require.NotEmpty(t, ask(), "a majority answered within 100 ms")
		c.net.isolate(addressOf(leader))
		g.lease.slept.Store(int64(time.Hour))
		_, ok = g.lease.holds()
		require.True(t, ok)
		require.Empty(t, ask(), "the machine slept since the lease was granted")
		time.Sleep(460 * time.Millisecond)
		require.Empty(t, ask())
	})
}

// heldSegments are durable when the test says so.
type heldSegments struct {
	Segments
	durable chan struct{}
	err     error
}

func (s *heldSegments) WaitDurable(ctx context.Context, _ []journal.SegmentInfo) error {
	select {
	case <-s.durable:
		return s.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

type sinkSpy struct {
	raft.SnapshotSink
	mu                sync.Mutex
	closed, cancelled bool
}

func (s *sinkSpy) ID() string { return "spied" }

func (s *sinkSpy) Write(p []byte) (int, error) { return len(p), nil }

func (s *sinkSpy) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}

func (s *sinkSpy) Cancel() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancelled = true
	return nil
}

// TestASnapshotRestsBesideApply: it takes a fifth of a processor while entries are applied, and all
// that it can where none are, where Apply is about to wait for it, and where the log grows long.
func TestASnapshotRestsBesideApply(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replica{core: &core{
			parts: parts{config: new(Config)}, ctx: t.Context(), store: new(watchedLog),
		}}
		r.config.SnapshotBytes = 1000
		const blocks = 10
		takes := func(pressed, applies bool) time.Duration {
			slow := writerFunc(func(b []byte) (int, error) {
				<-time.After(snapshotWork)
				return len(b), nil
			})
			start, to := time.Now(), r.pace(slow, func() bool { return pressed })
			for range blocks {
				if applies {
					r.progress.given.Add(1)
				}
				n, err := to.Write(make([]byte, 10))
				require.NoError(t, err)
				require.Equal(t, 10, n)
				r.store.bytes.Add(50)
			}
			return time.Since(start)
		}
		require.Equal(t, blocks*(snapshotWork+snapshotRest), takes(false, true))
		require.Equal(t, blocks*snapshotWork, takes(false, false))
		require.Equal(t, blocks*snapshotWork, takes(true, true))
		r.config.SnapshotBytes = 250
		require.Equal(t, blocks*snapshotWork+5*snapshotRest, takes(false, true))
	})
}

type writerFunc func(b []byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// A snapshot is final only when every journal segment that it lists is on disk.
func TestSnapshotWaitsForItsSegments(t *testing.T) {
	for _, fails := range []error{nil, errors.New("a segment was not written")} {
		synctest.Test(t, func(t *testing.T) {
			held := &heldSegments{durable: make(chan struct{}), err: fails}
			r := &replica{
				core: &core{
					parts: parts{config: &Config{Events: &Events{}}}, log: testLog(), ctx: t.Context(),
					store: new(watchedLog),
				},
				segments: held,
			}
			to := &sinkSpy{}
			state := ledgerSnapshot{segments: []journal.SegmentInfo{{Number: 1}}}
			done := make(chan error, 1)
			go func() { done <- (&fsmSnapshot{replica: r, state: state}).Persist(to) }()
			time.Sleep(time.Hour)
			synctest.Wait()
			require.False(t, to.closed || to.cancelled)
			close(held.durable)
			require.Equal(t, fails, <-done)
			require.Equal(t, fails == nil, to.closed)
			require.Equal(t, fails != nil, to.cancelled)
		})
	}
}

// A definite refusal says nothing about a record that an earlier attempt may have brought into the
// log.
func TestRefusalAfterAnUnknownFateIsNotFinal(t *testing.T) {
	c := call{records: records(1, 2), results: make([]engine.Result, 2)}
	require.True(t, c.settle(0, engine.Result{Outcome: engine.OutcomeUnknown}))
	for _, o := range []engine.Outcome{
		engine.OutcomeNone, engine.OutcomeOverloaded, engine.OutcomeDiskLow,
		engine.OutcomeUnavailable, engine.OutcomeTooLarge,
	} {
		require.True(t, c.settle(0, engine.Result{Outcome: o}), "%d", o)
	}
	full := engine.Result{Outcome: engine.OutcomeOverloaded}
	require.False(t, c.settle(1, full), "never proposed")
	require.Equal(t, engine.OutcomeOverloaded, c.results[1].Outcome)
	known := engine.Result{Outcome: engine.OutcomeDuplicate}
	require.False(t, c.settle(0, known), "the machine's word")
	require.Equal(t, engine.OutcomeDuplicate, c.results[0].Outcome)
}

// holdUp proposes a key to the leader, whose machine stays at the entry that counts it, which it
// returns, until open; open waits until the key is counted.
func (c *nodes) holdUp(leader string, key uint64) (entry uint64, open func()) {
	c.t.Helper()
	m, gate := c.ledgers[leader], make(chan struct{})
	m.gatedKey.Store(key)
	m.gate.Store(&gate)
	counted := make(chan []engine.Outcome, 1)
	go func() { counted <- c.propose(leader, 10*time.Second, key) }()
	open = sync.OnceFunc(func() {
		m.gate.Store(nil)
		close(gate)
		require.Equal(c.t, []engine.Outcome{engine.OutcomeDone}, <-counted)
	})
	c.eventually("the machine is at it", func() bool { return m.held.Load() > 0 })
	return m.held.Load(), open
}

// What a reader on the leader may have seen of an entry that is being applied, a reader elsewhere
// sees who asks afterwards.
func TestTheReadIndexCoversTheEntryBeingApplied(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		entry, open := c.holdUp(leader, 2) // more may be committed behind it
		defer open()
		g := c.billing(leader)
		told := make(chan uint64, 1)
		g.serveReadIndex(binary.AppendUvarint(nil, 100), func(reply []byte) {
			index, _ := binary.Uvarint(reply)
			told <- index
		})
		require.Equal(t, entry, <-told)
		require.Less(t, g.machine.Applied(), entry)
		open()
		c.converge()
	})
}

// A follower that is faster than its leader shows nothing that the leader has yet to apply: who
// reads there, and then on the leader, would go back.
func TestNobodyAppliesWhatTheLeaderHasNot(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		c.count(leader, 1)
		entry, open := c.holdUp(leader, 2) // more may be committed behind it
		defer open()
		time.Sleep(5 * time.Second) // hundreds of appends
		for _, id := range c.others(leader) {
			last := c.billing(id).raft.LastIndex()
			require.GreaterOrEqual(t, last, entry)
			require.False(t, c.ledgers[id].has(2), "%s has it, and could apply it", id)
		}
		require.Equal(t, engine.OutcomeDone, c.readOutcome(leader, 0), "its readers do not wait")
		open()
		c.converge()
	})
}

// A follower that is asked knows what is committed as soon as it has the leader's answer: no append
// has to say it.
func TestAFollowersReadWaitsForNoAppend(t *testing.T) {
	tune := func(_ string, c *Config) { c.CommitTimeout = time.Hour }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		for key := uint64(1); key < 20; key++ {
			c.count(leader, key)
			for _, id := range c.others(leader) {
				require.Equal(t, engine.OutcomeDone, c.readOutcome(id, 100*time.Millisecond))
				require.True(t, c.ledgers[id].has(key), "%s has %d", id, key)
			}
		}
		entry, open := c.holdUp(leader, 20)
		defer open()
		follower := c.others(leader)[0]
		read := make(chan engine.Outcome, 1)
		go func() { read <- c.readOutcome(follower, 10*time.Second) }()
		time.Sleep(20 * time.Millisecond)
		require.Empty(t, read, "what the leader is at is not shown elsewhere: %d", entry)
		open()
		time.Sleep(50 * time.Millisecond)
		synctest.Wait()
		require.Len(t, read, 1, "the follower asks again, where it has to")
		require.Equal(t, engine.OutcomeDone, <-read)
		require.True(t, c.ledgers[follower].has(20))
	})
}

// What a leader says is committed counts in the very place that it names.
func TestAWordOfAnotherEntryCommitsNothing(t *testing.T) {
	tune := func(_ string, c *Config) { c.CommitTimeout = time.Hour }
	inCluster(t, tune, func(c *nodes) {
		leader := c.leader()
		g := c.billing(c.others(leader)[0])
		var at place
		for key := uint64(1); key == 1 || g.raft.CommitIndex() >= at.index; key++ {
			require.Less(t, key, uint64(100), "it asks ten times a second, and may have asked just then")
			c.count(leader, key)
			synctest.Wait()
			at = c.billing(leader).progress.at()
		}
		require.GreaterOrEqual(t, g.raft.LastIndex(), at.index)
		term := g.raft.CurrentTerm()
		for _, of := range []struct {
			committed place
			term      uint64
		}{
			{place{at.index, at.term + 1}, term},
			{place{at.index + 1, at.term}, term},
			{at, term - 1},
			{place{at.index, 0}, term},
		} {
			g.applyHint(of.committed, of.term)
			synctest.Wait()
			require.Less(t, g.raft.CommitIndex(), at.index)
		}
		g.applyHint(at, term)
		synctest.Wait()
		require.EqualValues(t, at.index, g.raft.CommitIndex())
		require.Equal(t, term, g.raft.CurrentTerm())
	})
}

// A barrier is noted beside the machine's goroutine, which may be further by then.
func TestProgressDoesNotGoBackToABarrier(t *testing.T) {
	var p progress
	p.pass(7)
	require.EqualValues(t, 7, p.index.Load())
	p.advance(9, 1)
	p.pass(8)
	require.EqualValues(t, 9, p.index.Load())
}

// No machine sees a barrier, and none counts a change of the members. The others learn that they
// are committed all the same, without a command behind them.
func TestAllThatIsCommittedIsAnnounced(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		c.known()
		heir := c.others(c.leader())[0]
		announced := func() {
			c.eventually("everybody knows what is committed", func() bool {
				last := c.billing(heir).raft.LastIndex()
				for id := range c.node {
					if c.billing(id).raft.CommitIndex() != last {
						return false
					}
				}
				return true
			})
		}
		require.NoError(t, c.node[c.leader()].Transfer(c.within(10*time.Second), heir))
		require.Equal(t, heir, c.leader())
		announced()
		gone := c.others(heir)[1]
		require.NoError(t, c.node[heir].Remove(c.within(10*time.Second), gone))
		c.stop(gone)
		delete(c.node, gone)
		announced()
	})
}
