package hugepages

import (
	"encoding/binary"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrivateAnonymousMemoryIsFound(t *testing.T) {
	found, err := parse(strings.NewReader(`00400000-00c00000 r-xp 00000000 fe:00 1234 /usr/bin/tollgate
00c00000-01400000 rw-p 00800000 fe:00 1234 /usr/bin/tollgate
1c0000000-1c0400000 rw-p 00000000 00:00 0 
1c0400000-1c4000000 ---p 00000000 00:00 0 
2c0100000-2c0500000 rw-p 00000000 00:00 0 [anon: Go: heap]
3c0000000-3c0100000 rw-p 00000000 00:00 0 
4c0000000-4c0400000 rw-p 00000000 00:00 0 [heap]
5c0000000-5c0400000 rw-s 00000000 00:00 0 
6c0000000-6c0400000 rw-s 00000000 00:01 77 /dev/zero (deleted)
`))
	require.NoError(t, err)
	require.Equal(t, []extent{{0x1c0000000, 0x1c0400000}, {0x2c0200000, 0x2c0400000}}, found)
}

// sparse is a heap of huge pages, by number from 1, of which some lack a small page.
type sparse struct {
	lacking map[uintptr]bool
	pages   uintptr
}

func (s *sparse) extents() ([]extent, error) { return []extent{{size, size + s.pages*size}}, nil }
func (s *sparse) collapse(uintptr) error     { return nil }
func (s *sparse) Close() error               { return nil }

func (s *sparse) present(at uintptr, entries []byte) error {
	for i := 0; i < len(entries); i += 8 {
		binary.NativeEndian.PutUint64(entries[i:], 1<<63)
	}
	if s.lacking[at/size] {
		binary.NativeEndian.PutUint64(entries[8*77:], 1<<61)
	}
	return nil
}

// TestWhatWasGivenBackStaysGivenBack: a huge page takes the place of whole memory only.
func TestWhatWasGivenBackStaysGivenBack(t *testing.T) {
	whole, err := resident(&sparse{pages: 4, lacking: map[uintptr]bool{2: true, 4: true}})
	require.NoError(t, err)
	require.Equal(t, []uintptr{1 * size, 3 * size}, whole)
}
