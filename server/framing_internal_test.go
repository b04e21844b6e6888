package server

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
)

// FuzzFraming: a request that we take and that net/http takes too has, for both, the same headers
// and a body that ends in the same place: neither can be led to see another request in it.
func FuzzFraming(f *testing.F) {
	for _, text := range []string{
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"POST /a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
		"GET /a HTTP/1.0\r\nX: a\r\n b\r\n\r\n", "GET / HTTP/1.1\nHost: x\r\n\r\n",
		"GET http://h:1/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\nx-y: z\r\nx-y: z\r\n\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var ours fasthttp.RequestHeader
		if ours.Read(bufio.NewReader(bytes.NewReader(text))) != nil || !unambiguous(&ours) {
			return
		}
		theirs, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text)))
		if err != nil {
			return
		}
		require.Equal(t, theirs.Method, string(ours.Method()))
		require.Equal(t, theirs.RequestURI, string(ours.RequestURI()))
		require.Equal(t, len(theirs.TransferEncoding) > 0, ours.ContentLength() == -1)
		if length := theirs.ContentLength; length > 0 {
			require.EqualValues(t, length, ours.ContentLength())
		} else {
			require.LessOrEqual(t, ours.ContentLength(), 0)
		}
	})
}

// FuzzUnescaped: parameters of a path decode as net/url decodes them.
func FuzzUnescaped(f *testing.F) {
	for _, text := range []string{"a", "%41%2f", "%", "%4", "%zz", "a+b", "%00%FF", "é"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, ok := AppendUnescaped(nil, []byte(text))
		want, err := url.PathUnescape(text)
		require.Equal(t, err == nil, ok)
		if ok {
			require.Equal(t, want, string(got))
		}
	})
}
