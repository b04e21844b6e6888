package clustertest

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/faultnet"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/doctor"
	api "tollgate/sdk/go"
)

// staleAfter is what the age of a node must have come to when its links were cut for 3 s, in ms.
const staleAfter = 3000

// leeway is by how much a node that was up to date may have been older than it was: the leader's
// word about the newest entry comes with its next append. After lapse a leader's lease has ended.
const (
	leeway = time.Second
	lapse  = time.Second
)

// startOnFaultnet runs a cluster whose nodes reach each other through proxies.
func startOnFaultnet(t *testing.T) (*development, *faultnet.Net) {
	t.Helper()
	d := startCluster(t)
	require.Zero(t, d.stop())
	addresses := map[string]string{}
	for _, node := range d.Nodes {
		addresses[node.ID] = node.Raft
	}
	links, err := faultnet.Open(addresses)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, links.Close()) })
	d.configure(func(id string, settings *config.Config) {
		settings.Dial = links.Dial(id)
	})
	d.start()
	for _, node := range d.Nodes {
		d.ready(node.ID)
	}
	return d, links
}

func hold(links *faultnet.Net, id string, _ []string) { links.Isolate(id) }

func refuse(links *faultnet.Net, id string, others []string) {
	for _, other := range others {
		links.Refuse(id, other)
		links.Refuse(other, id)
	}
}

// deafen cuts one way: what the node says arrives, and it hears no answer.
func deafen(links *faultnet.Net, id string, others []string) {
	for _, other := range others {
		links.Hold(other, id)
	}
}

// A node whose links are cut for 3 s: the others go on without it; it refuses writes and
// linearizable reads, goes on with stale reads that say their age, and all is well afterwards
// without help.
func TestNodeWhoseLinksAreCut(t *testing.T) {
	d, links := startOnFaultnet(t)
	counted := 0
	for _, way := range []struct {
		name  string
		cut   func(links *faultnet.Net, id string, others []string)
		leads bool
	}{
		{"a leader that nothing reaches", hold, true},
		{"a follower that nothing reaches", hold, false},
		{"a follower that is refused", refuse, false},
		{"a leader that hears nobody", deafen, true},
	} {
		t.Run(way.name, func(t *testing.T) {
			alone, others := d.leader(), d.followers()
			if !way.leads {
				alone, others[0] = others[0], alone
			}
			way.cut(links, alone, others)
			d.whileCutOff(t, alone, others, counted)
			links.Mend()
			counted = d.wellAfterwards(t, alone, counted)
		})
	}
}

// whileCutOff sees what a node that is cut off does for 3 s and longer, and that the others go on.
func (d *development) whileCutOff(t *testing.T, alone string, others []string, counted int) {
	t.Helper()
	cut := time.Now()
	write := d.inBackground(d.client(alone, d.SandboxKey).Try, usageEvent(t.Name()+" refused"))
	rest, err := api.New([]string{d.node(others[0]).HTTP, d.node(others[1]).HTTP}, d.SandboxKey, 1)
	require.NoError(t, err)
	defer rest.Close()
	elsewhere := d.inBackground(rest.Do, usageEvent(t.Name()+" elsewhere"))
	var read <-chan reply

	pace := time.NewTicker(statusEvery)
	defer pace.Stop()
	for age := 0; age < staleAfter; <-pace.C {
		require.Less(t, time.Since(cut), patience)
		age = d.staleAge(t, alone, counted, cut)
		if read == nil && time.Since(cut) > lapse {
			read = d.inBackground(d.client(alone, d.SandboxKey).Try,
				api.Request{Method: "GET", Path: checkPath})
		}
	}
	require.GreaterOrEqual(t, time.Since(cut), staleAfter*time.Millisecond-leeway)
	for _, refused := range []<-chan reply{write, read} {
		answer := <-refused
		require.NoError(t, answer.err)
		require.Equal(t, 503, answer.Status, "%s", answer.Body)
		require.NotEmpty(t, answer.Header.Get("Retry-After"))
	}
	require.Eventually(t, func() bool { // the links were cut, and the operations listener was not
		report := d.examine(others[0])
		return finds(report, doctor.LevelFail, alone, "ready", "billing") &&
			finds(report, doctor.LevelFail, alone, "member", "not reached by")
	}, patience, statusEvery, "doctor says which node is cut off")
	counts := <-elsewhere
	require.NoError(t, counts.err)
	require.Equal(t, 201, counts.Status, "the others go on: %s", counts.Body)
}

// reply is what a request in the background came to.
type reply struct {
	api.Answer
	err error
}

func (d *development) inBackground(
	send func(context.Context, api.Request) (api.Answer, error), r api.Request,
) <-chan reply {
	done := make(chan reply, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		answer, err := send(ctx, r)
		done <- reply{answer, err}
	}()
	return done
}

// staleAge makes one stale read at a node that is cut off: it answers from what it has, and is
// never older than it says.
func (d *development) staleAge(t *testing.T, id string, counted int, cut time.Time) int {
	t.Helper()
	answer, err := d.once(id, staleCheck)
	require.NoError(t, err)
	require.Equal(t, 200, answer.Status, "%s", answer.Body)
	require.Equal(t, counted, usedOf(t, answer), "it cannot know of more")
	age, err := strconv.Atoi(answer.Header.Get("X-Staleness-Ms"))
	require.NoError(t, err)
	require.GreaterOrEqual(t, age, int((time.Since(cut) - leeway).Milliseconds()),
		"a node may say that it is older than it is, never that it is younger")
	return age
}

// wellAfterwards waits for the node to be one of the cluster again. What it refused may have come
// to pass by then, or not; repeated with its key, it has, once.
func (d *development) wellAfterwards(t *testing.T, id string, counted int) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	answer, err := d.client(id, d.SandboxKey).Do(ctx, usageEvent(t.Name()+" refused"))
	require.NoError(t, err)
	require.Contains(t, []int{201, 409}, answer.Status, "%s", answer.Body)
	for _, node := range d.Nodes {
		require.Equal(t, counted+2, d.used(node.ID), "at %s", node.ID)
		d.ready(node.ID)
	}
	return counted + 2
}
