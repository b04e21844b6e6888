package wal_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/wal"
)

const (
	block = 4 << 10
	piece = 1 << 20
)

// content is n bytes that no two blocks have alike, at an address that is a multiple of a block's
// length and then skip bytes behind it.
func content(n, skip int) []byte {
	b := wal.Aligned(n + skip)[skip:]
	_, _ = rand.NewChaCha8([32]byte{byte(n), byte(skip)}).Read(b)
	return b
}

// lengths lie around the borders of blocks and pieces.
func lengths() []int {
	return []int{
		0, 1, block - 1, block, block + 1, 3*block + 7,
		piece - 1, piece, piece + 1, piece + block, 2*piece + 5*block + 11,
	}
}

func TestAnUncachedFileHasExactlyWhatWasWritten(t *testing.T) {
	files, name := wal.OS(), filepath.Join(t.TempDir(), "large")
	for _, n := range lengths() {
		for _, skip := range []int{0, 8, 512} {
			b := content(n, skip)
			require.NoError(t, os.WriteFile(name, []byte("what the file held before"), 0o600))
			f, err := files.CreateUncached(name)
			require.NoError(t, err)
			written, err := f.WriteAt(b, 0)
			require.NoError(t, err)
			require.Equal(t, n, written)
			requireBytes(t, f, b)
			require.NoError(t, f.Sync())
			require.NoError(t, f.Close())
			stored, err := os.ReadFile(name)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, stored), "%d bytes at %d", n, skip)
			f, err = files.OpenReadUncached(name)
			require.NoError(t, err)
			requireBytes(t, f, b)
			require.NoError(t, f.Close())
		}
	}
	_, err := files.OpenReadUncached(name + "r")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// requireBytes reads a file whole, into memory of either kind, and past its end.
func requireBytes(t *testing.T, f wal.File, want []byte) {
	t.Helper()
	size, err := f.Size()
	require.NoError(t, err)
	require.EqualValues(t, len(want), size)
	for _, skip := range []int{0, 8} {
		got := wal.Aligned(len(want) + 2*block)[skip:]
		n, err := f.ReadAt(got[:len(want)], 0)
		require.True(t, err == nil || err == io.EOF, "%v", err)
		require.True(t, bytes.Equal(want, got[:n]))
		n, err = f.ReadAt(got, 0)
		require.Equal(t, io.EOF, err)
		require.True(t, bytes.Equal(want, got[:n]))
		if from := len(want) / 2; from > 0 {
			n, err = f.ReadAt(got, int64(from))
			require.Equal(t, io.EOF, err)
			require.True(t, bytes.Equal(want[from:], got[:n]))
		}
	}
}

// What is written past the page cache and through it, here and there, is one file.
func TestAnUncachedFileTakesWritesAnywhere(t *testing.T) {
	name := filepath.Join(t.TempDir(), "large")
	f, err := wal.OS().CreateUncached(name)
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	var want []byte
	for range 200 {
		offset := random.IntN(40 * block)
		if random.IntN(2) == 0 {
			offset = offset / block * block
		}
		b := content(random.IntN(10*block), 8*random.IntN(2))
		_, err := f.WriteAt(b, int64(offset))
		require.NoError(t, err)
		if len(b) > 0 && offset+len(b) > len(want) {
			want = append(want, make([]byte, offset+len(b)-len(want))...)
		}
		copy(want[min(offset, len(want)):], b)
		requireBytes(t, f, want)
	}
	require.NoError(t, f.Truncate(block+1))
	requireBytes(t, f, want[:block+1])
	require.NoError(t, f.Close())
}

// directly is the way past the page cache as a test wants it.
type directly struct {
	wal.File
	write func(b []byte, offset int64) (int, error)
	wrote int
}

func (d *directly) WriteAt(b []byte, offset int64) (n int, err error) {
	if d.write != nil {
		n, err = d.write(b, offset)
	} else {
		n, err = d.File.WriteAt(b, offset)
	}
	d.wrote += n
	return n, err
}

func (d *directly) ReadAt([]byte, int64) (int, error) { return 0, syscall.EINVAL }

// uncached is an uncached file with that way.
func uncached(t *testing.T, d *directly) (f wal.File, name string) {
	name = filepath.Join(t.TempDir(), "large")
	f, err := wal.OS().Create(name)
	require.NoError(t, err)
	d.File, err = wal.OS().Open(name)
	require.NoError(t, err)
	return wal.Uncached(f, d), name
}

func TestAnUncachedFileDoesWithoutTheWayPastTheCache(t *testing.T) {
	invalid := &os.PathError{Op: "write", Path: "large", Err: syscall.EINVAL}
	for what, d := range map[string]*directly{
		"there is none": nil,
		"refuses all":   {write: func([]byte, int64) (int, error) { return 0, invalid }},
		"refuses the rest": {write: func([]byte, int64) (int, error) {
			return 0, errors.ErrUnsupported
		}},
	} {
		t.Run(what, func(t *testing.T) {
			var f wal.File
			name := filepath.Join(t.TempDir(), "large")
			if d == nil {
				plain, err := wal.OS().Create(name)
				require.NoError(t, err)
				f = wal.Uncached(plain, nil)
			} else {
				f, name = uncached(t, d)
			}
			b := content(2*piece+3*block+5, 0)
			n, err := f.WriteAt(b, 0)
			require.NoError(t, err)
			require.Equal(t, len(b), n)
			requireBytes(t, f, b)
			require.NoError(t, f.Close())
			stored, err := os.ReadFile(name)
			require.NoError(t, err)
			require.True(t, bytes.Equal(b, stored))
		})
	}
}

// A piece of which the disk took a part is gone on with where it ended.
func TestAnUncachedFileGoesOnAfterAPieceInPart(t *testing.T) {
	d := &directly{}
	f, name := uncached(t, d)
	d.write = func(b []byte, offset int64) (int, error) {
		n, err := d.File.WriteAt(b[:block+512], offset)
		return n, errors.Join(err, syscall.EINVAL) // as os.File.WriteAt finds it at its second try
	}
	b := content(piece+9, 0)
	n, err := f.WriteAt(b, 0)
	require.NoError(t, err)
	require.Equal(t, len(b), n)
	require.Equal(t, block+512, d.wrote)
	require.NoError(t, f.Close())
	stored, err := os.ReadFile(name)
	require.NoError(t, err)
	require.True(t, bytes.Equal(b, stored))
}

// After an error of the disk the page cache is not tried: that would hide it.
func TestAnErrorOfAnUncachedWriteIsReturned(t *testing.T) {
	for _, failed := range []error{syscall.EIO, syscall.ENOSPC} {
		d := &directly{}
		d.write = func(b []byte, offset int64) (int, error) {
			if offset == 0 {
				return d.File.WriteAt(b, offset)
			}
			return block, &os.PathError{Op: "write", Path: "large", Err: failed}
		}
		f, _ := uncached(t, d)
		n, err := f.WriteAt(content(3*piece, 0), 0)
		require.ErrorIs(t, err, failed)
		require.Equal(t, piece+block, n)
		size, err := f.Size()
		require.NoError(t, err)
		require.EqualValues(t, piece, size)
		require.NoError(t, f.Close())
	}
}
