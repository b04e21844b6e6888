package rows

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine/page"
)

func TestEqualTextsShareTheirBytes(t *testing.T) {
	store := page.NewStore()
	s := OpenSharedTexts(store, 1)
	same := func(a, b uint32) bool { return &s.Get(a)[0] == &s.Get(b)[0] }
	first := s.Append([]byte("a line"))
	require.True(t, same(first, s.Append([]byte("a line"))))

	long := make([]byte, SharedBytes+1)
	require.False(t, same(s.Append(long), s.Append(long)), "what is long is not kept")
	empty := s.Append(nil)
	require.Empty(t, s.Get(empty))
	for i := range 3 * SharedPlaces { // more than there are places
		want := fmt.Sprint(i)
		require.Equal(t, want, string(s.Get(s.Append([]byte(want)))))
	}

	var stream bytes.Buffer
	sn := store.Begin()
	defer sn.Release()
	_, err := sn.WriteTo(&stream)
	require.NoError(t, err)
	again := page.NewStore()
	restored := OpenSharedTexts(again, 1)
	require.NoError(t, again.Restore(&stream))
	require.Equal(t, s.Len(), restored.Len())
	for row := uint32(1); row <= s.Len(); row++ {
		require.Equal(t, string(s.Get(row)), string(restored.Get(row)))
	}
	require.Same(t, &restored.Get(first)[0], &restored.Get(first + 1)[0])
}

func TestTextsOfAFullArchive(t *testing.T) {
	s := OpenSharedTexts(page.NewStore(), 1)
	archived := s.Append([]byte("there was space for this"))
	s.put = func([]byte) uint32 { return 0 }
	for i := range 10 {
		want := fmt.Sprint(i % 5)
		require.Equal(t, want, string(s.Get(s.Append([]byte(want)))))
	}
	require.Positive(t, s.rest.Bytes())
	require.Equal(t, "there was space for this", string(s.Get(archived)))
	s.Put(archived, []byte("damaged"))
	require.Equal(t, "damaged", string(s.Get(archived)))
}
