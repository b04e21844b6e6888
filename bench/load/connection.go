package load

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// requestTimeout bounds one request and its answer.
const requestTimeout = 15 * time.Second

// connection is one keep-alive HTTP/1.1 connection that sends prepared bytes. It does as little as
// it can: what the generator burns is missing to the cluster on the same machine.
type connection struct {
	address string
	conn    net.Conn
	reader  *bufio.Reader
	body    []byte
}

func newConnection(address string) *connection {
	return &connection{address: address, reader: bufio.NewReaderSize(nil, 16<<10)}
}

func (c *connection) close() error {
	if c.conn == nil {
		return nil
	}
	err := c.conn.Close()
	c.conn = nil
	if err != nil {
		return fmt.Errorf("close: %w", err)
	}
	return nil
}

// do sends one request and returns the answer's status and body; the body is good until the next
// call. After an error the connection is dialled anew, and what became of the request is unknown.
func (c *connection) do(request []byte) (status int, body []byte, err error) {
	if c.conn == nil {
		if c.conn, err = net.DialTimeout("tcp", c.address, 2*time.Second); err != nil {
			c.conn = nil
			return 0, nil, fmt.Errorf("connect: %w", err)
		}
		c.reader.Reset(c.conn)
	}
	if err = c.conn.SetDeadline(time.Now().Add(requestTimeout)); err == nil {
		if _, err = c.conn.Write(request); err == nil {
			status, body, err = c.answer()
		}
	}
	if err != nil {
		return 0, nil, errors.Join(err, c.close())
	}
	return status, body, nil
}

var (
	contentLength = []byte("content-length:")
	connectionKey = []byte("connection:")
	closeValue    = []byte("close")
)

// answer reads one answer with a Content-Length, which is all that Tollgate sends.
func (c *connection) answer() (status int, body []byte, err error) {
	line, err := c.reader.ReadSlice('\n')
	if err != nil {
		return 0, nil, fmt.Errorf("read: %w", err)
	}
	if len(line) < 12 || !bytes.HasPrefix(line, []byte("HTTP/1.1 ")) {
		return 0, nil, fmt.Errorf("no HTTP answer: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, nil, fmt.Errorf("no HTTP answer: %q", line)
	}
	length, closing := -1, false
	for {
		if line, err = c.reader.ReadSlice('\n'); err != nil {
			return 0, nil, fmt.Errorf("read: %w", err)
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		if value, ok := header(line, contentLength); ok {
			if length, err = strconv.Atoi(string(value)); err != nil {
				return 0, nil, fmt.Errorf("content length %q: %w", value, err)
			}
		} else if value, ok = header(line, connectionKey); ok {
			closing = bytes.EqualFold(value, closeValue)
		}
	}
	if length < 0 {
		return 0, nil, errors.New("answer without a length")
	}
	if cap(c.body) < length {
		c.body = make([]byte, length+length/4)
	}
	c.body = c.body[:length]
	if _, err = io.ReadFull(c.reader, c.body); err != nil {
		return 0, nil, fmt.Errorf("read: %w", err)
	}
	if closing {
		err = c.close()
	}
	return status, c.body, err
}

func header(line, name []byte) (value []byte, ok bool) {
	if len(line) < len(name) || !bytes.EqualFold(line[:len(name)], name) {
		return nil, false
	}
	return bytes.TrimSpace(line[len(name):]), true
}
