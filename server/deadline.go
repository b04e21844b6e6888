package server

import (
	"errors"
	"os"
	"time"
)

// deadline is one of the two of a connection. fasthttp moves each with every request, mostly to a
// later time, and every move takes a timer out of Go's poller and puts another in. So the
// connection keeps the one that it has as long as that is not later than the one meant, and a read
// or write that it ends too early is begun again.
type deadline struct {
	meant, given time.Time // zero: none
}

// move notes when it is, and gives the connection another only where it has to.
func (d *deadline) move(to time.Time, give func(time.Time) error) error {
	d.meant = to
	if !to.IsZero() && !d.given.IsZero() && !to.Before(d.given) {
		return nil
	}
	d.given = to
	return give(to)
}

// early reports whether err is of a deadline that is not the one meant, which the connection has
// now.
func (d *deadline) early(err error, give func(time.Time) error) bool {
	if err == nil || d.given.Equal(d.meant) || !errors.Is(err, os.ErrDeadlineExceeded) ||
		!time.Now().Before(d.meant) {
		return false
	}
	d.given = d.meant
	return give(d.meant) == nil
}

// SetReadDeadline is net.Conn's. TLS keeps the time itself: there a timeout may end the connection.
func (c *conn) SetReadDeadline(t time.Time) error {
	if c.listener.secure != nil {
		return c.Conn.SetReadDeadline(t)
	}
	return c.reads.move(t, c.Conn.SetReadDeadline)
}

// SetWriteDeadline is net.Conn's, as SetReadDeadline.
func (c *conn) SetWriteDeadline(t time.Time) error {
	if c.listener.secure != nil {
		return c.Conn.SetWriteDeadline(t)
	}
	return c.writes.move(t, c.Conn.SetWriteDeadline)
}

// SetDeadline is net.Conn's.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *conn) read(b []byte) (int, error) {
	for {
		n, err := c.Conn.Read(b)
		if n > 0 || !c.reads.early(err, c.Conn.SetReadDeadline) {
			return n, err
		}
	}
}

func (c *conn) write(b []byte) (written int, err error) {
	for {
		n, err := c.Conn.Write(b[written:])
		if written += n; !c.writes.early(err, c.Conn.SetWriteDeadline) {
			return written, err
		}
	}
}
