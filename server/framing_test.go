package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server"
)

// echo is a listener whose requests are answered by a route table with what was understood of them.
func echo(t *testing.T) (address string, understood func() []string) {
	var mu sync.Mutex
	var seen []string
	handle := func(x *server.Exchange) {
		h := &x.Ctx.Request.Header
		text := strings.Join([]string{
			string(h.Method()), string(h.RequestURI()), string(x.Body), string(h.Peek("X")),
		}, " ")
		mu.Lock()
		seen = append(seen, text)
		mu.Unlock()
		x.Bare(200, "text/plain", []byte(text))
	}
	row := func(method, path string) server.Route {
		return server.Route{
			Method: method, Path: path, Operation: method + path, Handle: handle,
			Media: []string{"text/plain"},
		}
	}
	table, err := server.NewTable([]server.Route{
		row("GET", "/a"), row("POST", "/a"), row("GET", "/b"),
	}, server.TableConfig{AnyMedia: true})
	require.NoError(t, err)
	return listen(t, short(), table.Serve), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return seen
	}
}

// answers sends text and reads every answer until the connection closes.
func answers(t *testing.T, address, text string) (statuses []int, last string) {
	t.Helper()
	c := dial(t, address)
	_, err := c.Write([]byte(text))
	require.NoError(t, err)
	r := bufio.NewReader(c)
	for {
		if _, err := r.Peek(1); err != nil {
			return statuses, last
		}
		response, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		body, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		statuses, last = append(statuses, response.StatusCode), string(body)
	}
}

// Each of these hides another request, /b, behind one that can be read in two ways.
const (
	toPost   = "POST /a HTTP/1.1\r\nHost: x\r\n"
	smuggled = "GET /b HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
	chunks   = "3\r\nabc\r\n0\r\n\r\n"
)

// TestRequestsThatCanBeReadInTwoWays are refused and end their connection: whatever follows is not
// looked at, so no request hides behind another.
func TestRequestsThatCanBeReadInTwoWays(t *testing.T) {
	address, understood := echo(t)
	for name, text := range map[string]string{
		"length and chunks":         toPost + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
		"chunks and length":         toPost + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n" + chunks,
		"a length of another case":  toPost + "Transfer-Encoding: chunked\r\ncONTENT-lENGTH: 3\r\n\r\n" + chunks,
		"two lengths":               toPost + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc",
		"one length twice":          toPost + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
		"a list of lengths":         toPost + "Content-Length: 3, 3\r\n\r\nabc",
		"a length with a sign":      toPost + "Content-Length: +3\r\n\r\nabc",
		"a negative length":         toPost + "Content-Length: -3\r\n\r\nabc",
		"a hexadecimal length":      toPost + "Content-Length: 0x3\r\n\r\nabc",
		"a length that overflows":   toPost + "Content-Length: 18446744073709551619\r\n\r\nabc",
		"an empty length":           toPost + "Content-Length:\r\n\r\nabc",
		"another coding":            toPost + "Transfer-Encoding: xchunked\r\n\r\n" + chunks,
		"two codings":               toPost + "Transfer-Encoding: gzip, chunked\r\n\r\n" + chunks,
		"chunks not last":           toPost + "Transfer-Encoding: chunked, identity\r\n\r\n" + chunks,
		"identity and length":       toPost + "Transfer-Encoding: identity\r\nContent-Length: 3\r\n\r\nabc",
		"identity":                  toPost + "Transfer-Encoding: identity\r\n\r\n",
		"a tabulator in the coding": toPost + "Transfer-Encoding:\x0bchunked\r\n\r\n" + chunks,
		"a space before the colon":  toPost + "Transfer-Encoding : chunked\r\n\r\n" + chunks,
		"chunked twice":             toPost + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
		"chunks in HTTP/1.0":        "POST /a HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks,
		"a folded line":             toPost + "X: a\r\n b\r\n\r\n",
		"a folded length":           toPost + "X: a\r\n Content-Length: 3\r\n\r\nabc",
		"a folded coding":           toPost + "Transfer-Encoding:\r\n chunked\r\n\r\n" + chunks,
		"a bare LF":                 toPost + "X: a\nContent-Length: 3\r\n\r\nabc",
		"a bare LF at the end":      toPost + "X: a\r\nY: b\n\r\n",
		"a bare CR":                 toPost + "X: a\rContent-Length: 3\r\n\r\nabc",
		"NUL in a value":            toPost + "X: a\x00b\r\n\r\n",
		"NUL in a name":             toPost + "X\x00: a\r\n\r\n",
		"NUL in the target":         "GET /a\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
		"a space in a name":         toPost + "X a: a\r\n\r\n",
		"a line without a colon":    toPost + "Xa\r\n\r\n",
		"no name":                   toPost + ": a\r\n\r\n",
		"a space in the target":     "GET /a HTTP/1.1\r\nX: HTTP/1.1\r\nHost: x\r\n \r\n\r\n",
		"two spaces":                "GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
		"a space first":             " GET /a HTTP/1.1\r\nHost: x\r\n\r\n",
		"a folded first header":     "GET /a HTTP/1.1\r\n X: a\r\nHost: x\r\n\r\n",
		"no host":                   "GET /a HTTP/1.1\r\n\r\n",
		"two hosts":                 "GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"a host with a path":        "GET /a HTTP/1.1\r\nHost: x/y\r\n\r\n",
		"a host with a user":        "GET /a HTTP/1.1\r\nHost: y@x\r\n\r\n",
		"HTTP/2.0":                  "GET /a HTTP/2.0\r\nHost: x\r\n\r\n",
		"HTTP/1.2":                  "GET /a HTTP/1.2\r\nHost: x\r\n\r\n",
		"HTTP/0.9":                  "GET /a HTTP/0.9\r\nHost: x\r\n\r\n",
		"the preface of HTTP/2":     "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	} {
		statuses, body := answers(t, address, text+smuggled)
		require.Equal(t, []int{400}, statuses, "%s: %s", name, body)
		require.Contains(t, body, "malformed_request", name)
	}
	require.Empty(t, understood())
}

