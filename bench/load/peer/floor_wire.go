package peer

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Pair is a certificate and its key, in PEM, by which nodes of the floor know each other.
type Pair struct{ Certificate, Key []byte }

// mintPair makes one for this run.
func mintPair() (p Pair, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return p, fmt.Errorf("floor: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return p, fmt.Errorf("floor: %w", err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return p, fmt.Errorf("floor: %w", err)
	}
	return Pair{
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}),
	}, nil
}

// config is that of both ends.
func (p *Pair) config() (*tls.Config, error) {
	own, err := tls.X509KeyPair(p.Certificate, p.Key)
	if err != nil {
		return nil, err
	}
	known := x509.NewCertPool()
	if !known.AppendCertsFromPEM(p.Certificate) {
		return nil, errors.New("no certificate")
	}
	return &tls.Config{
		Certificates: []tls.Certificate{own}, RootCAs: known, ClientCAs: known,
		ClientAuth: tls.RequireAndVerifyClientCert, MinVersion: tls.VersionTLS13,
		ServerName: "127.0.0.1", DynamicRecordSizingDisabled: true,
	}, nil
}

// floorWire is what TLS between two nodes reads from and writes to: all records of a frame go into
// one write, and as many as are there come with one read.
type floorWire struct {
	net.Conn
	secure *tls.Conn
	in     *bufio.Reader
	out    []byte
	joins  bool
}

func newFloorWire(conn net.Conn) *floorWire {
	return &floorWire{Conn: conn, in: bufio.NewReaderSize(conn, 256<<10)}
}

// Read implements net.Conn.
func (w *floorWire) Read(b []byte) (int, error) { return w.in.Read(b) }

// Write implements net.Conn.
func (w *floorWire) Write(b []byte) (int, error) {
	if !w.joins {
		return w.Conn.Write(b)
	}
	w.out = append(w.out, b...)
	return len(b), nil
}

// send sends something whole. One goroutine sends.
func (w *floorWire) send(b []byte) error {
	w.joins = true
	if _, err := w.secure.Write(b); err != nil {
		return err
	}
	_, err := w.Conn.Write(w.out)
	w.out = w.out[:0]
	return err
}
