package collect

import (
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"tollgate/server/inspect/tree"
	"tollgate/server/provider/fetch"
)

const (
	maxExcerpt = 240
	maxHeader  = 2_000
	maxHeaders = 20
)

// readHeaders are the headers that say something about a product.
var readHeaders = []string{"Link", "WWW-Authenticate"}

func (o *Observation) take(answer *fetch.Response) {
	o.Status = &answer.Status
	kind := tree.Cut(strings.ToValidUTF8(answer.Header.Get("Content-Type"), "\ufffd"), 200)
	if kind != "" {
		o.ContentType = &kind
	}
	sum := sha256.Sum256(answer.Body)
	hash := hex.EncodeToString(sum[:])
	o.SHA256, o.Bytes, o.read = &hash, len(answer.Body), len(answer.Body)
	text := textOf(answer.Body, kind)
	o.Excerpt = excerpt(text)
	if o.success() {
		o.Text = text
	}
	for _, name := range readHeaders {
		for _, value := range answer.Header.Values(name) {
			if len(o.Headers) < maxHeaders {
				line := name + ": " + strings.ToValidUTF8(value, "\ufffd")
				o.Headers = append(o.Headers, tree.Cut(line, maxHeader))
			}
		}
	}
	hop, err := fetch.Next(answer)
	if err != nil {
		failure := failureOf(err)
		o.Failure = &failure
	}
	o.hop = hop
}

// textOf is a body as UTF-8, by its own account of its encoding.
func textOf(body []byte, kind string) string {
	if utf8.Valid(body) {
		return string(body)
	}
	encoding, _, _ := charset.DetermineEncoding(body, kind)
	decoded, err := encoding.NewDecoder().Bytes(body)
	if err != nil {
		decoded = body
	}
	return strings.ToValidUTF8(string(decoded), "\ufffd")
}

// excerpt is the beginning of a text on one line.
func excerpt(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r <= 0x9f {
			return ' '
		}
		return r
	}, tree.Cut(text, maxExcerpt))
}

// failureOf names why there is no answer to read: a rule of package fetch, or what the network did.
// It never repeats an error's text, which names ports and addresses of this machine.
func failureOf(err error) string {
	var refusal *fetch.Refusal
	var unknownHost *net.DNSError
	var certificate *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &refusal):
		return string(refusal.Rule)
	case errors.As(err, &unknownHost):
		return "dns"
	case errors.As(err, &certificate), errors.As(err, &record):
		return "tls"
	default:
		return "network"
	}
}
