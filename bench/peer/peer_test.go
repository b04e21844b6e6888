package peer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench"
	"tollgate/bench/peer"
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
func started(t *testing.T, name string) (target bench.Target, installed bool) {
	t.Helper()
	s, err := peer.New(name, os.Args[0], "front")
	require.NoError(t, err)
	target, err = s.Start(t.Context(), bench.DefaultAnswers())
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
func send(t *testing.T, target bench.Target, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method,
		"http://"+target.Nodes[0]+"/api/v1/client"+path, strings.NewReader(body))
	require.NoError(t, err)
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

// TestPeersCountOnce: every peer counts a key once, alone and in a batch, and answers with the
// cluster's bytes. fdatasync tells no repeats.
func TestPeersCountOnce(t *testing.T) {
	for _, name := range []string{"redis-2", "postgres", "etcd"} {
		t.Run(name, func(t *testing.T) {
			target, installed := started(t, name)
			if !installed {
				return
			}
			answers := bench.DefaultAnswers()
			for _, customer := range []string{"c1", "c2"} {
				status, _ := send(t, target, "POST", "/customers",
					fmt.Sprintf(`{"externalClientCustomerId":%q,"firstName":"L"}`, customer))
				require.Equal(t, 201, status)
			}
			before, err := target.Syncs(t.Context())
			require.NoError(t, err)
			for _, want := range []bench.Answer{answers.Event, answers.Duplicate} {
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
		})
	}
}

// TestPeersTakeTheLoad runs the harness itself against each: what it acknowledges, it has counted.
func TestPeersTakeTheLoad(t *testing.T) {
	for _, name := range []string{"bare", "fdatasync", "redis", "postgres", "etcd"} {
		t.Run(name, func(t *testing.T) {
			target, installed := started(t, name)
			if !installed {
				return
			}
			for _, scenario := range []bench.Scenario{
				bench.ScenarioCheck, bench.ScenarioIngest, bench.ScenarioBatch,
			} {
				run, err := bench.New(bench.Config{
					Target: target, Scenario: scenario, Plan: "p", Feature: "requests", Connections: 4,
					Customers: 20, Batch: 50, Warmup: time.Millisecond, MaxGenerator: 2,
					Duration: 100 * time.Millisecond, AuditPatience: 20 * time.Second,
				})
				require.NoError(t, err)
				report, err := run.Do(t.Context())
				require.NoError(t, err, scenario)
				require.Positive(t, report.Units)
				require.Len(t, report.Used, len(target.Processes))
				if !target.Blank {
					require.Equal(t, report.Verified.Acknowledged, report.Verified.Counted)
				}
			}
		})
	}
}

func TestSystemsThatDoNotExist(t *testing.T) {
	for _, name := range []string{"mysql", "redis-x", "redis-0", "bare-2"} {
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
	_, err = s.Start(context.Background(), bench.DefaultAnswers())
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
