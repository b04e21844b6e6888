package clustertest

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	api "tollgate/sdk/go"
)

const (
	acme      = "acme"
	checkPath = "/api/v1/client/entitlements/" + acme + "/requests"
)

var staleCheck = api.Request{
	Method: "GET", Path: checkPath, Header: map[string]string{"X-Read-Consistency": "stale"},
}

// usageEvent is one unit of requests for the demo's customer.
func usageEvent(key string) api.Request {
	body := fmt.Sprintf(`{"eventIdempotencyKey":%q,"eventName":"requests","customerReferenceId":%q,`+
		`"occurredAt":%q}`, key, acme, time.Now().UTC().Format(time.RFC3339))
	return api.Request{Method: "POST", Path: "/api/v1/client/events", Body: []byte(body)}
}

// used reads the customer's counter at one node, linearizably.
func (d *development) used(id string) int {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := d.client(id, d.SandboxKey).Do(ctx, api.Request{Method: "GET", Path: checkPath})
	require.NoError(d.t, err)
	return usedOf(d.t, answer)
}

func usedOf(t *testing.T, answer api.Answer) int {
	t.Helper()
	var decision struct {
		Usage struct {
			Used json.Number `json:"used"`
		} `json:"usage"`
	}
	require.NoError(t, answer.Data(&decision))
	used, err := strconv.Atoi(decision.Usage.Used.String())
	require.NoError(t, err)
	return used
}

// One node is left of three, first the leader and then a follower: it refuses what it cannot vouch
// for, goes on with stale reads that say their age, and all is well afterwards without help.
func TestWithoutAQuorumOnlyStaleReadsGoOn(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	for round, pick := range []func() string{
		func() string { return d.leader() },
		func() string { return d.followers()[0] },
	} {
		alone := pick()
		key := fmt.Sprintf("before-%d", round)
		answer, err := d.once(alone, usageEvent(key))
		require.NoError(t, err)
		require.Equal(t, 201, answer.Status, "%s", answer.Body)
		require.Equal(t, 2*round+1, d.used(alone))

		for _, node := range d.Nodes {
			if node.ID != alone {
				d.signal(node.ID, syscall.SIGSTOP)
			}
		}
		lost := time.Now()
		refused := usageEvent(fmt.Sprintf("during-%d", round))
		requireUnavailable(t, d, alone, refused)
		requireUnavailable(t, d, alone, api.Request{Method: "GET", Path: checkPath})

		require.Eventually(t, func() bool {
			answer, err = d.once(alone, staleCheck)
			require.NoError(t, err)
			require.Equal(t, 200, answer.Status, "%s", answer.Body)
			require.Equal(t, 2*round+1, usedOf(t, answer))
			age, err := strconv.Atoi(answer.Header.Get("X-Staleness-Ms"))
			require.NoError(t, err)
			// A node may say that it is older than it is, never that it is younger.
			require.GreaterOrEqual(t, age, int(time.Since(lost).Milliseconds())-1500)
			return age >= 3000
		}, patience, 100*time.Millisecond, "a node that is cut off for 3 s says so")
		require.GreaterOrEqual(t, time.Since(lost), 2*time.Second)

		for _, node := range d.Nodes {
			d.signal(node.ID, syscall.SIGCONT)
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		answer, err = d.client(alone, d.SandboxKey).Do(ctx, refused)
		cancel()
		require.NoError(t, err)
		require.Contains(t, []int{201, 409}, answer.Status, "%s", answer.Body)
		for _, node := range d.Nodes {
			require.Equal(t, 2*round+2, d.used(node.ID), "at %s", node.ID)
			d.ready(node.ID)
		}
	}
}

func requireUnavailable(t *testing.T, d *development, id string, r api.Request) {
	t.Helper()
	answer, err := d.once(id, r)
	require.NoError(t, err)
	require.Equal(t, 503, answer.Status, "%s", answer.Body)
	require.NotEmpty(t, answer.Header.Get("Retry-After"))
	require.ErrorContains(t, answer.Err(), "503")
}

// One key sent to all nodes at the same moment counts once: one 201, and 409 for the rest.
func TestOneKeyCountsOnceAcrossNodes(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	const senders = 30
	statuses := make(chan int, senders)
	request := usageEvent("same-key")
	var group sync.WaitGroup
	for i := range senders {
		client := d.client(d.Nodes[i%len(d.Nodes)].ID, d.SandboxKey)
		group.Go(func() {
			answer, err := client.Do(context.Background(), request)
			if err != nil {
				answer.Status = -1
			}
			statuses <- answer.Status
		})
	}
	group.Wait()
	close(statuses)
	count := map[int]int{}
	for status := range statuses {
		count[status]++
	}
	require.Equal(t, map[int]int{201: 1, 409: senders - 1}, count)
	for _, node := range d.Nodes {
		require.Equal(t, 1, d.used(node.ID))
	}
}
