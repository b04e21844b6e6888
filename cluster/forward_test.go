package cluster

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

// testFrame is a frame whose first record is of flow 4, and the others of flow 5.
func testFrame(t require.TestingT, keys ...uint64) []byte {
	config := Config{NodeID: "node-7"}
	g := &proposer{core: &core{parts: parts{config: &config, shard: 3}}}
	return encodeFrame(g, 11, 12, 4, 1500, []flowRun{{1, 4}, {len(keys) - 1, 5}}, keys...)
}

func encodeFrame(
	g *proposer, boot, sequence, term uint64, ms uint32, runs []flowRun, keys ...uint64,
) []byte {
	data := g.frameHeader()
	for _, r := range records(keys...) {
		data = engine.AppendRecord(data, r)
	}
	binary.LittleEndian.PutUint64(data[0:], boot)
	binary.LittleEndian.PutUint64(data[8:], sequence)
	binary.LittleEndian.PutUint32(data[16:], ms)
	binary.LittleEndian.PutUint32(data[20:], uint32(len(keys)))
	binary.LittleEndian.PutUint64(data[24:], term)
	var parts []part
	for _, r := range runs {
		parts = append(parts, part{ticket: &ticket{flow: r.flow}, count: r.count})
	}
	end := len(data)
	data = appendRuns(data, parts)
	binary.LittleEndian.PutUint32(data[32:], uint32(len(data)-end))
	return data
}

func TestFrameComesBack(t *testing.T) {
	data := testFrame(t, 1, 2, 300)
	f, err := parseFrame(data, 3)
	require.NoError(t, err)
	size := engine.RecordSize(countRecord(1))
	require.Equal(t, []int{size, size, size}, f.sizes)
	runs := int(binary.LittleEndian.Uint32(data[32:]))
	require.Equal(t, data[len(data)-runs-3*size:len(data)-runs], f.records)
	require.Equal(t, []flowRun{{1, 4}, {2, 5}}, f.runs)
	require.Equal(t, "node-7", f.origin)
	require.EqualValues(t, 11, f.boot)
	require.EqualValues(t, 12, f.sequence)
	require.EqualValues(t, 4, f.term)
	require.Equal(t, 1500*time.Millisecond, f.remaining)
	_, err = parseFrame(data, 4)
	require.ErrorIs(t, err, errFrame, "another group's")
	for cut := range len(data) {
		_, err := parseFrame(data[:cut], 3)
		require.ErrorIs(t, err, errFrame, "cut at %d", cut)
	}
	binary.LittleEndian.PutUint32(data[20:], 4)
	_, err = parseFrame(data, 3)
	require.ErrorIs(t, err, errFrame, "another count")
	for _, runs := range [][]byte{{}, {2, 4}, {4, 4}, {3, 4, 1, 5}, {0, 4, 3, 5}, {1, 4, 2}} {
		_, err = parseRuns(runs, 3)
		require.ErrorIs(t, err, errFrame, "runs %v", runs)
	}
}

func TestResultsComeBack(t *testing.T) {
	want := []engine.Result{
		{Outcome: engine.OutcomeDone},
		{Outcome: engine.OutcomeNone},
		{Outcome: engine.OutcomeDone, Value: []byte{}},
		{Outcome: engine.OutcomeKeyReused, Value: make([]byte, 300)},
		{Outcome: engine.OutcomeUnknown},
	}
	var data []byte
	for _, r := range want {
		data = appendResult(data, r)
	}
	got, err := parseResults(data, len(want))
	require.NoError(t, err)
	require.Equal(t, want, got)
	for cut := range len(data) {
		_, err := parseResults(data[:cut], len(want))
		require.ErrorIs(t, err, errFrame, "cut at %d", cut)
	}
	_, err = parseResults(append(data, 0), len(want))
	require.ErrorIs(t, err, errFrame)
	_, err = parseResults([]byte{1, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1}, 1)
	require.ErrorIs(t, err, errFrame, "a length beyond the message")
}

func FuzzFrame(f *testing.F) {
	f.Add(testFrame(f, 1, 2, 3))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		fr, err := parseFrame(data, 3)
		if err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		total := 0
		for _, s := range fr.sizes {
			total += s
		}
		require.Equal(t, len(fr.records), total)
		count := 0
		for _, r := range fr.runs {
			count += r.count
		}
		require.Equal(t, len(fr.sizes), count)
	})
}

