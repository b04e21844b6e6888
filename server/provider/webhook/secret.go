// Package webhook sends and checks Standard Webhooks (https://www.standardwebhooks.com, version 1):
// signatures that a receiver can verify, deliveries whose outcome has a name, and the times of the
// next attempts. See DESIGN.md.
package webhook

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"
)

const (
	secretPrefix = "whsec_"
	// The standard's bounds of a secret, in bytes.
	minSecret = 24
	maxSecret = 64
	// RotationOverlap is how long a replaced secret signs next to its successor.
	RotationOverlap = 24 * time.Hour
)

// ErrSecret is the error of a secret that is none. It does not repeat it.
var ErrSecret = errors.New("webhook: a secret is whsec_ and 24 to 64 bytes in base64")

// Secret is a symmetric signing key. Printing and logging it shows only its prefix.
type Secret struct{ key string }

// MintSecret makes a secret of 32 random bytes.
func MintSecret() Secret {
	var key [32]byte
	rand.Read(key[:]) // never fails: the runtime ends the process instead
	return Secret{string(key[:])}
}

// SecretFromKey makes a secret of 24 to 64 bytes that were derived elsewhere.
func SecretFromKey(key []byte) (Secret, error) {
	if len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, ErrSecret
	}
	return Secret{string(key)}, nil
}

// ParseSecret reads what Reveal wrote. The prefix may be missing, as the standard allows.
func ParseSecret(text string) (Secret, error) {
	key, err := base64.StdEncoding.Strict().DecodeString(strings.TrimPrefix(text, secretPrefix))
	if err != nil || strings.ContainsAny(text, "\r\n") {
		return Secret{}, ErrSecret
	}
	return SecretFromKey(key)
}

// Reveal is the text to show once to the owner and to store.
func (s Secret) Reveal() string {
	return secretPrefix + base64.StdEncoding.EncodeToString([]byte(s.key))
}

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s.key == "" }

// String hides the secret.
func (s Secret) String() string { return secretPrefix + "…" }

// GoString hides the secret.
func (s Secret) GoString() string { return s.String() }

// Format hides the secret from every verb.
func (s Secret) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, s.String())
}

// LogValue hides the secret.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText refuses: a secret is stored with Reveal, on purpose, or not at all.
func (s Secret) MarshalText() ([]byte, error) {
	return nil, errors.New("webhook: a secret is not marshalled by accident")
}

// signature is what the header has of this secret.
func (s Secret) signature(id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, []byte(s.key))
	h.Write([]byte(id))
	h.Write([]byte{'.'})
	h.Write([]byte(timestamp))
	h.Write([]byte{'.'})
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// Secrets is what an endpoint signs with: one secret, and its predecessor for a while.
type Secrets struct {
	Current Secret
	// Previous signs too until PreviousUntil; it may be zero.
	Previous      Secret
	PreviousUntil time.Time
}

// Rotate makes a new secret the current one. The old one stays valid for RotationOverlap; the
// previous one ends now, so that at most two are valid.
func (s Secrets) Rotate(next Secret, now time.Time) Secrets {
	return Secrets{Current: next, Previous: s.Current, PreviousUntil: now.Add(RotationOverlap)}
}

// At lists the secrets that are valid at a moment, the current one first.
func (s Secrets) At(now time.Time) []Secret {
	valid := make([]Secret, 0, 2)
	if !s.Current.IsZero() {
		valid = append(valid, s.Current)
	}
	if !s.Previous.IsZero() && now.Before(s.PreviousUntil) {
		valid = append(valid, s.Previous)
	}
	return valid
}
