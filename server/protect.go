package server

import "github.com/valyala/fasthttp"

// defaultPolicy is the Content-Security-Policy of whatever a browser may be shown and that has none
// of its own: it loads nothing, sends no form, and is in no frame.
var defaultPolicy = []byte("default-src 'none'; base-uri 'none'; form-action 'none'; " +
	"frame-ancestors 'none'")

// noStore is the Cache-Control of whatever has none of its own.
var noStore = []byte("no-store")

// Headers and values of every answer, as SetCanonical takes them.
var (
	sniffHeader   = []byte("X-Content-Type-Options")
	noSniff       = []byte("nosniff")
	frameHeader   = []byte("X-Frame-Options")
	noFrame       = []byte("DENY")
	policyHeader  = []byte("Content-Security-Policy")
	cachingHeader = []byte("Cache-Control")
)

// transportPolicy makes browsers come back over TLS alone, for a year.
const transportPolicy = "max-age=31536000"

// protection is the Content-Security-Policy and the Cache-Control of an answer; framed leaves it to
// the policy which sites may show it in a frame.
type protection struct {
	policy, caching []byte
	framed          bool
}

// protect sets the headers that keep browsers from misusing an answer, whichever handler wrote it.
func (p protection) protect(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	h.SetCanonical(sniffHeader, noSniff)
	if !p.framed {
		h.SetCanonical(frameHeader, noFrame)
	}
	h.SetCanonical(policyHeader, p.policy)
	h.SetCanonical(cachingHeader, p.caching)
	if overTLS(ctx) {
		h.Set("Strict-Transport-Security", transportPolicy)
	}
}

// Policy gives the answer a Content-Security-Policy of its own.
func (x *Exchange) Policy(policy string) { x.policy = []byte(policy) }

// Framed gives the answer a policy that names the sites which may show it in a frame.
func (x *Exchange) Framed(policy string) { x.policy, x.framed = []byte(policy), true }

// Caching gives the answer a Cache-Control of its own: without it, no cache keeps the answer.
func (x *Exchange) Caching(directives string) { x.caching = []byte(directives) }

// Headers gives the answer the headers of a page that was made elsewhere, but for its length.
func (x *Exchange) Headers(of map[string]string) *Fault {
	for name, value := range of {
		switch name {
		case fasthttp.HeaderContentLength:
		case fasthttp.HeaderContentSecurityPolicy:
			x.Policy(value)
		case fasthttp.HeaderCacheControl:
			x.Caching(value)
		default:
			x.Ctx.Response.Header.Set(name, value)
		}
	}
	return nil
}

// overTLS reports whether the listener itself speaks TLS. fasthttp does not see it: see conn.
func overTLS(ctx *fasthttp.RequestCtx) bool {
	c, ok := ctx.Conn().(*conn)
	return ok && c.listener.secure != nil
}

// TLS reports whether the request came over TLS to this listener.
func (x *Exchange) TLS() bool { return overTLS(x.Ctx) }
