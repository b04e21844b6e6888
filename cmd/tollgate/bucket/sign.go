package bucket

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Signature Version 4 of Amazon: "Authenticating Requests: Using the Authorization Header".
const (
	algorithm = "AWS4-HMAC-SHA256"
	instant   = "20060102T150405Z"
	day       = "20060102"
)

// sign adds the headers that prove who asks. The request's URL has its final form, and payload is
// the SHA-256 of its body in hex.
func (k *Keys) sign(r *http.Request, region, payload string, now time.Time) {
	now = now.UTC()
	r.Header.Set("X-Amz-Date", now.Format(instant))
	r.Header.Set("X-Amz-Content-Sha256", payload)
	if k.Token != "" {
		r.Header.Set("X-Amz-Security-Token", k.Token)
	}
	headers := map[string]string{"host": r.URL.Host}
	for name, values := range r.Header {
		headers[strings.ToLower(name)] = strings.TrimSpace(strings.Join(values, ","))
	}
	names := make([]string, 0, len(headers))
	for name := range headers {
		names = append(names, name)
	}
	slices.Sort(names)
	var listed strings.Builder
	for _, name := range names {
		listed.WriteString(name + ":" + headers[name] + "\n")
	}
	signed := strings.Join(names, ";")
	canonical := strings.Join([]string{
		r.Method, r.URL.EscapedPath(), canonicalQuery(r.URL.Query()), listed.String(), signed, payload,
	}, "\n")
	scope := now.Format(day) + "/" + region + "/s3/aws4_request"
	text := strings.Join([]string{
		algorithm, now.Format(instant), scope, hexOf([]byte(canonical)),
	}, "\n")
	key := []byte("AWS4" + k.Secret)
	for _, part := range []string{now.Format(day), region, "s3", "aws4_request"} {
		key = mac(key, part)
	}
	r.Header.Set("Authorization", algorithm+" Credential="+k.ID+"/"+scope+", SignedHeaders="+signed+
		", Signature="+hex.EncodeToString(mac(key, text)))
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hexOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// canonicalQuery is a query with its names in order, and encoded as Amazon does.
func canonicalQuery(q url.Values) string {
	var pairs []string
	for name, values := range q {
		for _, v := range values {
			pairs = append(pairs, encode(name, false)+"="+encode(v, false))
		}
	}
	slices.Sort(pairs)
	return strings.Join(pairs, "&")
}

// encode percent-encodes all but the unreserved characters, and a path's slashes.
func encode(text string, path bool) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(text) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9',
			strings.IndexByte("-_.~", c) >= 0, path && c == '/':
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return b.String()
}