// TestHeadersThatNeverEndAreAnsweredAtOnce: a client that ends its lines in another way than CR LF
// has sent all that it has to say and waits: for an answer here, not for its time to be up.
func TestHeadersThatNeverEndAreAnsweredAtOnce(t *testing.T) {
	limits := short()
	limits.Header, limits.Idle = time.Minute, time.Minute
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/a", Operation: "a",
		Handle: func(x *server.Exchange) { x.Bare(200, "text/plain", x.Body) },
	}}, server.TableConfig{AnyMedia: true})
	require.NoError(t, err)
	address := listen(t, limits, table.Serve)
	body := strings.Repeat("line\nline\r", 4000) // what a body may have, and headers may not
	whole := toPost + fmt.Sprintf("Content-Length: %d\r\n\r\n", len(body)) + body
	chunked := toPost + "Transfer-Encoding: chunked\r\n\r\n3\r\na\nb\r\n0\r\n\r\n"
	for name, text := range map[string]string{
		"bare LFs":                    "GET /a HTTP/1.1\nHost: x\n\n",
		"bare LFs and a body":         "POST /a HTTP/1.1\nHost: x\nContent-Length: 2\n\nab",
		"the last lines end in LF":    toPost + "X: a\n\n",
		"the request line ends in LF": "GET /a HTTP/1.1\nHost: x\r\n",
		"bare CRs":                    "GET /a HTTP/1.1\rHost: x\r\r",
		"LF CR":                       "GET /a HTTP/1.1\n\rHost: x\n\r\n\r",
		"a handshake of TLS":          "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
	} {
		statuses, last := answers(t, address, text)
		require.Equal(t, []int{400}, statuses, "%s: %s", name, last)
		require.Contains(t, last, "malformed_request", name)
		if strings.HasPrefix(name, "a handshake") {
			continue // only what begins a read is known to begin a request
		}
		for _, before := range []string{whole, chunked} {
			statuses, last := answers(t, address, before+text)
			require.Equal(t, []int{200, 400}, statuses, "%s: %s", name, last)
		}
	}
	// What is on its way is waited for, however it is cut.
	c := dial(t, address)
	r := bufio.NewReader(c)
	for range 2 {
		for _, part := range []string{
			"\r", "\nPOST /a HTTP/1.1\r", "\nHost", ": x\r\nContent-Length: 4\r\n", "\r\na\n", "b\r",
		} {
			_, err := c.Write([]byte(part))
			require.NoError(t, err)
			time.Sleep(10 * time.Millisecond)
		}
		answer, err := http.ReadResponse(r, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Equal(t, 200, answer.StatusCode, text)
		require.Equal(t, "a\nb\r", string(text))
	}
}

