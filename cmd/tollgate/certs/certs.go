// Package certs makes the certificates by which the nodes of a cluster know each other: one
// authority, and one certificate for each node that is good for both sides of a connection.
package certs

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// File names within a folder of certificates.
const (
	AuthorityFile    = "ca.pem"
	authorityKeyFile = "ca-key.pem"
)

// CertificateFile and KeyFile name a node's files.
func CertificateFile(node string) string { return node + ".pem" }

// KeyFile names the file of a node's private key.
func KeyFile(node string) string { return node + "-key.pem" }

const (
	authorityYears = 10
	nodeYears      = 2
)

// Authority signs certificates of nodes.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// OpenAuthority loads the authority of a folder, and makes one (the key readable by its owner
// alone) if there is none.
func OpenAuthority(folder string) (*Authority, error) {
	certificate, key := filepath.Join(folder, AuthorityFile), filepath.Join(folder, authorityKeyFile)
	pair, err := tls.LoadX509KeyPair(certificate, key)
	if errors.Is(err, fs.ErrNotExist) {
		return createAuthority(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	private, ok := pair.PrivateKey.(*ecdsa.PrivateKey)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("certificate authority: %s is not one that certs made", certificate)
	}
	return &Authority{pair.Leaf, private}, nil
}

func createAuthority(folder string) (*Authority, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "Tollgate cluster authority"},
		NotBefore:             now.Add(-time.Hour),
		NotAfter:              now.AddDate(authorityYears, 0, 0),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	key, der, err := sign(template, nil)
	if err != nil {
		return nil, err
	}
	if err = write(folder, AuthorityFile, authorityKeyFile, key, der); err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	return &Authority{parsed, key}, nil
}

// Issue makes a certificate for a node, good for the given host names and addresses in addition to
// the node's own name, for two years, and writes it and its key into folder.
func (a *Authority) Issue(folder, node string, hosts []string) error {
	now := time.Now()
	return a.IssueFor(folder, node, hosts, Validity{
		From: now.Add(-time.Hour), Until: now.AddDate(nodeYears, 0, 0),
	})
}

// Validity is when a certificate is good.
type Validity struct{ From, Until time.Time }

// IssueFor is Issue with another validity.
func (a *Authority) IssueFor(folder, node string, hosts []string, v Validity) error {
	template := &x509.Certificate{
		Subject:     pkix.Name{CommonName: node},
		NotBefore:   v.From,
		NotAfter:    v.Until,
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		DNSNames:    []string{node},
	}
	for _, host := range hosts {
		if address := net.ParseIP(host); address != nil {
			template.IPAddresses = append(template.IPAddresses, address)
		} else if host != node {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	key, der, err := sign(template, a)
	if err != nil {
		return err
	}
	return write(folder, CertificateFile(node), KeyFile(node), key, der)
}

// sign makes a key and a certificate for it; by itself when the authority is nil.
func sign(template *x509.Certificate, by *Authority) (*ecdsa.PrivateKey, []byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate key: %w", err)
	}
	limit := new(big.Int).Lsh(big.NewInt(1), 127)
	if template.SerialNumber, err = rand.Int(rand.Reader, limit); err != nil {
		return nil, nil, fmt.Errorf("certificate serial number: %w", err)
	}
	parent, signer := template, key
	if by != nil {
		parent, signer = by.certificate, by.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		return nil, nil, fmt.Errorf("certificate: %w", err)
	}
	return key, der, nil
}

func write(folder, certificateFile, keyFile string, key *ecdsa.PrivateKey, der []byte) error {
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("certificate key: %w", err)
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	if err = os.WriteFile(filepath.Join(folder, keyFile), keyPEM, 0o600); err != nil {
		return fmt.Errorf("certificate key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	if err = os.WriteFile(filepath.Join(folder, certificateFile), text, 0o600); err != nil {
		return fmt.Errorf("certificate: %w", err)
	}
	return nil
}

// LoadAuthorities reads the certificates of authorities from a PEM file.
func LoadAuthorities(file string) (*x509.CertPool, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("certificate authority: %s holds no certificate", file)
	}
	return pool, nil
}
