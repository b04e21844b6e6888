package rows

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAQueueIsAHeap: whatever comes and goes, the first one is that of the heap of all.
func TestAQueueIsAHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var all Dues
		var places, heap Chunks[uint32]
		set := func(row uint32, at int64) {
			q.Set(&places, row, at)
			all.Set(&heap, row, at)
			require.Equal(t, all.First(), q.First())
			require.Equal(t, all.Heap.N, q.Len())
		}
		now := int64(0)
		lives := rapid.SampledFrom([][]int64{
			{10}, {10, 600}, {1, 5, 10, 50, 100, 600}, {10, 10, 10, 10, 86_400},
		}).Draw(t, "times to live")
		for range rapid.IntRange(1, 40).Draw(t, "bursts") {
			now += rapid.Int64Range(0, 20).Draw(t, "later")
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				for row := rapid.Uint32Range(1, 50).Draw(t, "from"); row < 600; row++ {
					set(row, now+lives[int(row)%len(lives)])
					if row%7 == rapid.Uint32Range(0, 40).Draw(t, "stop") {
						break
					}
				}
			case 2:
				for range rapid.IntRange(0, 300).Draw(t, "over") {
					if q.Len() > 0 {
						set(q.First().Row, Never)
					}
				}
			default:
				step := rapid.Uint32Range(1, 3).Draw(t, "step")
				for row := step; row < 600; row += step {
					set(row, Never)
				}
			}
		}
		for q.Len() > 0 {
			set(q.First().Row, Never)
		}
	})
}

// TestALineDropsWhatWasRemoved: its memory follows what is left, also behind one that stays.
func TestALineDropsWhatWasRemoved(t *testing.T) {
	var q Queue
	var places Chunks[uint32]
	q.Set(&places, 1, 1000)
	for at := range int64(100_000) {
		row := uint32(2 + at%8)
		q.Set(&places, row, 1000+at)
	}
	require.Equal(t, 9, q.Len())
	require.Equal(t, Due{At: 1000, Row: 1}, q.First())
	chunks := 0
	for i := range q.lines {
		chunks += len(q.lines[i].chunks)
	}
	require.Less(t, chunks, queueLines*20)
	q.Set(&places, 1, Never)
	require.Equal(t, int64(1000+100_000-8), q.First().At)
}
