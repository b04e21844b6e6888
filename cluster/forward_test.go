package cluster

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
)

func testFrame(t require.TestingT, keys ...uint64) []byte {
	config := Config{NodeID: "node-7"}
	g := &Group{parts: parts{config: &config, shard: 3}}
	data := g.beginFrame()
	for _, r := range records(keys...) {
		data = engine.AppendRecord(data, r)
	}
	binary.LittleEndian.PutUint64(data[0:], 11)
	binary.LittleEndian.PutUint64(data[8:], 12)
	binary.LittleEndian.PutUint32(data[16:], 1500)
	binary.LittleEndian.PutUint32(data[20:], uint32(len(keys)))
	return data
}

func TestFrameComesBack(t *testing.T) {
	data := testFrame(t, 1, 2, 300)
	f, err := parseFrame(data, 3)
	require.NoError(t, err)
	size := engine.RecordSize(countRecord(1))
	require.Equal(t, []int{size, size, size}, f.sizes)
	require.Equal(t, data[len(data)-3*size:], f.records)
	require.Equal(t, "node-7", f.origin)
	require.EqualValues(t, 11, f.boot)
	require.EqualValues(t, 12, f.sequence)
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
