package clustertest

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"tollgate/cmd/tollgate/config"
)

// `make load` asks for more than `make test`.
var (
	idleWanted = flag.Int("idle", 1_500, "connections that only wait in TestOverload")
	slowWanted = flag.Int("slow", 500, "connections that drip")
	loadFor    = flag.Duration("load", 4*time.Second, "how long ten times too much is asked")
)

// busy is how many clients ask at a time: ten times the requests that the node carries out.
const (
	underWay = 32
	busy     = 10 * underWay
)

// load is a node under load, and what its clients saw.
type load struct {
	t         *testing.T
	address   string
	key       string
	mu        sync.Mutex
	latencies []time.Duration
	events    atomic.Int64
	served    atomic.Int64
	refused   atomic.Int64
	cut       atomic.Int64
	slowest   atomic.Int64 // of slow connections until they were cut off, in nanoseconds
	problems  []string
}

func (l *load) problem(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.problems) < 10 {
		l.problems = append(l.problems, fmt.Sprintf(format, args...))
	}
}

// dialFrom connects from one of loopback's addresses, 127.0.0.n.
func (l *load) dialFrom(n int) (net.Conn, error) {
	d := net.Dialer{
		Timeout: 10 * time.Second, LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(n))},
	}
	return d.Dial("tcp", l.address)
}

// ask checks an entitlement over a connection.
func (l *load) ask(c net.Conn, r *bufio.Reader) (*http.Response, error) {
	return l.send(c, r, "GET /api/v1/client/entitlements/"+customerOfSecrets+"/output-tokens", "")
}

// record sends a usage event.
func (l *load) record(c net.Conn, r *bufio.Reader) (*http.Response, error) {
	return l.send(c, r, "POST /api/v1/client/events", fmt.Sprintf(
		`{"eventIdempotencyKey":"load-%d","eventName":"output-tokens","customerReferenceId":%q,`+
			`"usageUnits":1,"occurredAt":%q}`, l.events.Add(1), customerOfSecrets,
		time.Now().UTC().Format(time.RFC3339)))
}

func (l *load) send(c net.Conn, r *bufio.Reader, what, body string) (*http.Response, error) {
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	_, err := fmt.Fprintf(c, "%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", what, l.key, len(body), body)
	if err != nil {
		return nil, err
	}
	answer, err := http.ReadResponse(r, nil)
	if err == nil {
		_, err = io.Copy(io.Discard, answer.Body)
	}
	return answer, err
}

// hold opens connections that are used once and then wait, from as many addresses as it takes.
func (l *load) hold(count, perAddress int) (held []net.Conn) {
	l.t.Helper()
	for i := range count {
		c, err := l.dialFrom(2 + i/perAddress)
		require.NoError(l.t, err, "connection %d", i)
		l.t.Cleanup(func() { _ = c.Close() })
		answer, err := l.ask(c, bufio.NewReader(c))
		require.NoError(l.t, err, "connection %d", i)
		require.Equal(l.t, 200, answer.StatusCode)
		held = append(held, c)
	}
	return held
}

// drip sends a request's headers a byte at a time until it is cut off, again and again.
func (l *load) drip(from int, until <-chan struct{}) {
	pace := time.NewTicker(time.Second)
	defer pace.Stop()
	for {
		c, err := l.dialFrom(from)
		if err != nil {
			l.problem("slow connection: %v", err)
			return
		}
		began := time.Now()
		_, err = io.WriteString(c, "GET /api/v1/client/plans HTTP/1.1\r\nHost: x\r\nX-Slow: ")
		for err == nil {
			select {
			case <-until:
				_ = c.Close()
				return
			case <-pace.C:
				_, err = io.WriteString(c, "x")
			}
		}
		_ = c.Close()
		l.cut.Add(1)
		for took := int64(time.Since(began)); ; {
			last := l.slowest.Load()
			if took <= last || l.slowest.CompareAndSwap(last, took) {
				break
			}
		}
	}
}

// press checks and records in turn as fast as it is answered; what is refused says when to come
// again, to which nobody here listens.
func (l *load) press(until <-chan struct{}) {
	c, err := l.dialFrom(200)
	if err != nil {
		l.problem("busy connection: %v", err)
		return
	}
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	for turn := 0; ; turn++ {
		select {
		case <-until:
			return
		default:
		}
		began := time.Now()
		ask := l.ask
		if turn%2 == 1 {
			ask = l.record
		}
		answer, err := ask(c, r)
		switch {
		case err != nil:
			l.problem("busy connection, request %d: %v", turn, err)
			return
		case answer.Close:
			l.problem("busy connection, request %d: it ends with answer %d", turn, answer.StatusCode)
			return
		case answer.StatusCode == 200 || answer.StatusCode == 201:
			l.served.Add(1)
			l.mu.Lock()
			l.latencies = append(l.latencies, time.Since(began))
			l.mu.Unlock()
		case answer.StatusCode == 429 || answer.StatusCode == 503:
			if answer.Header.Get("Retry-After") == "" {
				l.problem("answer %d without Retry-After", answer.StatusCode)
				return
			}
			l.refused.Add(1)
		default:
			l.problem("answer %d, Retry-After %q", answer.StatusCode, answer.Header.Get("Retry-After"))
			return
		}
	}
}

