package server_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/stretchr/testify/require"

	"tollgate/engine/fair"
	"tollgate/server"
)

func response(t *testing.T, c net.Conn) (*http.Response, string) {
	t.Helper()
	response, err := http.ReadResponse(bufio.NewReader(c), nil)
	require.NoError(t, err)
	body, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return response, string(body)
}

// TestWhatIsBeyondTheGateIsRefusedAtOnce: a request beyond the bound of those under way, and a body
// beyond the bound of bytes, is 503 with Retry-After while the others go on; what they held is
// free afterwards, also where a handler panicked and where a client broke off.
func TestWhatIsBeyondTheGateIsRefusedAtOnce(t *testing.T) {
	going, goOn := make(chan struct{}, 10), make(chan struct{})
	gate := server.NewGate(3, 100<<10, nil)
	table, err := server.NewTable([]server.Route{
		{Method: "GET", Path: "/wait", Operation: "wait", Handle: func(x *server.Exchange) {
			going <- struct{}{}
			<-goOn
			x.Succeed(200)
		}},
		{Method: "GET", Path: "/panic", Operation: "panic", Handle: func(*server.Exchange) {
			panic("a fault of ours")
		}},
		{Method: "POST", Path: "/body", Operation: "body", Handle: func(x *server.Exchange) {
			x.Succeed(200)
		}},
	}, server.TableConfig{AnyMedia: true, Gate: gate})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	ask := func(method, path, headers string) net.Conn {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: x\r\n%s\r\n", method, path, headers)
		require.NoError(t, err)
		return c
	}
	refused := func(c net.Conn) {
		t.Helper()
		answer, body := response(t, c)
		require.Equal(t, 503, answer.StatusCode)
		require.Equal(t, "1", answer.Header.Get("Retry-After"))
		require.Contains(t, body, `"overloaded"`)
	}

	first, second := ask("GET", "/wait", ""), ask("GET", "/wait", "")
	<-going
	<-going
	refused(ask("GET", "/wait", ""))
	close(goOn)
	for _, c := range []net.Conn{first, second} {
		answer, _ := response(t, c)
		require.Equal(t, 200, answer.StatusCode)
	}
	for range 3 { // more than there are places
		answer, _ := response(t, ask("GET", "/panic", ""))
		require.Equal(t, 500, answer.StatusCode)
	}

	// fasthttp waits for a body's first byte before it asks anybody.
	slow := ask("POST", "/body", "Content-Length: 90000\r\n\r\n")
	require.Eventually(t, func() bool {
		_, bytes := gate.Load()
		return bytes == 90_000
	}, 5*time.Second, time.Millisecond)
	refused(ask("POST", "/body", "Content-Length: 90000\r\n\r\n"))
	chunked := ask("POST", "/body", "Transfer-Encoding: chunked\r\n")
	_, err = fmt.Fprintf(chunked, "10000\r\n%s\r\n", strings.Repeat("x", 64<<10))
	require.NoError(t, err)
	refused(chunked)
	small := ask("POST", "/body", "Content-Length: 4\r\n")
	_, err = small.Write([]byte("okay"))
	require.NoError(t, err)
	answer, _ := response(t, small)
	require.Equal(t, 200, answer.StatusCode, "a small body needs no room")
	require.NoError(t, slow.Close())
	require.Eventually(t, func() bool {
		requests, bytes := gate.Load()
		return requests == 0 && bytes == 0
	}, 5*time.Second, time.Millisecond)
	whole := ask("POST", "/body", "Content-Length: 90000\r\n")
	_, err = whole.Write(make([]byte, 90_000))
	require.NoError(t, err)
	answer, _ = response(t, whole)
	require.Equal(t, 200, answer.StatusCode)
}

// TestItemsAreBoundedForEachAccount: a batch is counted by its items, too, since a small body may
// hold thousands: the account that has as many under way as are free is told to come again (429),
// and others find room; afterwards all of them are free.
func TestItemsAreBoundedForEachAccount(t *testing.T) {
	going, goOn := make(chan struct{}, 10), make(chan struct{})
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/batch/{items}", Operation: "batch", Access: server.AccessFull,
		Handle: func(x *server.Exchange) {
			n, err := strconv.Atoi(string(x.Param(0)))
			if err != nil {
				panic(err)
			}
			if fault := x.HoldItems(n); fault != nil {
				x.Refuse(fault)
				return
			}
			if going <- struct{}{}; n > 1 {
				<-goOn
			}
			x.Succeed(200)
		},
	}}, server.TableConfig{
		AnyMedia: true, Gate: server.NewGate(100, 1<<20, nil), Authenticate: byAccountHeader,
		NewCaller: newAccount,
	})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	ask := func(account, items int) net.Conn {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "POST /batch/%d HTTP/1.1\r\nHost: x\r\nAccount: %d\r\n\r\n", items, account)
		require.NoError(t, err)
		return c
	}
	held := []net.Conn{ask(1, 10_000)} // half of the least bound
	<-going
	answer, body := response(t, ask(1, 1))
	require.Equal(t, 429, answer.StatusCode, body)
	require.Equal(t, "1", answer.Header.Get("Retry-After"))
	require.Contains(t, body, `"share_full"`)
	held = append(held, ask(2, 5_000))
	<-going
	answer, body = response(t, ask(3, 5_001))
	require.Equal(t, 503, answer.StatusCode, body)
	require.Contains(t, body, `"overloaded"`, "who holds nothing is not to blame")
	close(goOn)
	for _, c := range held {
		answer, body = response(t, c)
		require.Equal(t, 200, answer.StatusCode, body)
	}
	answer, body = response(t, ask(3, 20_000))
	require.Equal(t, 200, answer.StatusCode, body)
}

