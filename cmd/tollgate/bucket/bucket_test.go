package bucket

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSignatures: those of the examples in Amazon's documentation ("Signature Calculations for the
// Authorization Header").
func TestSignatures(t *testing.T) {
	keys := Keys{ID: "AKIAIOSFODNN7EXAMPLE", Secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
	const empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for _, c := range []struct {
		method, target, payload, signature string
		headers                            map[string]string
	}{
		{
			"GET", "/test.txt", empty, "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
			map[string]string{"Range": "bytes=0-9"},
		},
		{
			"PUT", "/test%24file.text", "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
			"98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
			map[string]string{
				"Date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY",
			},
		},
		{
			"GET", "/?lifecycle", empty,
			"fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543", nil,
		},
		{
			"GET", "/?max-keys=2&prefix=J", empty,
			"34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7", nil,
		},
	} {
		r, err := http.NewRequest(c.method, "https://examplebucket.s3.amazonaws.com"+c.target, nil)
		require.NoError(t, err)
		for name, value := range c.headers {
			r.Header.Set(name, value)
		}
		keys.sign(r, "us-east-1", c.payload, time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
		require.True(t, strings.HasSuffix(r.Header.Get("Authorization"), "Signature="+c.signature),
			"%s: %s", c.target, r.Header.Get("Authorization"))
	}
}

// shop is an object store of one bucket. It pages lists by two, and fails as often as it is told.
type shop struct {
	t       *testing.T
	mu      sync.Mutex
	files   map[string][]byte
	uploads map[string]map[int][]byte // by file, of one upload each
	fails   int
	failing int // its status
	asked   []string
}

func (s *shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	sum := sha256.Sum256(body)
	again := r.Clone(context.Background())
	again.Header = http.Header{}
	again.URL.Host = r.Host
	at, err := time.Parse(instant, r.Header.Get("X-Amz-Date"))
	require.NoError(s.t, err)
	k := Keys{"ID", "SECRET", r.Header.Get("X-Amz-Security-Token")}
	k.sign(again, "eu-north-1", hex.EncodeToString(sum[:]), at)
	if again.Header.Get("Authorization") != r.Header.Get("Authorization") {
		w.WriteHeader(403)
		fmt.Fprint(w, "<Error><Code>SignatureDoesNotMatch</Code><Message>wrong</Message></Error>")
		return
	}
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	if s.fails > 0 {
		s.fails--
		w.WriteHeader(s.failing)
		fmt.Fprint(w, "<Error><Code>SlowDown</Code></Error>")
		return
	}
	file, query := strings.TrimPrefix(r.URL.Path, "/books/"), r.URL.Query()
	switch {
	case query.Has("list-type"):
		s.list(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == "GET" && query.Has("uploads"):
		fmt.Fprint(w, "<ListMultipartUploadsResult>")
		for name := range s.uploads {
			fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>1</UploadId></Upload>", name)
		}
		fmt.Fprint(w, "</ListMultipartUploadsResult>")
	case r.Method == "POST" && query.Has("uploads"):
		s.uploads[file] = map[int][]byte{}
		fmt.Fprint(w, "<R><UploadId>1</UploadId></R>")
	case r.Method == "PUT":
		n, err := strconv.Atoi(query.Get("partNumber"))
		require.NoError(s.t, err)
		s.uploads[file][n] = body
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sum[:4]))
	case r.Method == "POST":
		var list struct {
			Part []uploaded
		}
		require.NoError(s.t, xml.Unmarshal(body, &list))
		var whole []byte
		for i, p := range list.Part {
			part := s.uploads[file][i+1]
			sum := sha256.Sum256(part)
			require.Equal(s.t, uploaded{i + 1, fmt.Sprintf(`"%x"`, sum[:4])}, p)
			whole = append(whole, part...)
		}
		delete(s.uploads, file)
		s.files[file] = whole
		fmt.Fprint(w, "<CompleteMultipartUploadResult/>")
	case r.Method == "DELETE" && query.Has("uploadId"):
		delete(s.uploads, file)
		w.WriteHeader(204)
	case r.Method == "DELETE":
		delete(s.files, file)
		w.WriteHeader(204)
	default:
		content, found := s.files[file]
		if !found {
			w.WriteHeader(404)
			return
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
	}
}

func (s *shop) list(w io.Writer, prefix, from string) {
	var names []string
	for name := range s.files {
		rest, within := strings.CutPrefix(name, prefix)
		if within && name > from && !strings.Contains(rest, "/") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	fmt.Fprint(w, "<ListBucketResult>")
	for i, name := range names {
		if i == 2 {
			fmt.Fprintf(w, "<NextContinuationToken>%s</NextContinuationToken>", names[i-1])
			break
		}
		fmt.Fprintf(w, "<Contents><Key>%s</Key></Contents>", name)
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

func open(t *testing.T, secret string) (*Bucket, *shop) {
	t.Helper()
	s := &shop{t: t, files: map[string][]byte{}, uploads: map[string]map[int][]byte{}, failing: 503}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	b, err := Open("s3://books/a b/c/", func(name string) string {
		return map[string]string{
			"AWS_ACCESS_KEY_ID": "ID", "AWS_SECRET_ACCESS_KEY": secret, "AWS_REGION": "eu-north-1",
			"AWS_ENDPOINT_URL": server.URL + "/", "AWS_SESSION_TOKEN": "TOKEN",
		}[name]
	})
	require.NoError(t, err)
	b.wait = func(context.Context, time.Duration) error { return nil }
	t.Cleanup(b.client.CloseIdleConnections)
	return b, s
}

func content(n int) []byte {
	made := make([]byte, n)
	for i := range made {
		made[i] = byte(i * 7 >> 3)
	}
	return made
}

func writing(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	}
}

// TestFiles: written in parts, listed by pages, read and removed; a store that fails for a while is
// asked again.
func TestFiles(t *testing.T) {
	b, s := open(t, "SECRET")
	ctx := t.Context()
	files, err := b.List(ctx)
	require.NoError(t, err)
	require.Empty(t, files)
	sizes := []int{0, 5, partBytes, partBytes + 1}
	for i, n := range sizes {
		s.fails = i // 5 tries
		require.NoError(t, b.Write(ctx, fmt.Sprintf("f+%d.tgb", i), writing(content(n))))
	}
	s.files["a b/c/below/x"], s.files["other"] = nil, nil
	files, err = b.List(ctx)
	require.NoError(t, err)
	require.Equal(t, []string{"f+0.tgb", "f+1.tgb", "f+2.tgb", "f+3.tgb"}, files)
	require.Equal(t, "s3://books/a b/c/f+0.tgb", b.Name(files[0]))
	for i, n := range sizes {
		src, size, err := b.Read(ctx, files[i])
		require.NoError(t, err)
		require.EqualValues(t, n, size)
		read, err := io.ReadAll(src)
		require.NoError(t, errors.Join(err, src.Close()))
		require.True(t, bytes.Equal(content(n), read))
	}
	there, err := b.Exists(ctx, files[0])
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, b.Remove(ctx, files[0]))
	there, err = b.Exists(ctx, files[0])
	require.NoError(t, err)
	require.False(t, there)
	_, _, err = b.Read(ctx, files[0])
	require.ErrorContains(t, err, "404")
}

// TestNothingIsLeft: of a file that is not written to its end there is no part, and of one that a
// crash left they are removed, if it is selected.
func TestNothingIsLeft(t *testing.T) {
	b, s := open(t, "SECRET")
	full := errors.New("full")
	err := b.Write(t.Context(), "f", func(w io.Writer) error {
		return errors.Join(writing(content(partBytes+1))(w), full)
	})
	require.ErrorIs(t, err, full)
	require.Empty(t, s.uploads)
	require.Empty(t, s.files)

	s.failing, s.fails = 403, 1
	asked := len(s.asked)
	require.ErrorContains(t, b.Write(t.Context(), "f", writing(nil)), "403 SlowDown")
	require.Len(t, s.asked, asked+1, "which is not asked again")
	ctx, cancel := context.WithCancel(t.Context())
	require.ErrorIs(t, b.Write(ctx, "f", func(w io.Writer) error {
		cancel()
		return writing(content(partBytes))(w)
	}), context.Canceled)
	require.Empty(t, s.uploads)

	s.uploads["a b/c/ours"], s.uploads["a b/c/theirs"] = nil, nil
	require.NoError(t, b.RemoveParts(t.Context(), func(f string) bool { return f == "ours" }))
	require.Len(t, s.uploads, 1)
}

func TestWrongKeys(t *testing.T) {
	b, _ := open(t, "WRONG")
	_, err := b.List(t.Context())
	require.ErrorContains(t, err, "403 SignatureDoesNotMatch wrong")
}

func TestNamesOfBuckets(t *testing.T) {
	keyed := func(string) string { return "x" }
	for _, wrong := range []string{"books", "s3://", "s3:///x", "s3://a?b"} {
		_, err := Open(wrong, keyed)
		require.Error(t, err, wrong)
	}
	_, err := Open("s3://books", func(string) string { return "" })
	require.ErrorContains(t, err, "AWS_ACCESS_KEY_ID")
	b, err := Open("s3://books", func(name string) string {
		return map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}[name]
	})
	require.NoError(t, err)
	require.Equal(t, "https://s3.us-east-1.amazonaws.com", b.endpoint)
	require.Equal(t, "s3://books/f", b.Name("f"))
}
