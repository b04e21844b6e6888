package cluster

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// tally is a state machine that costs next to nothing, so that the benchmarks show the cluster.
type tally struct{ ledger }

// Version is agreed on from the start.
func (m *tally) Version() (agreed, known uint32) { return engine.Version, engine.Version }

func (m *tally) Apply(index uint64, entry []byte, out *engine.Applied) error {
	out.Reset()
	h, walk, err := engine.ParseEntry(entry)
	if err != nil {
		return err
	}
	for _, ok := walk.Next(); ok; _, ok = walk.Next() {
		out.Results = append(out.Results, engine.Result{Outcome: engine.OutcomeDone})
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.Index, m.state.Stamp = index, h.Stamp
	return walk.Err()
}

// benchmarkPropose lets callers propose batches through the nodes, on three nodes with real files
// and fsync. It reports records per second and the calls' latency.
func benchmarkPropose(b *testing.B, callers, batch int, everyNode bool) {
	nodes := realNodes(b, func(c *Config) { c.Billing.Machine = &tally{} })
	defer func() {
		for _, n := range nodes {
			require.NoError(b, n.Close())
		}
	}()
	leader := leading(b, nodes)
	payload := make([]byte, 100) // about a usage event
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	next := make(chan struct{}, callers)
	b.ResetTimer()
	for i := range callers {
		g := leader.Billing()
		if everyNode {
			g = nodes[i%3].Billing()
		}
		wg.Go(func() {
			some := make([]engine.Record, batch)
			for i := range some {
				some[i] = engine.Record{Kind: kindCount, Payload: payload}
			}
			results := make([]engine.Result, batch)
			var own []time.Duration
			for range next {
				start := time.Now()
				g.Propose(start.Add(30*time.Second), some, results)
				own = append(own, time.Since(start))
				for _, r := range results {
					if r.Outcome != engine.OutcomeDone {
						b.Error("outcome", r.Outcome)
						return
					}
				}
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
		})
	}
	for range b.N {
		next <- struct{}{}
	}
	close(next)
	wg.Wait()
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "records/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
	s := leader.Billing().Status()
	b.ReportMetric(float64(s.Records)/float64(s.Batches), "records/entry")
}

func BenchmarkProposeSinglesOnLeader(b *testing.B)   { benchmarkPropose(b, 256, 1, false) }
func BenchmarkProposeSinglesOnAll(b *testing.B)      { benchmarkPropose(b, 256, 1, true) }
func BenchmarkProposeThousandsOnLeader(b *testing.B) { benchmarkPropose(b, 8, 1000, false) }
func BenchmarkProposeThousandsOnAll(b *testing.B)    { benchmarkPropose(b, 8, 1000, true) }

// benchmarkReadOnLeader is a linearizable read on the leader, under its lease, while callers write.
func benchmarkReadOnLeader(b *testing.B, writers int) {
	nodes := realNodes(b, func(c *Config) { c.Billing.Machine = &tally{} })
	defer func() {
		for _, n := range nodes {
			require.NoError(b, n.Close())
		}
	}()
	g := leading(b, nodes).Billing()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			some, results := make([]engine.Record, 100), make([]engine.Result, 100)
			for i := range some {
				some[i] = engine.Record{Kind: kindCount, Payload: make([]byte, 100)}
			}
			for {
				select {
				case <-stop:
					return
				default:
					g.Propose(time.Now().Add(30*time.Second), some, results)
				}
			}
		})
	}
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		start := time.Now()
		ticket, o := g.BeginRead(start.Add(5 * time.Second))
		if o != engine.OutcomeDone {
			b.Fatal("outcome", o)
		}
		g.ReadStands(ticket)
		took = append(took, time.Since(start))
	}
	b.StopTimer()
	close(stop)
	wg.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2]), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100]), "p99-ns")
	b.ReportMetric(float64(took[len(took)*999/1000]), "p999-ns")
}

func BenchmarkReadOnLeader(b *testing.B)             { benchmarkReadOnLeader(b, 0) }
func BenchmarkReadOnLeaderWhileWriting(b *testing.B) { benchmarkReadOnLeader(b, 32) }

// BenchmarkReadOnFollower is a linearizable read on a follower: one question to the leader, shared
// by all who ask at the same time.
func BenchmarkReadOnFollower(b *testing.B) {
	nodes := realNodes(b, func(c *Config) { c.Billing.Machine = &tally{} })
	defer func() {
		for _, n := range nodes {
			require.NoError(b, n.Close())
		}
	}()
	leader := leading(b, nodes)
	follower := nodes[0]
	if follower == leader {
		follower = nodes[1]
	}
	b.SetParallelism(64)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			_, o := follower.Billing().BeginRead(time.Now().Add(5 * time.Second))
			if o != engine.OutcomeDone {
				b.Error("outcome", o)
				return
			}
		}
	})
}

// BenchmarkHandOver gives the leadership of both groups away, as a node that stops does, while
// callers write through every node. It reports the longest time in which no write of the billing
// group was acknowledged.
func BenchmarkHandOver(b *testing.B) {
	nodes := realNodes(b, func(c *Config) { c.Billing.Machine = &tally{} })
	defer func() {
		for _, n := range nodes {
			require.NoError(b, n.Close())
		}
	}()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	w := &writers{newest: time.Now()}
	for _, n := range nodes {
		for range 8 {
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					var results [1]engine.Result
					n.Billing().Propose(time.Now().Add(5*time.Second),
						[]engine.Record{countRecord(1)}, results[:])
					w.note(1, results[0].Outcome)
				}
			})
		}
	}
	var gaps []time.Duration
	b.ResetTimer()
	for range b.N {
		old := leading(b, nodes)
		w.mu.Lock()
		w.longest, w.newest = 0, time.Now()
		w.mu.Unlock()
		require.NoError(b, old.Retire(b.Context()))
		next := leading(b, nodes)
		require.NotSame(b, old, next)
		for _, g := range old.groups {
			g.retired.Store(false)
		}
		w.mu.Lock()
		gaps = append(gaps, w.longest)
		w.mu.Unlock()
	}
	b.StopTimer()
	close(stop)
	wg.Wait()
	require.Empty(b, w.refused)
	slices.Sort(gaps)
	b.ReportMetric(float64(gaps[len(gaps)/2].Microseconds())/1000, "p50-ms-without-writes")
	b.ReportMetric(float64(gaps[len(gaps)-1].Microseconds())/1000, "max-ms-without-writes")
}
