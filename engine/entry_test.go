package engine_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/engine"
)

func TestEntryRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := rapid.Uint16().Draw(t, "shard")
		stamp := rapid.Int64().Draw(t, "stamp")
		records := rapid.SliceOf(rapid.Custom(func(t *rapid.T) engine.Record {
			return engine.Record{
				Kind:    engine.Kind(rapid.Uint16().Draw(t, "kind")),
				Payload: rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
			}
		})).Draw(t, "records")
		entry := engine.AppendHeader(nil, shard)
		size := engine.HeaderSize
		for _, r := range records {
			entry = engine.AppendRecord(entry, r)
			size += engine.RecordSize(r)
		}
		engine.SetStamp(entry, stamp)
		require.Len(t, entry, size)

		h, walk, err := engine.ParseEntry(entry)
		require.NoError(t, err)
		require.Equal(t, engine.Header{Shard: shard, Stamp: stamp}, h)
		for i := range records {
			r, ok := walk.Next()
			require.True(t, ok)
			require.Equal(t, records[i].Kind, r.Kind)
			require.Equal(t, string(records[i].Payload), string(r.Payload))
		}
		_, ok := walk.Next()
		require.False(t, ok)
		require.NoError(t, walk.Err())
	})
}

func TestEntryRefusesWhatIsNone(t *testing.T) {
	whole := engine.AppendRecord(engine.AppendHeader(nil, 3), engine.Record{
		Kind: 300, Payload: []byte("payload"),
	})
	for n := range engine.HeaderSize {
		_, _, err := engine.ParseEntry(whole[:n])
		require.ErrorIs(t, err, engine.ErrEntry)
	}
	for n := engine.HeaderSize + 1; n < len(whole); n++ {
		_, walk, err := engine.ParseEntry(whole[:n])
		require.NoError(t, err)
		for _, ok := walk.Next(); ok; _, ok = walk.Next() {
			continue
		}
		require.ErrorIs(t, walk.Err(), engine.ErrEntry, "cut at %d", n)
	}
	other := append([]byte(nil), whole...)
	other[0] = engine.FormatVersion + 1
	_, _, err := engine.ParseEntry(other)
	require.ErrorIs(t, err, engine.ErrEntry)

	huge := append(engine.AppendHeader(nil, 0),
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, 0x00)
	_, walk, err := engine.ParseEntry(huge)
	require.NoError(t, err)
	_, ok := walk.Next()
	require.False(t, ok)
	require.ErrorIs(t, walk.Err(), engine.ErrEntry)
}

// FuzzEntry: no bytes make the walk panic or leave the entry, and encoding what it read gives an
// entry that reads the same.
func FuzzEntry(f *testing.F) {
	f.Add([]byte{})
	f.Add(engine.AppendHeader(nil, 1))
	f.Add(engine.AppendRecord(engine.AppendHeader(nil, 1), engine.Record{
		Kind: 17, Payload: []byte{1},
	}))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, walk, err := engine.ParseEntry(data)
		if err != nil {
			return
		}
		again := engine.AppendHeader(nil, h.Shard)
		engine.SetStamp(again, h.Stamp)
		var records []engine.Record
		for r, ok := walk.Next(); ok; r, ok = walk.Next() {
			records = append(records, r)
			again = engine.AppendRecord(again, r)
		}
		if walk.Err() != nil {
			return
		}
		_, walk, err = engine.ParseEntry(again)
		require.NoError(t, err)
		for _, want := range records {
			r, ok := walk.Next()
			require.True(t, ok)
			require.Equal(t, want, r)
		}
	})
}

func TestCheckStateRoundTrip(t *testing.T) {
	want := engine.CheckState{Index: 1 << 40, Hash: 0xfedcba9876543210}
	payload := engine.AppendCheckState(nil, want)
	require.Len(t, payload, engine.CheckStateBytes)
	got, ok := engine.ParseCheckState(payload)
	require.True(t, ok)
	require.Equal(t, want, got)
	for _, bad := range [][]byte{nil, payload[:15], append(payload, 0)} {
		_, ok = engine.ParseCheckState(bad)
		require.False(t, ok)
	}
}

func TestHashRingComparesWhatItRemembers(t *testing.T) {
	var r engine.HashRing
	require.True(t, r.Agrees(engine.CheckState{Index: 7, Hash: 1}), "nothing to compare")
	r.Note(engine.CheckState{Index: 7, Hash: 1})
	require.True(t, r.Agrees(engine.CheckState{Index: 7, Hash: 1}))
	require.False(t, r.Agrees(engine.CheckState{Index: 7, Hash: 2}))
	r.Note(engine.CheckState{Index: 7 + engine.HashRingEntries, Hash: 3})
	require.True(t, r.Agrees(engine.CheckState{Index: 7, Hash: 2}), "no longer remembered")
	r.Forget()
	require.True(t, r.Agrees(engine.CheckState{Index: 7 + engine.HashRingEntries, Hash: 4}))
}
