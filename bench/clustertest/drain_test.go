package clustertest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// mover writes at a node over a connection that it keeps until an answer ends it; then it turns to
// another node.
type mover struct {
	name     string
	from, to string
	key      string
	pace     time.Duration
	begun    chan struct{} // closed when the third event is acknowledged, or none will be

	connection net.Conn
	reader     *bufio.Reader
	moved      bool

	written int
	longest time.Duration // that an event took, the way to the other node included
	err     error
}

// write writes until the other node has answered a few times.
func (m *mover) write() {
	begin := sync.OnceFunc(func() { close(m.begun) })
	defer begin()
	tick := time.NewTicker(m.pace)
	defer tick.Stop()
	defer m.hangUp()
	deadline := time.Now().Add(patience)
	for after := 0; after < 20; {
		<-tick.C
		began := time.Now()
		if m.err = m.send(); m.err == nil && began.After(deadline) {
			m.err = fmt.Errorf("%s keeps the connection", m.from)
		}
		if m.err != nil {
			m.err = fmt.Errorf("%s, event %d (moved: %t): %w", m.name, m.written, m.moved, m.err)
			return
		}
		m.longest = max(m.longest, time.Since(began))
		if m.written++; m.written == 3 {
			begin()
		}
		if m.moved {
			after++
		}
	}
}

// send sends the next event; any answer but 201 is an error.
func (m *mover) send() error {
	if m.connection == nil {
		address := m.from
		if m.moved {
			address = m.to
		}
		c, err := net.DialTimeout("tcp", address, patience)
		if err != nil {
			return err
		}
		m.connection, m.reader = c, bufio.NewReader(c)
	}
	l := load{key: m.key}
	r := usageEvent(fmt.Sprintf("%s-%d", m.name, m.written))
	answer, err := l.send(m.connection, m.reader, r.Method+" "+r.Path, string(r.Body))
	if err == nil && answer.StatusCode != http.StatusCreated {
		err = errors.New(answer.Status)
	}
	if err == nil && answer.Close {
		m.hangUp()
		m.moved = true
	}
	return err
}

func (m *mover) hangUp() {
	if m.connection != nil {
		_ = m.connection.Close() // what it was to bring has come
		m.connection = nil
	}
}

// The clients of a leader that is stopped: each event is answered 201, over the connections that
// they keep, too; the last answer ends the connection, and they turn to another node. Nothing is
// lost or counted twice. Meanwhile the node is not ready, and new connections are answered as well.
func TestClientsOfALeaderThatIsStopped(t *testing.T) {
	d := startCluster(t)
	require.Zero(t, d.stop())
	d.configure(func(_ string, settings *config.Config) {
		settings.Drain, settings.StopTimeout = patience, 2*patience
	})
	d.start()
	old := d.leader()
	through := d.followers()[0]
	ended := make(chan *mover)
	var movers []*mover
	for i, pace := range []time.Duration{1, 1, 1, 7, 100} {
		m := &mover{
			name: fmt.Sprint("mover", i), key: d.SandboxKey, pace: pace * time.Millisecond,
			from: d.node(old).HTTP, to: d.node(through).HTTP, begun: make(chan struct{}),
		}
		movers = append(movers, m)
		go func() {
			m.write()
			ended <- m
		}()
	}
	for _, m := range movers {
		<-m.begun
	}
	d.signal(old, syscall.SIGTERM)
	written, longest := 0, time.Duration(0)
	for range movers {
		m := <-ended
		require.NoError(t, m.err)
		written += m.written
		longest = max(longest, m.longest)
	}
	t.Logf("the slowest of %d writes took %s, the way to another node included", written, longest)

	require.NotEqual(t, old, d.leader(old))
	status, err := d.status(old)
	require.NoError(t, err)
	require.False(t, status.Ready)
	response, err := http.Get("http://" + d.node(old).Ops + "/readyz")
	require.NoError(t, err)
	defer func() { require.NoError(t, response.Body.Close()) }()
	why, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.Equal(t, 503, response.StatusCode)
	require.Contains(t, string(why), "about to stop")
	late := &mover{name: "late", key: d.SandboxKey, from: d.node(old).HTTP}
	require.NoError(t, late.send())
	require.True(t, late.moved, "it is answered, and told to go elsewhere")
	require.Equal(t, written+1, d.used(through))
}
