package replay_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/replay"
	"tollgate/cmd/tollgate/trace"
	api "tollgate/sdk/go"
)

// moody is a server that counts as a cluster does, and leaves some fates open: it answers every
// third new event of a batch with 503, having counted half of those. No real cluster does that on
// demand; tests on real processes are in clustertest.
type moody struct {
	mu        sync.Mutex
	bodies    map[string]string // by idempotency key
	used      map[string]int
	customers map[string]int // subscriptions
	fresh     int
}

func (m *moody) record(event json.RawMessage) int {
	var e struct {
		Key      string `json:"eventIdempotencyKey"`
		Customer string `json:"customerReferenceId"`
		Feature  string `json:"featureKey"`
		Units    *int   `json:"usageUnits"`
	}
	if json.Unmarshal(event, &e) != nil {
		return 400
	}
	if old, known := m.bodies[e.Key]; known {
		if old != string(event) {
			return -409
		}
		return 409
	}
	m.fresh++
	if m.fresh%6 == 0 {
		return 503 // not counted
	}
	m.bodies[e.Key] = string(event)
	units := 1
	if e.Units != nil {
		units = *e.Units
	}
	m.used[e.Customer+"/"+e.Feature] += units
	if m.fresh%3 == 0 {
		return 503 // counted
	}
	return 201
}

func (m *moody) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	path := strings.TrimPrefix(r.URL.Path, "/api/v1/client/")
	switch {
	case path == "events/batch":
		m.batch(w, r)
	case path == "events":
		var event json.RawMessage
		if json.NewDecoder(r.Body).Decode(&event) != nil {
			event = nil
		}
		m.answer(w, m.record(event), "{}")
	case path == "customers":
		var c struct{ ExternalClientCustomerID string }
		if json.NewDecoder(r.Body).Decode(&c) == nil {
			m.customers[c.ExternalClientCustomerID] = 0
		}
		m.answer(w, 201, "{}")
	case path == "subscriptions":
		var s struct{ CustomerReferenceID string }
		if json.NewDecoder(r.Body).Decode(&s) == nil {
			m.customers[s.CustomerReferenceID]++
		}
		m.answer(w, 201, "{}")
	case strings.HasPrefix(path, "customers/"):
		count, known := m.customers[strings.TrimPrefix(path, "customers/")]
		if !known {
			m.answer(w, 404, "{}")
			return
		}
		plans := strings.TrimSuffix(strings.Repeat(`{"plan":{"key":"p"}},`, count), ",")
		m.answer(w, 200, `{"createdAt":"2026-01-01T00:00:00.000Z","subscriptions":[`+plans+`]}`)
	default:
		used := m.used[strings.TrimPrefix(path, "entitlements/")]
		m.answer(w, 200, fmt.Sprintf(`{"isAllowed":true,"usage":{"used":%d}}`, used))
	}
}

func (m *moody) batch(w http.ResponseWriter, r *http.Request) {
	var events []json.RawMessage
	if json.NewDecoder(r.Body).Decode(&events) != nil {
		m.answer(w, 400, "{}")
		return
	}
	var results []string
	for i, event := range events {
		status, code := m.record(event), ""
		if status < 0 {
			status, code = -status, "key_reused"
		}
		results = append(results, fmt.Sprintf(`{"index":%d,"status":%d,"code":%q}`, i, status, code))
	}
	m.answer(w, 200, `{"results":[`+strings.Join(results, ",")+`]}`)
}

func (m *moody) answer(w http.ResponseWriter, status int, data string) {
	code := ""
	if status < 0 {
		status, code = -status, "key_reused"
	}
	w.WriteHeader(status)
	text := fmt.Sprintf(`{"success":true,"data":%s,"error":{"message":"m","code":%q}}`, data, code)
	if _, err := w.Write([]byte(text)); err != nil {
		panic(err)
	}
}

func options(t *testing.T, m *moody, batch int) replay.Options {
	t.Helper()
	m.bodies, m.used, m.customers = map[string]string{}, map[string]int{}, map[string]int{}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	client, err := api.New([]string{server.URL}, "key", 8)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return replay.Options{
		Client: client, Rows: trace.Generate(200, 1), Prefix: "t", Customers: 7, Plan: "p",
		Batch: batch, Connections: 8, Patience: 20 * time.Second,
	}
}

func TestEveryEventCountsOnceWhateverItsFate(t *testing.T) {
	for _, batch := range []int{0, 1, 50, 10_000} {
		m := &moody{}
		o := options(t, m, batch)
		first, err := replay.Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, uint64(600), first.Counted+first.Duplicates)
		require.Positive(t, first.Retries)
		require.Len(t, first.Customers, 7)
		for _, u := range first.Customers {
			require.True(t, u.AsTraced(), "%+v", u)
		}
		second, err := replay.Run(context.Background(), o)
		require.NoError(t, err)
		require.Equal(t, uint64(600), second.Duplicates)
		require.Equal(t, first.Customers, second.Customers)
		for name, subscriptions := range m.customers {
			require.Equal(t, 1, subscriptions, name)
		}
	}
}

func TestAnotherTraceUnderTheSamePrefixIsRefused(t *testing.T) {
	for _, batch := range []int{0, 50} {
		o := options(t, &moody{}, batch)
		_, err := replay.Run(context.Background(), o)
		require.NoError(t, err)
		o.Rows = trace.Generate(200, 2)
		_, err = replay.Run(context.Background(), o)
		require.ErrorIs(t, err, replay.ErrOtherBody)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	valid := replay.Options{Rows: make([]trace.Row, 1), Prefix: "p", Customers: 1, Connections: 1}
	for want, breakIt := range map[string]func(*replay.Options){
		"nothing to meter": func(o *replay.Options) { o.Rows = nil },
		"0 customers":      func(o *replay.Options) { o.Customers = 0 },
		"batch of 10001":   func(o *replay.Options) { o.Batch = 10_001 },
		"0 connections":    func(o *replay.Options) { o.Connections = 0 },
		"prefix":           func(o *replay.Options) { o.Prefix = "" },
	} {
		o := valid
		breakIt(&o)
		_, err := replay.Run(context.Background(), o)
		require.ErrorContains(t, err, want)
	}
}
