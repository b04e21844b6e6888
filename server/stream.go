package server

import (
	"io"
	"time"
)

// Stream answers with what body has, which may be more than fits memory and take longer than one
// answer may: each piece has Limits.Write to leave. An error of body cuts the answer off, so that
// the client sees that it is not whole. body is closed in any case, also when the client goes away.
func (x *Exchange) Stream(status int, media string, body io.ReadCloser) *Fault {
	x.Out = x.Out[:0]
	x.Ctx.Response.Header.SetContentType(media)
	x.Ctx.SetBodyStream(body, -1)
	x.Ctx.SetConnectionClose()
	if c, ok := x.Ctx.Conn().(*conn); ok {
		c.streams.Store(true)
	}
	return x.Status(status)
}

// Write gives each piece of a stream its own time.
func (c *conn) Write(b []byte) (int, error) {
	if c.streams.Load() {
		if err := c.SetWriteDeadline(time.Now().Add(c.listener.limits.Write)); err != nil {
			return 0, err
		}
	}
	return c.write(b)
}