// TestBytesAreBoundedForEachAccount: the account whose bodies take as many bytes as are free is
// told to come again, and others find room.
func TestBytesAreBoundedForEachAccount(t *testing.T) {
	going, goOn := make(chan struct{}, 10), make(chan struct{})
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/body", Operation: "body", Access: server.AccessFull,
		Handle: func(x *server.Exchange) {
			if going <- struct{}{}; len(x.Body) > 10<<10 {
				<-goOn
			}
			x.Succeed(200)
		},
	}}, server.TableConfig{
		AnyMedia: true, Gate: server.NewGate(100, 100<<10, nil), Authenticate: byAccountHeader,
		NewCaller: newAccount,
	})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	ask := func(account, bytes int) net.Conn {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "POST /body HTTP/1.1\r\nHost: x\r\nAccount: %d\r\n"+
			"Content-Length: %d\r\n\r\n%s", account, bytes, strings.Repeat("x", bytes))
		require.NoError(t, err)
		return c
	}
	held := []net.Conn{ask(1, 50<<10)}
	<-going
	answer, body := response(t, ask(1, 8<<10))
	require.Equal(t, 429, answer.StatusCode, body)
	require.Contains(t, body, `"share_full"`)
	held = append(held, ask(2, 25<<10))
	<-going
	answer, body = response(t, ask(3, 8<<10))
	require.Equal(t, 200, answer.StatusCode, body)
	answer, body = response(t, ask(3, 30<<10))
	require.Equal(t, 503, answer.StatusCode, body)
	close(goOn)
	for _, c := range held {
		answer, body = response(t, c)
		require.Equal(t, 200, answer.StatusCode, body)
	}
	answer, body = response(t, ask(1, 60<<10))
	require.Equal(t, 200, answer.StatusCode, body)
}

// byAccountHeader takes a request's account from a header.
func byAccountHeader(x *server.Exchange) *server.Fault {
	env, err := strconv.Atoi(string(x.Ctx.Request.Header.Peek("Account")))
	x.Caller.(*account).flow = fair.Flow(env)
	if err != nil {
		return server.FaultKey
	}
	return nil
}

// TestWhatComesOutOfABodyCountsInTheGate: a compressed body holds what it becomes, before it does,
// and a large one has its turn; both are free again afterwards, whatever became of the request.
func TestWhatComesOutOfABodyCountsInTheGate(t *testing.T) {
	var held int64
	gate := server.NewGate(3, 512<<10, nil)
	table, err := server.NewTable([]server.Route{
		{Method: "POST", Path: "/body", Operation: "body", Handle: func(x *server.Exchange) {
			_, held = gate.Load()
			x.Succeed(200)
		}},
	}, server.TableConfig{AnyMedia: true, Gate: gate})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	send := func(size int) int {
		var packed bytes.Buffer
		z := gzip.NewWriter(&packed)
		_, err := z.Write(make([]byte, size))
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.Less(t, packed.Len(), 2<<10)
		c := dial(t, address)
		_, err = fmt.Fprintf(c, "POST /body HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"+
			"Content-Length: %d\r\n\r\n%s", packed.Len(), packed.Bytes())
		require.NoError(t, err)
		answer, _ := response(t, c)
		require.Eventually(t, func() bool {
			requests, bytes := gate.Load()
			return requests == 0 && bytes == 0
		}, 5*time.Second, time.Millisecond)
		return answer.StatusCode
	}
	for range 2 * runtime.GOMAXPROCS(0) * 4 { // more than there are turns
		require.Equal(t, 200, send(100<<10))
		require.Greater(t, held, int64(100<<10))
	}
	require.Equal(t, 503, send(600<<10), "more than the gate has")
}

// TestBatchesOfHundredsTakeTurns: an account that sends batches of 300 events over many connections
// has as many carried out at a time as its share of the turns; the others are told to come again.
func TestBatchesOfHundredsTakeTurns(t *testing.T) {
	const batch = 300 * 60
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	defer release()
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/batch", Operation: "batch", Access: server.AccessFull,
		Handle: func(x *server.Exchange) {
			<-goOn
			x.Succeed(200)
		},
	}}, server.TableConfig{
		AnyMedia: true, Gate: server.NewGate(1000, 64<<20, nil),
		NewCaller: newAccount,
		Authenticate: func(x *server.Exchange) *server.Fault {
			x.Caller.(*account).flow = 1
			return nil
		},
	})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	share := max(8, 4*runtime.GOMAXPROCS(0)) / 2
	answers := make(chan int, share+5)
	for range share + 5 {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "POST /batch HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s",
			batch, make([]byte, batch))
		require.NoError(t, err)
		go func() {
			answer, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				answers <- 0
				return
			}
			answers <- answer.StatusCode
		}()
	}
	for range 5 {
		select {
		case status := <-answers:
			require.Equal(t, 429, status)
		case <-time.After(20 * time.Second):
			require.Fail(t, "more than a share of the turns are carried out")
		}
	}
	release()
	for range share {
		require.Equal(t, 200, <-answers)
	}
}
