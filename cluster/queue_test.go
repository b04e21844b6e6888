package cluster

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hashicorp/raft"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// testQueue collects what is submitted.
func testQueue(limits queueLimits) (*queue, *[]*batch) {
	var sent []*batch
	q := newQueue(limits, engine.AppendHeader(nil, 3), func(b *batch) { sent = append(sent, b) })
	q.start()
	return q, &sent
}

// put adds records of a flow, which the queue must take.
func put(t require.TestingT, q *queue, flow fair.Flow, keys ...uint64) *ticket {
	one := testTicket(records(keys...), flow)
	took, _ := q.add(one)
	require.Equal(t, engine.OutcomeDone, took)
	return one
}

// refused is what a queue says that does not take records of a flow.
func refused(q *queue, flow fair.Flow, keys ...uint64) engine.Outcome {
	took, _ := q.add(testTicket(records(keys...), flow))
	return took
}

// settled reports whether a ticket has its token, which it takes.
func settled(t *ticket) bool {
	select {
	case <-t.done:
		return true
	default:
		return false
	}
}

// giveUp ends a ticket's call as its deadline does; false if no call waits for it.
func giveUp(q *queue, t *ticket) bool {
	t.timed, t.deadline = true, time.Now()
	q.expire()
	return t.gone && settled(t)
}

func entryKeys(t require.TestingT, b *batch) []engine.Record {
	_, walk, err := engine.ParseEntry(b.data)
	require.NoError(t, err)
	var list []engine.Record
	for r, ok := walk.Next(); ok; r, ok = walk.Next() {
		list = append(list, r)
	}
	require.NoError(t, walk.Err())
	return list
}

func records(keys ...uint64) []engine.Record {
	var list []engine.Record
	for _, k := range keys {
		list = append(list, countRecord(k))
	}
	return list
}

func TestQueueSendsAtOnceAndThenCollects(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4})
	t1 := put(t, q, 0, 1)
	require.Len(t, *sent, 1, "nothing in flight: it leaves at once")
	t2, t3 := put(t, q, 0, 2, 3), put(t, q, 0, 4)
	require.Len(t, *sent, 1, "what comes meanwhile collects")
	require.True(t, q.finish((*sent)[0], fateUnknown))
	require.True(t, settled(t1))
	require.Len(t, *sent, 2)
	require.Equal(t, records(2, 3, 4), entryKeys(t, (*sent)[1]))
	require.Equal(t, engine.OutcomeUnknown, t1.results[0].Outcome)
	require.False(t, q.finish((*sent)[0], fateDecided), "once")
	require.False(t, settled(t2) || settled(t3))
}

func TestQueueSendsFullBatchesAhead(t *testing.T) {
	record := engine.RecordSize(countRecord(1))
	limits := queueLimits{batchBytes: engine.HeaderSize + 3*record, bytes: 1 << 20, eager: 1, depth: 4}
	q, sent := testQueue(limits)
	one := put(t, q, 0, keyRange(0, 20)...)
	require.Len(t, *sent, 4, "full ones leave while less than four are in flight")
	for _, b := range *sent {
		require.Len(t, entryKeys(t, b), 3)
	}
	q.finish((*sent)[0], fateUnknown)
	require.Len(t, *sent, 5)
	for i := range 6 {
		q.finish((*sent)[i], fateUnknown)
	}
	require.Len(t, *sent, 7)
	require.Len(t, entryKeys(t, (*sent)[6]), 2)
	bytes, flight := q.load()
	require.Equal(t, 2*record, bytes)
	require.Equal(t, 1, flight)
	require.False(t, settled(one))
	q.finish((*sent)[6], fateUnknown)
	require.True(t, settled(one))
}

