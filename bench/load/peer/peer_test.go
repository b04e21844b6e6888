package peer_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/load"
	"tollgate/bench/load/peer"
)

// TestMain makes this program the front, too, as the harness is in its own process.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "front" {
		if err := peer.Serve(os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// started starts a system for a test; false, where its programs are not installed: then it has to
// say so, and what to do.
func started(t *testing.T, name string) (target load.Target, installed bool) {
	t.Helper()
	s, err := peer.New(name, os.Args[0], "front")
	require.NoError(t, err)
	target, err = s.Start(t.Context(), load.DefaultAnswers())
	if errors.Is(err, peer.ErrNotInstalled) {
		require.ErrorContains(t, err, "bench/peers.sh install")
		return target, false
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		require.NoError(t, s.Stop())
		for _, p := range target.Processes {
			require.ErrorIs(t, syscall.Kill(p.PID, 0), syscall.ESRCH, "%s still runs", p.Name)
		}
	})
	return target, true
}

// send makes a request of a front, and returns status and body.
func send(t *testing.T, target load.Target, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method,
		"http://"+target.Nodes[0]+"/api/v1/client"+path, strings.NewReader(body))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Authorization", "Bearer "+target.Key)
	response, err := http.DefaultClient.Do(request)
	require.NoError(t, err)
	text, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	return response.StatusCode, string(text)
}

func event(key, customer string, units int) string {
	return fmt.Sprintf(`{"eventIdempotencyKey":%q,"eventName":"requests","featureKey":"requests",`+
		`"customerReferenceId":%q,"occurredAt":"2026-11-21T17:00:00Z","usageUnits":%d}`,
		key, customer, units)
}

// TestPeers starts each once. fdatasync tells no repeats and knows no limits, nor does floor, bare
// counts nothing.
func TestPeers(t *testing.T) {
	for name, counts := range map[string]bool{
		"redis-2": true, "redis": true, "postgres": true, "etcd": true, "fdatasync": false, "bare": false,
		"bare-epoll": false, "redis-io": true, "floor": true,
	} {
		t.Run(name, func(t *testing.T) {
			target, installed := started(t, name)
			if !installed {
				return
			}
			if counts {
				countOnce(t, target)
			}
			if counts && name != "floor" {
				keepLimits(t, target)
				underLoad(t, target, load.ScenarioLimit)
			}
			for _, scenario := range []load.Scenario{
				load.ScenarioCheck, load.ScenarioSimulate, load.ScenarioIngest, load.ScenarioBatch,
			} {
				underLoad(t, target, scenario)
			}
		})
	}
}

// countOnce: a key counts once, alone and in a batch, and the answers are the cluster's bytes.
func countOnce(t *testing.T, target load.Target) {
	t.Helper()
	answers := load.DefaultAnswers()
	for _, customer := range []string{"c1", "c2"} {
		status, _ := send(t, target, "POST", "/customers",
			fmt.Sprintf(`{"externalClientCustomerId":%q,"firstName":"L"}`, customer))
		require.Equal(t, 201, status)
	}
	before, err := target.Syncs(t.Context())
	require.NoError(t, err)
	for _, want := range []load.Answer{answers.Event, answers.Duplicate} {
		status, text := send(t, target, "POST", "/events", event("k1", "c1", 2))
		require.Equal(t, want.Status, status, text)
		require.Equal(t, string(want.Body), text)
	}
	after, err := target.Syncs(t.Context())
	require.NoError(t, err)
	for server, count := range after {
		require.Greater(t, count, before[server], server)
	}
	status, text := send(t, target, "POST", "/events/batch", "["+event("k2", "c1", 3)+","+
		event("k1", "c1", 2)+","+event("k3", "c2", 40)+","+event("k4", "c1", 1)+"]")
	require.Equal(t, 200, status, text)
	const repeat = `"status":409,"message":"This idempotency key was already processed"`
	require.Equal(t, `{"success":true,"data":{"results":[{"index":0,"status":201},`+
		`{"index":1,`+repeat+`},{"index":2,"status":201},{"index":3,"status":201}],`+
		`"accepted":3,"duplicates":1,"rejected":0}}`, text)
	for customer, count := range map[string]string{"c1": "6", "c2": "40"} {
		status, text = send(t, target, "GET", "/entitlements/"+customer+"/requests", "")
		require.Equal(t, 200, status, text)
		require.Equal(t, strings.ReplaceAll(string(answers.Check.Body), `"used":2`,
			`"used":`+count), text)
	}
}

// TestTheFloorAsksForItsKey: and for a body that is JSON.
func TestTheFloorAsksForItsKey(t *testing.T) {
	target, _ := started(t, "floor")
	for key, want := range map[string]int{target.Key: 400, target.Key[:20]: 401, "": 401} {
		target.Key = key
		status, _ := send(t, target, "POST", "/events", "{}")
		require.Equal(t, want, status)
	}
}

