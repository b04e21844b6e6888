package fair_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine/fair"
)

// job is some bytes of one flow, which can be cut anywhere but within a record.
type job struct {
	flow   fair.Flow
	number int
	record int // size of each record
	left   int // records
	ended  bool
}

// fill takes one batch and returns what it holds of each flow, in bytes.
func fill(l *fair.Lanes[*job], room int) (took map[fair.Flow]int, order []*job) {
	took = map[fair.Flow]int{}
	l.Fill(room, func(j *job, room int) (int, bool) {
		n := min(j.left, room/j.record)
		j.left -= n
		took[j.flow] += n * j.record
		if n > 0 {
			order = append(order, j)
		}
		return n * j.record, j.left == 0
	})
	return took, order
}

func TestLanesTakeTurns(t *testing.T) {
	var l fair.Lanes[*job]
	l.Push(1, 1, &job{flow: 1, record: 100, left: 1_000_000})
	l.Push(2, 3, &job{flow: 2, record: 7000, left: 100_000})
	total := map[fair.Flow]int{}
	for range 100 {
		took, _ := fill(&l, 256<<10)
		for f, n := range took {
			total[f] += n
		}
	}
	require.InEpsilon(t, 3, float64(total[2])/float64(total[1]), 0.02,
		"by weight, though one's records are larger than its quantum")
	require.Greater(t, total[1]+total[2], 100*(256<<10)-100*7000)

	l.Push(3, 1, &job{flow: 3, record: 200, left: 1})
	took, _ := fill(&l, 256<<10)
	require.Equal(t, 200, took[3], "a record next to a backlog leaves in the next batch")
	require.False(t, l.Waits(3))
}

// TestLanesKeepOrderAndLoseNothing: whatever is pushed, filled and moved, each flow's work leaves
// in order, each once, and no flow starves: of flows that all wait, each gets its part.
func TestLanesKeepOrderAndLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var lanes [2]fair.Lanes[*job]
		var next, done [4]int
		pushed, left := 0, 0
		take := func(_ map[fair.Flow]int, order []*job) {
			for _, j := range order {
				require.GreaterOrEqual(t, j.number, done[j.flow])
				done[j.flow] = j.number
				if j.left == 0 && !j.ended {
					j.ended = true
					left++
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				f := rapid.IntRange(0, 3).Draw(t, "flow")
				next[f]++
				at := 0
				if lanes[1].Waits(fair.Flow(f)) {
					at = 1
				}
				pushed++
				lanes[at].Push(fair.Flow(f), rapid.IntRange(0, 9).Draw(t, "weight"), &job{
					flow: fair.Flow(f), number: next[f],
					record: rapid.IntRange(1, 9000).Draw(t, "record"),
					left:   rapid.IntRange(1, 50).Draw(t, "records"),
				})
			},
			"fill": func(t *rapid.T) {
				take(fill(&lanes[0], rapid.IntRange(9000, 100_000).Draw(t, "capacity")))
			},
			"move": func(t *rapid.T) {
				lanes[0].MoveTo(&lanes[1], fair.Flow(rapid.IntRange(0, 3).Draw(t, "flow")))
			},
			"skip": func(*rapid.T) { lanes[0].Skip() },
		})
		waiting, looked := map[*job]bool{}, 0
		for i := range lanes {
			lanes[i].Each(func(j *job) { waiting[j], looked = true, looked+1 })
		}
		require.Len(t, waiting, pushed-left)
		require.Equal(t, pushed-left, looked)
		for i := range lanes {
			for !lanes[i].Empty() {
				before := left
				took, order := fill(&lanes[i], 100_000)
				require.NotEmpty(t, took)
				take(took, order)
				require.True(t, left > before || len(order) > 0)
			}
			require.Zero(t, lanes[i].Len())
		}
		require.Equal(t, pushed, left)
	})
}

func TestShareIsWhatIsFree(t *testing.T) {
	s := fair.NewShare(100)
	for range 50 {
		require.Equal(t, fair.RoomTaken, s.Take(1, 1, 1))
	}
	require.Equal(t, fair.RoomFlow, s.Take(1, 1, 1), "half, where it is alone")
	require.Equal(t, fair.RoomTaken, s.Take(2, 1, 60), "a first piece always fits")
	require.Equal(t, fair.RoomAll, s.Take(3, 1, 1), "and then nothing is free")
	require.Equal(t, fair.RoomFlow, s.Take(2, 1, 1))
	s.Give(2, 60)
	require.Equal(t, fair.RoomTaken, s.Take(4, 1, 1))
	require.Equal(t, 2, s.Flows())
	require.Equal(t, fair.RoomTaken, s.Take(1, 2, 20), "twice the weight, twice as much")
	for range 29 {
		require.Equal(t, fair.RoomTaken, s.Take(0, 1, 1), "the cluster's own takes all that is free")
	}
	require.Equal(t, fair.RoomAll, s.Take(0, 1, 1))
	require.Equal(t, 100, s.Used())
}

// TestCounterIsExact: many flows take and give at a time: never more than there is, and nothing is
// left over.
func TestCounterIsExact(t *testing.T) {
	const maximum = 100
	c := fair.NewCounter(maximum)
	var group sync.WaitGroup
	for flow := range fair.Flow(8) {
		group.Go(func() {
			for range 10_000 {
				if c.Take(flow, 1, 3) == fair.RoomTaken {
					if c.Used() > maximum+8*3 { // takers that are about to give up count for a moment
						t.Error("more than there is")
					}
					c.Give(flow, 3)
				}
			}
		})
	}
	group.Wait()
	require.Zero(t, c.Used())
	for range 25 {
		require.Equal(t, fair.RoomTaken, c.Take(1, 1, 2))
	}
	require.Equal(t, fair.RoomFlow, c.Take(1, 1, 2))
	require.Equal(t, fair.RoomTaken, c.Take(2, 1, 50))
	require.Equal(t, fair.RoomAll, c.Take(3, 1, 1))
	require.EqualValues(t, maximum, c.Used())
	require.EqualValues(t, maximum, c.Max())
}

// TestSpecialFlowsAreCountedAlone: flows without an account take nothing from an account's share,
// nor from each other's.
func TestSpecialFlowsAreCountedAlone(t *testing.T) {
	for n := range uint8(8) {
		c := fair.NewCounter(100)
		require.Equal(t, fair.RoomTaken, c.Take(fair.Special(n), 1, 60))
		require.Equal(t, fair.RoomFlow, c.Take(fair.Special(n), 1, 1), "it has its share")
		for f := fair.Flow(1); f < 10_000; f++ {
			require.Equal(t, fair.RoomTaken, c.Take(f, 1, 1), "flow %d", f)
			c.Give(f, 1)
		}
		for other := range uint8(8) {
			if other != n {
				require.Equal(t, fair.RoomTaken, c.Take(fair.Special(other), 1, 1))
				c.Give(fair.Special(other), 1)
			}
		}
	}
}