// FuzzMessage: what another node sends on a link is an error, or a message within the bound, which
// is written again byte for byte.
func FuzzMessage(f *testing.F) {
	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	require.NoError(f, writeMessage(w, message{callFrame, 1, 77, []byte("payload")}))
	require.NoError(f, w.Flush())
	f.Add(b.Bytes())
	f.Add([]byte{255, 255, 255, 255, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		const limit = 1 << 10
		m, err := readMessage(bytes.NewReader(data), limit)
		if err != nil {
			return
		}
		require.LessOrEqual(t, len(m.payload), limit)
		var again bytes.Buffer
		w := bufio.NewWriter(&again)
		require.NoError(t, writeMessage(w, m))
		require.NoError(t, w.Flush())
		require.Equal(t, data[:again.Len()], again.Bytes())
	})
}

func FuzzResults(f *testing.F) {
	one := appendResult(nil, engine.Result{Outcome: engine.OutcomeDone})
	f.Add(appendResult(one, engine.Result{Value: []byte("x")}), 2)
	f.Fuzz(func(t *testing.T, data []byte, n int) {
		n &= 0xff
		results, err := parseResults(data, n)
		if err != nil {
			require.ErrorIs(t, err, errFrame)
			return
		}
		var again []byte
		for _, r := range results {
			again = appendResult(again, r)
		}
		same, err := parseResults(again, n)
		require.NoError(t, err)
		require.Equal(t, results, same)
	})
}

func TestOlderFramesAreNotTaken(t *testing.T) {
	var a arrivals
	take := func(origin string, term, boot, sequence uint64) bool {
		return a.take(&frame{origin: origin, term: term, boot: boot, sequence: sequence})
	}
	require.True(t, take("a", 1, 7, 1))
	require.True(t, take("a", 1, 7, 3))
	require.False(t, take("a", 1, 7, 3), "the same again")
	require.False(t, take("a", 1, 7, 2), "an older one")
	require.True(t, take("b", 1, 7, 1), "another origin")
	require.True(t, take("a", 1, 8, 1), "another process")
	require.False(t, take("a", 1, 7, 4), "of the process before")
	require.True(t, take("a", 1, 8, 2))
	require.True(t, take("a", 2, 7, 1), "another term knows nothing of this one")
	for boot := range uint64(2 * maxEnded) {
		require.True(t, take("a", 2, 100+boot, 1))
	}
	require.Len(t, a.newest["a"].ended, maxEnded)
	for i := range maxOrigins {
		take(string(rune('A'+i)), 2, 1, 1)
	}
	require.False(t, take("one more", 2, 1, 1))
	require.LessOrEqual(t, len(a.newest), maxOrigins)
}

// TestFramesOfAnotherTermAreNotTaken: a leader that was deposed and leads again takes nothing that
// was meant for its reign before: what the leaders between decided about it is not known here.
func TestFramesOfAnotherTermAreNotTaken(t *testing.T) {
	inCluster(t, nil, func(c *nodes) {
		leader := c.leader()
		g := c.billing(leader)
		term, _ := g.Leads()
		serve := func(key, term, sequence uint64) engine.Outcome {
			data := encodeFrame(g.proposer, 0, sequence, term, 1000, []flowRun{{1, 7}}, key)
			answer := make(chan []byte, 1)
			g.serveFrame(data, func(b []byte) { answer <- b })
			results, err := parseResults(<-answer, 1)
			require.NoError(t, err)
			return results[0].Outcome
		}
		require.Equal(t, engine.OutcomeNone, serve(1, term-1, 1))
		require.Equal(t, engine.OutcomeNone, serve(2, term+1, 1))
		require.Equal(t, engine.OutcomeDone, serve(3, term, 1))
		require.Equal(t, engine.OutcomeNone, serve(4, term, 1))
		require.Equal(t, engine.OutcomeDone, serve(5, term, 2))
		c.converge()
		for key, counted := range map[uint64]bool{1: false, 2: false, 3: true, 4: false, 5: true} {
			require.Equal(t, counted, c.ledgers[leader].has(key), key)
		}
	})
}
