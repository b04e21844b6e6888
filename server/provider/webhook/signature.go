package webhook

import (
	"crypto/hmac"
	"errors"
	"strconv"
	"strings"
	"time"

	"tollgate/server/ascii"
)

// Header names of the standard.
const (
	HeaderID        = "webhook-id"
	HeaderTimestamp = "webhook-timestamp"
	HeaderSignature = "webhook-signature"
)

// Tolerance is how far a message's timestamp may be from the receiver's clock, both ways.
const Tolerance = 5 * time.Minute

const (
	maxID = 255
	// maxSignatures bounds the work of one verification: a sender rotates between two.
	maxSignatures = 16
)

// Why a message is not accepted.
var (
	// ErrHeaders: a header is missing or is not of the standard's form.
	ErrHeaders = errors.New("webhook: missing or malformed webhook headers")
	// ErrTimestamp: the message was signed too long ago, or in the future.
	ErrTimestamp = errors.New("webhook: timestamp outside the tolerance of five minutes")
	// ErrSignature: no signature fits any secret.
	ErrSignature = errors.New("webhook: no signature matches")
)

// Headers are the three headers of one message.
type Headers struct {
	ID, Timestamp, Signature string
}

// ReadHeaders takes the three headers from wherever a server keeps them.
func ReadHeaders(header func(name string) string) Headers {
	return Headers{header(HeaderID), header(HeaderTimestamp), header(HeaderSignature)}
}

// Sign makes the headers of a message, one signature for each secret. An id is 1 to 255 visible
// ASCII characters and not a point, which separates the fields that are signed.
func Sign(secrets []Secret, id string, at time.Time, body []byte) (Headers, error) {
	if !validID(id) || at.Unix() < 0 {
		return Headers{}, ErrHeaders
	}
	if len(secrets) == 0 || len(secrets) > maxSignatures {
		return Headers{}, ErrSecret
	}
	timestamp := strconv.FormatInt(at.Unix(), 10)
	signatures := make([]string, len(secrets))
	for i, secret := range secrets {
		if secret.IsZero() {
			return Headers{}, ErrSecret
		}
		signatures[i] = secret.signature(id, timestamp, body)
	}
	return Headers{id, timestamp, strings.Join(signatures, " ")}, nil
}

// Verify returns when a message was signed, or why it is not accepted. The comparison takes
// constant time. Callers detect replays within the tolerance: the id of a message is the same in
// every attempt.
func Verify(secrets []Secret, h Headers, body []byte, now time.Time) (time.Time, error) {
	at, ok := parseTimestamp(h.Timestamp)
	if !ok || !validID(h.ID) || h.Signature == "" {
		return time.Time{}, ErrHeaders
	}
	if age := now.Sub(at); age > Tolerance || age < -Tolerance {
		return time.Time{}, ErrTimestamp
	}
	offered := strings.SplitN(h.Signature, " ", maxSignatures+1)
	if len(offered) > maxSignatures {
		return time.Time{}, ErrHeaders
	}
	matched := false
	for _, secret := range secrets {
		if secret.IsZero() {
			continue
		}
		want := []byte(secret.signature(h.ID, h.Timestamp, body))
		for _, signature := range offered {
			matched = hmac.Equal([]byte(signature), want) || matched
		}
	}
	if !matched {
		return time.Time{}, ErrSignature
	}
	return at, nil
}

func validID(id string) bool {
	return ascii.Visible(id, maxID) && !strings.Contains(id, ".")
}

// parseTimestamp reads whole seconds since 1970 in the one spelling that Sign writes.
func parseTimestamp(text string) (time.Time, bool) {
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || seconds < 0 || seconds > 1<<40 || strconv.FormatInt(seconds, 10) != text {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}
