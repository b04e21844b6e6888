package certs_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/certs"
)

func load(t *testing.T, folder, node string) *tls.Config {
	t.Helper()
	config, err := openPair(t, folder, node).Peer(filepath.Join(folder, certs.AuthorityFile))
	require.NoError(t, err)
	return config
}

func issue(t *testing.T, folder string, nodes ...string) {
	t.Helper()
	authority, err := certs.OpenAuthority(folder)
	require.NoError(t, err)
	for _, node := range nodes {
		require.NoError(t, authority.Issue(folder, node, []string{"127.0.0.1", node}))
	}
}

// handshake connects a client to a server and returns what each side says of the other.
func handshake(t *testing.T, server, client *tls.Config) (serverErr, clientErr error) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() {
		conn, err := listener.Accept()
		if err == nil {
			err = tls.Server(conn, server).Handshake()
		}
		done <- err
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	client = client.Clone()
	client.ServerName = "127.0.0.1"
	secured := tls.Client(conn, client)
	if clientErr = secured.Handshake(); clientErr != nil {
		require.NoError(t, conn.Close())
	}
	serverErr = <-done
	require.NoError(t, listener.Close())
	return serverErr, clientErr
}

func TestNodesOfOneClusterAcceptEachOther(t *testing.T) {
	folder := t.TempDir()
	issue(t, folder, "node1")
	issue(t, folder, "node2") // the authority is loaded, not made again
	serverErr, clientErr := handshake(t, load(t, folder, "node1"), load(t, folder, "node2"))
	require.NoError(t, clientErr)
	require.NoError(t, serverErr)
}

func TestStrangersAreRefusedOnBothSides(t *testing.T) {
	ours, theirs := t.TempDir(), t.TempDir()
	issue(t, ours, "node1")
	issue(t, theirs, "node1")

	_, clientErr := handshake(t, load(t, theirs, "node1"), load(t, ours, "node1"))
	require.ErrorContains(t, clientErr, "unknown authority")

	forged := load(t, theirs, "node1")
	forged.RootCAs = load(t, ours, "node1").RootCAs // believes our server, shows its own certificate
	serverErr, _ := handshake(t, load(t, ours, "node1"), forged)
	require.ErrorContains(t, serverErr, "unknown authority")

	forged.GetClientCertificate = nil
	serverErr, _ = handshake(t, load(t, ours, "node1"), forged)
	require.Error(t, serverErr)
}

func TestKeysAreReadableByTheirOwnerAlone(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "certs")
	issue(t, folder, "node1")
	files, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, files, 4)
	for _, file := range files {
		info, err := file.Info()
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), file.Name())
	}
}
