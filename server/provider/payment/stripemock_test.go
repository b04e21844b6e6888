package payment_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// stripeMock is Stripe's own check of requests against its OpenAPI description. It is a program of
// another module, so that its dependencies stay out of ours.
const (
	stripeMock        = "github.com/stripe/stripe-mock"
	stripeMockVersion = "v0.203.0"
)

// installStripeMock builds the pinned version once for each user of this machine.
func installStripeMock(t *testing.T) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = t.TempDir()
	}
	folder := filepath.Join(cache, "tollgate-test", "stripe-mock-"+stripeMockVersion)
	program := filepath.Join(folder, "stripe-mock")
	if _, err := os.Stat(program); err == nil {
		return program
	}
	require.NoError(t, os.MkdirAll(folder, 0o755))
	// Built beside and renamed, so that tests that run at once never start half a program.
	fresh, err := os.MkdirTemp(folder, "build-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(fresh)) }()
	build := exec.CommandContext(t.Context(), "go", "install", stripeMock+"@"+stripeMockVersion)
	build.Env = append(os.Environ(), "GOBIN="+fresh, "GOFLAGS=")
	build.Dir = fresh
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	require.NoError(t, os.Rename(filepath.Join(fresh, "stripe-mock"), program))
	return program
}

// startStripeMock runs it on loopback until the test ends and returns its host:port. It insists on
// the API version of its description, which has to be the one that we pin.
func startStripeMock(t *testing.T) string {
	t.Helper()
	mock := exec.CommandContext(t.Context(), installStripeMock(t),
		"-http-addr", "127.0.0.1:", "-https-addr", "127.0.0.1:", "-strict-version-check")
	output, err := mock.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, mock.Start())
	address := make(chan string, 1)
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		lines := bufio.NewScanner(output)
		for lines.Scan() {
			if _, found, ok := strings.Cut(lines.Text(), "Listening for HTTP at address: "); ok {
				address <- found
			}
		}
	}()
	t.Cleanup(func() {
		if err := mock.Process.Kill(); err != nil && !strings.Contains(err.Error(), "finished") {
			t.Error(err)
		}
		<-drained
		// Killed on purpose: Wait only reaps.
		if err := mock.Wait(); err == nil {
			t.Log(fmt.Sprint("stripe-mock ended by itself: ", mock.ProcessState))
		}
	})
	select {
	case host := <-address:
		return host
	case <-time.After(20 * time.Second):
		require.FailNow(t, "stripe-mock did not start")
		return ""
	}
}
