package client_test

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/client"
)

// wireConn sends prepared requests and reads answers without allocating, so that what
// testing.AllocsPerRun counts is the server's.
type wireConn struct {
	t    testing.TB
	c    net.Conn
	buf  [64 << 10]byte
	want []byte
}

func (w *wireConn) roundTrip(request []byte) (answer []byte) {
	if _, err := w.c.Write(request); err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for {
		k, err := w.c.Read(w.buf[n:])
		if err != nil {
			w.t.Fatal(err)
		}
		n += k
		head := bytes.Index(w.buf[:n], []byte("\r\n\r\n"))
		if head < 0 {
			continue
		}
		at := bytes.Index(w.buf[:n], []byte("Content-Length: ")) + len("Content-Length: ")
		length := 0
		for _, c := range w.buf[at:n] {
			if c < '0' || c > '9' {
				break
			}
			length = length*10 + int(c-'0')
		}
		if n >= head+4+length {
			break
		}
	}
	if !bytes.HasPrefix(w.buf[:n], w.want) {
		w.t.Fatalf("%s", w.buf[:n])
	}
	return w.buf[:n]
}

func (n *node) wire(want string) *wireConn {
	c, err := net.Dial("tcp", n.addr)
	require.NoError(n.t, err)
	n.t.Cleanup(func() { _ = c.Close() })
	return &wireConn{t: n.t, c: c, want: []byte(want)}
}

func (n *node) prepare(method, path, body string) []byte {
	return n.prepareAs(n.sandbox, method, path, body)
}

func (n *node) prepareAs(key, method, path, body string) []byte {
	head := fmt.Sprintf("%s %s/%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n",
		method, client.Prefix, path, key)
	if body != "" {
		head += fmt.Sprintf("Content-Type: application/json\r\nContent-Length: %d\r\n", len(body))
	}
	return []byte(head + "\r\n" + body)
}

// numbered is an event whose key can be rewritten in place, so that each one is new.
type numbered struct {
	request []byte
	digits  []byte
	next    int
}

func (n *node) numbered() *numbered {
	r := n.prepare("POST", "events", event("key-00000000", `,"featureKey":"seats","usageUnits":2,`+
		`"meta":{"model":"m-1","region":"eu"}`))
	at := bytes.Index(r, []byte("key-00000000")) + 4
	return &numbered{request: r, digits: r[at : at+8]}
}

func (e *numbered) advance() []byte {
	e.next++
	for v, i := e.next, 7; i >= 0; i-- {
		e.digits[i] = byte('0' + v%10)
		v /= 10
	}
	return e.request
}

// noteKeys counts uses of keys, as a node does.
func noteKeys(c *client.Config) { c.NoteKeys = true }

// TestBudgets counts allocations of whole round trips: fasthttp, routing, authentication, decision
// or scanning, audit, answer. The engine's growing memory is part of an event's.
func TestBudgets(t *testing.T) {
	n := start(t, noteKeys)
	n.customer("acme")
	ok := n.wire("HTTP/1.1 200 OK")
	get := n.prepare("GET", "entitlements/acme/tokens", "")
	post := n.prepare("POST", "entitlements", `{"customerReferenceId":"acme","featureKey":"tokens",`+
		`"track":{"usageUnits":2},"context":{"flowId":"f"}}`)
	budget := func(name string, maximum float64, f func()) {
		for range 200 {
			f()
		}
		allocs := testing.AllocsPerRun(2000, f)
		t.Logf("%s: %.2f allocations", name, allocs)
		if !raceDetector { // it makes pools drop what they hold
			require.LessOrEqual(t, allocs, maximum, name)
		}
	}
	budget("check", 0, func() { ok.roundTrip(get) })
	// From 1.76 on, fasthttp discards the rest of a body through io.CopyN, also where nothing is left:
	// one allocation for each request with a body.
	budget("evaluate", 1, func() { ok.roundTrip(post) })
	created := n.wire("HTTP/1.1 201 Created")
	e := n.numbered()
	// The proposer of these tests clones replies and reads clocks; it allocates nothing per event.
	budget("event", 2, func() { created.roundTrip(e.advance()) })
}

func BenchmarkCheck(b *testing.B) {
	n := start(b, noteKeys)
	n.customer("acme")
	w := n.wire("HTTP/1.1 200 OK")
	request := n.prepare("GET", "entitlements/acme/tokens", "")
	b.ReportAllocs()
	for b.Loop() {
		w.roundTrip(request)
	}
}

func BenchmarkEvent(b *testing.B) {
	n := start(b, noteKeys)
	n.customer("acme")
	w := n.wire("HTTP/1.1 201 Created")
	e := n.numbered()
	b.ReportAllocs()
	for b.Loop() {
		w.roundTrip(e.advance())
	}
}

func BenchmarkBatch1000(b *testing.B) {
	n := start(b, noteKeys)
	n.customer("acme")
	w := n.wire("HTTP/1.1 200 OK")
	e := n.numbered()
	body := e.request[bytes.Index(e.request, []byte("\r\n\r\n"))+4:]
	b.ReportAllocs()
	begin := time.Now()
	for b.Loop() {
		var batch strings.Builder
		batch.WriteByte('[')
		for i := range 1000 {
			if i > 0 {
				batch.WriteByte(',')
			}
			e.advance()
			batch.Write(body)
		}
		batch.WriteByte(']')
		w.roundTrip(n.prepare("POST", "events/batch", batch.String()))
	}
	b.ReportMetric(float64(b.N)*1000/time.Since(begin).Seconds(), "events/s")
}
