package server

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/fair"
)

// TestTurnsAreShared: whoever floods fills half of the places; the next flow gets one at once, and
// those that wait take turns by flow, not by who came first.
func TestTurnsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(4)
		got := make(chan fair.Flow, 100)
		ask := func(f fair.Flow) {
			go func() {
				if ok, _ := turns.await(f, 1, 1, time.Minute); ok {
					got <- f
				}
			}()
			synctest.Wait()
		}
		for range 10 {
			ask(1)
		}
		require.Len(t, got, 2, "half of the places")
		ask(2)
		require.Len(t, got, 3, "another finds room at once")
		for range 5 {
			ask(2)
		}
		require.Len(t, got, 3, "it holds what is free")
		for range 3 {
			<-got
		}
		count := map[fair.Flow]int{}
		for range 10 {
			turns.end(1, 1)
			synctest.Wait()
			for len(got) > 0 {
				count[<-got]++
			}
			turns.end(2, 1)
			synctest.Wait()
			for len(got) > 0 {
				count[<-got]++
			}
		}
		require.Equal(t, 5, count[2], "none is passed over")
		require.Equal(t, 8, count[1])
	})
}

// TestATurnPassesThoseWhoGaveUp: a place that becomes free goes to whoever still waits, also behind
// lanes in which all have given up.
func TestATurnPassesThoseWhoGaveUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(1)
		ok, _ := turns.await(1, 1, 1, time.Second)
		require.True(t, ok)
		for flow := fair.Flow(2); flow < 5; flow++ {
			go turns.await(flow, 1, 1, time.Second)
			synctest.Wait()
		}
		came := make(chan bool, 1)
		go func() {
			ok, _ := turns.await(5, 1, 1, time.Minute)
			came <- ok
		}()
		time.Sleep(2 * time.Second) // all but the last have given up
		turns.end(1, 1)
		synctest.Wait()
		require.Len(t, came, 1, "the place is free, and one waits")
		require.True(t, <-came)
	})
}

// TestATurnThatDoesNotComeIsRefused: the wait is bounded, and the refusal says when to come again
// by how fast turns have ended.
func TestATurnThatDoesNotComeIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(2)
		ok, _ := turns.await(1, 1, 1, time.Second)
		require.True(t, ok)
		begin := time.Now()
		ok, after := turns.await(1, 1, 1, 2*time.Second)
		require.False(t, ok)
		require.Equal(t, 2*time.Second, time.Since(begin))
		require.Equal(t, time.Second, after)
		for range 20 {
			go turns.await(1, 1, 1, 2*time.Second)
		}
		synctest.Wait()
		turns.since, turns.ended = time.Now().Add(-10*time.Second), 20
		turns.end(1, 1) // 21 in 10 s, and 19 wait
		ok, after = turns.await(1, 1, 1, time.Second)
		require.False(t, ok)
		require.InDelta(t, 9, after.Seconds(), 0.2)
		time.Sleep(3 * time.Second)
		turns.end(1, 1)
		ok, _ = turns.await(1, 1, 1, time.Second)
		require.True(t, ok, "who gave up takes no place")
	})
}
