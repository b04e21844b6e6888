package follower

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/fill"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// TestASilentProduct is not asked again and again.
func TestASilentProduct(t *testing.T) {
	var asked atomic.Int32
	product := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-r.Context().Done()
	}))
	defer product.Close()
	got := follow(t, product.URL, product.URL+"/", func(_ *runner.Task, c *fetch.Config) {
		c.Timeout = 200 * time.Millisecond
	})
	require.Equal(t, "no_answer", got.Code)
	require.LessOrEqual(t, asked.Load(), int32(patience))
}

// TestAnswersThatCannotBeTaken are answers: the product was reached, and is asked on.
func TestAnswersThatCannotBeTaken(t *testing.T) {
	for name, answer := range map[string]http.HandlerFunc{
		"encoding": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			if _, err := w.Write([]byte("?")); err != nil {
				return
			}
		},
		"headers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Long", strings.Repeat("x", 2*fetch.MaxHeaders))
		},
	} {
		var asked atomic.Int32
		product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked.Add(1)
			answer(w, r)
		}))
		got := follow(t, product.URL, product.URL+"/")
		product.Close()
		require.Equal(t, "answer_unusable", got.Code, got.Reason)
		require.True(t, got.Reached, name)
		require.Greater(t, asked.Load(), int32(patience), name)
	}
}

// TestWhatARunMayUse: so many bytes, so many requests, and the hosts of its task.
func TestWhatARunMayUse(t *testing.T) {
	s := newSite(t, nil, nil)
	n := newNetwork(nil, []string{"product.example"})
	_, err := n.Do(t.Context(), &fetch.Request{URL: s.URL + "/"})
	require.Equal(t, "other_host", failed(err, "").rule)
	n.moved = maxMoved + 1
	_, err = n.Do(t.Context(), &fetch.Request{URL: "http://product.example/"})
	require.Equal(t, "byte_budget", failed(err, "").rule)

	run := &session{web: n, emit: func(runner.Event) {}, requests: MaxRequests}
	_, why := run.ask(t.Context(), &fill.Request{Method: "GET", URL: "http://product.example/"})
	require.Equal(t, "request_budget", why.rule)
	require.True(t, why.final)
}

// TestCommandsWithAKey are not way to one.
func TestCommandsWithAKey(t *testing.T) {
	for _, shown := range []string{
		"    curl -X POST {base}/v1/keys -H 'Authorization: Bearer KEY'\n",
		"    POST /v1/keys HTTP/1.1\n    Authorization: Bearer KEY\n\n    {}\n",
	} {
		s := newSite(t, map[string]string{"GET /auth.md": "# Keys\n\n" + shown}, nil)
		got := follow(t, s.URL, s.URL+"/")
		require.Equal(t, "no_way_published", got.Code, got.events)
		require.Empty(t, s.sent)
	}
}
