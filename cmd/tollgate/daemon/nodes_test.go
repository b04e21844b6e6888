package daemon

import (
	"crypto/tls"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/ports"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	"tollgate/cmd/tollgate/dev"
	"tollgate/cmd/tollgate/devdata"
)

// patience bounds what a loaded machine may need for anything here.
const patience = 60 * time.Second

// nodes are whole nodes in this process, with TLS everywhere.
type nodes struct {
	t    *testing.T
	http http.Client
	all  []*node
	key  string // of the operator
}

// startNodes starts a cluster of so many nodes and waits until each is ready. They are closed at
// the end.
func startNodes(t *testing.T, count int) *nodes {
	t.Helper()
	return startNodesWith(t, count, func(*config.Config) {})
}

// startNodesWith is startNodes with settings that a test changes, among them the reserve of disk.
func startNodesWith(t *testing.T, count int, change func(*config.Config)) *nodes {
	t.Helper()
	data := devdata.Folder(filepath.Join(t.TempDir(), "data"))
	first := ports.OfTest(t, 3*count)
	dev := &dev.Command{
		HTTPPort: first, OpsPort: first + count, RaftPort: first + 2*count, Nodes: count,
	}
	wanted, err := dev.Configs(data)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(data.Certificates(), 0o700))
	keys, wanted, err := dev.Prepare(data, wanted)
	require.NoError(t, err)
	n := &nodes{t: t, key: keys.AdminKey}
	authorities, err := certs.LoadAuthorities(wanted[0].TLS.Authority)
	require.NoError(t, err)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: authorities}}
	t.Cleanup(transport.CloseIdleConnections)
	n.http = http.Client{Transport: transport, Timeout: patience}
	for _, settings := range wanted {
		own := config.Certificate{Certificate: settings.TLS.Certificate, Key: settings.TLS.Key}
		settings.HTTPTLS, settings.OpsTLS = own, own
		change(&settings)
		one, err := openNode(settings, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, one.close()) })
		n.all = append(n.all, one)
	}
	for _, one := range n.all {
		require.Eventually(t, func() bool {
			status, _ := n.get(one.settings.Ops, "/readyz?exclude=disk_low")
			return status == 200
		}, patience, 20*time.Millisecond, "%s is not ready", one.settings.Node)
	}
	return n
}

// get asks a listener, with the operator's key, and returns the status and the body.
func (n *nodes) get(address, path string) (int, string) {
	n.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "https://"+address+path, nil)
	require.NoError(n.t, err)
	request.Header.Set("Authorization", "Bearer "+n.key)
	answer, err := n.http.Do(request)
	require.NoError(n.t, err)
	body, err := io.ReadAll(answer.Body)
	require.NoError(n.t, err)
	require.NoError(n.t, answer.Body.Close())
	return answer.StatusCode, string(body)
}
