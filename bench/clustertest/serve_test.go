package clustertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/ports"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
	api "tollgate/sdk/go"
)

const adminKey = "an admin key of the operator's own making"

// A node for real use, alone: configuration from file and flags, certificates from the command
// line, an account and a key through the admin API, and all of it there after a restart.
func TestServeRunsOneNode(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	printed, err := exec.Command(program, "serve", "--sample").Output()
	require.NoError(t, err)
	require.Equal(t, config.Sample, string(printed))
	printed, err = exec.Command(program, "certs", "--out", filepath.Join(folder, "certs"),
		"--host", "127.0.0.1", "solo").CombinedOutput()
	require.NoError(t, err, "%s", printed)

	first := ports.OfTest(t, 3)
	hash := sha256.Sum256([]byte(adminKey))
	settings := config.Default()
	settings.Node = "solo"
	settings.Data = filepath.Join(folder, "data")
	settings.HTTP, settings.Ops = localPort(first), localPort(first+1)
	settings.AdminKeyHash = hex.EncodeToString(hash[:])
	settings.TLS = config.TLS{
		Authority:   filepath.Join(folder, "certs", "ca.pem"),
		Certificate: filepath.Join(folder, "certs", "solo.pem"),
		Key:         filepath.Join(folder, "certs", "solo-key.pem"),
	}
	text, err := settings.YAML()
	require.NoError(t, err)
	file := filepath.Join(folder, "solo.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	args := []string{"serve", "--config", file, "--raft", localPort(first + 2)}

	node := startServe(t, settings, args)
	admin, err := api.New([]string{settings.Ops}, adminKey, 1)
	require.NoError(t, err)
	defer admin.Close()
	_, err = admin.Call(context.Background(), "POST", "/api/v1/admin/accounts",
		map[string]string{"name": "shop"}, nil)
	require.NoError(t, err)
	printed, err = exec.Command(program, "keys", "create", "--account=shop", "--env=live",
		"--ops="+settings.Ops, "--admin-key="+adminKey).Output()
	require.NoError(t, err)
	key := strings.TrimSpace(string(printed))
	require.Regexp(t, "^sk_live_", key)

	printed, err = exec.Command(program, args...).CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(printed), "is in use: another node runs there")
	require.Zero(t, node.stop())

	node = startServe(t, settings, args)
	client, err := api.New([]string{settings.HTTP}, key, 1)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Call(context.Background(), "GET", "/api/v1/client/plans", nil, &[]struct{}{})
	require.NoError(t, err)
	require.Zero(t, node.stop())
}

func TestServeRefusesWhatItCannotMean(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "node.yaml")
	for text, want := range map[string]string{
		"fsync: false\n":                 "field fsync not found",
		"node: A\nhttp: x\naudit: off\n": "audit:",
		"node: [\n":                      "yaml",
	} {
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		printed, err := exec.Command(program, "serve", "--config", file).CombinedOutput()
		require.Error(t, err)
		require.Contains(t, string(printed), want)
	}
}

func localPort(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// connect makes a client of one listener. Where that has a certificate, the authority that signed
// it lies beside it.
func connect(t *testing.T, address string, files config.Certificate, key string) *api.Client {
	t.Helper()
	if files != (config.Certificate{}) {
		address = "https://" + address
	}
	client, err := api.New([]string{address}, key, 1)
	require.NoError(t, err)
	if files != (config.Certificate{}) {
		text, err := os.ReadFile(filepath.Join(filepath.Dir(files.Certificate), certs.AuthorityFile))
		require.NoError(t, err)
		require.NoError(t, client.Trust(text))
	}
	return client
}

// served is one node process.
type served struct {
	t       *testing.T
	command *exec.Cmd
	printed *output
	ended   chan struct{}
}

// startServe runs a node and waits until it is ready. It is killed at the end of the test.
func startServe(t *testing.T, settings config.Config, args []string) *served {
	t.Helper()
	return startNode(t, settings, exec.Command(program, args...))
}

func startNode(t *testing.T, settings config.Config, command *exec.Cmd) *served {
	t.Helper()
	s := launch(t, command)
	probe := connect(t, settings.Ops, settings.OpsTLS, "")
	defer probe.Close()
	require.Eventually(t, func() bool {
		answer, err := probe.Try(context.Background(), api.Request{Method: "GET", Path: "/readyz"})
		return err == nil && answer.Status == 200
	}, patience, statusEvery, "not ready: %s", s.printed)
	return s
}

// launch runs a node, which is killed at the end of the test.
func launch(t *testing.T, command *exec.Cmd) *served {
	t.Helper()
	s := &served{t, command, &output{}, make(chan struct{})}
	s.command.Stdout, s.command.Stderr = s.printed, s.printed
	require.NoError(t, s.command.Start())
	go func() {
		_ = s.command.Wait() // how it ended is in its ProcessState
		close(s.ended)
	}()
	t.Cleanup(func() {
		killProcess(t, s.command.Process.Pid)
		<-s.ended
	})
	return s
}

func (s *served) hasEnded() bool {
	select {
	case <-s.ended:
		return true
	default:
		return false
	}
}

// stop ends the node with SIGTERM and says its exit code.
func (s *served) stop() int {
	s.t.Helper()
	require.NoError(s.t, s.command.Process.Signal(syscall.SIGTERM))
	<-s.ended
	if code := s.command.ProcessState.ExitCode(); code != 0 {
		s.t.Logf("%s", s.printed)
	}
	return s.command.ProcessState.ExitCode()
}
