package doctor

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// A certificate that ends within soonEnds is to be replaced; within nearlyEnded it is urgent.
const (
	soonEnds    = 30 * 24 * time.Hour
	nearlyEnded = 7 * 24 * time.Hour
)

const day = 24 * time.Hour

// replaceCertificate and replaceAuthority say how.
const (
	replaceCertificate = "issue another one (tollgate certs, OPERATIONS.md, Certificates) and put " +
		"it in its place: it is taken within seconds, without a restart"
	replaceAuthority = "make another authority, and give every node the old and the new one in one " +
		"file first: OPERATIONS.md, Certificates"
)

func (c *chart) certificate(v Certificate, now time.Time) {
	do := replaceCertificate
	if v.Use == useAuthority {
		do = replaceAuthority
	}
	check := "certificate " + v.Use
	left, until := v.Until.Sub(now), v.Until.UTC().Format(time.RFC3339)
	switch {
	case now.Before(v.From):
		c.fail(check, fmt.Sprintf("%s is not valid before %s", v.File, v.From.UTC().Format(time.RFC3339)),
			"look at the machine's clock, and at the certificate")
	case left <= 0:
		c.fail(check, fmt.Sprintf("%s ended at %s", v.File, until), do)
	case left < nearlyEnded:
		c.fail(check, fmt.Sprintf("%s ends at %s, in %d days", v.File, until, left/day), do)
	case left < soonEnds:
		c.warn(check, fmt.Sprintf("%s ends at %s, in %d days", v.File, until, left/day), do)
	default:
		c.ok(check, "%s is valid until %s", v.File, until)
	}
	if v.Problem != "" {
		c.fail(check, v.File+": "+v.Problem, "put a good certificate and its key there")
	}
}

// What certificates are for, as metrics say it, too.
const (
	UsePeers     = "peers" // the setting tls
	UseHTTP      = "http"  // httpTLS
	UseOps       = "ops"   // opsTLS
	useAuthority = "authority"
)

// OfCertificate reports whether an error is about the certificate of the node that was asked.
func OfCertificate(err error) bool {
	var verification *tls.CertificateVerificationError
	return errors.As(err, &verification)
}

// Authorities reads the certificates of authorities from a PEM file.
func Authorities(file string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("certificate authority: %w", err)
	}
	var all []*x509.Certificate
	for {
		var block *pem.Block
		if block, text = pem.Decode(text); block == nil {
			break
		}
		one, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate authority: %s: %w", file, err)
		}
		all = append(all, one)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("certificate authority: %s holds no certificate", file)
	}
	return all, nil
}

// Authority describes a file of authorities, of which each has one node or another go on: it ends
// when the last of them does. When one of them ends shows where a certificate rests on it (Shown).
func Authority(file string, all []*x509.Certificate) Certificate {
	last := slices.MaxFunc(all, func(a, b *x509.Certificate) int {
		return a.NotAfter.Compare(b.NotAfter)
	})
	return Certificate{Use: useAuthority, File: file, From: last.NotBefore, Until: last.NotAfter}
}

// Shown describes a certificate that a node shows. Where other nodes ask for an authority, it ends
// no later than the authority that signed it.
func Shown(use, file string, leaf *x509.Certificate, authorities []*x509.Certificate) Certificate {
	v := Certificate{Use: use, File: file, From: leaf.NotBefore, Until: leaf.NotAfter}
	if authorities == nil {
		return v
	}
	var signed time.Time
	for _, a := range authorities {
		if leaf.CheckSignatureFrom(a) == nil && a.NotAfter.After(signed) {
			signed = a.NotAfter
		}
	}
	if signed.IsZero() {
		v.Problem = "it is signed by none of the authorities in tls.authority, so that other nodes " +
			"refuse it"
	} else if signed.Before(v.Until) {
		v.Until = signed
	}
	return v
}
