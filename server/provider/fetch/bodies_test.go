package fetch_test

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
)

// TestBodiesTogetherAreBounded: of many bodies that arrive at once only as many are read as fit, by
// whichever client; the others are read when those have ended, or their time is over. An announced
// length counts as such, an answer without a body as nothing.
func TestBodiesTogetherAreBounded(t *testing.T) {
	const limit, room = 10_000, 3
	goOn := make(chan struct{})
	release := sync.OnceFunc(func() { close(goOn) })
	host := serve(t, reachable, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/short":
			_, _ = w.Write(make([]byte, 100))
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = w.Write([]byte("begun"))
			w.(http.Flusher).Flush()
			<-goOn
			_, _ = w.Write(make([]byte, limit-len("begun")))
		}
	})
	t.Cleanup(release) // before the server's end, which waits for its answers
	bodies := fetch.NewBodies(room*limit + 100)
	client := func(timeout time.Duration) *fetch.Client {
		return newClient(t, func(c *fetch.Config) {
			c.BodyLimit, c.Bodies, c.Timeout = limit, bodies, timeout
		}, host)
	}
	get := func(c *fetch.Client, path string) (*fetch.Response, error) {
		return c.Do(t.Context(), &fetch.Request{URL: "http://" + host + path})
	}
	one, other := client(0), client(0)
	var reading sync.WaitGroup
	var read atomic.Int32
	ask := func(c *fetch.Client) {
		reading.Go(func() {
			if answer, err := get(c, "/long"); err == nil && len(answer.Body) == limit {
				read.Add(1)
			}
		})
	}
	taken := func() bool { return !bodies.Free(101) && bodies.Free(100) }
	for n := range room {
		ask([]*fetch.Client{one, other}[n%2])
	}
	require.Eventually(t, taken, 10*time.Second, time.Millisecond)
	_, err := get(client(50*time.Millisecond), "/long")
	require.Equal(t, fetch.RuleTime, refusalOf(t, err).Rule)
	require.True(t, taken())
	for _, path := range []string{"/short", "/none"} {
		_, err = get(other, path)
		require.NoError(t, err)
	}
	for range 2 * room {
		ask(other)
	}
	release()
	reading.Wait()
	require.EqualValues(t, 3*room, read.Load())
	require.True(t, bodies.Free(room*limit+100), "all of it is given back")

	_, err = fetch.New(fetch.Config{BodyLimit: limit, Bodies: fetch.NewBodies(limit - 1)})
	require.ErrorContains(t, err, "BodyLimit")
}
