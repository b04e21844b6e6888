package bucket

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestReadingGoesOn: where a connection ends before the file, or sends nothing more, the rest comes
// from another one, as long as some of it comes each time.
func TestReadingGoesOn(t *testing.T) {
	const size = 100_000
	for name, stalls := range map[string]bool{"ends": false, "stalls": true} {
		t.Run(name, func(t *testing.T) {
			b, s := open(t, "SECRET")
			want := content(size)
			s.files["a b/c/f"] = want
			s.cut, s.cuts = 10_000, 9
			if stalls {
				s.cuts, b.silence = 3, time.Second
				s.stalled = make(chan struct{})
				defer close(s.stalled)
			}
			src, n, err := b.Read(t.Context(), "f")
			require.NoError(t, err)
			require.EqualValues(t, size, n)
			read, err := io.ReadAll(src)
			require.NoError(t, err)
			require.Equal(t, want, read)
			require.NoError(t, src.Close())
		})
	}
}

// TestReadingIsAskedForAgain: a store that is busy is asked again before the first byte, too.
func TestReadingIsAskedForAgain(t *testing.T) {
	b, s := open(t, "SECRET")
	s.files["a b/c/f"] = content(10)
	s.fails = tries - 1
	src, _, err := b.Read(t.Context(), "f")
	require.NoError(t, err)
	read, err := io.ReadAll(src)
	require.NoError(t, errors.Join(err, src.Close()))
	require.Equal(t, content(10), read)
	s.fails = tries
	_, _, err = b.Read(t.Context(), "f")
	require.ErrorIs(t, err, ErrBroken)
	require.ErrorContains(t, err, "503 SlowDown")
}

// TestABrokenConnectionIsNotTheEnd: an error, and none that a reader takes for the file's end.
func TestABrokenConnectionIsNotTheEnd(t *testing.T) {
	b, s := open(t, "SECRET")
	s.files["a b/c/f"] = content(1000)
	for cut, at := range map[int]string{0: "byte 0 of 1000", 1000: ""} {
		s.cut, s.cuts = cut, 1000
		src, _, err := b.Read(t.Context(), "f")
		require.NoError(t, err)
		_, err = io.ReadAll(src)
		require.NoError(t, src.Close())
		if at == "" {
			require.NoError(t, err, "all of it came")
			continue
		}
		require.ErrorIs(t, err, ErrBroken)
		require.ErrorContains(t, err, at)
		require.NotErrorIs(t, err, io.EOF)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
	}
	s.cuts = 0
	s.lost["GET"] = tries
	_, _, err := b.Read(t.Context(), "f")
	require.ErrorIs(t, err, ErrBroken)
	require.NotErrorIs(t, err, io.EOF)
}

// TestReadingDoesNotGoOnInAnotherFile: of one that was replaced meanwhile.
func TestReadingDoesNotGoOnInAnotherFile(t *testing.T) {
	b, s := open(t, "SECRET")
	s.files["a b/c/f"] = content(1000)
	s.cut, s.cuts = 10, 1
	src, _, err := b.Read(t.Context(), "f")
	require.NoError(t, err)
	s.mu.Lock()
	s.files["a b/c/f"] = content(1001)
	s.mu.Unlock()
	_, err = io.ReadAll(src)
	require.ErrorContains(t, err, "412 PreconditionFailed")
	require.NoError(t, src.Close())

	s.cuts, s.tagless = 1, true // nothing tells whether it is the same file
	src, _, err = b.Read(t.Context(), "f")
	require.NoError(t, err)
	_, err = io.ReadAll(src)
	require.ErrorIs(t, err, errAnother)
	require.NoError(t, src.Close())
}

// TestReadingEndsWithItsContext: and is not taken for a broken connection.
func TestReadingEndsWithItsContext(t *testing.T) {
	b, s := open(t, "SECRET")
	s.files["a b/c/f"] = content(1000)
	s.cut, s.cuts, s.stalled = 10, 1, make(chan struct{})
	defer close(s.stalled)
	ctx, cancel := context.WithCancel(t.Context())
	src, _, err := b.Read(ctx, "f")
	require.NoError(t, err)
	_, err = io.ReadFull(src, make([]byte, 10))
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(src)
	require.ErrorIs(t, err, context.Canceled)
	require.NotErrorIs(t, err, ErrBroken)
	require.NoError(t, src.Close())
}
