package cluster

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/hashicorp/raft"

	"tollgate/engine"
)

// testQueue collects what is submitted.
func testQueue(limits queueLimits) (*queue, *[]*batch) {
	var sent []*batch
	q := &queue{
		limits: limits,
		begin:  func() []byte { return engine.AppendHeader(nil, 3) },
		submit: func(b *batch) { sent = append(sent, b) },
	}
	q.start()
	return q, &sent
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
	p1, took := q.add(records(1), time.Now(), nil)
	require.Equal(t, engine.OutcomeDone, took)
	require.Len(t, *sent, 1, "nothing in flight: it leaves at once")
	p2, _ := q.add(records(2, 3), time.Now(), nil)
	p3, _ := q.add(records(4), time.Now(), nil)
	require.Len(t, *sent, 1, "what comes meanwhile collects")
	require.True(t, q.finish(p1[0].batch, fateUnknown))
	require.Len(t, *sent, 2)
	require.Equal(t, records(2, 3, 4), entryKeys(t, (*sent)[1]))
	require.Equal(t, p2[0].batch, p3[0].batch)
	require.Equal(t, 2, p3[0].first)
	require.Equal(t, engine.OutcomeUnknown, p1[0].result(0).Outcome)
	require.False(t, q.finish(p1[0].batch, fateDecided), "once")
}

func TestQueueSendsFullBatchesAhead(t *testing.T) {
	record := engine.RecordSize(countRecord(1))
	limits := queueLimits{batchBytes: engine.HeaderSize + 3*record, bytes: 1 << 20, eager: 1, depth: 4}
	q, sent := testQueue(limits)
	parts, _ := q.add(records(keyRange(0, 20)...), time.Now(), nil)
	require.Len(t, parts, 7)
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
}

func TestQueueIsBounded(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 100, eager: 1, depth: 4})
	_, took := q.add(records(keyRange(0, 20)...), time.Now(), nil)
	require.Equal(t, engine.OutcomeDone, took, "one call may overshoot, so that any call fits")
	_, took = q.add(records(1), time.Now(), nil)
	require.Equal(t, engine.OutcomeOverloaded, took)
	_, took = q.addEncoded(engine.AppendRecord(nil, countRecord(1)), []int{10}, time.Now())
	require.Equal(t, engine.OutcomeOverloaded, took)
	q.finish((*sent)[0], fateUnknown)
	_, took = q.add(records(1), time.Now(), nil)
	require.Equal(t, engine.OutcomeDone, took)
}

func TestQueueGivesBackWhatWasNotSent(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4})
	p1, _ := q.add(records(1), time.Now(), nil)
	p2, _ := q.add(records(2), time.Now(), nil)
	q.stop()
	<-p2[0].batch.done
	require.Equal(t, engine.OutcomeNone, p2[0].result(0).Outcome, "definitely not proposed")
	_, took := q.add(records(3), time.Now(), nil)
	require.Equal(t, engine.OutcomeNone, took)
	q.abandon()
	<-p1[0].batch.done
	require.Equal(t, engine.OutcomeUnknown, p1[0].result(0).Outcome)
	require.Len(t, *sent, 1)
	bytes, flight := q.load()
	require.Zero(t, bytes)
	require.Zero(t, flight)
}

func TestQueueWithdraws(t *testing.T) {
	q, sent := testQueue(queueLimits{batchBytes: 1 << 10, bytes: 1 << 20, eager: 1, depth: 4})
	p1, _ := q.add(records(1), time.Now(), nil)
	p2, _ := q.add(records(2, 3), time.Now(), nil)
	p3, _ := q.add(records(4), time.Now(), nil)
	p4, _ := q.add(records(5, 6), time.Now(), nil)
	require.False(t, q.withdraw(p1[0]), "it has left")
	require.True(t, q.withdraw(p4[0]))
	require.True(t, q.withdraw(p2[0]))
	q.finish((*sent)[0], fateUnknown)
	b := (*sent)[1]
	require.Equal(t, records(4), entryKeys(t, b))
	b.applied.Results = []engine.Result{{Outcome: engine.OutcomeDuplicate}}
	require.True(t, b.complete())
	q.finish(b, fateDecided)
	require.Equal(t, engine.OutcomeDuplicate, p3[0].result(0).Outcome)

	p5, _ := q.add(records(7), time.Now(), nil)
	p6, _ := q.add(records(8), time.Now(), nil)
	require.True(t, q.withdraw(p6[0]))
	q.finish(p5[0].batch, fateUnknown)
	require.Len(t, *sent, 3, "a batch without records does not leave")
	bytes, flight := q.load()
	require.Zero(t, bytes+flight)
}

// Whatever is added, withdrawn and finished in whatever order: records leave in order, each once,
// and each part finds the results of its own records.
func TestQueueKeepsOrderAndPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		q, sent := testQueue(queueLimits{
			batchBytes: rapid.IntRange(64, 300).Draw(t, "batch"), bytes: 1 << 20,
			eager: rapid.IntRange(1, 2).Draw(t, "eager"), depth: 4,
		})
		type claim struct {
			parts []part
			keys  []uint64
			gone  []bool // per part
		}
		var claims []claim
		finished, next := 0, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 30).Draw(t, "n")
				c := claim{keys: keyRange(next, n)}
				next += n
				if rapid.Bool().Draw(t, "encoded") {
					var data []byte
					var sizes []int
					for _, r := range records(c.keys...) {
						data = engine.AppendRecord(data, r)
						sizes = append(sizes, engine.RecordSize(r))
					}
					c.parts, _ = q.addEncoded(data, sizes, time.Now())
				} else {
					c.parts, _ = q.add(records(c.keys...), time.Now(), nil)
				}
				c.gone = make([]bool, len(c.parts))
				claims = append(claims, c)
			},
			"withdraw": func(t *rapid.T) {
				if len(claims) > 0 {
					c := claims[rapid.IntRange(0, len(claims)-1).Draw(t, "claim")]
					i := rapid.IntRange(0, len(c.parts)-1).Draw(t, "part")
					c.gone[i] = c.gone[i] || q.withdraw(c.parts[i])
				}
			},
			"finish": func(*rapid.T) { finished = finishNext(t, q, *sent, finished) },
		})
		for finished < len(*sent) {
			finished = finishNext(t, q, *sent, finished)
		}
		last, first := uint64(0), true
		for _, b := range *sent {
			for _, r := range entryKeys(t, b) {
				k := keyOf(r)
				require.True(t, first || k > last, "in order, once")
				last, first = k, false
			}
		}
		for _, c := range claims {
			i := 0
			for n := range c.parts {
				for k := range c.parts[n].count {
					if !c.gone[n] {
						require.Equal(t, countRecord(c.keys[i]).Payload, c.parts[n].result(k).Value)
					}
					i++
				}
			}
			require.Len(t, c.keys, i)
		}
		bytes, flight := q.load()
		require.Zero(t, bytes+flight)
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
