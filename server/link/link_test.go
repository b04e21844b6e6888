package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/link"
)

// TestAlteredLinksAreInvalid: no other byte, length, secret or environment is taken for a link.
func TestAlteredLinksAreInvalid(t *testing.T) {
	s := link.New([32]byte{1}, "https://pay.example")
	other := link.New([32]byte{2}, "https://pay.example")
	l := link.Link{
		Env: 3, Customer: [16]byte{4}, Key: [16]byte{5}, MadeAt: 1_700_000_000_000, Minutes: 60,
	}
	text := s.Text(l)
	read, err := s.Read([]byte(text))
	require.NoError(t, err)
	require.Equal(t, l, read)
	require.Equal(t, "https://pay.example/portal/"+text, s.Make(l).URL)
	require.Equal(t, int64(1_700_003_600_000), s.Make(l).ExpiresAt)
	_, err = other.Read([]byte(text))
	require.ErrorIs(t, err, link.ErrInvalid)
	for i := range text {
		altered := []byte(text)
		for _, c := range []byte("A_z") {
			if altered[i] = c; c == text[i] {
				continue
			}
			_, err = s.Read(altered)
			require.ErrorIs(t, err, link.ErrInvalid, "%s", altered)
		}
		_, err = s.Read([]byte(text[:i]))
		require.ErrorIs(t, err, link.ErrInvalid)
	}
	_, err = s.Read([]byte(text + "A"))
	require.ErrorIs(t, err, link.ErrInvalid)
}
