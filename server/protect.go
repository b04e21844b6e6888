package server

import "github.com/valyala/fasthttp"

// defaultPolicy is the Content-Security-Policy of whatever a browser may be shown and that has none
// of its own: it loads nothing, sends no form, and stands in no frame.
const defaultPolicy = "default-src 'none'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'"

// transportPolicy makes browsers come back over TLS alone, for a year.
const transportPolicy = "max-age=31536000"

// protect sets the headers that keep browsers from misusing an answer, whoever wrote it. What the
// handler has set stays, but for those that no answer has a reason to change.
func protect(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	if len(h.Peek("Content-Security-Policy")) == 0 {
		h.Set("Content-Security-Policy", defaultPolicy)
	}
	if len(h.Peek("Cache-Control")) == 0 {
		h.Set("Cache-Control", "no-store")
	}
	if overTLS(ctx) {
		h.Set("Strict-Transport-Security", transportPolicy)
	}
}

// overTLS reports whether the listener itself speaks TLS. fasthttp does not see it: see conn.
func overTLS(ctx *fasthttp.RequestCtx) bool {
	c, ok := ctx.Conn().(*conn)
	return ok && c.listener.secure != nil
}

// TLS reports whether the request came over TLS to this listener.
func (x *Exchange) TLS() bool { return overTLS(x.Ctx) }
