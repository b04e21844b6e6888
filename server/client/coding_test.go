package client_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

func gzipped(t testing.TB, text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err := z.Write([]byte(text))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	return b.String()
}

func zstded(t testing.TB, text string, options ...zstd.EOption) string {
	z, err := zstd.NewWriter(nil, options...)
	require.NoError(t, err)
	defer func() { require.NoError(t, z.Close()) }()
	return string(z.EncodeAll([]byte(text), nil))
}

// streamed is zstd whose size its head does not say.
func streamed(t testing.TB, text string, options ...zstd.EOption) string {
	var b bytes.Buffer
	z, err := zstd.NewWriter(&b, options...)
	require.NoError(t, err)
	for part := range strings.SplitAfterSeq(text, "\n") {
		_, err = z.Write([]byte(part))
		require.NoError(t, err)
		require.NoError(t, z.Flush())
	}
	require.NoError(t, z.Close())
	return b.String()
}

func coded(coding string) map[string]string { return map[string]string{"Content-Encoding": coding} }

// keyed is an event with another key.
func keyed(text, key string) string { return strings.Replace(text, "KEY", key, 1) }

// padded is an event of so many bytes.
func padded(text string, size int) string {
	return text + strings.Repeat(" ", size-len(text))
}

func TestCompressedBodies(t *testing.T) {
	n := start(t)
	n.customer("acme")
	text := event("KEY", `,"usageUnits":0`)
	numbered := func(i int) string { return keyed(text, fmt.Sprintf("key-%d", i)) }
	for i, c := range []struct{ coding, body string }{
		{"gzip", gzipped(t, numbered(0))},
		{"x-gzip", gzipped(t, numbered(1))},
		{"GZIP", gzipped(t, numbered(2)[:20]) + gzipped(t, numbered(2)[20:])},
		{"zstd", zstded(t, numbered(3))},
		{"identity, Zstd", streamed(t, numbered(4))},
		{"identity", numbered(5)},
		{"", numbered(6)},
		{"gzip", gzipped(t, padded(numbered(7), 1<<20))},
		{"zstd", zstded(t, padded(numbered(8), 1<<20))},
		{"zstd", streamed(t, padded(numbered(9), 1<<20))},
	} {
		n.send("POST", "events", c.body, n.sandbox, coded(c.coding)).is(201, "")
		// The key is used, by the bytes that came out.
		n.call("POST", "events", numbered(i)).is(409, "duplicate_key")
	}
	var batch []string
	for i := range 10_000 {
		batch = append(batch, keyed(text, fmt.Sprintf("b-%d", i)))
	}
	text = "[" + strings.Join(batch, ",\n") + "]"
	a := n.send("POST", "events/batch", gzipped(t, text), n.sandbox, coded("gzip")).is(200, "")
	require.EqualValues(t, 10_000, a.data("accepted"))
	a = n.send("POST", "events/batch", streamed(t, text), n.sandbox, coded("zstd")).is(200, "")
	require.EqualValues(t, 10_000, a.data("duplicates"))
	more := "[" + strings.Join(append(batch, batch[0]), ",") + "]"
	n.send("POST", "events/batch", gzipped(t, more), n.sandbox, coded("gzip")).
		is(413, "body_too_large")
}

// TestARepeatMayBeCompressed: requests are compared by what comes out.
func TestARepeatMayBeCompressed(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const body = `{"planId":"team","customerReferenceId":"acme"}`
	first := n.once("k", "POST", "subscriptions", body).is(201, "")
	for coding, text := range map[string]string{
		"gzip": gzipped(t, body), "zstd": zstded(t, " "+body),
	} {
		a := n.send("POST", "subscriptions", text, n.sandbox,
			map[string]string{"Idempotency-Key": "k", "Content-Encoding": coding}).is(201, "")
		require.Equal(t, string(first.raw), string(a.raw))
		require.Equal(t, "true", a.header.Get("Idempotency-Replayed"))
	}
	n.send("POST", "subscriptions", gzipped(t, strings.Replace(body, "team", "other", 1)), n.sandbox,
		map[string]string{"Idempotency-Key": "k", "Content-Encoding": "gzip"}).
		is(409, "idempotency_key_reused")
}

