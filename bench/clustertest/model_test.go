package clustertest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/examples/sampleproduct"
)

// model is an endpoint in the dialect of OpenAI that follows a script: it asks the product for a
// key, looks at the page with it, hands it over and ends.
type model struct {
	mu    sync.Mutex
	asked []string
	keys  map[string]bool // Authorization headers
}

var sampleKey = regexp.MustCompile(sampleproduct.KeyPrefix + `[A-Z0-9]+`)

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, string(body))
	m.keys[r.Header.Get("Authorization")] = true
	key := sampleKey.FindString(string(body))
	steps := [][2]string{
		{"http_request", `{"method":"POST","url":"keys","body":"{}"}`},
		{"http_request", `{"method":"GET","url":"me?key=` + key + `","authorization":"Bearer ` + key + `"}`},
		{"obtained_key", `{"key":"` + key + `"}`},
		{"finish", `{"blocked":false}`},
	}
	step := steps[min(len(m.asked), len(steps))-1]
	text, err := json.Marshal(map[string]any{"choices": []any{map[string]any{"message": map[string]any{
		"content": "I go on with " + key, "tool_calls": []any{map[string]any{
			"id": "call_1", "type": "function",
			"function": map[string]any{"name": step[0], "arguments": step[1]},
		}},
	}}}})
	if err == nil {
		_, err = w.Write(text)
	}
	if err != nil {
		return // who asked has gone
	}
}

// A model at an endpoint of its own obtains a key, five calls decide that it passed, and no file of
// the nodes, log, snapshot or print, has the key, the endpoint's key, or a text of the model's.
func TestAModelsRun(t *testing.T) {
	t.Parallel()
	const endpointKey = "mk-fedcba9876543210"
	scripted := &model{keys: map[string]bool{}}
	endpoint := httptest.NewServer(scripted)
	defer endpoint.Close()
	product := httptest.NewServer(sampleproduct.New(sampleproduct.Good))
	defer product.Close()
	keyFile := filepath.Join(t.TempDir(), "model.key")
	require.NoError(t, os.WriteFile(keyFile, []byte(endpointKey), 0o600))
	a := &agent{development: startCluster(t)}
	require.Zero(t, a.stop())
	a.configure(func(_ string, c *config.Config) {
		c.Workspaces.Agents = append(c.Workspaces.Agents, "thinker")
		c.Workspaces.Models = []config.AgentModel{{
			Name: "thinker", Version: "1", Dialect: "openai", Model: "m-1", KeyFile: keyFile,
			URL: endpoint.URL + "/v1/chat/completions", AllowNetworks: []string{"127.0.0.0/8"},
		}}
	})
	a.start()
	flow := a.keyFlow(product.URL)
	for _, own := range []string{a.node("node1").HTTP, a.node("node2").Ops, a.node("node3").Raft} {
		status, answer := a.call("node1", "PATCH", "/v1/flows/"+flow, a.key,
			map[string]any{"url": "http://" + own + "/"})
		require.Equal(t, 400, status, answer)
		require.Equal(t, "invalid_url", answer["error"], "a node's own address, though loopback is open")
	}
	run := a.begin("node1", flow, "the-first-start")
	ended := a.until("node2", run, "completed")
	require.Equal(t, "passed", inner(ended, "run", "outcome"), "%v", ended)
	require.Equal(t, "llm", inner(ended, "run", "agent", "kind"))
	require.Equal(t, "committed", inner(ended, "run", "charge", "state"))
	require.Len(t, inner(ended, "run", "verification", "calls"), 5)
	scripted.mu.Lock()
	require.Len(t, scripted.asked, 4)
	require.Equal(t, map[string]bool{"Bearer " + endpointKey: true}, scripted.keys)
	key := sampleKey.FindString(scripted.asked[1])
	scripted.mu.Unlock()
	require.NotEmpty(t, key)
	require.Zero(t, a.stop())

	look := func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		require.NotContains(t, string(text), key, path)
		require.NotContains(t, string(text), endpointKey, path)
		require.NotContains(t, string(text), "I go on with", path)
		return nil
	}
	require.NoError(t, filepath.WalkDir(string(a.folder), look))
}

// keyFlow makes a workspace with an owner and a flow that is about a key, for the model.
func (a *agent) keyFlow(product string) string {
	a.t.Helper()
	status, answer := a.call("node1", "POST", "/v1/signup", "", map[string]any{"label": "agent"})
	require.Equal(a.t, 201, status, answer)
	a.key = answer["key"].(string)
	tenant := "/api/v1/admin/workspaces/" + answer["workspace"].(string)
	status, answer = a.call("node1", "POST", tenant+"/claim", a.AdminKey,
		map[string]any{"owner": "ada@example.com"})
	require.Equal(a.t, 200, status, answer)
	status, answer = a.call("node2", "POST", "/v1/flows", a.key, map[string]any{
		"name": "Key", "url": product + "/", "task": "Get a key.", "successCriteria": "It works.",
		"access": "public", "agent": "thinker", "credential": "bearer",
		"verification": map[string]any{"url": product + "/me", "contains": "sample"},
	})
	require.Equal(a.t, 201, status, answer)
	flow := inner(answer, "flow", "id").(string)
	status, answer = a.call("node1", "POST", tenant+"/flows/"+flow+"/confirm-signup", a.AdminKey,
		map[string]any{})
	require.Equal(a.t, 200, status, answer)
	return flow
}
