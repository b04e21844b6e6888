package server

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"hash/crc32"
	"io"
	mathrand "math/rand/v2"

	"github.com/valyala/fasthttp"
)

// Prefixes of keys. What follows them is 28 characters of base62 (more than 166 random bits) and
// 6 characters of base62 that hold the CRC-32 of everything before, so that a mistyped or a made-up
// key is refused without a lookup, and scanners for leaked secrets recognise one.
const (
	KeyPrefixLive    = "sk_live_"
	KeyPrefixSandbox = "sk_test_"
	KeyPrefixAdmin   = "sk_admin_"
	// Customer keys may be in a customer's hands, in a browser for one.
	KeyPrefixCustomerLive    = "ck_live_"
	KeyPrefixCustomerSandbox = "ck_test_"
	// Workspace keys are the workspace API's; claim codes hand a workspace to a person.
	KeyPrefixWorkspace = "tg_ws_"
	KeyPrefixClaim     = "tg_clm_"
	// Session tokens are what somebody who signs in gets.
	KeyPrefixSession = "tg_ses_"
)

const (
	base62    = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	keyRandom = 28
	keyCheck  = 6
	// maxPrefix is the length of the longest prefix.
	maxPrefix = len(KeyPrefixAdmin)
)

// MintKey makes a new key with one of the prefixes. It is shown once and stored nowhere.
func MintKey(prefix string) string { return makeKey(prefix, rand.Reader) }

// DeriveKey makes the key of a secret seed: the same seed and prefix make the same key.
func DeriveKey(prefix string, seed [32]byte) string {
	return makeKey(prefix, mathrand.NewChaCha8(seed))
}

// makeKey makes a key of a stream of random bytes, which has no end.
func makeKey(prefix string, random io.Reader) string {
	key := make([]byte, 0, len(prefix)+keyRandom+keyCheck)
	key = append(key, prefix...)
	var draw [64]byte
	for len(key) < len(prefix)+keyRandom {
		if _, err := io.ReadFull(random, draw[:]); err != nil {
			panic("server: a stream without an end has ended: " + err.Error())
		}
		for _, b := range draw {
			// 248 is the largest multiple of 62 in a byte: what lies above would favour some
			// digits.
			if b < 248 && len(key) < len(prefix)+keyRandom {
				key = append(key, base62[b%62])
			}
		}
	}
	return string(appendCheck(key))
}

func appendCheck(key []byte) []byte {
	sum := crc32.ChecksumIEEE(key)
	for range keyCheck {
		key = append(key, base62[sum%62])
		sum /= 62
	}
	return key
}

// WellFormedKey reports whether a key has one of the prefixes, the right length and a checksum that
// fits.
func WellFormedKey(key []byte) bool {
	prefix := KeyPrefix(key)
	if prefix == "" || len(key) != len(prefix)+keyRandom+keyCheck {
		return false
	}
	body := len(key) - keyCheck
	for _, c := range key[len(prefix):] {
		if !keyDigits[c] {
			return false
		}
	}
	sum := crc32.ChecksumIEEE(key[:body])
	for _, c := range key[body:] {
		if c != base62[sum%62] {
			return false
		}
		sum /= 62
	}
	return true
}

// keyDigits are the characters of a key behind its prefix.
var keyDigits = characters(base62)

// KeyPrefix is the prefix that a key has; empty when it has none of them.
func KeyPrefix(key []byte) string {
	for _, prefix := range [...]string{
		KeyPrefixLive, KeyPrefixSandbox, KeyPrefixCustomerLive, KeyPrefixCustomerSandbox,
		KeyPrefixAdmin, KeyPrefixWorkspace, KeyPrefixClaim, KeyPrefixSession,
	} {
		if len(key) >= len(prefix) && string(key[:len(prefix)]) == prefix {
			return prefix
		}
	}
	return ""
}

// PresentedKey is the key of a request, from Authorization: Bearer or X-API-Key. Two different keys
// are none, also in two headers of one name: which one was meant is not for us to guess.
func PresentedKey(ctx *fasthttp.RequestCtx) (key []byte, ok bool) {
	key, one := SoleHeader(ctx, "X-API-Key")
	authorization, oneToo := SoleHeader(ctx, "Authorization")
	if !one || !oneToo {
		return nil, false
	}
	const scheme = "bearer "
	if len(authorization) <= len(scheme) ||
		!bytes.EqualFold(authorization[:len(scheme)], []byte(scheme)) {
		return key, len(key) > 0
	}
	bearer := bytes.TrimSpace(authorization[len(scheme):])
	if len(key) > 0 && !bytes.Equal(key, bearer) {
		return nil, false
	}
	return bearer, true
}

// HashedKey is the well-formed key of a request, as PresentedKey finds it, and its SHA-256. A
// connection mostly presents one key again and again, so it keeps the newest one, which is in its
// read buffer anyway.
func HashedKey(ctx *fasthttp.RequestCtx) (key []byte, hash [sha256.Size]byte, ok bool) {
	key, ok = PresentedKey(ctx)
	if !ok {
		return nil, hash, false
	}
	c, kept := ctx.Conn().(*conn)
	if kept && subtle.ConstantTimeCompare(key, c.key.text[:c.key.length]) == 1 {
		return key, c.key.hash, true
	}
	if !WellFormedKey(key) {
		return nil, hash, false
	}
	hash = sha256.Sum256(key)
	if kept {
		c.key.hash, c.key.length = hash, copy(c.key.text[:], key)
	}
	return key, hash, true
}

// hashedKey is a well-formed key and its SHA-256; length 0 is none.
type hashedKey struct {
	text   [maxPrefix + keyRandom + keyCheck]byte
	length int
	hash   [sha256.Size]byte
}

// SoleHeader is the value of a header that may be there once, or more often with the same value;
// ok is false when two values differ.
func SoleHeader(ctx *fasthttp.RequestCtx, name string) (value []byte, ok bool) {
	values := ctx.Request.Header.PeekAll(name)
	if len(values) == 0 {
		return nil, true
	}
	value = values[0]
	if len(value) == 0 {
		return nil, len(values) == 1
	}
	for _, other := range values[1:] {
		if !bytes.Equal(other, value) {
			return nil, false
		}
	}
	return value, true
}