func TestDamagedBodiesAreRefused(t *testing.T) {
	n := start(t)
	n.customer("acme")
	text := event("key", "")
	z, s := gzipped(t, text), zstded(t, text)
	flip := func(body string, at int) string {
		b := []byte(body)
		b[at] ^= 1
		return string(b)
	}
	for name, c := range map[string]struct {
		coding, body string
		status       int
		code         string
	}{
		"gzip cut off":           {"gzip", z[:len(z)-9], 400, "malformed_encoding"},
		"gzip without trailer":   {"gzip", z[:len(z)-8], 400, "malformed_encoding"},
		"gzip, half a trailer":   {"gzip", z[:len(z)-3], 400, "malformed_encoding"},
		"gzip, wrong checksum":   {"gzip", flip(z, len(z)-8), 400, "malformed_encoding"},
		"gzip, wrong length":     {"gzip", flip(z, len(z)-1), 400, "malformed_encoding"},
		"gzip, something behind": {"gzip", z + "x", 400, "malformed_encoding"},
		"gzip, only the head":    {"gzip", z[:10], 400, "malformed_encoding"},
		"zstd cut off":           {"zstd", s[:len(s)-5], 400, "malformed_encoding"},
		"zstd, half a checksum":  {"zstd", s[:len(s)-2], 400, "malformed_encoding"},
		"zstd, wrong checksum":   {"zstd", flip(s, len(s)-1), 400, "malformed_encoding"},
		"zstd, something behind": {"zstd", s + "x", 400, "malformed_encoding"},
		"no gzip":                {"gzip", text, 400, "malformed_encoding"},
		"no zstd":                {"zstd", text, 400, "malformed_encoding"},
		"gzip called zstd":       {"zstd", z, 400, "malformed_encoding"},
		"zstd called gzip":       {"gzip", s, 400, "malformed_encoding"},
		"twice":                  {"gzip, gzip", gzipped(t, z), 400, "malformed_encoding"},
		"twice, in two ways":     {"zstd, gzip", gzipped(t, s), 400, "malformed_encoding"},
		"once, called twice":     {"gzip, gzip", z, 400, "malformed_encoding"},
		"twice, called once":     {"gzip", gzipped(t, z), 400, "malformed_encoding"},
		"zstd in gzip":           {"gzip", gzipped(t, s), 400, "malformed_encoding"},
		"not called compressed":  {"", z, 400, "malformed_json"},
		"brotli":                 {"br", text, 415, "unsupported_media_type"},
		"deflate":                {"deflate", text, 415, "unsupported_media_type"},
		"unknown in a list":      {"gzip, br", z, 415, "unsupported_media_type"},
		"nothing comes out":      {"gzip", gzipped(t, ""), 400, "malformed_json"},
	} {
		t.Run(name, func(t *testing.T) {
			a := n.send("POST", "events", c.body, n.sandbox, coded(c.coding)).is(c.status, c.code)
			if c.status == 415 {
				require.Equal(t, "gzip, zstd", a.header.Get("Accept-Encoding"))
			}
			if c.code != "malformed_json" {
				require.Contains(t, a.fault()["detail"], "Nothing was changed.")
			}
		})
	}
	n.call("POST", "events", text).is(201, "") // none of them used up the key
}

// TestBombsAreDefused: what comes out is bounded by the route, whatever the body says it is, and so
// is the memory that it costs.
func TestBombsAreDefused(t *testing.T) {
	n := start(t)
	n.customer("acme")
	huge := strings.Repeat(strings.Repeat(" ", 1<<20-1)+"\n", 128)
	wide := []zstd.EOption{zstd.WithWindowSize(16 << 20)}
	lying := []byte(gzipped(t, huge))
	copy(lying[len(lying)-4:], "\x10\x00\x00\x00") // it says that 16 bytes come out
	for name, c := range map[string]struct {
		coding, body string
		status       int
		code         string
	}{
		"gzip":            {"gzip", gzipped(t, huge), 413, "body_too_large"},
		"gzip, lying":     {"gzip", string(lying), 413, "body_too_large"},
		"gzip, in pieces": {"gzip", strings.Repeat(gzipped(t, huge[:8<<20]), 8), 413, "body_too_large"},
		"zstd":            {"zstd", zstded(t, huge), 413, "body_too_large"},
		"zstd, streamed":  {"zstd", streamed(t, huge), 413, "body_too_large"},
		"zstd, in pieces": {"zstd", strings.Repeat(zstded(t, huge[:1<<19]), 64), 413, "body_too_large"},
		"one too many":    {"gzip", gzipped(t, padded(event("x", ""), 1<<20+1)), 413, "body_too_large"},
		"one more":        {"zstd", streamed(t, padded(event("x", ""), 1<<20+1)), 413, "body_too_large"},
		"wide window":     {"zstd", streamed(t, "{}\n{}", wide...), 400, "malformed_encoding"},
		"hollow":          {"gzip", strings.Repeat(gzipped(t, ""), 60_000), 413, "body_too_large"},
	} {
		t.Run(name, func(t *testing.T) {
			send := func() { n.send("POST", "events", c.body, n.sandbox, coded(c.coding)).is(c.status, c.code) }
			send() // the buffers are there now
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			send()
			runtime.ReadMemStats(&after)
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
		})
	}
}

