// Package paymenttest runs Stripe's own stand-in for tests that speak to Stripe: as it is, and with
// a memory in front of it.
package paymenttest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
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
func installStripeMock(t testing.TB) string {
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
	// Built next to its place and renamed, so that tests that run at once never start half a program.
	fresh, err := os.MkdirTemp(folder, "build-")
	require.NoError(t, err)
	defer func() { require.NoError(t, os.RemoveAll(fresh)) }()
	build := exec.CommandContext(t.Context(), "go", "install", stripeMock+"@"+stripeMockVersion)
	// With the flags of `make unit`, which has compiled the standard library.
	build.Env = append(os.Environ(), "GOBIN="+fresh, "CGO_ENABLED=0")
	build.Dir = fresh
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	require.NoError(t, os.Rename(filepath.Join(fresh, "stripe-mock"), program))
	return program
}

// shared is the instance that all tests of a process use, where Main runs them.
var shared struct {
	mu   sync.Mutex
	on   bool
	host string
	stop func() error
}

// Main runs a package's tests with one stripe-mock between them: it keeps nothing, and takes a
// second to start.
func Main(m *testing.M) {
	shared.on = true
	code := m.Run()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.stop != nil {
		if err := shared.stop(); err != nil {
			fmt.Fprintln(os.Stderr, "stripe-mock:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// StripeMock runs it on loopback, until the test ends or all of Main's have, and returns its
// host:port. It insists on the API version of its description, which has to be the one that we pin.
func StripeMock(t testing.TB) string {
	t.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.host != "" {
		return shared.host
	}
	host, stop, err := runStripeMock(installStripeMock(t))
	require.NoError(t, err)
	if shared.on {
		shared.host, shared.stop = host, stop
		return host
	}
	t.Cleanup(func() { require.NoError(t, stop()) })
	return host
}

// startPatience is how long a loaded machine may need to start it.
const startPatience = time.Minute

func runStripeMock(program string) (host string, stop func() error, err error) {
	mock := exec.Command(program,
		"-http-addr", "127.0.0.1:", "-https-addr", "127.0.0.1:", "-strict-version-check")
	output, err := mock.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := mock.Start(); err != nil {
		return "", nil, err
	}
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
	stop = func() error {
		err := mock.Process.Kill()
		<-drained
		var killed *exec.ExitError
		if waited := mock.Wait(); err == nil && !errors.As(waited, &killed) {
			return fmt.Errorf("stripe-mock ended by itself: %w", waited)
		}
		return err
	}
	select {
	case host := <-address:
		return host, stop, nil
	case <-time.After(startPatience):
		return "", nil, errors.Join(errors.New("stripe-mock did not start"), stop())
	}
}
