package client

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestSpoolCutsWhatWasBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s, err := openSpool(path, 1<<20)
	require.NoError(t, err)
	require.True(t, s.empty())
	for _, text := range []string{"one", "two"} {
		require.NoError(t, s.append([]byte(text)))
	}
	require.NoError(t, s.Close())
	info, err := os.Stat(path)
	require.NoError(t, err)
	whole := info.Size()
	for name, torn := range map[string][]byte{
		"half a frame": {9, 0}, "short": {200, 0, 0, 0, 1, 2, 3, 4, 5}, "zeroes": make([]byte, 64),
		"bad checksum": {1, 0, 0, 0, 9, 9, 9, 9, 'x'},
	} {
		file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = file.Write(torn)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		s, err = openSpool(path, 1<<20)
		require.NoError(t, err, name)
		bytes, blocks := s.size()
		require.EqualValues(t, 2, blocks, name)
		require.EqualValues(t, whole-spoolHeader, bytes, name)
		require.NoError(t, s.Close())
		info, err = os.Stat(path)
		require.NoError(t, err)
		require.Equal(t, whole, info.Size(), name)
	}
	s, err = openSpool(path, whole+8+5)
	require.NoError(t, err)
	require.ErrorIs(t, s.append([]byte("too long")), errSpoolFull)
	require.NoError(t, s.append([]byte("three")))
	for _, want := range []string{"one", "two", "three"} {
		got, err := s.head(nil)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		// A process that ends here proposes this block again, and none before it.
		again, err := openSpool(path, 1<<20)
		require.NoError(t, err)
		got, err = again.head(nil)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
		require.NoError(t, again.Close())
		require.NoError(t, s.advance())
	}
	require.True(t, s.empty())
	require.NoError(t, s.Close())
}

// TestSpoolSetsDamagedBlocksAside: a block whose bytes changed on disk holds up nothing. What was
// stored behind it is still there, and so are its bytes, in a file of their own.
func TestSpoolSetsDamagedBlocksAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "spool")
	s, err := openSpool(path, 1<<20)
	require.NoError(t, err)
	for _, text := range []string{"one", "two", "three", "four"} {
		require.NoError(t, s.append([]byte(text)))
	}
	spoil := func(at int64, b byte) {
		_, err := s.file.WriteAt([]byte{b}, at)
		require.NoError(t, err)
	}
	const first = spoolHeader + spoolFrame
	spoil(first, 'X')
	_, err = s.head(nil)
	require.ErrorIs(t, err, errSpoolDamaged)
	blocks, err := s.setAside()
	require.NoError(t, err)
	require.EqualValues(t, 1, blocks)
	head, err := s.head(nil)
	require.NoError(t, err)
	require.Equal(t, "two", string(head))
	require.NoError(t, s.advance())

	spoil(s.from+3, 0xff) // the length of "three": nothing behind it can be found
	_, err = s.head(nil)
	require.ErrorIs(t, err, errSpoolDamaged)
	blocks, err = s.setAside()
	require.NoError(t, err)
	require.EqualValues(t, 2, blocks)
	require.True(t, s.empty())
	require.NoError(t, s.append([]byte("five")))
	head, err = s.head(nil)
	require.NoError(t, err)
	require.Equal(t, "five", string(head))
	require.NoError(t, s.Close())
	kept, err := os.ReadFile(path + ".damaged")
	require.NoError(t, err)
	require.Contains(t, string(kept), "Xne")
	require.Contains(t, string(kept), "four")
}

// A killed node loses the checks of its last 100 ms at the most: a block, and the one under way
// before it. Answers that wait for their block wait a quarter as long.
func TestBlocksCollectWithinWhatMayBeLost(t *testing.T) {
	s, err := openSpool(filepath.Join(t.TempDir(), "spool"), 1<<20)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	answered, strict := recorder{spool: s}, recorder{spool: s, strict: true}
	require.LessOrEqual(t, 2*answered.linger(), 50*time.Millisecond)
	require.Equal(t, answered.linger()/4, strict.linger())
	require.NoError(t, s.append([]byte("a block")))
	for _, r := range []*recorder{&answered, &strict} {
		require.LessOrEqual(t, 2*r.linger(), 100*time.Millisecond)
		require.Greater(t, r.linger(), auditLinger, "the spool drains faster than it fills")
	}
}