// TestCompressedBodiesAtOnce: each event counts once, and bombs among them slow no other caller.
func TestCompressedBodiesAtOnce(t *testing.T) {
	n := start(t)
	n.customer("acme")
	bomb := gzipped(t, strings.Repeat(" ", 8<<20))
	var wait sync.WaitGroup
	for w := range 16 {
		wait.Go(func() {
			for i := range 5 {
				body := padded(event(fmt.Sprintf("w%d-%d", w, i), `,"usageUnits":0`), 70<<10)
				n.send("POST", "events", gzipped(t, body), n.sandbox, coded("gzip")).is(201, "")
				n.send("POST", "events", zstded(t, body), n.sandbox, coded("zstd")).
					is(409, "duplicate_key")
				if i == 2 {
					n.send("POST", "events", bomb, n.sandbox, coded("gzip")).is(413, "body_too_large")
				}
			}
		})
	}
	wait.Wait()
}

// plain asks for something as it leaves: net/http decompresses nothing.
func (n *node) plain(method, path string, headers map[string]string) (*http.Response, string) {
	n.t.Helper()
	if path[0] != '/' {
		path = client.Prefix + "/" + path
	}
	request, err := http.NewRequest(method, "http://"+n.addr+path, nil)
	require.NoError(n.t, err)
	request.Header.Set("Authorization", "Bearer "+n.sandbox)
	request.Header.Set("Accept-Encoding", "identity")
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	response, err := n.http.Do(request)
	require.NoError(n.t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, response.Body.Close())
	return response, string(body)
}

func TestAnswersAreCompressedWhereAsked(t *testing.T) {
	n := start(t)
	n.customer("acme")
	const document = "/api/v1/client/openapi.json"
	whole, want := n.plain("GET", document, nil)
	require.Equal(t, "Accept-Encoding", whole.Header.Get("Vary"))
	for asked, coding := range map[string]string{
		"gzip": "gzip", "x-gzip": "gzip", "zstd": "zstd", "gzip, deflate, br, zstd": "zstd",
		"zstd;q=0.5, gzip;q=0.6": "gzip", "zstd;q=0, gzip": "gzip", "gzip ; Q=0.001": "gzip",
		"*": "gzip", "*;q=0.5, gzip;q=0": "", "gzip;q=0": "", "identity": "", "br": "",
		"gzip;q=0.5, identity": "", "gzip;q=x": "", "gzip;q=2": "", "gzip;level=1": "", ",": "",
		"zstd;q=1.0, *;q=0": "zstd", "gzip;q=NaN": "",
	} {
		a, body := n.plain("GET", document, map[string]string{"Accept-Encoding": asked})
		require.Equal(t, coding, a.Header.Get("Content-Encoding"), asked)
		require.Equal(t, "Accept-Encoding", a.Header.Get("Vary"))
		require.EqualValues(t, len(body), a.ContentLength)
		switch coding {
		case "gzip":
			z, err := gzip.NewReader(strings.NewReader(body))
			require.NoError(t, err)
			text, err := io.ReadAll(z)
			require.NoError(t, err)
			require.Equal(t, want, string(text))
		case "zstd":
			z, err := zstd.NewReader(nil, zstd.WithDecoderMaxWindow(8<<20))
			require.NoError(t, err)
			text, err := z.DecodeAll([]byte(body), nil)
			require.NoError(t, err)
			require.Equal(t, want, string(text))
			z.Close()
		default:
			require.Equal(t, want, body)
		}
	}
	// HEAD has the headers of GET.
	for _, asked := range []string{"gzip", "identity"} {
		asking := map[string]string{"Accept-Encoding": asked}
		get, body := n.plain("GET", document, asking)
		head, none := n.plain("HEAD", document, asking)
		require.Empty(t, none)
		require.EqualValues(t, len(body), head.ContentLength)
		require.Equal(t, get.Header.Get("Content-Encoding"), head.Header.Get("Content-Encoding"))
	}
	// What is small, a page, or asked for by a browser that is signed in, stays as it is.
	a, body := n.plain("GET", "clock", map[string]string{"Accept-Encoding": "gzip"})
	require.Less(t, len(body), 1024)
	require.Empty(t, a.Header.Get("Content-Encoding")+a.Header.Get("Vary"))
	a, body = n.plain("GET", document,
		map[string]string{"Accept-Encoding": "gzip", "Cookie": "__Host-session=x"})
	require.Empty(t, a.Header.Get("Content-Encoding"))
	require.Equal(t, want, body)
}