// keepLimits: a customer of a plan with a hard limit.
func keepLimits(t *testing.T, target load.Target) {
	t.Helper()
	status, _ := send(t, target, "POST", "/customers", `{"externalClientCustomerId":"c3"}`)
	require.Equal(t, 201, status)
	status, _ = send(t, target, "POST", "/subscriptions",
		`{"planId":"starter","customerReferenceId":"c3"}`)
	require.Equal(t, 201, status)
	answers := load.DefaultAnswers()
	for _, step := range []struct {
		key   string
		units int
		want  load.Answer
	}{
		{"l1", 99, answers.Event},
		{"l1", 1, answers.Duplicate},
		{"l2", 2, answers.Limit},
		{"l2", 1, answers.Event}, // the refusal has not used up the key
		{"l3", 1, answers.Limit},
	} {
		status, text := send(t, target, "POST", "/events", event(step.key, "c3", step.units))
		require.Equal(t, step.want.Status, status, text)
		require.Equal(t, string(step.want.Body), text)
	}
	status, text := send(t, target, "POST", "/entitlements", `{"customerReferenceId":"c3"}`)
	require.Equal(t, 200, status)
	require.Equal(t, strings.ReplaceAll(string(answers.Simulate.Body), `"used":2`, `"used":100`), text)
}

// underLoad runs the harness itself: what the system acknowledges, it has counted.
func underLoad(t *testing.T, target load.Target, scenario load.Scenario) {
	t.Helper()
	c := load.Config{
		Target: target, Scenario: scenario, Plan: "p", Feature: "requests", Connections: 4,
		Customers: 20, Batch: 50, Warmup: time.Millisecond, Duration: 50 * time.Millisecond,
		Least: 10, MaxGenerator: 2, AuditPatience: 20 * time.Second,
	}
	if scenario == load.ScenarioLimit {
		c.Plan, c.Limit, c.Customers, c.Least = "starter", 100, 1, 250
	}
	run, err := load.New(c)
	require.NoError(t, err)
	report, err := run.Do(t.Context())
	require.NoError(t, err, scenario)
	require.GreaterOrEqual(t, report.Requests, uint64(c.Least))
	require.Len(t, report.Used, len(target.Processes))
	if !target.Blank {
		require.Equal(t, report.Verified.Acknowledged, report.Verified.Counted)
	}
	if scenario == load.ScenarioLimit {
		require.Equal(t, uint64(100), report.Verified.Counted)
	}
}

// TestToolsSayWhatTheyMeasured: Redis's own, with reads in pipelines, which is over in a moment.
func TestToolsSayWhatTheyMeasured(t *testing.T) {
	s, err := peer.New("redis", os.Args[0], "front")
	require.NoError(t, err)
	tools := s.(load.Native).Tools(load.ScenarioCheck)
	require.Len(t, tools, 3)
	require.Len(t, s.(load.Native).Tools(load.ScenarioIngest), 3)
	require.Empty(t, s.(load.Native).Tools(load.ScenarioBatch))
	require.Equal(t, "redis-benchmark -P 16 GET", tools[1].Name)
	_, err = s.Start(t.Context(), load.DefaultAnswers())
	if errors.Is(err, peer.ErrNotInstalled) {
		return
	}
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	require.NoError(t, tools[1].Prepare(t.Context()))
	operations, rate, err := tools[1].Run(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 300_000, operations)
	require.Greater(t, rate, 1000.0)
}

// TestEpollFrontTakesRequestsInPieces: a request may be longer than a read, and several may come in
// one.
func TestEpollFrontTakesRequestsInPieces(t *testing.T) {
	target, _ := started(t, "bare-epoll")
	conn, err := net.Dial("tcp", target.Nodes[0])
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	body := strings.Repeat("x", 20_000)
	event := fmt.Sprintf("POST /api/v1/client/events HTTP/1.1\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	for _, part := range []string{
		event[:30], event[30:9000], event[9000:] + event + "GET /a HTTP/1.1\r\n\r\n",
	} {
		_, err = io.WriteString(conn, part)
		require.NoError(t, err)
	}
	answers, reader := load.DefaultAnswers(), bufio.NewReader(conn)
	for _, want := range []load.Answer{answers.Event, answers.Event, answers.Check} {
		response, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		text, err := io.ReadAll(response.Body)
		require.NoError(t, err)
		require.Equal(t, want.Status, response.StatusCode)
		require.Equal(t, string(want.Body), string(text))
	}
}

func TestSystemsThatDoNotExist(t *testing.T) {
	for _, name := range []string{"mysql", "redis-x", "redis-0", "bare-2", "etcd-io"} {
		_, err := peer.New(name, "x")
		require.Error(t, err, name)
	}
}

// TestProgramThatIsMissing: without the program the system says so, and starts nothing.
func TestProgramThatIsMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv("TMPDIR", t.TempDir())
	s, err := peer.New("redis", os.Args[0], "front")
	require.NoError(t, err)
	_, err = s.Start(context.Background(), load.DefaultAnswers())
	require.ErrorIs(t, err, peer.ErrNotInstalled)
	require.EqualError(t, err, "redis: redis-server: not installed (bench/peers.sh install)")
	left, err := os.ReadDir(os.TempDir())
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestFrontSaysWhyItDoesNotServe(t *testing.T) {
	var out bytes.Buffer
	require.ErrorContains(t, peer.Serve(strings.NewReader("{"), &out), "front: ")
	require.ErrorContains(t, peer.Serve(strings.NewReader(`{"Store":"x"}`), &out), `no store "x"`)
	require.Empty(t, out.String())
}
