package server_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server"
)

// TestADocumentIsMadeOnce, however many ask for it first. One that cannot be made, or whose making
// panics, is answered 500.
func TestADocumentIsMadeOnce(t *testing.T) {
	for want, makers := range map[int][]server.Document{
		200: {func() ([]byte, error) { return []byte("{}"), nil }},
		500: {
			func() ([]byte, error) { return nil, errors.New("a schema without a type") },
			func() ([]byte, error) { panic("a schema without a type") },
		},
	} {
		for _, document := range makers {
			made := 0
			later := server.Later(func() ([]byte, error) {
				made++
				return document()
			})
			table, err := server.NewTable([]server.Route{server.Row("GET", "/openapi.json", "document",
				"", server.AccessOpen, later.Answer)}, server.TableConfig{Log: slog.New(slog.DiscardHandler)})
			require.NoError(t, err)
			var statuses [8]int
			var asking sync.WaitGroup
			for i := range statuses {
				asking.Go(func() {
					var ctx fasthttp.RequestCtx
					ctx.Init(&fasthttp.Request{}, nil, nil)
					ctx.Request.SetRequestURI("/openapi.json")
					table.Serve(&ctx)
					statuses[i] = ctx.Response.StatusCode()
				})
			}
			asking.Wait()
			require.Equal(t, [8]int{want, want, want, want, want, want, want, want}, statuses)
			require.Equal(t, 1, made)
		}
	}
}
