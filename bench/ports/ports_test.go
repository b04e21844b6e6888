package ports

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoPortIsGivenTwice(t *testing.T) {
	given := map[int]bool{}
	take := func() *Block {
		b, err := Take(9)
		require.NoError(t, err)
		for port := b.First; port < b.First+9; port++ {
			require.False(t, given[port], port)
			given[port] = true
			listener, err := listen(port)
			require.NoError(t, err)
			require.NoError(t, listener.Close())
		}
		t.Cleanup(func() { require.NoError(t, b.Close()) })
		return b
	}
	first := take()
	second := take() // while none listens on the ports of the first

	// A port that somebody else took without asking is passed over.
	foreign, err := listen(second.First + size + 4)
	if err == nil {
		t.Cleanup(func() { require.NoError(t, foreign.Close()) })
		given[second.First+size+4] = true
	}
	take()

	again, err := Take(size)
	require.Error(t, err)
	require.Nil(t, again)
	require.Greater(t, first.First, lowest)
}
