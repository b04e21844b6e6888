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
	"io/fs"
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
	// lost answers, of requests that were obeyed, to a method; errors is how many uploads end in an
	// error after the answer began.
	lost   map[string]int
	errors int
	// cut is how many bytes of a file are sent before the connection ends, cuts how often that is
	// so, and stalled what the server waits for in place of ending it.
	cut, cuts int
	stalled   chan struct{}
	gone      bool // each upload, before its end
	tagless   bool
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
	for _, name := range []string{"Range", "If-Match"} {
		if value := r.Header.Get(name); value != "" {
			again.Header.Set(name, value)
		}
	}
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
	if s.lost[r.Method] > 0 && !r.URL.Query().Has("uploads") {
		s.lost[r.Method]--
		s.answer(httptest.NewRecorder(), r, body)
		panic(http.ErrAbortHandler)
	}
	s.answer(w, r, body)
}

func (s *shop) answer(w http.ResponseWriter, r *http.Request, body []byte) {
	file, query := strings.TrimPrefix(r.URL.Path, "/books/"), r.URL.Query()
	switch {
	case query.Has("list-type"):
		s.list(w, query.Get("prefix"), query.Get("continuation-token"))
	case r.Method == "GET" && query.Has("uploads"):
		s.listUploads(w, query.Get("key-marker"))
	case r.Method == "POST" && query.Has("uploads"):
		s.uploads[file] = map[int][]byte{}
		fmt.Fprint(w, "<R><UploadId>1</UploadId></R>")
	case query.Has("uploadId") && (s.uploads[file] == nil || s.gone && r.Method == "POST"):
		w.WriteHeader(404)
		fmt.Fprint(w, "<Error><Code>NoSuchUpload</Code></Error>")
	case r.Method == "PUT" && !query.Has("partNumber"):
		s.files[file] = body
	case r.Method == "PUT":
		n, err := strconv.Atoi(query.Get("partNumber"))
		require.NoError(s.t, err)
		s.uploads[file][n] = body
		w.Header().Set("ETag", tagOf(body))
	case r.Method == "POST" && s.errors > 0:
		s.errors--
		fmt.Fprint(w, "<Error><Code>InternalError</Code></Error>")
	case r.Method == "POST":
		var list struct {
			Part []uploaded
		}
		require.NoError(s.t, xml.Unmarshal(body, &list))
		var whole []byte
		for i, p := range list.Part {
			part := s.uploads[file][i+1]
			require.Equal(s.t, uploaded{i + 1, tagOf(part)}, p)
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
		s.send(w, r, content)
	}
}

func tagOf(content []byte) string {
	sum := sha256.Sum256(content)
	return fmt.Sprintf(`"%x"`, sum[:4])
}

// send sends a file, or the rest of it.
func (s *shop) send(w http.ResponseWriter, r *http.Request, content []byte) {
	if !s.tagless {
		w.Header().Set("ETag", tagOf(content))
	}
	if want := r.Header.Get("If-Match"); want != "" && want != tagOf(content) {
		w.WriteHeader(412)
		fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code></Error>")
		return
	}
	status := 200
	if part := r.Header.Get("Range"); part != "" {
		from, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(part, "bytes="), "-"))
		require.NoError(s.t, err)
		w.Header().Set("Content-Range",
			fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
		content, status = content[from:], 206
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	w.WriteHeader(status)
	if r.Method == "GET" && s.cuts > 0 {
		s.cuts--
		_, _ = w.Write(content[:min(s.cut, len(content))])
		_ = http.NewResponseController(w).Flush()
		if s.stalled == nil {
			panic(http.ErrAbortHandler)
		}
		s.mu.Unlock()
		<-s.stalled
		s.mu.Lock()
		return
	}
	_, _ = w.Write(content)
}

func (s *shop) listUploads(w io.Writer, after string) {
	var names []string
	for name := range s.uploads {
		if name > after {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	more := len(names) > 2
	names = names[:min(2, len(names))]
	fmt.Fprintf(w, "<ListMultipartUploadsResult><IsTruncated>%t</IsTruncated>", more)
	for _, name := range names {
		fmt.Fprintf(w, "<NextKeyMarker>%s</NextKeyMarker>", name) // the last counts
		fmt.Fprintf(w, "<Upload><Key>%s</Key><UploadId>1</UploadId></Upload>", name)
	}
	fmt.Fprint(w, "</ListMultipartUploadsResult>")
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
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size></Contents>", name, len(s.files[name]))
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// smallPart is what an upload of the tests holds in memory: more than a connection takes at once.
const smallPart = 1 << 20

func open(t *testing.T, secret string) (*Bucket, *shop) {
	t.Helper()
	s := &shop{
		t: t, files: map[string][]byte{}, uploads: map[string]map[int][]byte{}, failing: 503,
		lost: map[string]int{},
	}
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
	require.Equal(t, partBytes, b.part)
	b.part = smallPart
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
	files, err := b.List(ctx, "")
	require.NoError(t, err)
	require.Empty(t, files)
	sizes := []int{0, 5, smallPart, smallPart + 1}
	for i, n := range sizes {
		s.fails = i // 5 tries
		require.NoError(t, b.Write(ctx, fmt.Sprintf("f+%d.tgb", i), writing(content(n))))
	}
	s.files["a b/c/below/x"], s.files["other"], s.files["a b/c/g"] = nil, nil, nil
	files, err = b.List(ctx, "f")
	require.NoError(t, err)
	require.Equal(t, []File{
		{"f+0.tgb", 0}, {"f+1.tgb", 5}, {"f+2.tgb", smallPart}, {"f+3.tgb", smallPart + 1},
	}, files)
	require.Equal(t, "s3://books/a b/c/f+0.tgb", b.Name(files[0].Name))
	for i, n := range sizes {
		src, size, err := b.Read(ctx, files[i].Name)
		require.NoError(t, err)
		require.EqualValues(t, n, size)
		read, err := io.ReadAll(src)
		require.NoError(t, errors.Join(err, src.Close()))
		require.True(t, bytes.Equal(content(n), read))
	}
	there, err := b.Exists(ctx, "f+0.tgb")
	require.NoError(t, err)
	require.True(t, there)
	require.NoError(t, b.Remove(ctx, "f+0.tgb"))
	there, err = b.Exists(ctx, "f+0.tgb")
	require.NoError(t, err)
	require.False(t, there)
	_, _, err = b.Read(ctx, "f+0.tgb")
	require.ErrorContains(t, err, "404")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestWrongKeys(t *testing.T) {
	b, _ := open(t, "WRONG")
	_, err := b.List(t.Context(), "")
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

// TestRedirectsAreNotFollowed: what is signed for one host is for no other.
func TestRedirectsAreNotFollowed(t *testing.T) {
	asked := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	defer other.Close()
	first := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer first.Close()
	b, _ := open(t, "SECRET")
	b.endpoint = first.URL
	_, err := b.List(t.Context(), "")
	require.ErrorContains(t, err, "the bucket answers 307")
	require.Zero(t, asked)
}
