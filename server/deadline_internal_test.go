package server

import (
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// givenDeadlines counts the deadlines that a connection is given.
type givenDeadlines struct {
	net.Conn
	reads, writes int
}

func (g *givenDeadlines) SetReadDeadline(t time.Time) error {
	g.reads++
	return g.Conn.SetReadDeadline(t)
}

func (g *givenDeadlines) SetWriteDeadline(t time.Time) error {
	g.writes++
	return g.Conn.SetWriteDeadline(t)
}

// A connection is given few of the deadlines that are meant, and holds each of them to the moment.
func TestDeadlinesAreKeptThoughFewAreGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		given := &givenDeadlines{Conn: near}
		c := &conn{Conn: given, listener: &listener{}}
		in := func(d time.Duration) time.Time { return time.Now().Add(d) }
		const header, idle = 10 * time.Second, 120 * time.Second
		one := make([]byte, 1)
		for range 50 { // requests, one after the other
			require.NoError(t, c.SetReadDeadline(in(idle)))
			go func() {
				time.Sleep(100 * time.Millisecond)
				if _, err := far.Write(one); err != nil {
					t.Error(err)
				}
			}()
			_, err := c.Read(one)
			require.NoError(t, err)
			require.NoError(t, c.SetReadDeadline(in(header)))
		}
		require.LessOrEqual(t, given.reads, 3)

		require.NoError(t, c.SetReadDeadline(in(idle))) // longer than the connection has
		began := time.Now()
		_, err := c.Read(one)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, idle, time.Since(began))
		require.NoError(t, c.SetReadDeadline(time.Time{}))
		require.NoError(t, c.SetReadDeadline(in(header)))
		require.NoError(t, c.SetReadDeadline(in(time.Second))) // shorter
		began = time.Now()
		_, err = c.Read(one)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, time.Second, time.Since(began))
		require.NoError(t, c.SetDeadline(time.Time{}))
		go func() {
			time.Sleep(time.Hour)
			if err := far.Close(); err != nil {
				t.Error(err)
			}
		}()
		_, err = c.Read(one)
		require.NotErrorIs(t, err, os.ErrDeadlineExceeded, "there is none")
	})
}

// An answer that a deadline of an earlier one interrupts goes on where it was.
func TestAWriteGoesOnWhereADeadlineWasEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		given := &givenDeadlines{Conn: near}
		c := &conn{Conn: given, listener: &listener{}}
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(30*time.Second)))
		time.Sleep(20 * time.Second)
		require.NoError(t, c.SetWriteDeadline(time.Now().Add(30*time.Second)))
		require.Equal(t, 1, given.writes)
		got := make(chan string, 1)
		go func() {
			b := make([]byte, 10)
			n, err := far.Read(b[:4])
			time.Sleep(20 * time.Second) // past the first deadline, and before the second
			m, later := far.Read(b[n:])
			if err != nil || later != nil {
				t.Error(err, later)
			}
			got <- string(b[:n+m])
		}()
		n, err := c.Write([]byte("0123456789"))
		require.NoError(t, err)
		require.Equal(t, 10, n)
		require.Equal(t, "0123456789", <-got)
		began := time.Now()
		_, err = c.Write([]byte("x"))
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.Equal(t, 10*time.Second, time.Since(began))
	})
}
