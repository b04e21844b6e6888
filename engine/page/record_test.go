package page

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// account is a record of 96 bytes, like the billing machine's.
type account struct {
	ID       [16]byte
	Balance  int64
	Counters [9]int64
}

var errShort = errors.New("short record")

func accountCodec() Codec[account] {
	return Codec[account]{
		Append: func(dst []byte, r *account) []byte {
			dst = append(dst, r.ID[:]...)
			dst = binary.LittleEndian.AppendUint64(dst, uint64(r.Balance))
			for _, c := range r.Counters {
				dst = binary.LittleEndian.AppendUint64(dst, uint64(c))
			}
			return dst
		},
		Read: func(src []byte, r *account) ([]byte, error) {
			if len(src) < 96 {
				return nil, errShort
			}
			copy(r.ID[:], src)
			r.Balance = int64(binary.LittleEndian.Uint64(src[16:]))
			for i := range r.Counters {
				r.Counters[i] = int64(binary.LittleEndian.Uint64(src[24+8*i:]))
			}
			return src[96:], nil
		},
	}
}

// flag is a record of one byte, whose page has 2048 rows.
type flag struct{ Set uint8 }

func flagCodec() Codec[flag] {
	return Codec[flag]{
		Append: func(dst []byte, r *flag) []byte { return append(dst, r.Set) },
		Read: func(src []byte, r *flag) ([]byte, error) {
			if len(src) == 0 {
				return nil, errShort
			}
			r.Set = src[0]
			return src[1:], nil
		},
	}
}

// note is a number, and with every other one a second number, which is a part.
type note struct{ Number, Part uint32 }

// notes are the notes with their parts.
type notes struct {
	*Table[note]
	parts *Parts[uint32]
}

func newNotes(s *Store) *notes {
	n := &notes{parts: NewParts[uint32]()}
	n.Table = NewTable(s, 11, Codec[note]{
		Append: func(dst []byte, r *note) []byte {
			dst = binary.LittleEndian.AppendUint32(dst, r.Number)
			return binary.LittleEndian.AppendUint32(dst, n.second(r))
		},
		Read: func(src []byte, r *note) ([]byte, error) {
			if len(src) < 8 {
				return nil, errShort
			}
			n.put(r, binary.LittleEndian.Uint32(src), binary.LittleEndian.Uint32(src[4:]))
			return src[8:], nil
		},
		Apart: func(r *note) bool { return r.Part != 0 },
	})
	return n
}

func (n *notes) second(r *note) uint32 {
	if r.Part == 0 {
		return 0
	}
	return *n.parts.Read(r.Part)
}

func (n *notes) put(r *note, number, second uint32) {
	r.Number = number
	if second == 0 {
		n.parts.Drop(r.Part)
		r.Part = 0
		return
	}
	r.Part = n.parts.Put(r.Part, second)
}

// fixture is a store with a table of each sort.
type fixture struct {
	store    *Store
	accounts *Table[account]
	blobs    *Table[Blob]
	flags    *Table[flag]
	notes    *notes
}

func newFixture() *fixture {
	s := NewStore()
	return &fixture{
		store: s, blobs: NewBlobTable(s, 7), notes: newNotes(s),
		accounts: NewTable(s, 3, accountCodec()), flags: NewTable(s, 9, flagCodec()),
	}
}

// contents is a copy of everything in a fixture.
type contents struct {
	Accounts []account
	Blobs    []string
	Flags    []flag
	Notes    [][2]uint32
}

func (f *fixture) contents() contents {
	var c contents
	for row := uint32(1); row <= f.accounts.Len(); row++ {
		c.Accounts = append(c.Accounts, *f.accounts.Read(row))
	}
	for row := uint32(1); row <= f.blobs.Len(); row++ {
		c.Blobs = append(c.Blobs, string(f.blobs.Read(row).Bytes))
	}
	for row := uint32(1); row <= f.flags.Len(); row++ {
		c.Flags = append(c.Flags, *f.flags.Read(row))
	}
	for row := uint32(1); row <= f.notes.Len(); row++ {
		r := f.notes.Read(row)
		c.Notes = append(c.Notes, [2]uint32{r.Number, f.notes.second(r)})
	}
	return c
}

// grow appends n rows to each table.
func (f *fixture) grow(n int) {
	for range n {
		row, rec := f.accounts.Append()
		rec.ID[0], rec.Balance = byte(row), int64(row)
		row, blob := f.blobs.Append()
		blob.Bytes = binary.AppendUvarint(make([]byte, 0, 8), uint64(row))
		row, set := f.flags.Append()
		set.Set = uint8(row)
		row, note := f.notes.Append()
		f.notes.put(note, row, row%2*row)
	}
}

// change does one write to one of the tables, by the random number x.
func (f *fixture) change(x uint64) {
	row := uint32(x>>8)%f.accounts.Len() + 1
	switch x % 16 {
	case 0:
		f.grow(1)
	case 1, 2, 3:
		f.blobs.Write(row).Bytes = binary.LittleEndian.AppendUint64(nil, x)
	case 4, 5:
		f.flags.Write(row).Set++
	case 6, 7, 8:
		f.notes.put(f.notes.Write(row), uint32(x>>32), uint32(x>>40)%2*uint32(x>>40))
	default:
		rec := f.accounts.Write(row)
		rec.Balance += int64(x >> 40)
		rec.Counters[x>>4%9]++
	}
}

func (f *fixture) snapshot(t *testing.T) []byte {
	t.Helper()
	var buf bytes.Buffer
	sn := f.store.Begin()
	defer sn.Release()
	n, err := sn.WriteTo(&buf)
	require.NoError(t, err)
	require.EqualValues(t, buf.Len(), n)
	return buf.Bytes()
}

func restored(t *testing.T, snapshot []byte) *fixture {
	t.Helper()
	f := newFixture()
	require.NoError(t, f.store.Restore(bytes.NewReader(snapshot)))
	return f
}
