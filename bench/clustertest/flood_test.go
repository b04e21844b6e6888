package clustertest

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	api "tollgate/sdk/go"
)

// What TestAFloodIsTheFloodersOwnTrouble sends; bench's row of a flood is larger, and measures. A
// node has room for the bodies of some batches only, so that few connections are a flood.
const (
	floodConnections = 20 // at each node
	floodBatch       = 5_000
	floodBodiesMiB   = 8
	floodPause       = 20 * time.Millisecond // after a refusal: no matter what Retry-After says
	floodFor         = 6 * time.Second
	quietEvery       = 50 * time.Millisecond
	quietSlowest     = 5 * time.Second // on a machine that is busy besides
)

// tide is the flood: batches as fast as they are answered.
type tide struct {
	batch                   []byte // @ stands for what makes its keys new
	ended                   atomic.Bool
	sent, accepted, refused atomic.Int64
	mu                      sync.Mutex
	unexpected              []string
}

func newTide() *tide {
	now := time.Now().UTC().Format(time.RFC3339)
	var b strings.Builder
	for i := range floodBatch {
		b.WriteString([]string{"[", ","}[min(i, 1)])
		fmt.Fprintf(&b, `{"eventIdempotencyKey":"@-%d","eventName":"requests",`+
			`"customerReferenceId":%q,"occurredAt":%q}`, i, acme, now)
	}
	return &tide{batch: []byte(b.String() + "]")}
}

func (f *tide) send(c *api.Client) {
	number := strconv.FormatInt(f.sent.Add(1), 10)
	answer, err := c.Try(context.Background(), api.Request{
		Method: "POST", Path: "/api/v1/client/events/batch",
		Body: bytes.ReplaceAll(f.batch, []byte("@"), []byte(number)),
	})
	after, notNumber := strconv.Atoi(answer.Header.Get("Retry-After"))
	switch {
	case err == nil && answer.Status == 200:
		var data struct{ Accepted int64 }
		if err = answer.Data(&data); err != nil || data.Accepted == 0 {
			f.unexpect("%v: %.200s", err, answer.Body)
		}
		f.accepted.Add(data.Accepted)
	case err == nil && answer.Status == 429 && notNumber == nil && after > 0:
		f.refused.Add(1)
		<-time.After(floodPause)
	default:
		f.unexpect("%d %v Retry-After %q: %.200s", answer.Status, err,
			answer.Header.Get("Retry-After"), answer.Body)
	}
}

func (f *tide) unexpect(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.unexpected) < 10 {
		f.unexpected = append(f.unexpected, fmt.Sprintf(format, args...))
	}
}

// TestAFloodIsTheFloodersOwnTrouble: while one account sends batches without a pause, it is told
// 429 and when to come again; every single event and check of another account is accepted, on every
// node, and leadership stays where it is.
func TestAFloodIsTheFloodersOwnTrouble(t *testing.T) {
	d := startCluster(t)
	require.Zero(t, d.stop())
	d.configure(func(_ string, c *config.Config) { c.Connections.BodiesMiB = floodBodiesMiB })
	d.start()
	key := d.quietAccount()
	leads, before := d.leader(), d.terms()
	flood := newTide()
	var flooding, quiet sync.WaitGroup
	for _, node := range d.Nodes {
		c, err := api.New([]string{node.HTTP}, d.SandboxKey, floodConnections)
		require.NoError(t, err)
		t.Cleanup(c.Close)
		for range floodConnections {
			flooding.Go(func() {
				for !flood.ended.Load() {
					flood.send(c)
				}
			})
		}
	}
	require.Eventually(t, func() bool { return flood.refused.Load() > 0 }, patience, statusEvery)

	answers := make(chan string, 10_000)
	sent, slowest := 0, atomic.Int64{}
	pace := time.NewTicker(quietEvery)
	defer pace.Stop()
	for end := time.Now().Add(floodFor); time.Now().Before(end); <-pace.C {
		event := usageEvent(fmt.Sprintf("quiet-%d", sent))
		node := d.Nodes[sent%len(d.Nodes)]
		for _, r := range []api.Request{event, {Method: "GET", Path: checkPath}} {
			c := d.client(node.ID, key)
			quiet.Go(func() {
				answer, err := c.Try(context.Background(), r)
				if err != nil || answer.Status >= 300 {
					answers <- fmt.Sprintf("%s at %s: %d %v %s", r.Method, node.ID, answer.Status, err,
						answer.Body)
				}
				for took := int64(answer.Elapsed); ; {
					if was := slowest.Load(); took <= was || slowest.CompareAndSwap(was, took) {
						return
					}
				}
			})
		}
		sent++
	}
	quiet.Wait()
	flood.ended.Store(true)
	flooding.Wait()
	close(answers)

	t.Logf("flood: %d events accepted, %d batches answered 429; beside it %d events and %d checks, the "+
		"slowest %s", flood.accepted.Load(), flood.refused.Load(), sent, sent,
		time.Duration(slowest.Load()))
	require.Empty(t, flood.unexpected)
	require.Positive(t, flood.accepted.Load())
	for refused := range answers {
		t.Error(refused)
	}
	require.Less(t, time.Duration(slowest.Load()), quietSlowest)
	require.Equal(t, before, d.terms(), "an election")
	require.Equal(t, leads, d.leader())
	answer, err := d.client(leads, key).Do(t.Context(), api.Request{Method: "GET", Path: checkPath})
	require.NoError(t, err)
	require.Equal(t, sent, usedOf(t, answer))
}

// terms are the groups' terms: each election raises one.
func (d *development) terms() (terms []uint64) {
	d.t.Helper()
	status, err := d.status(d.leader())
	require.NoError(d.t, err)
	for _, group := range status.Groups {
		terms = append(terms, group.Term)
	}
	return terms
}

// quietAccount makes an account beside the demo's, with a customer of the same name and plan, and
// returns its key.
func (d *development) quietAccount() (key string) {
	d.t.Helper()
	admin, err := api.New([]string{d.Nodes[0].Ops}, d.AdminKey, 1)
	require.NoError(d.t, err)
	defer admin.Close()
	call := func(c *api.Client, method, path string, body, data any) {
		d.t.Helper()
		_, err := c.Call(d.t.Context(), method, path, body, data)
		require.NoError(d.t, err, path)
	}
	const account = "/api/v1/admin/accounts"
	call(admin, "POST", account, map[string]any{"name": "quiet"}, nil)
	const sandbox = account + "/quiet/environments/sandbox"
	call(admin, "PUT", sandbox+"/catalog", map[string]any{
		"features": []any{map[string]any{"key": "requests", "name": "Requests"}},
		"plans": []any{map[string]any{
			"key": "quiet", "name": "Quiet", "priceAmount": 1, "currency": "USD", "intervalMonths": 1,
			"features": []any{map[string]any{
				"key": "requests", "pricingType": "included", "pricing": map[string]any{},
			}},
		}},
	}, nil)
	var made struct{ Key string }
	call(admin, "POST", sandbox+"/keys", map[string]any{"scope": "full", "label": "quiet"}, &made)
	client := d.client(d.Nodes[0].ID, made.Key)
	call(client, "POST", "/api/v1/client/customers", map[string]any{
		"externalClientCustomerId": acme, "firstName": "A", "lastName": "B", "email": "a@example.com",
	}, nil)
	call(client, "POST", "/api/v1/client/subscriptions", map[string]any{
		"customerReferenceId": acme, "planId": "quiet",
	}, nil)
	return made.Key
}
