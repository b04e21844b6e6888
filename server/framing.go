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
			handler(ctx)
			return
		}
		answerBroken(ctx, errFraming)
		ctx.SetConnectionClose()
	}
}

// unambiguous looks at the header lines as they came. fasthttp 1.74 joins folded lines, takes a
// bare LF for a line's end, spaces within a name, "Transfer-Encoding: identity", a Content-Length
// beside Transfer-Encoding (which RFC 9112, 6.1 lets a server refuse), a request of HTTP/1.1
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

// named says that a header line has a name, which is given in lower case.
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
