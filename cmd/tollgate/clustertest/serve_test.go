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

	"tollgate/cmd/tollgate/api"
	"tollgate/cmd/tollgate/config"
)

const adminKey = "an admin key of the operator's own making"

// A node for real use, alone: configuration from file and flags, certificates from the command
// line, an account and a key through the admin API, and all of it there after a restart.
func TestServeRunsOneNode(t *testing.T) {
	folder := t.TempDir()
	printed, err := exec.Command(program, "serve", "--sample").Output()
	require.NoError(t, err)
	require.Equal(t, config.Sample, string(printed))
	printed, err = exec.Command(program, "certs", "--out", filepath.Join(folder, "certs"),
		"--host", "127.0.0.1", "solo").CombinedOutput()
	require.NoError(t, err, "%s", printed)

	ports := freePorts(t, 3)
	hash := sha256.Sum256([]byte(adminKey))
	settings := config.Default()
	settings.Node = "solo"
	settings.Data = filepath.Join(folder, "data")
	settings.HTTP, settings.Ops = localPort(ports), localPort(ports+1)
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
	args := []string{"serve", "--config", file, "--raft", localPort(ports + 2)}

	stop := startServe(t, settings, args)
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
	require.Zero(t, stop())

	stop = startServe(t, settings, args)
	client, err := api.New([]string{settings.HTTP}, key, 1)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Call(context.Background(), "GET", "/api/v1/client/plans", nil, &[]struct{}{})
	require.NoError(t, err)
	require.Zero(t, stop())
}

func TestServeRefusesWhatItCannotMean(t *testing.T) {
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

// startServe runs a node until the returned function stops it with SIGTERM and says its exit code.
func startServe(t *testing.T, settings config.Config, args []string) (stop func() int) {
	t.Helper()
	printed := &output{}
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = printed, printed
	require.NoError(t, command.Start())
	ended := make(chan struct{})
	go func() {
		_ = command.Wait() // how it ended is in its ProcessState
		close(ended)
	}()
	t.Cleanup(func() {
		killProcess(t, command.Process.Pid)
		<-ended
	})
	probe, err := api.New([]string{settings.Ops}, "", 1)
	require.NoError(t, err)
	defer probe.Close()
	require.Eventually(t, func() bool {
		answer, err := probe.Try(context.Background(), api.Request{Method: "GET", Path: "/readyz"})
		return err == nil && answer.Status == 200
	}, patience, statusEvery, "not ready: %s", printed)
	return func() int {
		require.NoError(t, command.Process.Signal(syscall.SIGTERM))
		<-ended
		if code := command.ProcessState.ExitCode(); code != 0 {
			t.Logf("%s", printed)
		}
		return command.ProcessState.ExitCode()
	}
}
