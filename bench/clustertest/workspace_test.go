package clustertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// agent calls the workspace API of a node, as an agent does.
type agent struct {
	*development
	key string
}

// call sends a request and returns the status and the body; headers are name and value in turn.
func (a *agent) call(id, method, path, key string, body any, headers ...string,
) (status int, answer map[string]any) {
	a.t.Helper()
	base := "http://" + a.node(id).HTTP
	if path[:5] == "/api/" {
		base = "http://" + a.node(id).Ops
	}
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(a.t, err)
		sent = bytes.NewReader(text)
	}
	request, err := http.NewRequestWithContext(a.t.Context(), method, base+path, sent)
	require.NoError(a.t, err)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header.Set("Authorization", "Bearer "+key)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	text, err := io.ReadAll(response.Body)
	require.NoError(a.t, err)
	require.NoError(a.t, response.Body.Close())
	require.NoError(a.t, json.Unmarshal(text, &answer), string(text))
	return response.StatusCode, answer
}

func inner(answer map[string]any, names ...string) any {
	var value any = answer
	for _, name := range names {
		object, ok := value.(map[string]any)
		if !ok {
			return nil
		}
		value = object[name]
	}
	return value
}

// An agent signs up on one node, saves a flow on another and starts a run on the third; the run is
// decided by a call of the leader's. When a leader is killed, the same start with the same key is
// still the same run.
func TestAnAgentsRunAcrossNodes(t *testing.T) {
	t.Parallel()
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, err := w.Write([]byte("all is well"))
		require.NoError(t, err)
	}))
	defer product.Close()
	a := &agent{development: startCluster(t)}
	status, answer := a.call("node1", "POST", "/v1/signup", "", map[string]any{"label": "agent"})
	require.Equal(t, 201, status, answer)
	a.key = answer["key"].(string)
	tenant := answer["workspace"].(string)
	status, answer = a.call("node2", "POST", "/v1/flows", a.key, map[string]any{
		"name": "Read", "url": product.URL + "/", "task": "Look at it.", "successCriteria": "It is well.",
		"access":       "public",
		"verification": map[string]any{"url": product.URL + "/", "status": 200, "contains": "well"},
	})
	require.Equal(t, 201, status, answer)
	flow := inner(answer, "flow", "id").(string)

	start := func(id string) (int, map[string]any) {
		status, answer := a.call(id, "GET", "/v1/flows/"+flow+"/quote", a.key, nil)
		if status != 200 {
			return status, answer
		}
		return a.call(id, "POST", "/v1/flows/"+flow+"/run", a.key,
			map[string]any{"fingerprint": inner(answer, "quote", "fingerprint")},
			"Idempotency-Key", "the-first-start")
	}
	status, answer = start("node3")
	require.Equal(t, 402, status, answer)
	require.Equal(t, "approve", answer["next_action"])
	purchase := inner(answer, "purchase", "id").(string)
	status, answer = a.call("node1", "POST", "/api/v1/admin/workspaces/"+tenant+"/purchases/"+purchase+
		"/approve", a.AdminKey, map[string]any{"owner": "ada@example.com"})
	require.Equal(t, 200, status, answer)
	status, answer = start("node3")
	require.Equal(t, 202, status, answer)
	run := inner(answer, "run", "id").(string)
	require.Eventually(t, func() bool {
		_, answer = a.call("node2", "GET", "/v1/runs/"+run, a.key, nil)
		return inner(answer, "run", "status") == "completed"
	}, patience, 50*time.Millisecond)
	require.Equal(t, "passed", inner(answer, "run", "outcome"), answer)
	require.Equal(t, "standing", inner(answer, "run", "verification", "proof"), "the agent did nothing")
	require.Equal(t, "free", inner(answer, "run", "charge", "kind"))

	leader := a.leader()
	killProcess(t, a.node(leader).PID)
	var alive string
	for _, node := range a.Nodes {
		if node.ID != leader {
			alive = node.ID
		}
	}
	require.Eventually(t, func() bool {
		status, answer = start(alive)
		return status == 202
	}, patience, 100*time.Millisecond, "%v", answer)
	require.Equal(t, run, inner(answer, "run", "id"), "the same key is the same run after a failover")
	_, answer = a.call(alive, "GET", "/v1/account", a.key, nil)
	require.EqualValues(t, 1, inner(answer, "billing", "usage", "runsUsed"))
	a.restart(leader)
	require.Zero(t, a.stop())
}

