package daemon

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
	"tollgate/server/provider/runner"
	"tollgate/server/workspaceapi"
)

// TestConfiguredAgents: in the order of the settings, each of its kind; a model's key comes from
// its file, and a file that is not there keeps the node from starting.
func TestConfiguredAgents(t *testing.T) {
	key := filepath.Join(t.TempDir(), "model.key")
	require.NoError(t, os.WriteFile(key, []byte("mk-1\n"), 0o600))
	n := &node{}
	n.settings.Data = t.TempDir()
	n.settings.Workspaces = config.Workspaces{
		Agents:   []string{"clever", "nop", "http", "local"},
		Commands: []config.AgentCommand{{Name: "local", Version: "2", Command: []string{"x"}}},
		Models: []config.AgentModel{{
			Name: "clever", Version: "3", Dialect: "anthropic", URL: "http://127.0.0.1:9/v1/messages",
			Model: "m", KeyFile: key, Steps: 7, Tokens: 9, AllowNetworks: []string{"127.0.0.0/8"},
		}},
	}
	var c workspaceapi.Config
	agents, err := n.openAgents(&c)
	require.NoError(t, err)
	require.Equal(t, []workspaceapi.Agent{
		{Name: "clever", Kind: "llm", Version: "3"},
		{Name: "nop", Kind: "nop", Version: "1"},
		{Name: "http", Kind: "http", Version: "1"},
		{Name: "local", Kind: "exec", Version: "2"},
	}, c.Agents)
	model := agents["clever"].(*runner.LLM)
	require.Equal(t, "mk-1", model.Endpoint.Key)
	require.Equal(t, runner.DialectAnthropic, model.Endpoint.Dialect)
	local := agents["local"].(*runner.Exec)
	require.Same(t, local.Web, model.Web, "the product is reached as every product is")
	require.NoError(t, model.Endpoint.Client.Check(model.Endpoint.URL))
	require.Error(t, model.Endpoint.Client.Check("http://127.0.0.1:10/"))
	require.Error(t, model.Web.Check("http://127.0.0.1/"), "the endpoint's network is for the endpoint alone")
	require.Equal(t, runner.Limits{MemoryMiB: 2048, FileMiB: 1024, OpenFiles: 1024}, local.Limits)
	require.Equal(t, filepath.Join(n.settings.Data, "agents"), local.Folder)
	require.Equal(t, []int{7, 9}, []int{model.Steps, model.Tokens})

	require.NoError(t, os.Remove(key))
	_, err = n.openAgents(&c)
	require.ErrorContains(t, err, "keyFile")
}