// TestBodiesThatCanBeReadInTwoWays: of what arrives in chunks, each has one size in hexadecimal
// digits and ends in CRLF; trailers are not taken for headers.
func TestBodiesThatCanBeReadInTwoWays(t *testing.T) {
	address, understood := echo(t)
	for name, body := range map[string]string{
		"a bare LF after the size":   "3\nabc\r\n0\r\n\r\n",
		"a bare LF after the data":   "3\r\nabc\n0\r\n\r\n",
		"a bare LF in an extension":  "3;a=\nb\r\nabc\r\n0\r\n\r\n",
		"0x":                         "0x3\r\nabc\r\n0\r\n\r\n",
		"a sign":                     "+3\r\nabc\r\n0\r\n\r\n",
		"a minus":                    "-1\r\nabc\r\n0\r\n\r\n",
		"a size that overflows":      "10000000000000003\r\nabc\r\n0\r\n\r\n",
		"more than announced":        "3\r\nabcd\r\n0\r\n\r\n",
		"a space before the size":    " 3\r\nabc\r\n0\r\n\r\n",
		"a space before ;":           "3 ;a\r\nabc\r\n0\r\n\r\n",
		"a trailer that is a length": "3\r\nabc\r\n0\r\nContent-Length: 1\r\n\r\n",
		"a trailer that is a key":    "3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\n\r\n",
	} {
		statuses, answer := answers(t, address,
			toPost+"Transfer-Encoding: chunked\r\n\r\n"+body+smuggled)
		require.Equal(t, []int{400}, statuses, "%s: %s", name, answer)
	}
	statuses, answer := answers(t, address, "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"+
		"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nX: trailer\r\n\r\n")
	require.Equal(t, []int{400}, statuses)
	require.Contains(t, answer, "Trailers are not taken")
	require.Empty(t, understood())
}

// TestOrdinaryRequestsAreTaken: what is refused above is refused for what it says there.
func TestOrdinaryRequestsAreTaken(t *testing.T) {
	address, understood := echo(t)
	for _, text := range []string{
		toPost + "Content-Length: 3\r\n\r\nabc",
		toPost + "Transfer-Encoding: Chunked\r\n\r\n" + chunks,
		toPost + "Transfer-Encoding: chunked\r\n\r\n1;name=value\r\na\r\n2\r\nbc\r\n000\r\n\r\n",
		"\r\nGET /a HTTP/1.1\r\nhost: [::1]:8080\r\n\r\n",
		"GET http://elsewhere.example:80/a HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		statuses, body := answers(t, address, text+smuggled)
		require.Equal(t, []int{200, 200}, statuses, "%q: %s", text, body)
	}
	require.Equal(t, "POST /a abc ", understood()[0])
	require.Equal(t, "GET /b  ", understood()[1])
	require.Equal(t, "POST /a abc ", understood()[2])
	require.Equal(t, "POST /a abc ", understood()[4])

	statuses, _ := answers(t, address, "GET /a HTTP/1.0\r\n\r\n")
	require.Equal(t, []int{200}, statuses, "HTTP/1.0 has no Host")
	statuses, _ = answers(t, address, "GET /a HTTP/1.1\r\nHost: x\r\n\r\n\x16\x03\x01 rubbish\r\n\r\n")
	require.Equal(t, []int{200, 400}, statuses, "rubbish in the pipeline ends the connection")
}

// TestNoHeaderIsPutIntoAnAnswer: a line end in a value that an answer repeats ends no header.
func TestNoHeaderIsPutIntoAnAnswer(t *testing.T) {
	address := listen(t, short(), func(ctx *fasthttp.RequestCtx) {
		value, ok := server.AppendUnescaped(nil, ctx.Request.Header.RequestURI())
		if !ok {
			value = nil
		}
		ctx.Response.Header.SetBytesV("Location", value)
	})
	c := dial(t, address)
	_, err := c.Write([]byte("GET /%0d%0aX-Evil:%201%0d%0a%0d%0aHTTP/1.1%20200%20OK HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	require.Empty(t, response.Header.Get("X-Evil"))
	require.Contains(t, response.Header.Get("Location"), "X-Evil")
}
