package bucket

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestNothingIsLeft: of a file that is not written to its end there is no part, and of one that a
// crash left they are removed, if it is selected.
func TestNothingIsLeft(t *testing.T) {
	b, s := open(t, "SECRET")
	full := errors.New("full")
	for _, size := range []int{1, smallPart + 1} {
		err := b.Write(t.Context(), "f", func(w io.Writer) error {
			return errors.Join(writing(content(size))(w), full)
		})
		require.ErrorIs(t, err, full)
		require.Empty(t, s.uploads)
		require.Empty(t, s.files)
	}
	s.failing, s.fails = 403, 1
	asked := len(s.asked)
	require.ErrorContains(t, b.Write(t.Context(), "f", writing(nil)), "403 SlowDown")
	require.Len(t, s.asked, asked+1, "which is not asked again")
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, b.Write(ctx, "f", func(w io.Writer) error {
		err := writing(content(smallPart + 1))(w)
		cancel()
		return errors.Join(err, writing(content(smallPart))(w))
	}), context.Canceled)
	require.Empty(t, s.uploads)

	for _, left := range []string{"ours1", "ours2", "ours3", "theirs", "ours4"} {
		s.uploads["a b/c/"+left] = map[int][]byte{}
	}
	require.NoError(t, b.RemoveParts(t.Context(), func(f string) bool { return f != "theirs" }))
	require.Len(t, s.uploads, 1, "of all pages")
}

// TestOnlyOneTryToGiveUp: a node that stops waits for it.
func TestOnlyOneTryToGiveUp(t *testing.T) {
	b, s := open(t, "SECRET")
	asked := 0
	require.Error(t, b.Write(t.Context(), "f", func(w io.Writer) error {
		err := writing(content(smallPart + 1))(w)
		asked, s.fails = len(s.asked), tries
		return errors.Join(err, errors.New("stop"))
	}))
	require.Len(t, s.asked, asked+1)
}

// TestPartsThatHaveGone: an upload may end between the list and its removal.
func TestPartsThatHaveGone(t *testing.T) {
	b, s := open(t, "SECRET")
	s.uploads["a b/c/f"] = map[int][]byte{}
	require.NoError(t, b.RemoveParts(t.Context(), func(string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		clear(s.uploads)
		return true
	}))
}

// TestLostAnswers: an upload whose end was obeyed has succeeded, and one that failed while it was
// answered is ended again.
func TestLostAnswers(t *testing.T) {
	b, s := open(t, "SECRET")
	large := content(smallPart + 1)
	s.lost["POST"] = 1
	require.NoError(t, b.Write(t.Context(), "f", writing(large)))
	require.Equal(t, large, s.files["a b/c/f"])
	s.lost["PUT"] = 1
	require.NoError(t, b.Write(t.Context(), "f", writing(large[:9])))
	require.Equal(t, large[:9], s.files["a b/c/f"])
	s.errors = tries - 1
	require.NoError(t, b.Write(t.Context(), "f", writing(large)))
	require.Equal(t, large, s.files["a b/c/f"])

	s.errors = tries
	require.ErrorContains(t, b.Write(t.Context(), "g", writing(large)), "200 InternalError")
	require.Empty(t, s.uploads)

	// The upload was removed, and what has the name is another file.
	s.files["a b/c/f"], s.gone = large[:9], true
	require.ErrorContains(t, b.Write(t.Context(), "f", writing(large)), "NoSuchUpload")
}

// TestSmallFilesTakeOneRequest: segments are many, and each request costs.
func TestSmallFilesTakeOneRequest(t *testing.T) {
	b, s := open(t, "SECRET")
	require.NoError(t, b.Write(t.Context(), "f", writing(content(smallPart))))
	require.Equal(t, []string{"PUT /books/a b/c/f"}, s.asked)
}

// hanging fails its first PUT and does not close its body, as a transport whose request timed out
// and which is still sending.
type hanging struct {
	http.RoundTripper
	body io.ReadCloser
}

func (h *hanging) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == "PUT" && h.body == nil {
		h.body = r.Body
		return nil, errors.New("timed out")
	}
	return h.RoundTripper.RoundTrip(r)
}

// TestAPartThatIsStillReadIsNotWrittenTo: neither by the next part nor by the next upload.
func TestAPartThatIsStillReadIsNotWrittenTo(t *testing.T) {
	for _, size := range []int{9, smallPart + 1} {
		b, s := open(t, "SECRET")
		slow := &hanging{RoundTripper: b.client.Transport}
		b.client.Transport = slow
		data := content(size)
		for i := range data {
			data[i] += byte(i / smallPart) // parts differ
		}
		require.NoError(t, b.Write(t.Context(), "f", writing(data)))
		require.True(t, bytes.Equal(data, s.files["a b/c/f"]))
		other := bytes.Repeat([]byte{255}, smallPart)
		require.NoError(t, b.Write(t.Context(), "g", writing(other)))
		read, err := io.ReadAll(slow.body)
		require.NoError(t, errors.Join(err, slow.body.Close()))
		require.True(t, bytes.Equal(data[:min(size, smallPart)], read))
	}
}