// staying is an agent that says one thing, notes its process in a file, and that of a descendant in
// a session of its own, which holds its output, in another; and then hears nothing: not that it is
// cancelled, nor that its server has gone.
const staying = `#!/bin/bash
read -r task
setsid bash -c 'echo $$ >> %[1]s.detached; exec sleep 613' &
until [ "$(wc -l < %[1]s.detached)" -gt "$(cat %[1]s | wc -l)" ]; do :; done 2>/dev/null
echo $$ >> %[1]s
echo '{"type":"event","text":"stays"}'
trap '' PIPE
while :; do sleep 1; done
`

// runner waits until a node leads the group of workspaces, and returns it.
func (d *development) runner(others ...string) (leader string) {
	d.t.Helper()
	require.Eventually(d.t, func() bool {
		for _, node := range d.Nodes {
			status, err := d.status(node.ID)
			if err == nil && len(status.Groups) > 1 && status.Groups[1].Role == "leader" &&
				status.Groups[1].Lease && !slices.Contains(others, node.ID) {
				leader = node.ID
				return true
			}
		}
		return false
	}, patience, statusEvery, "nobody leads the workspaces")
	return leader
}

// The leader is killed while an agent works: the run is lost when its lease ends, and returned; the
// same start is the same run on both other nodes, before and after; nothing is left of the agent;
// and the next leader carries out the next run.
func TestARunWhoseLeaderIsKilled(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	pids, script := filepath.Join(folder, "pids"), filepath.Join(folder, "stay.sh")
	require.NoError(t, os.WriteFile(script, fmt.Appendf(nil, staying, pids), 0o700))
	t.Cleanup(func() { endAgents(t, pids, pids+".detached") })
	product := httptest.NewServer(http.NotFoundHandler())
	defer product.Close()
	a := &agent{development: startClusterOf(t, program, "--agent", "staying="+script)}
	require.Zero(t, a.stop())
	a.configure(func(_ string, c *config.Config) {
		c.Workspaces.Lease, c.Workspaces.Credits.Run = 3*time.Second, 7
	})
	a.start()
	a.claim()
	flow := a.flow("staying", product.URL, "done")
	a.shortOfCredits(flow)

	first := a.begin("node1", flow, "the-first-start")
	agent, detached := a.agentOf(pids, 1), a.agentOf(pids+".detached", 1)
	require.Equal(t, "running", inner(a.run("node2", first), "run", "status"))
	leader := a.runner()
	killProcess(t, a.node(leader).PID)
	require.Eventually(t, func() bool { return gone(agent) }, patience, statusEvery,
		"the agent outlives the node that ran it")
	require.Eventually(t, func() bool { return gone(detached) }, patience, statusEvery,
		"what the agent has started outlives the node that ran it")
	require.Eventually(t, func() bool { // its keeper removes it when all of the agent has ended
		left, err := filepath.Glob(filepath.Join(a.folder.NodeFolder(leader), "agents", "*"))
		return err == nil && len(left) == 0
	}, patience, statusEvery, "nor is its folder left")

	for _, node := range a.Nodes {
		if node.ID != leader {
			require.Equal(t, first, a.begin(node.ID, flow, "the-first-start"), "the same run")
		}
	}
	alive := a.runner(leader)
	ended := a.until(alive, first, "failed")
	require.Equal(t, "inconclusive", inner(ended, "run", "outcome"))
	require.Equal(t, "worker_lost", inner(ended, "run", "reasonCode"))
	require.Equal(t, "returned", inner(ended, "run", "charge", "state"))
	require.Equal(t, first, a.begin(alive, flow, "the-first-start"), "the same run, as it is now")
	_, account := a.call(alive, "GET", "/v1/account", a.key, nil)
	require.EqualValues(t, 1, inner(account, "billing", "usage", "runsReturned"))
	require.EqualValues(t, 0, inner(account, "billing", "usage", "freeRunsUsed"))
	require.Equal(t, map[string]any{"balance": 20.0, "reserved": 0.0}, account["credits"])

	second := a.begin(alive, flow, "another-start")
	require.NotEqual(t, first, second)
	agent, detached = a.agentOf(pids, 2), a.agentOf(pids+".detached", 2)
	status, answer := a.call(alive, "POST", "/v1/runs/"+second+"/cancel", a.key, nil)
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool { return gone(agent) }, patience, statusEvery,
		"the agent of a cancelled run goes on")
	require.Eventually(t, func() bool { return gone(detached) }, patience, statusEvery,
		"what the agent of a cancelled run has started goes on")
	a.restart(leader)
	require.Zero(t, a.stop())
}

