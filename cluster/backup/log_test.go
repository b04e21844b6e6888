package backup

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// someLog is a kept log of four entries, one larger than a frame's piece.
func someLog(t *testing.T, large int) (Log, []LogEntry, []byte) {
	l := Log{
		Cluster: "0123456789abcdef0123456789abcdef", Shard: 1, First: 7, Last: 10,
		Until: 1_700_000_000_123,
	}
	entries := []LogEntry{
		{7, 2, true, []byte("one")},
		{8, 3, false, nil},
		{9, 3, true, bytes.Repeat([]byte("x"), large)},
		{10, 3, true, []byte{}},
	}
	var b bytes.Buffer
	require.NoError(t, WriteLog(&b, l, func(i uint64) (LogEntry, error) { return entries[i-7], nil }))
	return l, entries, b.Bytes()
}

func readAll(data []byte) (l Log, entries []LogEntry, err error) {
	l, err = ReadLog(bytes.NewReader(data), func(e LogEntry) error {
		e.Data = bytes.Clone(e.Data)
		entries = append(entries, e)
		return nil
	})
	return l, entries, err
}

func TestAKeptLogIsRead(t *testing.T) {
	l, entries, data := someLog(t, 3*chunkBytes)
	read, got, err := readAll(data)
	require.NoError(t, err)
	require.Equal(t, l, read)
	require.Equal(t, entries, got)
	full := errors.New("full")
	_, err = ReadLog(bytes.NewReader(data), func(LogEntry) error { return full })
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, WriteLog(&bytes.Buffer{}, l, func(uint64) (LogEntry, error) {
		return LogEntry{}, full
	}), full)
}

// TestDamageToAKeptLogIsRefused: any file that is not, byte for byte, what was written.
func TestDamageToAKeptLogIsRefused(t *testing.T) {
	_, _, whole := someLog(t, 9)
	for n := range whole {
		_, _, err := readAll(whole[:n])
		require.ErrorIs(t, err, ErrDamaged, "cut off after %d bytes", n)
		for bit := range 8 {
			changed := bytes.Clone(whole)
			changed[n] ^= 1 << bit
			_, _, err := readAll(changed)
			require.True(t, errors.Is(err, ErrDamaged) || errors.Is(err, ErrVersion),
				"bit %d of byte %d: %v", bit, n, err)
		}
	}
	_, _, err := readAll(append(bytes.Clone(whole), 0))
	require.ErrorIs(t, err, ErrDamaged)
	require.ErrorIs(t, checkBytes(whole), ErrDamaged, "it is not a backup")
	_, _, err = readAll(small(t))
	require.ErrorIs(t, err, ErrDamaged, "which is not a log")
}

func TestNamesOfKeptLogs(t *testing.T) {
	l, _, _ := someLog(t, 1)
	const name = "log-0123456789abcdef0123456789abcdef-1-00000000000007-00000000000010-" +
		"20231114T221320.123Z.log"
	require.Equal(t, name, l.File())
	got, ok := ParseLog(name)
	require.True(t, ok)
	require.Equal(t, l, got)
	l.Cluster = ""
	got, ok = ParseLog(l.File())
	require.True(t, ok)
	require.Equal(t, l, got)
	for _, other := range []string{
		"", "log-", "log-first-1-7-10-20231114T221320.123Z.log", name + ".part", name[1:],
		"log-first-1-00000000000007-00000000000010-.log", "segment-0-0-1-1-1.seg",
	} {
		_, ok = ParseLog(other)
		require.False(t, ok, other)
	}
}

// TestChains: from a backup to an instant, without a gap.
func TestChains(t *testing.T) {
	group := &Group{Name: "billing", Index: 10, Stamp: 1000}
	piece := func(first, last uint64, until int64) Log {
		return Log{First: first, Last: last, Until: until}
	}
	logs := []Log{
		piece(1, 8, 900), piece(5, 12, 1200), piece(13, 20, 2000), piece(13, 15, 1500),
		piece(21, 30, 3000), piece(40, 50, 5000),
		{Shard: 1, First: 31, Last: 39, Until: 4000},
		{Cluster: "other", First: 31, Last: 39, Until: 4000},
	}
	for _, c := range []struct {
		at   int64
		want []Log
		err  string
	}{
		{1000, logs[1:2], ""},
		{1199, logs[1:2], ""},
		{1200, logs[1:3], ""}, // another entry of that stamp could follow
		{2999, []Log{logs[1], logs[2], logs[4]}, ""},
		{3000, nil, "entries 31 to 39 of group billing are missing: want a time before 1970-01-01T00:00:03.0"},
		{9000, nil, "entries 31 to 39"},
	} {
		got, err := Chain(logs, group, "", time.UnixMilli(c.at))
		require.Equal(t, c.want, got, c.at)
		if c.err == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, ErrNotKept)
		require.ErrorContains(t, err, c.err)
	}
	_, err := Chain(logs[:5], group, "", time.UnixMilli(3000))
	require.ErrorContains(t, err, "the log of group billing of cluster first ends at 1970-01-01T00:00:03.000Z: want a time")
	for _, none := range [][]Log{nil, logs[:1], logs[7:]} {
		_, err = Chain(none, group, "", time.UnixMilli(3000))
		require.ErrorIs(t, err, ErrNotKept)
		require.ErrorContains(t, err, "no log of group billing of cluster first was kept behind its "+
			"backup of 1970-01-01T00:00:01.000Z")
	}
}
