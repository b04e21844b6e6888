package clustertest

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
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
