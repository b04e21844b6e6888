package mails_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/server"
	"tollgate/server/console/mails"
	"tollgate/server/provider/mail"
)

func get(t *testing.T, folder *mail.Folder) *fasthttp.Response {
	t.Helper()
	routes, err := mails.Routes(folder, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	table, err := server.NewTable(routes, server.TableConfig{})
	require.NoError(t, err)
	var ctx fasthttp.RequestCtx
	ctx.Request.Header.SetMethod("GET")
	ctx.Request.SetRequestURI(mails.Root)
	table.Serve(&ctx)
	return &ctx.Response
}

// TestMailsAreShownAsText: an empty folder shows advice; a mail is shown with its text and the
// source of its HTML, uninterpreted.
func TestMailsAreShownAsText(t *testing.T) {
	folder, err := mail.OpenFolder(t.TempDir())
	require.NoError(t, err)
	empty := get(t, folder)
	require.Equal(t, 200, empty.StatusCode())
	require.Contains(t, string(empty.Body()), "alerts test WORKSPACE")

	const hostile = "</pre><script>alert(1)</script>"
	require.Equal(t, mail.Delivered, folder.Send(t.Context(), &mail.Message{
		ID: "alr_1", To: "ada@acme.example", Subject: hostile, Text: hostile, HTML: hostile,
		At: time.Unix(1_700_000_000, 0),
	}).Outcome)
	full := get(t, folder)
	body := string(full.Body())
	require.Contains(t, body, "They were not sent")
	require.Contains(t, body, "ada@acme.example")
	require.Contains(t, body, "&lt;script&gt;alert(1)")
	require.NotContains(t, body, "<script>alert")
	require.Contains(t, string(full.Header.Peek("Content-Security-Policy")), "default-src 'none'")
}