// claim makes a workspace with an owner, and keeps its key.
func (a *agent) claim() (tenant string) {
	a.t.Helper()
	status, answer := a.call("node1", "POST", "/v1/signup", "", map[string]any{"label": "agent"})
	require.Equal(a.t, 201, status, answer)
	a.key, tenant = answer["key"].(string), answer["workspace"].(string)
	path := "/api/v1/admin/workspaces/" + tenant + "/claim"
	status, answer = a.call("node1", "POST", path, a.AdminKey, map[string]any{"owner": "ada@example.com"})
	require.Equal(a.t, 200, status, answer)
	return tenant
}

// flow saves a flow for an agent, which is verified by what the product's page contains.
func (a *agent) flow(agent, product, contains string) string {
	a.t.Helper()
	status, answer := a.call("node2", "POST", "/v1/flows", a.key, map[string]any{
		"name": agent, "url": product + "/", "task": "Look.", "successCriteria": "None.",
		"access": "public", "agent": agent,
		"verification": map[string]any{"url": product + "/", "contains": contains},
	})
	require.Equal(a.t, 201, status, answer)
	return inner(answer, "flow", "id").(string)
}

// shortOfCredits is told what a run costs in credits, as soon as the configured price is agreed on,
// and has an operator grant 20.
func (a *agent) shortOfCredits(flow string) {
	a.t.Helper()
	var answer map[string]any
	require.Eventually(a.t, func() bool {
		status, quote := a.call("node3", "GET", "/v1/flows/"+flow+"/quote", a.key, nil)
		if status != 200 || inner(quote, "quote", "credits") != 7.0 {
			return false
		}
		status, answer = a.call("node3", "POST", "/v1/flows/"+flow+"/run", a.key,
			map[string]any{"fingerprint": inner(quote, "quote", "fingerprint")},
			"Idempotency-Key", "without-credits")
		return status == 402
	}, patience, statusEvery, "%v", answer)
	require.Equal(a.t, []any{"insufficient_credits", 7.0, 0.0},
		[]any{answer["error"], answer["required"], answer["balance"]})
	_, account := a.call("node1", "GET", "/v1/account", a.key, nil)
	path := "/api/v1/admin/workspaces/" + inner(account, "workspace", "id").(string) + "/credits"
	status, answer := a.call("node1", "POST", path, a.AdminKey, map[string]any{"amount": 20, "note": "tests"})
	require.Equal(a.t, 200, status, answer)
}

// begin starts a run of a flow on a node, and returns its id as soon as the node can tell.
func (a *agent) begin(id, flow, key string) (run string) {
	a.t.Helper()
	var answer map[string]any
	require.Eventually(a.t, func() bool {
		status, quote := a.call(id, "GET", "/v1/flows/"+flow+"/quote", a.key, nil)
		if answer = quote; status != 200 {
			return false
		}
		status, answer = a.call(id, "POST", "/v1/flows/"+flow+"/run", a.key,
			map[string]any{"fingerprint": inner(quote, "quote", "fingerprint")}, "Idempotency-Key", key)
		return status == 202
	}, patience, statusEvery, "%v", &answer)
	return inner(answer, "run", "id").(string)
}

func (a *agent) run(id, run string) map[string]any {
	_, answer := a.call(id, "GET", "/v1/runs/"+run, a.key, nil)
	return answer
}

func (a *agent) until(id, run, status string) (answer map[string]any) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		answer = a.run(id, run)
		return inner(answer, "run", "status") == status
	}, patience, statusEvery, "%v", answer)
	return answer
}

// agentOf is the process of the n-th agent that began.
func (a *agent) agentOf(file string, n int) (pid int) {
	a.t.Helper()
	require.Eventually(a.t, func() bool {
		text, err := os.ReadFile(file)
		lines := strings.Fields(string(text))
		if err != nil || len(lines) < n {
			return false
		}
		pid, err = strconv.Atoi(lines[n-1])
		return err == nil
	}, patience, statusEvery, "no agent began")
	return pid
}

// endAgents ends what agents of a failed test have left, by the files in which they noted it.
func endAgents(t *testing.T, files ...string) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // none has begun
		}
		for _, line := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(line)
			require.NoError(t, err)
			command, err := os.ReadFile("/proc/" + line + "/cmdline")
			if err == nil && (bytes.Contains(command, []byte(filepath.Dir(file))) ||
				bytes.Contains(command, []byte("sleep\x00613"))) {
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			}
		}
	}
}

// gone reports whether a process has ended, or only waits for somebody to notice.
func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