// TestARecordLargerThanABatchTravelsAlone: an entry is full at 64 KiB, and a record may have 256.
func TestARecordLargerThanABatchTravelsAlone(t *testing.T) {
	const small, large = 100, 5 << 10
	of := func(bytes int) engine.Record {
		return engine.Record{Kind: engine.KindTick, Payload: make([]byte, bytes)}
	}
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 1})
	first := put(t, q, 1, 1)
	var tickets []*ticket
	for flow := range fair.Flow(3) {
		one := testTicket([]engine.Record{of(small), of(large), of(small)}, flow+1)
		took, _ := q.add(one)
		require.Equal(t, engine.OutcomeDone, took)
		tickets = append(tickets, one)
	}
	for i := 0; i < len(*sent); i++ {
		b := (*sent)[i]
		require.True(t, len(b.data) <= 1<<10 || b.records == 1, "%d records in %d bytes", b.records,
			len(b.data))
		require.True(t, q.finish(b, fateUnknown))
	}
	for _, one := range append(tickets, first) {
		require.True(t, settled(one))
	}
}

func TestQueueIsBounded(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 100, eager: 1, depth: 4})
	put(t, q, 0, keyRange(0, 20)...) // one call may overshoot, so that any call fits
	require.Equal(t, engine.OutcomeOverloaded, refused(q, 0, 1))
	require.Equal(t, engine.OutcomeOverloaded, refused(q, 5, 1), "another's, and nothing is free")
	q.finish((*sent)[0], fateUnknown)
	put(t, q, 0, 1)
}

// TestQueueIsShared: a flow holds as much as is free, so that the next one finds room; it is told
// to come again, not that the queue is full.
func TestQueueIsShared(t *testing.T) {
	size := engine.RecordSize(countRecord(1))
	q, sent := testQueue(queueLimits{
		batchBytes: engine.HeaderSize + size, bytes: 100 * size, eager: 1, depth: 4,
	})
	for n := range uint64(50) {
		put(t, q, 1, n)
	}
	require.Equal(t, engine.OutcomeShareFull, refused(q, 1, 99))
	for n := range uint64(25) {
		put(t, q, 2, 100+n)
	}
	require.Equal(t, engine.OutcomeShareFull, refused(q, 2, 199))
	put(t, q, 3, 200)
	results := make([]engine.Result, 2)
	refuse(results, engine.OutcomeShareFull, 1500*time.Millisecond)
	require.Equal(t, []byte{2}, results[1].Value, "seconds, rounded up")
	q.finish((*sent)[0], fateUnknown)
	require.Equal(t, engine.OutcomeShareFull, refused(q, 1, 99), "still more than is free")
	q.weight = func(f fair.Flow) int { return int(f) }
	put(t, q, 4, keyRange(300, 16)...)
	put(t, q, 4, 400)
}

// TestABacklogIsPassed: beside a flow with a large backlog, another's record leaves in the next
// batch.
func TestABacklogIsPassed(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 64 << 10, bytes: 64 << 20, eager: 1, depth: 4})
	put(t, q, 1, keyRange(0, 100_000)...)
	require.Len(t, *sent, 4)
	quiet := put(t, q, 2, 1<<40, 1<<40+1)
	q.finish((*sent)[0], fateUnknown)
	require.Len(t, *sent, 5)
	q.finish((*sent)[4], fateUnknown)
	require.True(t, settled(quiet))

	// Two backlogs share each batch, in proportion to their weights.
	q.weight = func(f fair.Flow) int { return int(f) }
	put(t, q, 3, keyRange(1<<41, 100_000)...)
	for i := 1; i < 16; i++ {
		q.finish((*sent)[i], fateUnknown)
	}
	count := map[uint64]int{}
	for _, b := range (*sent)[9:19] {
		for _, r := range entryKeys(t, b) {
			count[1+keyOf(r)>>41*2]++
		}
	}
	require.InEpsilon(t, 3, float64(count[3])/float64(count[1]), 0.05)
}

// TestTheClustersOwnWorkHasAWeight: ticks and checks of the state are not behind a flood, nor are
// they all that leaves.
func TestTheClustersOwnWorkHasAWeight(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 256 << 10, bytes: 64 << 20, eager: 1, depth: 1})
	put(t, q, 1, keyRange(0, 100_000)...)
	put(t, q, 0, keyRange(1<<40, 100_000)...)
	q.finish((*sent)[0], fateUnknown)
	own, others := 0, 0
	for _, r := range entryKeys(t, (*sent)[1]) {
		if keyOf(r) >= 1<<40 {
			own++
		} else {
			others++
		}
	}
	require.InEpsilon(t, fair.OwnWeight, float64(own)/float64(others), 0.2)
}

