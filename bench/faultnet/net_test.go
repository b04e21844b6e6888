package faultnet

import (
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	patience = 10 * time.Second
	// nothing is how long a test waits to see that nothing arrives.
	nothing = 50 * time.Millisecond
)

// two are two nodes on a network, with a connection from a to b.
type two struct {
	t    *testing.T
	net  *Net
	b    net.Listener
	ends map[string]net.Conn
}

func connect(t *testing.T) *two {
	b, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n, err := Open(map[string]string{"a": "127.0.0.1:1", "b": b.Addr().String()})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, n.Close())
		require.NoError(t, b.Close())
	})
	w := &two{t: t, net: n, b: b, ends: map[string]net.Conn{}}
	w.ends["a"] = w.dial()
	w.send("a", "hello")
	w.accept()
	w.receives("b", "hello")
	return w
}

// TestSlowNetwork: each way takes its time, and what is sent meanwhile does not add to it.
func TestSlowNetwork(t *testing.T) {
	const delay = 30 * time.Millisecond
	b, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	n, err := OpenSlow(map[string]string{"a": "127.0.0.1:1", "b": b.Addr().String()}, delay)
	require.NoError(t, err)
	w := &two{t: t, net: n, b: b, ends: map[string]net.Conn{}}
	w.ends["a"] = w.dial()
	begin := time.Now()
	for range 100 {
		w.send("a", "hello")
	}
	w.accept()
	text := make([]byte, 5)
	for i := range 100 {
		_, err := io.ReadFull(w.ends["b"], text)
		require.NoError(t, err)
		if i == 0 {
			require.GreaterOrEqual(t, time.Since(begin), delay)
		}
	}
	require.Less(t, time.Since(begin), 50*delay, "a hundred of them one after the other")
	begin = time.Now()
	w.send("b", "there")
	_, err = io.ReadFull(w.ends["a"], text)
	require.NoError(t, err)
	require.Equal(t, "there", string(text))
	require.GreaterOrEqual(t, time.Since(begin), delay)
	require.NoError(t, n.Close())
	require.NoError(t, b.Close())
}

func (w *two) accept() {
	conn, err := w.b.Accept()
	require.NoError(w.t, err)
	w.t.Cleanup(func() { require.NoError(w.t, conn.Close()) })
	w.ends["b"] = conn
}

func (w *two) dial() net.Conn {
	conn, err := net.Dial("tcp", w.net.Dial("a")["b"])
	require.NoError(w.t, err)
	return conn
}

func (w *two) send(from, text string) {
	_, err := w.ends[from].Write([]byte(text))
	require.NoError(w.t, err)
}

func (w *two) receives(at, text string) {
	w.t.Helper()
	require.NoError(w.t, w.ends[at].SetReadDeadline(time.Now().Add(patience)))
	got := make([]byte, len(text))
	_, err := io.ReadFull(w.ends[at], got)
	require.NoError(w.t, err)
	require.Equal(w.t, text, string(got))
}

func (w *two) receivesNothing(at string) {
	w.t.Helper()
	require.NoError(w.t, w.ends[at].SetReadDeadline(time.Now().Add(nothing)))
	_, err := w.ends[at].Read(make([]byte, 1))
	require.ErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

func (w *two) hasEnded(conn net.Conn) {
	w.t.Helper()
	require.NoError(w.t, conn.SetReadDeadline(time.Now().Add(patience)))
	_, err := conn.Read(make([]byte, 1))
	require.Error(w.t, err)
	require.NotErrorIs(w.t, err, os.ErrDeadlineExceeded)
}

func TestHeldDataArrivesLate(t *testing.T) {
	w := connect(t)
	w.net.Hold("a", "b")
	w.send("a", "late")
	w.receivesNothing("b")
	w.send("b", "the other way is open")
	w.receives("a", "the other way is open")
	w.net.Mend()
	w.receives("b", "late")
	require.Eventually(t, func() bool { // it counts what it has sent
		return w.net.Carried("a", "b") == int64(len("hello"+"late"))
	}, patience, time.Millisecond)
}

func TestTheEndOfAConnectionIsHeldToo(t *testing.T) {
	w := connect(t)
	w.net.Isolate("b")
	require.NoError(t, w.ends["a"].Close())
	w.receivesNothing("b")
	w.net.Mend()
	w.hasEnded(w.ends["b"])
}

func TestNewConnectionsWaitWhileTheLinkIsHeld(t *testing.T) {
	w := connect(t)
	w.net.Hold("b", "a")
	w.ends["a"] = w.dial()
	w.send("a", "anyone?")
	require.NoError(t, w.b.(*net.TCPListener).SetDeadline(time.Now().Add(nothing)))
	_, err := w.b.Accept()
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, w.b.(*net.TCPListener).SetDeadline(time.Time{}))
	w.net.Mend()
	w.accept()
	w.receives("b", "anyone?")
}

func TestRefusedConnectionsEnd(t *testing.T) {
	w := connect(t)
	w.net.Refuse("b", "a")
	w.send("a", "still there")
	w.receives("b", "still there")
	w.net.Refuse("a", "b")
	w.hasEnded(w.ends["a"])
	w.hasEnded(w.ends["b"])
	w.hasEnded(w.dial())
	w.net.Mend()
	w.ends["a"] = w.dial()
	w.send("a", "again")
	w.accept()
	w.receives("b", "again")
}

func TestUnpluggedNodesKnowAtOnce(t *testing.T) {
	w := connect(t)
	w.net.Unplug("b")
	w.hasEnded(w.ends["a"])
	w.hasEnded(w.ends["b"])
	w.hasEnded(w.dial())
}

func TestBrokenConnectionsMayBeOpenedAnew(t *testing.T) {
	w := connect(t)
	w.net.Break("a", "b")
	w.hasEnded(w.ends["b"])
	w.ends["a"] = w.dial()
	w.send("a", "again")
	w.accept()
	w.receives("b", "again")
}
