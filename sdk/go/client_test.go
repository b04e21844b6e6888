package tollgate_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	tollgate "tollgate/sdk/go"
)

// node is a server that gives the listed statuses one after the other, then 200.
func node(t *testing.T, body string, statuses ...int) (address string, calls *atomic.Int32) {
	t.Helper()
	calls = new(atomic.Int32)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := int(calls.Add(1)) - 1
		if r.Header.Get("Authorization") != "Bearer key" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		status := 200
		if n < len(statuses) {
			status = statuses[n]
		}
		w.Header().Set("Retry-After", "0")
		w.WriteHeader(status)
		if _, err := w.Write([]byte(body)); err != nil {
			panic(err)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, calls
}

func client(t *testing.T, nodes ...string) *tollgate.Client {
	t.Helper()
	c, err := tollgate.New(nodes, "key", 2)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func TestNextNodeIsAskedWhenOneCannotServe(t *testing.T) {
	busy, busyCalls := node(t, "{}", 503, 503, 503)
	good, goodCalls := node(t, `{"success":true,"data":{"id":"x"}}`)
	c := client(t, "127.0.0.1:1", busy, good) // no listener on port 1
	var data struct{ ID string }
	_, err := c.Call(context.Background(), "GET", "/", nil, &data)
	require.NoError(t, err)
	require.Equal(t, "x", data.ID)
	require.Equal(t, int32(1), busyCalls.Load())
	require.Equal(t, uint64(2), c.Retries())

	_, err = c.Call(context.Background(), "GET", "/", nil, &data)
	require.NoError(t, err)
	require.Equal(t, int32(2), goodCalls.Load(), "the node that served is asked again")
}

func TestTooManyRequestsAreRepeatedAtTheSameNode(t *testing.T) {
	limited, limitedCalls := node(t, "{}", 429, 429)
	other, otherCalls := node(t, "{}")
	answer, err := client(t, limited, other).Do(context.Background(), tollgate.Request{Method: "GET", Path: "/"})
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status)
	require.Equal(t, int32(3), limitedCalls.Load())
	require.Zero(t, otherCalls.Load())
}

func TestPatienceEnds(t *testing.T) {
	down, _ := node(t, `{"success":false,"error":{"message":"No quorum"}}`,
		503, 503, 503, 503, 503, 503, 503, 503, 503, 503)
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_, err := client(t, down).Do(ctx, tollgate.Request{Method: "GET", Path: "/"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// A command for which no node answers must end.
func TestAClientsOwnPatienceEnds(t *testing.T) {
	address, _ := node(t, "", 503, 503, 503, 503, 503, 503, 503, 503, 503, 503)
	c := client(t, address)
	c.Patience = 500 * time.Millisecond
	_, err := c.Do(context.Background(), tollgate.Request{Method: "GET", Path: "/"})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "503")
}

func TestOnceIsNeverRepeatedWhenItMayHaveHappened(t *testing.T) {
	unknown, calls := node(t, `{"error":{"code":"outcome_unknown"}}`, 503)
	c := client(t, unknown)
	_, err := c.Do(context.Background(), tollgate.Request{Method: "POST", Path: "/", Once: true})
	require.ErrorIs(t, err, tollgate.ErrUnsure)
	require.Equal(t, int32(1), calls.Load())

	refused, refusedCalls := node(t, `{"error":{"code":"unavailable"}}`, 503)
	_, err = client(t, refused).Do(context.Background(), tollgate.Request{Method: "POST", Path: "/", Once: true})
	require.NoError(t, err, "a certain refusal may be sent again")
	require.Equal(t, int32(2), refusedCalls.Load())

	_, err = client(t, "127.0.0.1:1").Do(context.Background(), tollgate.Request{Method: "POST", Path: "/", Once: true})
	require.ErrorIs(t, err, tollgate.ErrUnsure)
}

// TestActorsAreChecked: a name that no header can have is not sent, also not again.
func TestActorsAreChecked(t *testing.T) {
	server, calls := node(t, "{}")
	c := client(t, server)
	for actor, good := range map[string]bool{
		"": true, "Zoe B.": true, strings.Repeat("a", 128): true,
		"Zoë": false, "a\nb": false, strings.Repeat("a", 129): false,
	} {
		c.Actor = actor
		before := calls.Load()
		for _, once := range []bool{false, true} {
			_, err := c.Do(context.Background(), tollgate.Request{Method: "POST", Path: "/", Once: once})
			require.Equal(t, good, err == nil, "%q: %v", actor, err)
			require.Equal(t, !good, errors.Is(err, tollgate.ErrActor))
			require.NotErrorIs(t, err, tollgate.ErrUnsure)
		}
		_, err := c.Do(context.Background(), tollgate.Request{Method: "GET", Path: "/"})
		require.NoError(t, err)
		sent := int32(1)
		if good {
			sent = 3
		}
		require.Equal(t, before+sent, calls.Load())
	}
}

func TestErrorsSayWhatTheServerSaid(t *testing.T) {
	refusing, _ := node(t,
		`{"success":false,"error":{"message":"Validation failed","detail":"email","code":"fields"}}`, 400)
	_, err := client(t, refusing).Call(context.Background(), "POST", "/", map[string]int{}, nil)
	require.EqualError(t, err, "400 Validation failed: email")
	require.True(t, tollgate.IsStatus(err, 400))
	var e *tollgate.Error
	require.True(t, errors.As(err, &e))
	require.Equal(t, "fields", e.Code)
	require.False(t, tollgate.IsStatus(errors.New("x"), 400))

	refusing, _ = node(t, `{"error":"not_found","message":"Run not found","request_id":"r1"}`, 404)
	_, err = client(t, refusing).Call(context.Background(), "GET", "/v1/runs/x", nil, nil)
	require.EqualError(t, err, "404 Run not found")
	require.True(t, errors.As(err, &e))
	require.Equal(t, "not_found", e.Code)
	require.Equal(t, "r1", e.RequestID)
}

func TestAddressesAreChecked(t *testing.T) {
	for _, nodes := range [][]string{nil, {"http://"}, {"::"}} {
		_, err := tollgate.New(nodes, "key", 1)
		require.Error(t, err, nodes)
	}
}

// TestOperations: calls of the admin API go to an environment.
func TestOperations(t *testing.T) {
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			asked = append(asked, r.Method+" "+r.URL.EscapedPath()+" "+string(body))
			_, err = w.Write([]byte(`{"success":true,"data":[{"id":"k","budget":"team"}]}`))
		}
		if err != nil {
			panic(err)
		}
	}))
	t.Cleanup(server.Close)
	o := client(t, server.URL).Operations("acme", "live")
	keys, err := o.Keys(context.Background())
	require.NoError(t, err)
	require.Equal(t, "team", keys[0].Budget)
	require.NoError(t, o.BindKey(context.Background(), "k/1", "team"))
	require.NoError(t, o.BindKey(context.Background(), "k", ""))
	const at = "/api/v1/admin/accounts/acme/environments/live/keys"
	require.Equal(t, []string{
		"GET " + at + " ", "PUT " + at + `/k%2F1/budget {"budget":"team"}`, "PUT " + at + `/k/budget {}`,
	}, asked)
	asked = nil
	_, err = o.SettleReservation(context.Background(), "r/1", tollgate.ReservationSettlement{
		ReservedItem: tollgate.ReservedItem{UsageUnits: "3"},
	})
	require.Error(t, err, "the answer is a list")
	require.Equal(t, []string{
		"POST /api/v1/admin/accounts/acme/environments/live/reservations/r%2F1/settle " +
			`{"usageUnits":3}`,
	}, asked)
}
