package clustertest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/demo"
	"tollgate/cmd/tollgate/replay"
	"tollgate/cmd/tollgate/trace"
	api "tollgate/sdk/go"
)

const (
	sharedData   = "../../../shared/data"
	traceFile    = "azure-llm-inference-2023-code.csv"
	expectedFile = "azure-llm-inference-2023-code.expected.json"
)

// metering is a trace, and what metering it must give.
type metering struct {
	file      string // where the trace lies
	prefix    string
	rows      []trace.Row
	customers int
	// used has the counters of replay.Features for each customer, limit whose output limit is
	// reached.
	used  map[string][replay.EventsPerRow]string
	limit map[string]bool
	// lines are the amounts on the invoice that closes the period, by feature.
	lines map[string]map[string]string
}

// expected is the file that was computed independently of this project.
type expected struct {
	Customers   int `json:"customers"`
	Events      int `json:"events"`
	PerCustomer map[string]struct {
		Requests           int  `json:"requests"`
		InputTokens        int  `json:"inputTokens"`
		OutputTokens       int  `json:"outputTokens"`
		OutputLimitReached bool `json:"outputLimitReached"`

		Lines map[string]string `json:"lines"`
	} `json:"perCustomer"`
}

// loadMetering reads the real trace and its expected counters. A clone without ../shared beside it
// uses a generated trace, whose counters are added up here; continuous integration must not.
func loadMetering(t *testing.T) metering {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sharedData, expectedFile))
	if errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") != "true" {
		t.Log("../shared/data is absent: this run uses a generated trace")
		return generatedMetering(t)
	}
	require.NoError(t, err, "tests read the real trace from ../shared/data")
	var want expected
	require.NoError(t, json.Unmarshal(text, &want))
	m := metering{
		file: filepath.Join(sharedData, traceFile), prefix: "code", customers: want.Customers,
		used: map[string][replay.EventsPerRow]string{}, limit: map[string]bool{},
		lines: map[string]map[string]string{},
	}
	file, err := os.Open(m.file)
	require.NoError(t, err)
	m.rows, err = trace.Read(file)
	require.NoError(t, errors.Join(err, file.Close()))
	require.Equal(t, want.Events, len(m.rows)*replay.EventsPerRow)
	require.Len(t, want.PerCustomer, want.Customers)
	for name, c := range want.PerCustomer {
		m.used[name] = [...]string{
			strconv.Itoa(c.Requests), strconv.Itoa(c.InputTokens), strconv.Itoa(c.OutputTokens),
		}
		m.limit[name], m.lines[name] = c.OutputLimitReached, c.Lines
		require.Equal(t, oracleLines(m.used[name]), c.Lines, "the oracle agrees with the file")
	}
	return m
}

func generatedMetering(t *testing.T) metering {
	t.Helper()
	m := metering{
		prefix: "made", customers: 50, rows: trace.Generate(5000, 1),
		file: filepath.Join(t.TempDir(), "trace-made.csv"),
		used: map[string][replay.EventsPerRow]string{}, limit: map[string]bool{},
		lines: map[string]map[string]string{},
	}
	file, err := os.Create(m.file)
	require.NoError(t, err)
	for _, row := range m.rows {
		fmt.Fprintf(file, "%s,%d,%d\n", row.Time, row.Context, row.Generated)
	}
	require.NoError(t, file.Close())
	sums := make([][replay.EventsPerRow]uint64, m.customers)
	for i, row := range m.rows {
		sum := &sums[i%m.customers]
		sum[0], sum[1], sum[2] = sum[0]+1, sum[1]+row.Context, sum[2]+row.Generated
	}
	for i, sum := range sums {
		name := m.prefix + "-" + strings.Repeat("0", 3-len(strconv.Itoa(i))) + strconv.Itoa(i)
		var texts [replay.EventsPerRow]string
		for f, n := range sum {
			texts[f] = strconv.FormatUint(n, 10)
		}
		m.used[name], m.limit[name] = texts, sum[2] >= 5000
		m.lines[name] = oracleLines(texts)
	}
	return m
}

func (m metering) check(t *testing.T, usage []replay.Usage) {
	t.Helper()
	require.Len(t, usage, m.customers)
	for _, u := range usage {
		require.Equal(t, m.used[u.Customer], u.Used, u.Customer)
		require.Equal(t, m.limit[u.Customer], u.LimitReached, u.Customer)
	}
}

