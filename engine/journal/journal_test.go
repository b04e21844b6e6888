package journal_test

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/journal"
)

func record(index uint64, position uint32, payload string) journal.Record {
	return journal.Record{
		Kind: journal.KindUsage, Index: index, Position: position, Owner: uint32(index%7 + 1),
		At: 1_700_000_000_000 + int64(index)*3, Payload: []byte(payload),
	}
}

func scan(t *testing.T, data []byte) []journal.Record {
	t.Helper()
	var list []journal.Record
	require.NoError(t, journal.Scan(data, func(r journal.Record) error {
		list = append(list, r)
		return nil
	}))
	return list
}

// end ends an entry that cuts one segment at most.
func end(j *journal.Journal, index uint64) (journal.Segment, bool) {
	sealed := j.EndEntry(index, nil)
	if len(sealed) == 0 {
		return journal.Segment{}, false
	}
	return sealed[0], true
}

func tail(j *journal.Journal) []byte { return j.Tail(journal.PartUsage) }

func TestRecordsComeBackFromTheTail(t *testing.T) {
	j := journal.New()
	require.Empty(t, tail(j))
	want := []journal.Record{record(3, 0, "a"), record(3, 9, ""), record(5, 1, "ccc")}
	want[1].At -= 1 << 40
	for _, r := range want {
		j.Append(r)
	}
	require.Empty(t, tail(j), "an entry is seen whole or not at all")
	_, cut := end(j, 5)
	require.False(t, cut)
	got := scan(t, tail(j))
	require.Len(t, got, 3)
	for i := range want {
		require.Equal(t, want[i].Payload, append([]byte{}, got[i].Payload...))
		got[i].Payload, want[i].Payload = nil, nil
		require.Equal(t, want[i], got[i])
	}
	usage, audit := j.Usage()
	require.Equal(t, []uint64{3, 0}, []uint64{usage, audit})
}

func TestRestoreGoesOnAsIfNothingHadHappened(t *testing.T) {
	payload := string(bytes.Repeat([]byte("x"), 100<<10))
	a, b := journal.New(), journal.New()
	for index := uint64(1); index <= 200; index++ {
		a.Append(record(index, 0, payload))
		sealed, cut := end(a, index)
		if index > 1 {
			b.Append(record(index, 0, payload))
			other, otherCut := end(b, index)
			require.Equal(t, cut, otherCut)
			require.Equal(t, sealed.SegmentInfo, other.SegmentInfo)
		}
		if index%37 == 1 || cut {
			var buf bytes.Buffer
			sn := a.Begin()
			n, err := sn.WriteTo(&buf)
			require.NoError(t, err)
			require.EqualValues(t, buf.Len(), n)
			b = journal.New()
			require.NoError(t, b.Restore(&buf))
			require.Zero(t, buf.Len())
			require.Equal(t, a.Manifest(), b.Manifest())
			require.Equal(t, tail(a), tail(b))
		}
	}
	require.Len(t, a.Manifest(), 2)
}
