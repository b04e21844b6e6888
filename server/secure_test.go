package server_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server"
)

// selfSigned is a certificate for 127.0.0.1, and the pool of those who trust it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	certificate, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestTLSListener: what is true of a listener in the clear is true of one over TLS, its limits and
// the answers to what cannot be read included; who does not speak TLS gets nothing, and who is slow
// in shaking hands is cut off.
func TestTLSListener(t *testing.T) {
	certificate, pool := selfSigned(t)
	limits := short()
	limits.PerAddress = 2
	limits.Header = 2 * time.Second // a busy machine has to look at connections that shake hands
	s, err := server.ListenTLS("127.0.0.1:0", hello, limits,
		&tls.Config{Certificates: []tls.Certificate{certificate}})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		require.NoError(t, s.Shutdown(ctx))
	})
	address := s.Addr().String()
	// ask sends text over a connection, by TLS where trusted is given, and returns all that comes.
	ask := func(c net.Conn, trusted *x509.CertPool, text string) (string, error) {
		if trusted != nil {
			c = tls.Client(c, &tls.Config{RootCAs: trusted, ServerName: "127.0.0.1"})
		}
		if _, err := c.Write([]byte(text)); err != nil {
			return "", err
		}
		all, err := io.ReadAll(c)
		return string(all), err
	}
	const whole = "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

	text, err := ask(dial(t, address), pool, whole)
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "HTTP/1.1 200 "), text)
	require.Contains(t, text, "hello")
	text, err = ask(dial(t, address), pool, "GET /api/v1/client/x HTTP/1.1\r\nX:\x00\r\n\r\n")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(text, "HTTP/1.1 400 "), text)
	require.Contains(t, text, `"success":false`, "in the shape of the API that was meant")

	plain, _ := ask(dial(t, address), nil, whole)
	require.NotContains(t, plain, "HTTP/1.1", "in the clear nobody is answered")
	_, untrusted := selfSigned(t)
	_, err = ask(dial(t, address), untrusted, whole)
	require.ErrorContains(t, err, "unknown authority")

	// A connection waits in the kernel before the server lets it in or refuses it.
	open := func(want int) {
		require.Eventually(t, func() bool {
			count, _ := s.Connections()
			return count == want
		}, slowest, 10*time.Millisecond)
	}
	open(0)
	began := time.Now()
	silent, halfway := dial(t, address), dial(t, address)
	open(2)
	_, err = halfway.Write([]byte{22, 3, 1, 2, 0}) // the head of a ClientHello
	require.NoError(t, err)
	refused, err := ask(dial(t, address), pool, whole)
	require.Error(t, err, "beyond the connections of an address: %q", refused)
	for _, c := range []net.Conn{silent, halfway} {
		_, err = io.Copy(io.Discard, c)
		require.NoError(t, err)
	}
	require.Greater(t, time.Since(began), limits.Header)
	require.Less(t, time.Since(began), limits.Header+5*time.Second)
	require.Eventually(t, func() bool {
		text, err := ask(dial(t, address), pool, whole)
		return err == nil && strings.HasPrefix(text, "HTTP/1.1 200 ")
	}, 5*time.Second, 10*time.Millisecond)
}
