package cluster

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
	"tollgate/engine/fair"
)

// plainQueue is a queue without flows, in which a record joins a batch when it comes: what a queue
// does to the records of one flow, whose batches must be the same byte for byte.
type plainQueue struct {
	limits   queueLimits
	header   []byte
	open     []byte
	sealed   [][]byte
	inFlight int
	sent     [][]byte
}

func (q *plainQueue) add(records []engine.Record) {
	for _, r := range records {
		if q.open != nil && len(q.open)+engine.RecordSize(r) > q.limits.batchBytes {
			q.sealed = append(q.sealed, q.open)
			q.open = nil
		}
		if q.open == nil {
			q.open = slices.Clone(q.header)
		}
		q.open = engine.AppendRecord(q.open, r)
	}
	q.pump()
}

func (q *plainQueue) pump() {
	for {
		var b []byte
		switch {
		case len(q.sealed) > 0 && q.inFlight < q.limits.depth:
			b, q.sealed = q.sealed[0], q.sealed[1:]
		case len(q.sealed) == 0 && q.open != nil && q.inFlight < q.limits.eager:
			b, q.open = q.open, nil
		default:
			return
		}
		q.inFlight++
		q.sent = append(q.sent, b)
	}
}

func (q *plainQueue) finish() {
	q.inFlight--
	q.pump()
}

// TestQueueOfOneFlowIsPlain: whatever is added and finished, the batches of a queue with one flow
// are those of a queue that knows no flows, and leave at the same moments.
func TestQueueOfOneFlowIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := queueLimits{
			batchBytes: engine.HeaderSize + rapid.IntRange(20, 300).Draw(t, "batch"), bytes: 1 << 20,
			eager: rapid.IntRange(1, 2).Draw(t, "eager"), depth: rapid.IntRange(2, 5).Draw(t, "depth"),
		}
		q, sent := testQueue(limits)
		plain := &plainQueue{limits: limits, header: q.header}
		finished, next := 0, uint64(0)
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				n := rapid.Uint64Range(1, 30).Draw(t, "n")
				some := records(keyRange(next, n)...)
				next += n
				plain.add(some)
				took, _ := q.add(testTicket(some, 0))
				require.Equal(t, engine.OutcomeDone, took)
			},
			"finish": func(t *rapid.T) {
				if finished < len(*sent) {
					q.finish((*sent)[finished], fateUnknown)
					plain.finish()
					finished++
				}
			},
			"": func(t *rapid.T) {
				require.Len(t, *sent, len(plain.sent))
				for i, b := range *sent {
					require.Equal(t, plain.sent[i], b.data, "batch %d", i)
				}
			},
		})
	})
}

func testTicket(some []engine.Record, flow fair.Flow) *ticket {
	return &ticket{
		flow: flow, records: some, results: make([]engine.Result, len(some)),
		deadline: time.Now().Add(time.Hour), done: make(chan struct{}, 1),
	}
}
