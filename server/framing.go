package server

import (
	"bytes"
	"errors"

	"github.com/valyala/fasthttp"
)

// errFraming is a request that fasthttp takes and another program on the way may read otherwise:
// where one of them sees the end of a request in another place, a client can put a request of its
// own into somebody else's connection.
var errFraming = errors.New("server: a request that can be read in two ways")

// framed hands on what can be read in one way only, and refuses the rest.
func framed(handler fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if unambiguous(&ctx.Request.Header) {
			c, ok := ctx.Conn().(*conn)
			if ok {
				c.ends.handling = true
			}
			handler(ctx)
			if ok {
				c.ends.handling = false
			}
			return
		}
		answerBroken(ctx, errFraming)
		ctx.SetConnectionClose()
	}
}

// unambiguous looks at the header lines as they came. fasthttp joins folded lines, takes a
// bare LF for a line's end, spaces within a name, "Transfer-Encoding: identity", a Content-Length
// next to Transfer-Encoding (which RFC 9112, 6.1 lets a server refuse), a request of HTTP/1.1
// without Host, hosts that are none, and versions that it does not speak. (A bare LF at the end of
// the request line is not seen here; it moves no boundary.)
func unambiguous(h *fasthttp.RequestHeader) bool {
	rest := h.RawHeaders()
	chunked, host := h.ContentLength() == -1, false
	for len(rest) > 0 {
		end := bytes.IndexByte(rest, '\n')
		if end < 1 || rest[end-1] != '\r' {
			return false
		}
		line := rest[:end-1]
		rest = rest[end+1:]
		if len(line) == 0 {
			break
		}
		if !tokens[line[0]] { // a folded line
			return false
		}
		switch line[0] | 0x20 {
		case 'c':
			if chunked && named(line, "content-length") {
				return false
			}
		case 't':
			if !chunked && named(line, "transfer-encoding") {
				return false
			}
		case 'h':
			host = host || named(line, "host")
		}
		for _, c := range line {
			if !tokens[c] {
				if c != ':' {
					return false
				}
				break
			}
		}
	}
	switch string(h.Protocol()) {
	case "HTTP/1.1":
		return host && wellFormedHost(h.Host())
	case "HTTP/1.0":
		return wellFormedHost(h.Host())
	}
	return false
}

// lineEnds watches what a connection reads for line ends that no header block has: an LF without a
// CR before it, a CR without an LF behind it. fasthttp waits for CR LF CR LF, so a client that
// sends such a block would get no answer before its time is up. One goroutine uses it.
type lineEnds struct {
	// read counts bytes; wrong is the count behind the newest wrong one.
	read, wrong int64
	afterCR     bool
	// handling reports whether the headers are complete: what is read now belongs to a body.
	handling bool
}

// broken reports whether the unread bytes, which are the beginning of a request's headers, cannot
// become well-formed.
func (l *lineEnds) broken(unread int) bool {
	return !l.handling && unread > 0 && l.wrong > max(0, l.read-int64(unread))
}

// note looks at bytes that were read. first means that nothing before them is still unread: where
// headers are expected, these begin a request.
func (l *lineEnds) note(b []byte, first bool) {
	if len(b) == 0 {
		return
	}
	begun := l.read
	l.read += int64(len(b))
	if first && !l.handling && !tokens[b[0]] && b[0] != '\r' && b[0] != '\n' {
		l.wrong = begun + 1 // a handshake of TLS, for example
	}
	if skip := len(b) - headerBytes; skip > 0 { // headers are no longer than that
		l.afterCR = b[skip-1] == '\r'
		begun, b = begun+int64(skip), b[skip:]
	}
	if begins := b[0] == '\n'; begins && !l.afterCR {
		l.wrong = max(l.wrong, begun+1)
	} else if l.afterCR && !begins {
		l.wrong = max(l.wrong, begun)
	}
	for i := 0; ; i++ {
		next := bytes.IndexByte(b[i:], '\n')
		if next < 0 {
			break
		}
		if i += next; i > 0 && b[i-1] != '\r' {
			l.wrong = max(l.wrong, begun+int64(i)+1)
		}
	}
	for i := 0; ; i++ {
		next := bytes.IndexByte(b[i:], '\r')
		if next < 0 {
			break
		}
		if i += next; i+1 < len(b) && b[i+1] != '\n' {
			l.wrong = max(l.wrong, begun+int64(i)+1)
		}
	}
	l.afterCR = b[len(b)-1] == '\r'
}

// named reports whether a header line has a name, which is given in lower case.
func named(line []byte, name string) bool {
	return len(line) > len(name) && line[len(name)] == ':' &&
		bytes.EqualFold(line[:len(name)], []byte(name))
}

// tokens are the characters of header names (RFC 9110, 5.6.2).
var tokens = characters("!#$%&'*+-.^_`|~" +
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

// hosts are the characters of a host with its port, an address of IPv6 in brackets included.
var hosts = characters("-._~:[]%!$&'()*+,;=" +
	"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")

func characters(of string) (set [256]bool) {
	for i := range len(of) {
		set[of[i]] = true
	}
	return set
}

func wellFormedHost(host []byte) bool {
	for _, c := range host {
		if !hosts[c] {
			return false
		}
	}
	return true
}
