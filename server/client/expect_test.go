package client_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server"
	"tollgate/server/client"
)

// expecting is the head of a POST whose client waits to be told to send the body.
func expecting(path, key, more string) string {
	return "POST /api/v1/client/" + path + " HTTP/1.1\r\nHost: x\r\nX-API-Key: " + key +
		"\r\nContent-Type: application/json\r\nExpect: 100-continue\r\n" + more + "\r\n"
}

const goOn = "HTTP/1.1 100 Continue\r\n\r\n"

// TestExpectContinueIsRefusedBeforeTheBody: whoever asks first learns what the key and the
// announced size come to without having sent a byte of the body.
func TestExpectContinueIsRefusedBeforeTheBody(t *testing.T) {
	n := start(t)
	n.customer("acme")
	for name, row := range map[string]struct {
		head   string
		status int
	}{
		"no key":       {expecting("events", "", "Content-Length: 100\r\n"), 401},
		"read key":     {expecting("events", n.read, "Content-Length: 100\r\n"), 403},
		"too large":    {expecting("events", "KEY", "Content-Length: 1048577\r\n"), 413},
		"no such path": {expecting("nothing", "KEY", "Content-Length: 100\r\n"), 404},
		"no method":    {expecting("plans", "KEY", "Content-Length: 100\r\n"), 405},
	} {
		t.Run(name, func(t *testing.T) {
			c := n.raw(row.head)
			text, err := io.ReadAll(c) // the connection closes: a body may be on its way all the same
			require.NoError(t, err)
			require.True(t, strings.HasPrefix(string(text), fmt.Sprintf("HTTP/1.1 %d ", row.status)),
				"%s", text)
			require.Contains(t, string(text), "Connection: close")
			require.Contains(t, string(text), "X-Request-Id: req_")
		})
	}
}

func TestExpectContinueIsServed(t *testing.T) {
	n := startWithin(t, time.Second, func(c *client.Config) {
		c.RateLimit = server.RateLimit{Requests: 10, Window: time.Hour}
	})
	n.customer("acme")
	for i, more := range []string{"Content-Length: %d\r\n", "Transfer-Encoding: chunked\r\n"} {
		body := event(fmt.Sprint("continue", i), "")
		if i == 0 {
			more = fmt.Sprintf(more, len(body))
		}
		c := n.raw(expecting("events", "KEY", more))
		r := bufio.NewReader(c)
		first := make([]byte, len(goOn))
		_, err := io.ReadFull(r, first)
		require.NoError(t, err)
		require.Equal(t, goOn, string(first))
		if i == 1 {
			body = fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		}
		// The next request follows on the same connection.
		_, err = c.Write([]byte(body + "GET /api/v1/client/plans HTTP/1.1\r\nHost: x\r\nX-API-Key: " +
			n.sandbox + "\r\n\r\n"))
		require.NoError(t, err)
		for _, want := range []struct {
			status int
			left   string
		}{
			{201, fmt.Sprintf(`"key";r=%d;`, 7-2*i)}, {200, fmt.Sprintf(`"key";r=%d;`, 6-2*i)},
		} {
			response, err := http.ReadResponse(r, nil)
			require.NoError(t, err)
			text, err := io.ReadAll(response.Body)
			require.NoError(t, err)
			require.Equal(t, want.status, response.StatusCode, "%s", text)
			require.Contains(t, response.Header.Get("RateLimit"), want.left, "counted once")
		}
	}
	require.Len(t, n.call("GET", "customers/acme/events", "").data("events"), 2)
	// Told to go on, and silent: the request times out like any other.
	c := n.raw(expecting("events", "KEY", "Content-Length: 100\r\n"))
	text, err := io.ReadAll(c)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(text), goOn+"HTTP/1.1 408 "), "%s", text)
}

// TestQueryParametersAreThereOnce: the first of two would be a guess.
func TestQueryParametersAreThereOnce(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	cancel := "subscriptions/cancellation/" + subscription
	for _, doubled := range []string{
		"customers/acme/events?limit=1&limit=2", "customers/acme/events?limit=1&limit=1",
		"customers/acme/events?limit=1&%6Cimit=2", "plans?x&x", "customers/acme/subscriptions?status=all&status",
	} {
		a := n.call("GET", doubled, "").is(400, "validation_failed")
		require.Contains(t, a.fault()["detail"], "appears more than once")
	}
	n.call("POST", cancel+"?cancelMode=END_OF_PERIOD&cancelMode=IMMEDIATE", "").
		is(400, "validation_failed")
	require.NotContains(t, n.call("GET", "subscriptions/"+subscription, "").data(), "cancelMode")
	n.send("GET", "plans?x&x", "", "", nil).is(401, "invalid_key")
	n.call("GET", "customers/acme/events?limit=1&kind=usage&from=2026-01-01T00:00:00Z", "").is(200, "")
}

// TestWhatNeedsNoBodyTakesNoFields: a field that nobody reads is named, like any other.
func TestWhatNeedsNoBodyTakesNoFields(t *testing.T) {
	n := start(t)
	subscription := n.customer("acme")
	invoice := n.invoice("acme")
	for _, row := range [][2]string{
		{"POST", "subscriptions/cancellation/" + subscription},
		{"DELETE", "subscriptions/cancellation/" + subscription + "/scheduled"},
		{"DELETE", "subscriptions/" + subscription + "/plan-change/scheduled"},
		{"POST", "billing/invoices/" + invoice + "/mark-paid"},
		{"POST", "billing/invoices/" + invoice + "/payprovider/checkout"},
		{"DELETE", "customers/acme"},
	} {
		a := n.call(row[0], row[1], `{"card":{"number":"4242"}}`).is(400, "validation_failed")
		require.Contains(t, a.fault()["detail"], `unknown field "card"`)
		n.call(row[0], row[1], `[]`).is(400, "validation_failed")
		n.call(row[0], row[1], `{`).is(400, "malformed_json")
	}
	n.call("POST", "billing/invoices/"+invoice+"/mark-paid", `{}`).is(200, "")
}