// flood opens connections of one address until it is refused, in words and at once, and closes
// them: the node has no room for all of theirs and those of the others.
func (l *load) flood(perAddress int) {
	l.t.Helper()
	const from = 210
	for range perAddress {
		c, err := l.dialFrom(from)
		require.NoError(l.t, err)
		defer func() { _ = c.Close() }()
	}
	require.Eventually(l.t, func() bool { // the last ones may not have been accepted yet
		c, err := l.dialFrom(from)
		if err != nil {
			return false
		}
		defer func() { _ = c.Close() }()
		require.NoError(l.t, c.SetReadDeadline(time.Now().Add(5*time.Second)))
		text, err := io.ReadAll(c)
		return err == nil && strings.Contains(string(text), "too_many_connections") &&
			strings.Contains(string(text), "Retry-After: 1")
	}, patience, statusEvery)
}

// peak is the most memory that a process has held so far, in MiB.
func peak(t *testing.T, pid int) (mib int) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "VmHWM:")
	require.True(t, found)
	var kib int
	_, err = fmt.Sscan(rest, &kib)
	require.NoError(t, err)
	return kib >> 10
}

// fit lowers the connections to what this process may open, and says so.
func fit(t *testing.T, idle, slow int) (int, int) {
	t.Helper()
	var files unix.Rlimit
	require.NoError(t, unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	needed := uint64(idle + slow + busy + idle/4 + 512)
	if files.Cur >= needed {
		return idle, slow
	}
	t.Logf("open files: %d are allowed, %d are needed (ulimit -n): fewer connections", files.Cur, needed)
	part := float64(files.Cur) / float64(needed)
	return int(float64(idle) * part), int(float64(slow) * part)
}

// TestOverload: a node holds thousands of connections that wait or drip, refuses an address that
// opens too many, and is asked ten times what it takes. What is beyond is refused at once with
// Retry-After, what is accepted is answered in bounded time, memory stays bounded, and afterwards
// everything is as before.
func TestOverload(t *testing.T) {
	idle, slow := fit(t, *idleWanted, *slowWanted)
	perAddress := max(busy, idle/4)
	settings, file := solo(t, func(c *config.Config) {
		c.Connections.PerAddress, c.Connections.Requests = perAddress, underWay
		c.Memory = 1024
	})
	node := startServe(t, settings, []string{"serve", "--config", file})
	key := everySecret(t, settings.HTTP, settings.Ops)[1].text
	l := &load{t: t, address: settings.HTTP, key: key}

	held := l.hold(idle, perAddress)
	l.flood(perAddress)
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for i := range slow {
		clients.Go(func() { l.drip(100+i/perAddress, stop) })
	}
	for range busy {
		clients.Go(func() { l.press(stop) })
	}
	<-time.After(max(*loadFor, time.Second))
	close(stop)
	clients.Wait()

	require.Empty(t, l.problems)
	require.NotEmpty(t, l.latencies)
	require.Positive(t, l.refused.Load(), "ten times too much is not all accepted")
	slices.Sort(l.latencies)
	at := func(part float64) time.Duration {
		return l.latencies[int(part*float64(len(l.latencies)-1))]
	}
	t.Logf("%d idle, %d slow (%d cut off, the last after %s), %d busy for %s: %d answered, %d refused, "+
		"p50 %s, p99 %s, peak %d MiB", idle, slow, l.cut.Load(), time.Duration(l.slowest.Load()), busy,
		*loadFor, l.served.Load(), l.refused.Load(), at(0.5), at(0.99),
		peak(t, node.command.Process.Pid))
	require.Less(t, at(0.99), 5*time.Second)
	require.Less(t, time.Duration(l.slowest.Load()), 30*time.Second)
	require.Less(t, peak(t, node.command.Process.Pid), 1536)

	began := time.Now()
	for _, c := range held[:min(100, len(held))] {
		answer, err := l.ask(c, bufio.NewReader(c))
		require.NoError(t, err, "what waited is still there")
		require.Equal(t, 200, answer.StatusCode)
	}
	require.Less(t, time.Since(began), 10*time.Second, "it recovers at once")
	require.Zero(t, node.stop())
}
