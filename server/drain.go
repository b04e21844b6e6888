package server

import (
	"context"
	"time"

	"github.com/valyala/fasthttp"
)

// Drain lets the clients go before Shutdown, for as long as it is told: everything is answered as
// before, new connections included, and each answer says that its connection closes. Who asks again
// within that time loses no request, and who watches /readyz sends none any more. It ends early
// with ctx. A connection that is used again only later may be closed as its request arrives.
func (s *Server) Drain(ctx context.Context, lasts time.Duration) {
	s.draining.Store(true)
	ctx, cancel := context.WithTimeout(ctx, lasts)
	defer cancel()
	<-ctx.Done()
}

// leaving closes the connection of each answer while the server drains.
func (s *Server) leaving(handler fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		handler(ctx)
		if s.draining.Load() {
			closeAfterAnswer(ctx)
		}
	}
}