// TestABacklogTravelsApart: on a follower, the answer to a frame is the answer to all of its
// records, so a flow with a backlog has frames of its own; other flows' frames leave beside them.
func TestABacklogTravelsApart(t *testing.T) {
	q, sent := testQueue(queueLimits{
		batchBytes: 4 << 10, bytes: 64 << 20, eager: 2, depth: 8, apart: 1 << 10,
	})
	flows := func(b *batch) (list []fair.Flow) {
		for _, p := range b.parts {
			list = append(list, p.ticket.flow)
		}
		return slices.Compact(list)
	}
	put(t, q, 1, keyRange(0, 10_000)...)
	require.Len(t, *sent, 4, "half of what may be in flight, the other half is free for others")
	put(t, q, 2, keyRange(1<<40, 10_000)...)
	require.Len(t, *sent, 6, "of which the next backlog gets half")
	put(t, q, 3, 1<<41)
	put(t, q, 4, 1<<42)
	require.Len(t, *sent, 8, "and who has little waits for none of them")
	for i, want := range []fair.Flow{1, 1, 1, 1, 2, 2, 3, 4} {
		require.Equal(t, []fair.Flow{want}, flows((*sent)[i]), i)
	}
	put(t, q, 3, 1<<41+1)
	put(t, q, 4, 1<<42+1)
	require.Len(t, *sent, 8)
	q.finish((*sent)[6], fateUnknown)
	require.Equal(t, []fair.Flow{3, 4}, flows((*sent)[8]), "those with little travel together")
	for i := 0; i < len(*sent); i++ {
		q.finish((*sent)[i], fateUnknown)
	}
	bytes, flight := q.load()
	require.Zero(t, bytes+flight)
	put(t, q, 1, 1)
	put(t, q, 2, 1)
	q.finish((*sent)[len(*sent)-1], fateUnknown)
	require.False(t, (*sent)[len(*sent)-1].apart, "a backlog that is gone is forgotten")
}

// A record as large as an entry holds leaves by itself, also when it has waited among others.
func TestTheLargestRecordLeaves(t *testing.T) {
	config := Config{NodeID: "node-7"}
	g := &proposer{core: &core{parts: parts{config: &config, shard: 3}}}
	frame := g.frameHeader()
	q, sent := testQueue(queueLimits{
		batchBytes: engine.MaxEntryBytes - engine.HeaderSize + len(frame), bytes: 64 << 20,
		eager: 1, depth: 4, apart: 32 << 10,
	})
	q.header = frame
	large := engine.Record{Kind: kindCount, Payload: make([]byte, engine.MaxEntryBytes)}
	for engine.RecordSize(large) > engine.MaxEntryBytes-engine.HeaderSize {
		large.Payload = large.Payload[1:]
	}
	for flow := range fair.Flow(3) {
		put(t, q, flow, uint64(flow))
		took, _ := q.add(testTicket([]engine.Record{large, countRecord(7)}, flow))
		require.Equal(t, engine.OutcomeDone, took)
	}
	for i := 0; i < len(*sent); i++ {
		q.finish((*sent)[i], fateUnknown)
	}
	bytes, _ := q.load()
	require.Zero(t, bytes)
}

