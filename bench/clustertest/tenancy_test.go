package clustertest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tenancy is a workspace that goes on while builds change: runs that wait for a person, purchases
// that are paid on a page, flows that are archived.
type tenancy struct {
	*agent
	tenant, product string
	runs            []string
}

// askingAgent writes the agent that asks, and returns the flag that offers it.
func askingAgent(t *testing.T) (flags []string) {
	file := filepath.Join(t.TempDir(), "asking.sh")
	require.NoError(t, os.WriteFile(file, []byte(asking), 0o700))
	return []string{"--agent", "asking=" + file}
}

// moveIn signs up, with an owner, on a cluster that offers the agent that asks.
func moveIn(d *development) *tenancy {
	product := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write([]byte("all is well")); err != nil {
			return // who asked has gone
		}
	}))
	d.t.Cleanup(product.Close)
	w := &tenancy{agent: &agent{development: d}, product: product.URL}
	w.tenant = w.claim()
	return w
}

// goesOn does, by a node, what a workspace does, to its end.
func (w *tenancy) goesOn(id string) {
	t := w.t
	t.Helper()
	n := len(w.runs)
	flow := w.flow("asking", w.product, "well")
	run := w.begin(id, flow, fmt.Sprintf("the-start-%d", n))
	w.until(id, run, "waiting_for_human")
	answer := map[string]any{"answer": "the small one"}
	require.Eventually(t, func() bool {
		status, refused := w.call(id, "POST", "/v1/runs/"+run+"/resume", w.key, answer)
		return status == 202 || refused["error"] == "run_not_waiting"
	}, patience, statusEvery)
	ended := w.until(id, run, "completed")
	require.Equal(t, "passed", inner(ended, "run", "outcome"), ended)
	w.runs = append(w.runs, run)
	w.buys(id, fmt.Sprintf("purchase-%d", n))
	require.Eventually(t, func() bool {
		status, gone := w.call(id, "DELETE", "/v1/flows/"+flow, w.key, nil)
		return status == 200 && gone["archived"] == true || status == 404
	}, patience, statusEvery)
}

// buys has a run approved by the operator and paid on the sandbox's page.
func (w *tenancy) buys(id, key string) {
	t := w.t
	t.Helper()
	var answer map[string]any
	require.Eventually(t, func() bool {
		var status int
		status, answer = w.call(id, "POST", "/v1/purchases", w.key, map[string]any{"runs": 1},
			"Idempotency-Key", key)
		return status == 402 || status == 201
	}, patience, statusEvery, "%v", answer)
	purchase := inner(answer, "purchase", "id").(string)
	if inner(answer, "purchase", "status") == "succeeded" {
		return // the card that the first page saved
	}
	workspace := "/api/v1/admin/workspaces/" + w.tenant
	page := ""
	require.Eventually(t, func() bool {
		_, answer = w.call(id, "POST", workspace+"/purchases/"+purchase+"/approve", w.AdminKey,
			map[string]any{"owner": "ada@example.com"})
		_, answer = w.call(id, "GET", workspace, w.AdminKey, nil)
		all, ok := inner(answer, "data", "purchases").([]any)
		for _, one := range all {
			p, is := one.(map[string]any)
			if at, has := p["url"].(string); ok && is && has && p["id"] == purchase {
				page = at
			}
		}
		return page != ""
	}, patience, statusEvery, "no page was made: %v", answer)
	require.Eventually(t, func() bool {
		form := url.Values{"attempt": {key}, "card": {"success"}}
		response, err := http.Post(page, "application/x-www-form-urlencoded",
			strings.NewReader(form.Encode()))
		return err == nil && response.Body.Close() == nil && response.StatusCode < 500
	}, patience, statusEvery)
	require.Eventually(t, func() bool {
		_, answer = w.call(id, "GET", "/v1/purchases/"+purchase, w.key, nil)
		return inner(answer, "purchase", "status") == "succeeded"
	}, patience, statusEvery, "%v", answer)
}

// stands reports whether nothing of it is lost, by a node.
func (w *tenancy) stands(id string) {
	w.t.Helper()
	for n, run := range w.runs {
		answer := w.run(id, run)
		require.Equal(w.t, "passed", inner(answer, "run", "outcome"), "run %d: %v", n, answer)
		require.NotEmpty(w.t, inner(answer, "run", "verification", "calls"), "run %d", n)
	}
	_, answer := w.call(id, "GET", "/v1/account", w.key, nil)
	require.EqualValues(w.t, len(w.runs), inner(answer, "billing", "usage", "runsUsed"), answer)
}
