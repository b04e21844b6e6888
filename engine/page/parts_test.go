package page

import (
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsThatWereGivenBackAreUsedAgain(t *testing.T) {
	p := NewParts[string]()
	require.Zero(t, p.Bytes())
	first, second := p.Put(0, "a"), p.Put(0, "b")
	require.NotEqual(t, first, second)
	require.Equal(t, first, p.Put(first, "c"))
	p.Drop(second)
	p.Drop(0)
	require.Equal(t, second, p.Put(0, "d"))
	require.Equal(t, []string{"c", "d"}, []string{*p.Read(first), *p.Read(second)})
	require.NotContains(t, []uint32{0, first, second}, p.Put(0, "e"), "none is used twice")
	require.Positive(t, p.Bytes())
}

// TestNoWriterChangesAPartThatIsBeingEncoded: the writer changes a part after Write of its record,
// which waits for the page's lock.
func TestNoWriterChangesAPartThatIsBeingEncoded(t *testing.T) {
	s := NewStore()
	var sn *Snapshot
	encoded := 0
	table := NewTable(s, 1, Codec[note]{
		Append: func(dst []byte, r *note) []byte {
			lock := sn.stripe(1, (r.Number-1)/64) // a note is 8 bytes
			if lock.TryLock() {
				lock.Unlock()
				t.Errorf("note %d is encoded without its page's lock", r.Number)
			}
			encoded++
			return dst
		},
		Apart: func(r *note) bool { return r.Part != 0 },
	})
	for range 200 {
		row, r := table.Append()
		*r = note{Number: row, Part: 1}
	}
	sn = s.Begin()
	defer sn.Release()
	table.Write(70)
	_, err := sn.WriteTo(io.Discard)
	require.NoError(t, err)
	require.Equal(t, 200, encoded)
}
