package certs

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"time"
)

// Pair is a certificate with its key, from two files that may be replaced while it is in use. Each
// handshake gets the newest pair that was good. Safe for concurrent use.
type Pair struct {
	certificate, key string
	log              *slog.Logger
	current          atomic.Pointer[tls.Certificate]
	// refused is why what lies in the files is not taken; nil when it is, or was never looked at.
	refused atomic.Pointer[error]
	// seen is what the files held when they were last looked at, and verdict what is wrong with
	// that; Reload's alone.
	seen    [2][]byte
	verdict error
}

// Leaf is the certificate in use, and why what lies in its file by now was not taken, nil when it
// was.
func (p *Pair) Leaf() (leaf *x509.Certificate, refused error) {
	if why := p.refused.Load(); why != nil {
		refused = *why
	}
	return p.current.Load().Leaf, refused
}

// WatchEvery is how often Watch looks at the files.
const WatchEvery = 2 * time.Second

// OpenPair reads both files. Unlike later versions, the first may have expired: a node with an old
// certificate is to start, and say so when it is asked.
func OpenPair(certificate, key string, log *slog.Logger) (*Pair, error) {
	p := &Pair{certificate: certificate, key: key, log: log}
	texts, err := p.read()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s: %w", certificate, err)
	}
	p.seen = texts
	p.current.Store(&pair)
	return p, nil
}

func (p *Pair) read() (texts [2][]byte, err error) {
	for i, file := range [2]string{p.certificate, p.key} {
		if texts[i], err = os.ReadFile(file); err != nil {
			return texts, fmt.Errorf("certificate: %w", err)
		}
	}
	return texts, nil
}

// Reload looks at the files, and takes them when they differ from what was last seen there and are
// a good pair: the key belongs to the certificate, which is valid now. Otherwise the pair in use
// stays, and the error says why, as long as the files hold what is not good. It reports whether it
// took one. Only one goroutine may call it.
func (p *Pair) Reload() (taken bool, err error) {
	taken, err = p.look()
	p.refused.Store(&err)
	return taken, err
}

func (p *Pair) look() (taken bool, err error) {
	texts, err := p.read()
	if err != nil {
		return false, err
	}
	if bytes.Equal(texts[0], p.seen[0]) && bytes.Equal(texts[1], p.seen[1]) {
		return false, p.verdict
	}
	p.seen = texts
	p.verdict = p.take(texts)
	return p.verdict == nil, p.verdict
}

// take makes a good pair the one in use.
func (p *Pair) take(texts [2][]byte) error {
	pair, err := tls.X509KeyPair(texts[0], texts[1])
	if err != nil {
		return fmt.Errorf("certificate %s: %w", p.certificate, err)
	}
	if now := time.Now(); now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter) {
		return fmt.Errorf("certificate %s: valid from %s to %s only", p.certificate,
			pair.Leaf.NotBefore.Format(time.RFC3339), pair.Leaf.NotAfter.Format(time.RFC3339))
	}
	p.current.Store(&pair)
	return nil
}

// NotAfter is when the certificate in use expires.
func (p *Pair) NotAfter() time.Time { return p.current.Load().Leaf.NotAfter }

// Watch calls Reload until done closes, and logs what came of it. Connections that are open go on
// with what they began with.
func (p *Pair) Watch(done <-chan struct{}, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	said := ""
	for {
		select {
		case <-done:
			return
		case <-tick.C:
		}
		taken, err := p.Reload()
		switch {
		case err != nil && err.Error() != said:
			said = err.Error()
			p.log.Error("a new certificate was refused; the one in use stays until a good pair lies "+
				"in its place", "error", err)
		case taken:
			said = ""
			p.log.Info("new certificate in use", "file", p.certificate,
				"validUntil", p.NotAfter())
		}
	}
}

// Server is the configuration of a listener that shows this certificate to everybody.
func (p *Pair) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return p.current.Load(), nil
		},
	}
}

// Peer is the configuration of a node: it shows this certificate on both sides of a connection and
// accepts only what one of the authorities in a PEM file has signed.
func (p *Pair) Peer(authority string) (*tls.Config, error) {
	pool, err := LoadAuthorities(authority)
	if err != nil {
		return nil, err
	}
	c := p.Server()
	c.MinVersion, c.NextProtos = tls.VersionTLS13, nil
	c.RootCAs, c.ClientCAs, c.ClientAuth = pool, pool, tls.RequireAndVerifyClientCert
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return p.current.Load(), nil
	}
	return c, nil
}
