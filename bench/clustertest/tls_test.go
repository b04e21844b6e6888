package clustertest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/ports"
	"tollgate/cmd/tollgate/certs"
	"tollgate/cmd/tollgate/config"
)

// solo is the configuration of one node, alone, after change, and the file that it lies in.
func solo(t *testing.T, change func(*config.Config)) (settings config.Config, file string) {
	t.Helper()
	folder := t.TempDir()
	first, hash := ports.OfTest(t, 3), sha256.Sum256([]byte(adminKey))
	settings = config.Default()
	settings.Node, settings.Data = "solo", filepath.Join(folder, "data")
	settings.HTTP, settings.Ops = localPort(first), localPort(first+1)
	settings.Raft = localPort(first + 2)
	settings.AdminKeyHash = hex.EncodeToString(hash[:])
	change(&settings)
	text, err := settings.YAML()
	require.NoError(t, err)
	file = filepath.Join(folder, "solo.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	return settings, file
}

// trusting is a client that knows the authority beside a certificate.
func trusting(t *testing.T, files config.Certificate) *tls.Config {
	t.Helper()
	pool, err := certs.LoadAuthorities(
		filepath.Join(filepath.Dir(files.Certificate), certs.AuthorityFile))
	require.NoError(t, err)
	return &tls.Config{RootCAs: pool}
}

// serial is the serial number of the certificate that a listener shows.
func serial(t *testing.T, address string) *big.Int {
	t.Helper()
	conn, err := tls.Dial("tcp", address, &tls.Config{
		InsecureSkipVerify: true, // what it shows is looked at, not who it is
	})
	require.NoError(t, err)
	number := conn.ConnectionState().PeerCertificates[0].SerialNumber
	require.NoError(t, conn.Close())
	return number
}

// TestListenersOverTLS: both listeners of a node answer over TLS and not in the clear; new files
// are taken while it runs, a bad one is refused, logged and changes nothing, and a connection that
// is open goes on.
func TestListenersOverTLS(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	printed, err := exec.Command(program, "certs", "--out", folder, "--host", "127.0.0.1", "front").
		CombinedOutput()
	require.NoError(t, err, "%s", printed)
	settings, file := solo(t, func(c *config.Config) {
		c.HTTPTLS = config.Certificate{
			Certificate: filepath.Join(folder, certs.CertificateFile("front")),
			Key:         filepath.Join(folder, certs.KeyFile("front")),
		}
		c.OpsTLS = c.HTTPTLS
	})
	node := startServe(t, settings, []string{"serve", "--config", file})
	front := settings.HTTPTLS
	admin := connect(t, settings.Ops, settings.OpsTLS, adminKey)
	defer admin.Close()
	_, err = admin.Call(context.Background(), "POST", "/api/v1/admin/accounts",
		map[string]string{"name": "shop"}, nil)
	require.NoError(t, err)
	printed, err = exec.Command(program, "keys", "create", "--account=shop", "--env=live",
		"--ops=https://"+settings.Ops, "--admin-key="+adminKey,
		"--ca="+filepath.Join(folder, certs.AuthorityFile)).Output()
	require.NoError(t, err, "%s", printed)
	key := strings.TrimSpace(string(printed))

	open, err := tls.Dial("tcp", settings.HTTP, trusting(t, front))
	require.NoError(t, err)
	reader := bufio.NewReader(open)
	plans := func() {
		t.Helper()
		_, err := fmt.Fprintf(open, "GET /api/v1/client/plans HTTP/1.1\r\nHost: %s\r\n"+
			"Authorization: Bearer %s\r\n\r\n", settings.HTTP, key)
		require.NoError(t, err)
		answer, err := http.ReadResponse(reader, nil)
		require.NoError(t, err)
		_, err = io.Copy(io.Discard, answer.Body)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
	}
	plans()
	for _, address := range []string{settings.HTTP, settings.Ops} {
		_, err := http.Get("http://" + address + "/readyz")
		require.Error(t, err, "in the clear")
	}

	first := serial(t, settings.HTTP)
	good, err := os.ReadFile(front.Certificate)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(front.Certificate, []byte("no certificate"), 0o600))
	require.Eventually(t, func() bool {
		return strings.Count(node.printed.String(), "a new certificate was refused") == 2 // two listeners
	}, patience, statusEvery)
	require.Equal(t, first, serial(t, settings.HTTP))
	require.NoError(t, os.WriteFile(front.Certificate, good, 0o600))

	authority, err := certs.OpenAuthority(folder)
	require.NoError(t, err)
	require.NoError(t, authority.Issue(folder, "front", []string{"127.0.0.1"}))
	for _, address := range []string{settings.HTTP, settings.Ops} {
		require.Eventually(t, func() bool {
			return serial(t, address).Cmp(first) != 0
		}, patience, statusEvery, "the new certificate is taken")
	}
	plans() // on the connection that began with the old one
	require.NoError(t, open.Close())
	require.Zero(t, node.stop())
}