// The whole promise at once: the real trace, single events through a follower, the leader killed in
// the middle; then again in batches through the node that was killed.
func TestTraceIsMeteredExactlyThroughAFollower(t *testing.T) {
	t.Parallel()
	m := loadMetering(t)
	d := startCluster(t)
	leader, follower := d.leader(), d.followers()[0]
	client := d.client(follower, d.SandboxKey)
	m.check(t, d.replayAndKill(m, client, leader))
	require.NotEqual(t, leader, d.leader(leader), "another node leads")

	require.Eventually(t, func() bool {
		return strings.Contains(d.output.String(), leader+" (pid ") &&
			strings.Contains(d.output.String(), "--node "+leader)
	}, patience, 20*time.Millisecond, "dev reports the child that died")

	d.restart(leader)
	d.ready(leader)
	printed, err := d.tollgate("replay", m.file, "--data", string(d.folder), "--batch", "500",
		"--prefix", m.prefix, "--url", "http://"+d.node(leader).HTTP)
	require.NoError(t, err, printed)
	require.Contains(t, printed, "events: 0 counted, "+
		strconv.Itoa(len(m.rows)*replay.EventsPerRow)+" there already.")
	require.Contains(t, printed, "exactly what the trace adds up to")
	require.Contains(t, printed, "100%")
	d.checkJournal(m, 2)
}

// The same through the node that is killed: connections break with events under way, whose fate the
// client cannot know, and which it sends to the next node under the same keys. Then the period is
// closed on the sandbox's clock, and every customer's invoice is the expected one.
func TestTraceIsMeteredExactlyThroughTheNodeThatDies(t *testing.T) {
	t.Parallel()
	m := loadMetering(t)
	d := startCluster(t)
	leader := d.leader()
	nodes := []string{d.node(leader).HTTP}
	for _, id := range d.followers() {
		nodes = append(nodes, d.node(id).HTTP)
	}
	client, err := api.New(nodes, d.SandboxKey, 64)
	require.NoError(t, err)
	defer client.Close()
	m.check(t, d.replayAndKill(m, client, leader))
	require.Positive(t, client.Retries(), "the loss of the leader must have been felt")
	d.checkJournal(m, 1)
	d.checkInvoices(m)
}

// replayAndKill meters the trace and kills a node when a quarter of it is done.
func (d *development) replayAndKill(m metering, client *api.Client, victim string) []replay.Usage {
	d.t.Helper()
	var kill sync.Once
	summary, err := replay.Run(context.Background(), replay.Options{
		Client: client, Rows: m.rows, Prefix: m.prefix,
		Customers: m.customers, Plan: demo.ReplayPlan, Connections: 64, Patience: patience,
		OnProgress: func(p replay.Progress) {
			if p.Done*4 > p.Total && !p.Finished {
				kill.Do(func() { d.signal(victim, syscall.SIGKILL) })
			}
		},
	})
	require.NoError(d.t, err)
	kill.Do(func() { require.Fail(d.t, "the node was not killed in mid-replay") })
	require.Equal(d.t, uint64(len(m.rows)*replay.EventsPerRow), summary.Done)
	return summary.Customers
}

// checkJournal lists every event of the customers: each usage event once, and an audit event for
// each of the checks that the replays made.
func (d *development) checkJournal(m metering, replays int) {
	d.t.Helper()
	client := d.client(d.leader(), d.ReadKey)
	total := 0
	for name, used := range m.used {
		usage := d.events(client, name, "usage")
		total += len(usage)
		sums, keys := map[string]uint64{}, map[string]bool{}
		for _, e := range usage {
			units, err := strconv.ParseUint(e.UsageUnits.String(), 10, 64)
			require.NoError(d.t, err)
			sums[e.FeatureKey] += units
			require.False(d.t, keys[e.Key], "key %s is listed twice", e.Key)
			keys[e.Key] = true
			require.NotEmpty(d.t, e.Meta.TraceTime)
		}
		for f, feature := range replay.Features {
			require.Equal(d.t, used[f], strconv.FormatUint(sums[feature], 10), "%s %s", name, feature)
		}
		require.Eventually(d.t, func() bool {
			return len(d.events(client, name, "audit")) == replays*replay.EventsPerRow
		}, patience, 50*time.Millisecond, "audit events of %s", name)
	}
	require.Equal(d.t, len(m.rows)*replay.EventsPerRow, total, "usage events in the journal")
}

type listedEvent struct {
	Kind       string      `json:"kind"`
	Key        string      `json:"eventIdempotencyKey"`
	FeatureKey string      `json:"featureKey"`
	UsageUnits json.Number `json:"usageUnits"`
	Meta       struct {
		TraceTime string `json:"traceTime"`
	} `json:"meta"`
}

// events lists a customer's events of one kind, page by page.
func (d *development) events(client *api.Client, customer, kind string) []listedEvent {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var all []listedEvent
	for cursor := ""; ; {
		query := url.Values{"kind": {kind}, "limit": {"100"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page struct {
			Events     []listedEvent `json:"events"`
			NextCursor string        `json:"nextCursor"`
		}
		path := "/api/v1/client/customers/" + customer + "/events?" + query.Encode()
		_, err := client.Call(ctx, "GET", path, nil, &page)
		require.NoError(d.t, err)
		all = append(all, page.Events...)
		if cursor = page.NextCursor; cursor == "" {
			return all
		}
	}
}
