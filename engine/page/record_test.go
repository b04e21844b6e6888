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

// fixture is a store with a table of each sort.
type fixture struct {
	store    *Store
	accounts *Table[account]
	blobs    *Table[Blob]
	flags    *Table[flag]
}

func newFixture() *fixture {
	s := NewStore()
	return &fixture{
		store: s, blobs: NewBlobTable(s, 7),
		accounts: NewTable(s, 3, accountCodec()), flags: NewTable(s, 9, flagCodec()),
	}
}

// contents is a copy of everything in a fixture.
type contents struct {
	Accounts []account
	Blobs    []string
	Flags    []flag
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
