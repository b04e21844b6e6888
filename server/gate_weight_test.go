package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine/fair"
	"tollgate/server"
)

// TestWeightsCountAtTheGate: an account of weight 3 may hold three times what is free, of each
// thing that the gate bounds; one of weight 1 as much as is free.
func TestWeightsCountAtTheGate(t *testing.T) {
	turns := max(8, 4*runtime.GOMAXPROCS(0))
	for _, c := range []struct {
		name     string
		places   int // of what is shared out, of which a request takes each
		requests int
		bytes    int64
		body     int // bytes
		items    int
		each     int
	}{
		{"requests", 8, 8, 1 << 20, 0, 0, 1},
		{"bytes", 8, 100, 8 * 6 << 10, 6 << 10, 0, 1},
		{"items", 8, 100, 1 << 20, 0, 2_500, 1},
		{"turns", turns, 1000, 64 << 20, 10 << 10, 0, 1},
		{"turns of 5,000 events", turns, 1000, 64 << 20, 700 << 10, 0, 4},
	} {
		for weight := 1; weight <= 3; weight += 2 {
			t.Run(fmt.Sprintf("%s/%d", c.name, weight), func(t *testing.T) {
				t.Parallel()
				gate := server.NewGate(c.requests, c.bytes, func(fair.Flow) int { return weight })
				share := 0
				for held := 0; held/weight < c.places-held; held += c.each {
					share++
				}
				require.Equal(t, share, heldAtATime(t, gate, share+1, c.body, c.items))
			})
		}
	}
}

// heldAtATime sends so many requests of one account, one after the other, and returns how many of
// them are under way together. The others must be answered with 429.
func heldAtATime(t *testing.T, gate *server.Gate, requests, body, items int) (held int) {
	t.Helper()
	going, goOn := make(chan struct{}, requests), make(chan struct{})
	table, err := server.NewTable([]server.Route{{
		Method: "POST", Path: "/batch", Operation: "batch", Access: server.AccessFull,
		Handle: func(x *server.Exchange) {
			if fault := x.HoldItems(items); fault != nil {
				x.Refuse(fault)
				return
			}
			going <- struct{}{}
			<-goOn
			x.Succeed(200)
		},
	}}, server.TableConfig{
		AnyMedia: true, Gate: gate, Authenticate: byAccountHeader, NewCaller: newAccount,
	})
	require.NoError(t, err)
	address := listen(t, server.DefaultLimits(), table.Serve)
	defer close(goOn)
	answers := make(chan int, requests)
	for range requests {
		c := dial(t, address)
		_, err := fmt.Fprintf(c, "POST /batch HTTP/1.1\r\nHost: x\r\nAccount: 1\r\n"+
			"Content-Length: %d\r\n\r\n%s", body, strings.Repeat("x", body))
		require.NoError(t, err)
		go func() {
			if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
				answers <- answer.StatusCode
			}
		}()
		select {
		case <-going:
			held++
		case status := <-answers:
			require.Equal(t, 429, status)
		case <-time.After(20 * time.Second):
			require.Fail(t, "a request is neither under way nor answered")
		}
	}
	return held
}