func TestQueueGivesBackWhatWasNotSent(t *testing.T) {
	q, sent := testQueue(queueLimits{
		batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4, apart: 2 << 10,
	})
	t1, t2 := put(t, q, 1, 1), put(t, q, 1, 2)
	t3 := put(t, q, 2, keyRange(100, 1000)...)
	q.stop()
	require.True(t, settled(t2))
	require.Equal(t, engine.OutcomeNone, t2.results[0].Outcome, "definitely not proposed")
	require.False(t, settled(t1) || settled(t3))
	require.Equal(t, engine.OutcomeNone, refused(q, 1, 3))
	q.abandon()
	require.True(t, settled(t1) && settled(t3))
	require.Equal(t, engine.OutcomeUnknown, t1.results[0].Outcome)
	require.Equal(t, engine.OutcomeUnknown, t3.results[0].Outcome, "it had left")
	require.Equal(t, engine.OutcomeNone, t3.results[999].Outcome)
	bytes, flight := q.load()
	require.Zero(t, bytes+flight)
	require.Positive(t, len(*sent))
}

func TestQueueWithdraws(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4})
	t1, t2, t3, t4 := put(t, q, 0, 1), put(t, q, 0, 2, 3), put(t, q, 0, 4), put(t, q, 0, 5, 6)
	require.True(t, giveUp(q, t1))
	require.Equal(t, engine.OutcomeUnknown, t1.results[0].Outcome, "it has left")
	require.True(t, giveUp(q, t4))
	require.True(t, giveUp(q, t2))
	require.False(t, giveUp(q, t2), "once")
	require.Equal(t, engine.OutcomeNone, t2.results[1].Outcome, "definitely not proposed")
	q.finish((*sent)[0], fateUnknown)
	b := (*sent)[1]
	require.Equal(t, records(4), entryKeys(t, b))
	b.applied.Results = []engine.Result{{Outcome: engine.OutcomeDuplicate}}
	require.True(t, b.complete())
	q.finish(b, fateDecided)
	require.True(t, settled(t3))
	require.Equal(t, engine.OutcomeDuplicate, t3.results[0].Outcome)

	put(t, q, 0, 7)
	require.True(t, giveUp(q, put(t, q, 0, 8)))
	late := testTicket(records(9), 0)
	late.deadline = time.Now().Add(-time.Second)
	q.add(late)
	q.finish((*sent)[2], fateUnknown)
	require.Len(t, *sent, 3, "a batch without records does not leave")
	require.True(t, settled(late), "what is late is given up")
	require.Equal(t, engine.OutcomeNone, late.results[0].Outcome)
	require.False(t, giveUp(q, t3), "it was settled")
	require.False(t, settled(t1) || settled(t2) || settled(t4), "nobody waits for these")
	bytes, flight := q.load()
	require.Zero(t, bytes+flight)
}

// TestQueueGivesUpAtEachDeadline: one alarm serves all calls, whichever is earlier, in flight or
// not. A frame belongs to no call.
func TestQueueGivesUpAtEachDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, _ := testQueue(queueLimits{
			batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4, apart: 100,
		})
		begin := time.Now()
		add := func(after time.Duration, timed bool, flow fair.Flow, keys ...uint64) *ticket {
			one := testTicket(records(keys...), flow)
			one.deadline, one.timed = begin.Add(after), timed
			took, _ := q.add(one)
			require.Equal(t, engine.OutcomeDone, took)
			return one
		}
		frame := add(time.Second, false, 1, 1)
		calls := map[time.Duration]*ticket{}
		for i, after := range []time.Duration{3, 2, 5, 4, 4*time.Second + 1} {
			if after < time.Second {
				after *= time.Second
			}
			flow := fair.Flow(1 + i%2) // the second has a backlog, and goes apart
			calls[after] = add(after, true, flow, keyRange(100*uint64(i), 1+40*uint64(i%2))...)
		}
		for _, after := range slices.Sorted(maps.Keys(calls)) {
			<-calls[after].done
			late := time.Duration(0)
			if after == 4*time.Second+1 { // it is looked for with others that may follow
				late = alarmApart - 1
			}
			require.Equal(t, after+late, time.Since(begin))
			require.True(t, calls[after].gone)
		}
		require.False(t, settled(frame))
		q.mu.Lock()
		rings := q.rings
		q.mu.Unlock()
		require.True(t, rings.IsZero(), "nothing is left to wait for")
		late := add(6*time.Second, true, 3, 7)
		<-late.done
		require.Equal(t, 6*time.Second, time.Since(begin))
	})
}

