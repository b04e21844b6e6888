package peer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/valyala/fasthttp"
	"golang.org/x/sys/unix"
)

// loop is bare HTTP/1.1 without a library: one thread, one epoll, and plain reads and writes. It
// finds a request's end and its path, as any server must, and answers what Front.bare answers: the
// limit of HTTP on this kernel, where Front.bare is that of fasthttp.
type loop struct {
	front           *Front
	epoll, listener int
	streams         []*stream // by descriptor
	out             []byte
	date            []byte
	second          int64
}

// stream is a connection, and what was read of a request that is not complete yet.
type stream struct {
	buffer []byte
	length int
}

// serveEpoll is Serve with a loop for each core, whose listeners share a port.
func (f *Front) serveEpoll(in io.Reader, out io.Writer) error {
	failed := make(chan error, runtime.NumCPU())
	port := 0
	for range runtime.NumCPU() {
		l := &loop{front: f}
		if err := l.listen(&port); err != nil {
			return fmt.Errorf("epoll: %w", err)
		}
		go func() { failed <- l.run() }()
	}
	ended := make(chan error, 1)
	_, err := fmt.Fprintf(out, "127.0.0.1:%d\n", port)
	if err != nil {
		return err
	}
	go func() {
		_, err := io.Copy(io.Discard, in)
		ended <- err
	}()
	select { // the process ends with this, and its loops with it
	case err = <-failed:
	case err = <-ended:
	}
	return err
}

// listen listens on the port, or on any where it is 0, which it becomes.
func (l *loop) listen(port *int) (err error) {
	const kind = unix.SOCK_STREAM | unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC
	l.listener, err = unix.Socket(unix.AF_INET, kind, 0)
	if err != nil {
		return err
	}
	if err = unix.SetsockoptInt(l.listener, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return err
	}
	address := &unix.SockaddrInet4{Port: *port, Addr: [4]byte(net.IPv4(127, 0, 0, 1).To4())}
	if err = unix.Bind(l.listener, address); err != nil {
		return err
	}
	bound, err := unix.Getsockname(l.listener)
	if err != nil {
		return err
	}
	*port = bound.(*unix.SockaddrInet4).Port
	if err = unix.Listen(l.listener, unix.SOMAXCONN); err != nil {
		return err
	}
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return err
	}
	return l.watch(l.listener)
}

func (l *loop) watch(fd int) error {
	return unix.EpollCtl(l.epoll, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN, Fd: int32(fd),
	})
}

func (l *loop) run() error {
	runtime.LockOSThread()
	events := make([]unix.EpollEvent, 512)
	for {
		// Take what is ready without giving up the processor first.
		n, err := unix.EpollWait(l.epoll, events, 0)
		if n == 0 && err == nil {
			n, err = unix.EpollWait(l.epoll, events, -1)
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		if now := time.Now(); now.Unix() != l.second {
			l.second, l.date = now.Unix(), now.UTC().AppendFormat(l.date[:0], http.TimeFormat)
		}
		for _, event := range events[:max(n, 0)] {
			if int(event.Fd) == l.listener {
				err = l.accept()
			} else {
				err = l.serve(event.Fd)
			}
			if err != nil {
				return fmt.Errorf("epoll: %w", err)
			}
		}
	}
}

func (l *loop) accept() error {
	fd, _, err := unix.Accept4(l.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if err != nil {
		return nil // it is gone, or will be told of again
	}
	if err = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	for len(l.streams) <= fd {
		l.streams = append(l.streams, nil)
	}
	l.streams[fd] = &stream{buffer: make([]byte, 8<<10)}
	return l.watch(fd)
}

// serve answers the requests that are complete.
func (l *loop) serve(fd int32) error {
	s := l.streams[fd]
	if s.length == len(s.buffer) {
		s.buffer = append(s.buffer, make([]byte, len(s.buffer))...)
	}
	n, err := unix.Read(int(fd), s.buffer[s.length:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if n <= 0 {
		l.streams[fd] = nil
		return unix.Close(int(fd))
	}
	s.length += n
	l.out = l.out[:0]
	at := 0
	for {
		path, size := request(s.buffer[at:s.length])
		if size == 0 {
			break
		}
		at += size
		l.answer(path)
	}
	if at > 0 {
		s.length = copy(s.buffer, s.buffer[at:s.length])
	}
	for rest := l.out; len(rest) > 0; {
		n, err := unix.Write(int(fd), rest)
		switch {
		case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR): // answers are small
		case err != nil:
			l.streams[fd] = nil
			return unix.Close(int(fd))
		default:
			rest = rest[n:]
		}
	}
	return nil
}

// answer appends what fasthttp would write.
func (l *loop) answer(path []byte) {
	a := l.front.blank(path)
	l.out = strconv.AppendInt(append(l.out, "HTTP/1.1 "...), int64(a.Status), 10)
	l.out = append(append(l.out, ' '), fasthttp.StatusMessage(a.Status)...)
	l.out = append(append(l.out, "\r\nDate: "...), l.date...)
	l.out = append(l.out, "\r\nContent-Type: application/json\r\nContent-Length: "...)
	l.out = strconv.AppendInt(l.out, int64(len(a.Body)), 10)
	l.out = append(append(l.out, "\r\nX-Request-Id: "...), requestID...)
	l.out = append(append(l.out, "\r\n\r\n"...), a.Body...)
}

var (
	headEnd       = []byte("\r\n\r\n")
	contentLength = []byte("\r\nContent-Length: ")
)

// request is the path of the first request, and its length with the body; 0 while it is not there.
func request(b []byte) (path []byte, size int) {
	end := bytes.Index(b, headEnd)
	if end < 0 {
		return nil, 0
	}
	_, path, _ = bytes.Cut(b[:end], []byte(" "))
	path, _, _ = bytes.Cut(path, []byte(" "))
	size = end + len(headEnd)
	if _, value, found := bytes.Cut(b[:end], contentLength); found {
		length := 0
		for _, digit := range value {
			if digit < '0' || digit > '9' {
				break
			}
			length = 10*length + int(digit-'0')
		}
		size += length
	}
	if size > len(b) {
		return nil, 0
	}
	return path, size
}
