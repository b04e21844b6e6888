package certs_test

import (
	"bytes"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/certs"
)

// lines collects what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func openPair(t *testing.T, folder, node string) *certs.Pair {
	t.Helper()
	pair, err := certs.OpenPair(filepath.Join(folder, certs.CertificateFile(node)),
		filepath.Join(folder, certs.KeyFile(node)), slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return pair
}

// replaceFile puts text in a file's place by a rename, as tools that issue certificates do.
func replaceFile(t *testing.T, file string, text []byte) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", text, 0o600))
	require.NoError(t, os.Rename(file+".new", file))
}

func readFile(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	return text
}

func shown(t *testing.T, config *tls.Config) []byte {
	t.Helper()
	pair, err := config.GetCertificate(&tls.ClientHelloInfo{})
	require.NoError(t, err)
	return pair.Certificate[0]
}

// TestNewCertificatesAreTaken: a good pair is taken, on both sides; one that is broken, does not
// fit its key or has expired is refused with the reason, and what was in use stays.
func TestNewCertificatesAreTaken(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	issue(t, folder, "node1")
	issue(t, other, "node1")
	file := filepath.Join(folder, certs.CertificateFile("node1"))
	key := filepath.Join(folder, certs.KeyFile("node1"))
	pair := openPair(t, folder, "node1")
	config := pair.Server()
	first := shown(t, config)
	good := [2][]byte{readFile(t, file), readFile(t, key)}

	taken, err := pair.Reload()
	require.NoError(t, err)
	require.False(t, taken, "nothing is new")

	refused := func(why string) {
		t.Helper()
		taken, err := pair.Reload()
		require.ErrorContains(t, err, why)
		require.False(t, taken)
		_, again := pair.Reload()
		require.Equal(t, err, again, "it is what lies there still")
		leaf, refused := pair.Leaf()
		require.Equal(t, err, refused)
		require.Equal(t, first, leaf.Raw)
		require.Equal(t, first, shown(t, config))
	}
	replaceFile(t, file, []byte("rubbish"))
	refused("failed to find any PEM data")
	replaceFile(t, file, readFile(t, filepath.Join(other, certs.CertificateFile("node1"))))
	refused("private key does not match")
	require.NoError(t, os.Remove(file))
	refused("no such file")
	authority, err := certs.OpenAuthority(folder)
	require.NoError(t, err)
	require.NoError(t, authority.IssueFor(folder, "node1", nil, certs.Validity{
		From: time.Now().Add(-2 * time.Hour), Until: time.Now().Add(-time.Hour),
	}))
	refused("valid from")

	replaceFile(t, file, good[0])
	replaceFile(t, key, good[1])
	taken, err = pair.Reload()
	require.NoError(t, err)
	require.True(t, taken)
	require.NoError(t, os.Rename(key, key+".away"))
	refused("no such file")
	require.NoError(t, os.Rename(key+".away", key))
	_, err = pair.Reload()
	require.NoError(t, err)
	_, why := pair.Leaf()
	require.NoError(t, why, "what lies there is in use")
	require.NoError(t, authority.Issue(folder, "node1", []string{"127.0.0.1"}))
	taken, err = pair.Reload()
	require.NoError(t, err)
	require.True(t, taken)
	require.NotEqual(t, first, shown(t, config))
	peer, err := pair.Peer(filepath.Join(folder, certs.AuthorityFile))
	require.NoError(t, err)
	client, err := peer.GetClientCertificate(&tls.CertificateRequestInfo{})
	require.NoError(t, err)
	require.Equal(t, shown(t, config), client.Certificate[0])
}

// TestWatchSaysWhatItRefuses: once for each problem, and what is good again is taken.
func TestWatchSaysWhatItRefuses(t *testing.T) {
	folder := t.TempDir()
	issue(t, folder, "node1")
	file := filepath.Join(folder, certs.CertificateFile("node1"))
	said := &lines{}
	pair, err := certs.OpenPair(file, filepath.Join(folder, certs.KeyFile("node1")),
		slog.New(slog.NewTextHandler(said, nil)))
	require.NoError(t, err)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pair.Watch(done, 2*time.Millisecond)
	}()
	config := pair.Server()
	first := shown(t, config)
	replaceFile(t, file, []byte("rubbish"))
	require.Eventually(t, func() bool {
		return strings.Contains(said.String(), "a new certificate was refused")
	}, 10*time.Second, time.Millisecond)
	require.Equal(t, first, shown(t, config))
	issue(t, folder, "node1")
	require.Eventually(t, func() bool {
		return strings.Contains(said.String(), "new certificate in use") &&
			!bytes.Equal(first, shown(t, config))
	}, 10*time.Second, time.Millisecond)
	close(done)
	<-ended
	require.NotContains(t, said.String(), "PRIVATE KEY")
}