// Whatever is added by whomever, withdrawn and finished in whatever order: the records of a flow
// leave in order, each once, and each call finds the results of its own.
func TestQueueKeepsOrderAndPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, sent := testQueue(queueLimits{
			batchBytes: rapid.IntRange(64, 300).Draw(t, "batch"), bytes: 1 << 20,
			eager: rapid.IntRange(1, 2).Draw(t, "eager"), depth: 4,
			apart: rapid.SampledFrom([]int{0, 40, 400}).Draw(t, "apart"),
		})
		type claim struct {
			*ticket
			keys []uint64
			gone bool
		}
		var claims []*claim
		finished, next := 0, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 30).Draw(t, "n")
				flow := rapid.Uint64Range(0, 3).Draw(t, "flow")
				keys := keyRange(flow<<32+next, n)
				next += n
				one := testTicket(records(keys...), fair.Flow(flow))
				if rapid.Bool().Draw(t, "encoded") {
					for _, r := range one.records {
						one.data = engine.AppendRecord(one.data, r)
						one.sizes = append(one.sizes, engine.RecordSize(r))
					}
					one.records = nil
				}
				took, _ := q.add(one)
				require.Equal(t, engine.OutcomeDone, took)
				claims = append(claims, &claim{ticket: one, keys: keys})
			},
			"withdraw": func(t *rapid.T) {
				if len(claims) > 0 {
					c := claims[rapid.IntRange(0, len(claims)-1).Draw(t, "claim")]
					c.gone = giveUp(q, c.ticket) || c.gone
				}
			},
			"finish": func(*rapid.T) { finished = finishNext(t, q, *sent, finished) },
		})
		for finished < len(*sent) {
			finished = finishNext(t, q, *sent, finished)
		}
		last, left := map[uint64]uint64{}, map[uint64]bool{}
		for _, b := range *sent {
			for _, r := range entryKeys(t, b) {
				k := keyOf(r)
				require.False(t, left[k], "once")
				require.GreaterOrEqual(t, k, last[k>>32], "in order")
				last[k>>32], left[k] = k, true
			}
		}
		for _, c := range claims {
			require.True(t, c.gone || settled(c.ticket))
			for i, k := range c.keys {
				switch res := c.results[i]; {
				case !c.gone, res.Outcome == engine.OutcomeDone:
					require.Equal(t, countRecord(k).Payload, res.Value)
				default:
					require.Equal(t, left[k], res.Outcome == engine.OutcomeUnknown)
				}
			}
		}
		bytes, flight := q.load()
		require.Zero(t, bytes+flight)
		require.Zero(t, q.waiting)
	})
}

func keyOf(r engine.Record) uint64 {
	k := uint64(0)
	for i := range 8 {
		k |= uint64(r.Payload[i]) << (8 * i)
	}
	return k
}

func finishNext(t require.TestingT, q *queue, sent []*batch, at int) int {
	if at == len(sent) {
		return at
	}
	for _, r := range entryKeys(t, sent[at]) {
		res := engine.Result{Outcome: engine.OutcomeDone, Value: r.Payload}
		sent[at].applied.Results = append(sent[at].applied.Results, res)
	}
	require.True(t, q.finish(sent[at], fateDecided))
	return at + 1
}

// Trap 12: which errors of raft are definite, and which leave the outcome open.
func TestFateOfRaftErrors(t *testing.T) {
	for err, want := range map[error]fate{
		nil:                                  fateDecided,
		raft.ErrNotLeader:                    fateNotProposed,
		raft.ErrEnqueueTimeout:               fateNotProposed,
		raft.ErrLeadershipTransferInProgress: fateNotProposed,
		errPastDeadline:                      fateNotProposed,
		raft.ErrLeadershipLost:               fateUnknown,
		raft.ErrRaftShutdown:                 fateUnknown,
		raft.ErrAbortedByRestore:             fateUnknown,
		raft.ErrLeader:                       fateUnknown,
		errHalted:                            fateUnknown,
	} {
		require.Equal(t, want, fateOf(err), "%v", err)
	}
}
