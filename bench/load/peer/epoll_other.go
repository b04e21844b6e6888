//go:build !linux

package peer

import (
	"errors"
	"io"
)

// serveEpoll needs Linux.
func (f *Front) serveEpoll(io.Reader, io.Writer) error {
	return errors.New("epoll: of Linux only")
}
