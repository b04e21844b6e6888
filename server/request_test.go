package server_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server"
)

// lockedLog collects what is logged.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lockedLog) lines(about string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, about) {
			found = append(found, line)
		}
	}
	return found
}

// answersIn serves a route that answers a status, and returns its address and the log.
func answersIn(t *testing.T, level slog.Level, status int) (url string, log *lockedLog) {
	log = &lockedLog{}
	table, err := server.NewTable([]server.Route{{
		Method: "GET", Path: "/thing", Operation: "getThing",
		Handle: func(x *server.Exchange) {
			x.Refuse(&server.Fault{Status: status, Code: "code", Message: "message"})
		},
	}}, server.TableConfig{
		Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: level})),
	})
	require.NoError(t, err)
	return "http://" + listen(t, server.DefaultLimits(), table.Serve) + "/thing", log
}

// named sends a request with a name, and returns the name in the answer's header and its body.
func named(t *testing.T, url, name string) (header, body string) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	require.NoError(t, err)
	if name != "" {
		request.Header.Set("X-Request-Id", name)
	}
	answer, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	return answer.Header.Get("X-Request-Id"), string(text)
}

// TestARequestKeepsTheNameItCameWith: a name that is one stands in header, body and log; what is
// none, or might be a secret, is replaced by one of ours and stands nowhere.
func TestARequestKeepsTheNameItCameWith(t *testing.T) {
	url, log := answersIn(t, slog.LevelDebug, 409)
	for _, name := range []string{
		"0198a7d2-5f1c-7c3e-9d2b-6a1f0c4e8b11", "4bf92f3577b34da6a3ce929d0e0e4736", "a.b-C.d-9",
		"short", "semi;colon", "trace_1/2", strings.Repeat("x", 128),
	} {
		header, body := named(t, url, name)
		require.Equal(t, name, header)
		require.Contains(t, body, fmt.Sprintf(`"request_id":%q`, name))
		require.Len(t, log.lines("request_id="+name+" "), 1)
	}
	for _, name := range []string{
		"", strings.Repeat("x", 129), "with space", "línea-larga",
		"sk_live_0123456789abcdefghijklmnopqrstuvwx", "trace-tg_ws_0123456789abcdefghijklmnopqrstuvwx",
	} {
		header, body := named(t, url, name)
		require.Regexp(t, "^req_[0-9a-f]{24}$", header)
		require.Contains(t, body, header)
		require.Len(t, log.lines("request_id="+header+" "), 1)
		if name != "" {
			require.Empty(t, log.lines(name))
		}
	}
}

// TestFailuresAreLogged: what failed here is in the log at its usual level, with the name that the
// client was told; many in a row do not fill it. What the client did wrong is not in it.
func TestFailuresAreLogged(t *testing.T) {
	url, log := answersIn(t, slog.LevelInfo, 503)
	name, _ := named(t, url, "")
	lines := log.lines("request_id=" + name)
	require.Len(t, lines, 1)
	require.Contains(t, lines[0], "level=WARN")
	require.Contains(t, lines[0], "operation=getThing status=503")
	for range 200 {
		named(t, url, "")
	}
	require.Less(t, len(log.lines("operation=getThing")), 100)
	url, log = answersIn(t, slog.LevelInfo, 409)
	named(t, url, "")
	require.Empty(t, log.lines("request"))
}

// TestAFailureBeforeTheBodyIsTimed: a request that fails before its client was told to send its
// body has taken as long as it did, although fasthttp has not timed it yet.
func TestAFailureBeforeTheBodyIsTimed(t *testing.T) {
	log := &lockedLog{}
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/thing", Operation: "postThing", Access: server.AccessFull,
		Handle: func(x *server.Exchange) { x.Succeed(200) },
	}}, server.TableConfig{
		Authenticate: func(*server.Exchange) *server.Fault {
			return &server.Fault{Status: 503, Code: "code", Message: "message"}
		},
		Log: slog.New(slog.NewJSONHandler(log, nil)),
	})
	require.NoError(t, err)
	c := dial(t, listen(t, server.DefaultLimits(), table.Serve))
	_, err = io.WriteString(c, "POST /thing HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n"+
		"Expect: 100-continue\r\n\r\n")
	require.NoError(t, err)
	answer, _ := response(t, c)
	require.Equal(t, 503, answer.StatusCode)
	lines := log.lines("postThing")
	require.Len(t, lines, 1)
	var line struct{ Took time.Duration }
	require.NoError(t, json.Unmarshal([]byte(lines[0]), &line))
	require.Positive(t, line.Took)
	require.Less(t, line.Took, time.Minute)
}

// TestWholeNumber: one form of each number, and nothing that another reader might take otherwise.
func TestWholeNumber(t *testing.T) {
	for text, want := range map[string]uint64{
		"1": 1, "9": 9, "100": 100, "18446744073709551615": math.MaxUint64,
	} {
		n, ok := server.WholeNumber(text, 1, math.MaxUint64)
		require.True(t, ok, text)
		require.Equal(t, want, n)
	}
	n, ok := server.WholeNumber("0", 0, 5)
	require.True(t, ok)
	require.Zero(t, n)
	for _, text := range []string{
		"", "0", "6", "+5", " 5", "5 ", "05", "00", "-1", "5.0", "5e0", "0x5", "1_0", "٥",
		"18446744073709551616",
	} {
		_, ok := server.WholeNumber(text, 1, 5)
		require.False(t, ok, "%q", text)
	}
}
