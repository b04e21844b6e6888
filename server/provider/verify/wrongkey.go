package verify

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"math/big"
	"regexp"
	"slices"
	"strings"
)

// A wrong key looks real: it has the length, prefix, separators, alphabet and case of the real one,
// so that a product which looks only at a key's form accepts it and is found out.

const (
	// prefixWords is how many leading words of a key are its prefix, each of wordBytes at most.
	prefixWords, wordBytes = 3, 10
	// longSecret is how many letters and digits a secret has of which some may stay.
	longSecret = 16
	// keptBytes is the most that stays at the beginning of a long secret: makers begin keys with
	// letters of their own (AKIA, AIza), or with the time.
	keptBytes = 6
	// drawTries bounds how often a key that came out equal is drawn again.
	drawTries = 100
)

var errNoWrongKey = errors.New("verify: no wrong key can be made")

// wrongFor returns wrong keys for a real one. The first shares only the form of the real key, or,
// of a JWT, header and payload too. The second shares more: all but its last part, or, of a JWT,
// all but the payload. A product that looks up a key by its beginning, or that takes a payload's
// word for who is calling, accepts one of them.
func wrongFor(real string) ([]string, error) {
	if jwt, ok := splitJWT(real); ok {
		return wrongJWTs(jwt)
	}
	from := prefixOf(real)
	all, err := redraw(real, from)
	if err != nil {
		return nil, err
	}
	for range drawTries {
		near, err := redraw(real, lastPart(real, from))
		if err != nil {
			return nil, err
		}
		if near != all {
			return []string{all, near}, nil
		}
	}
	return nil, errNoWrongKey
}

// wrongUnseen returns wrong keys for a product whose keys nobody has seen yet: random digits, and
// an unsigned token that has not expired.
func wrongUnseen() ([]string, error) {
	hex, err := redraw("0123456789abcdef0123456789abcdef", 0)
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		encode([]byte(`{"sub":"`+hex[:16]+`","iat":1700000000,"exp":4102444800}`)) + "."
	signature := make([]byte, 32)
	if _, err := rand.Read(signature); err != nil {
		return nil, err
	}
	return []string{hex, token + encode(signature)}, nil
}

// class is what kind of character a byte is.
type class byte

const (
	separator class = iota
	digit
	lower
	upper
)

func classOf(b byte) class {
	switch {
	case b >= '0' && b <= '9':
		return digit
	case b >= 'a' && b <= 'z':
		return lower
	case b >= 'A' && b <= 'Z':
		return upper
	}
	return separator
}

func isSeparator(b byte) bool { return classOf(b) == separator }

// prefixOf returns where a key's secret begins: behind its leading words and, where what follows is
// long, behind the few characters that its maker may begin all keys with.
func prefixOf(key string) int {
	at := 0
	for range prefixWords {
		n := strings.IndexFunc(key[at:], func(r rune) bool { return r > 127 || isSeparator(byte(r)) })
		if n < 0 || !isWord(key[at:at+n]) || secretBytes(key[at+n:]) == 0 {
			break
		}
		at += n + 1
	}
	if rest := key[at:]; secretBytes(rest) >= longSecret {
		at += min(keptBytes, len(rest)/4)
	}
	return at
}

// isWord says that a part of a key reads like a name, as sk, live, v1 and api03 do.
func isWord(part string) bool {
	if len(part) > wordBytes {
		return false
	}
	rest := strings.TrimRight(part, "0123456789")
	return len(part)-len(rest) <= 2 && (rest != "" || part == "") &&
		!strings.ContainsAny(rest, "0123456789")
}

// secretBytes counts letters and digits.
func secretBytes(text string) (n int) {
	for i := range len(text) {
		if !isSeparator(text[i]) {
			n++
		}
	}
	return n
}

// lastPart returns where the last part of a secret begins: behind its last separator, or, where
// little stands there, in its middle.
func lastPart(key string, from int) int {
	for i := len(key) - 1; i >= from; i-- {
		if isSeparator(key[i]) && secretBytes(key[i:]) >= longSecret/2 {
			return i + 1
		}
	}
	return from + (len(key)-from)/2
}

// uuid matches what is left alone in a UUID: the digits of its version and variant.
var uuid = regexp.MustCompile(
	`[0-9a-fA-F]{8}-?[0-9a-fA-F]{4}-?([1-8])[0-9a-fA-F]{3}-?([89abAB])[0-9a-fA-F]{3}-?[0-9a-fA-F]{12}`)

// fixed returns the positions of a key that belong to its form: of a UUID version and variant, and
// of a long secret the last character, some of whose bits must be zero in base64.
func fixed(key string, from int) []int {
	var at []int
	for _, found := range uuid.FindAllStringSubmatchIndex(key, -1) {
		at = append(at, found[2], found[4])
	}
	if secretBytes(key[from:]) >= longSecret {
		at = append(at, len(strings.TrimRight(key, "="))-1)
	}
	return at
}

// redraw returns a key of which every letter and digit from a position on is drawn anew. Characters
// are drawn from those of the same class that the key itself has there, so whatever its alphabet is
// (hex, base32, base58), the result is of it; only where these are few, from a whole alphabet.
func redraw(key string, from int) (string, error) {
	keep := fixed(key, from)
	var sets [upper + 1][]byte
	for i := from; i < len(key); i++ {
		if c := classOf(key[i]); !slices.Contains(sets[c], key[i]) {
			sets[c] = append(sets[c], key[i])
		}
	}
	for c := digit; c <= upper; c++ {
		sets[c] = widen(c, sets[c])
	}
	for range drawTries {
		drawn := []byte(key)
		for i := from; i < len(key); i++ {
			c := classOf(key[i])
			if c == separator || slices.Contains(keep, i) {
				continue
			}
			n, err := rand.Int(rand.Reader, big.NewInt(int64(len(sets[c]))))
			if err != nil {
				return "", err
			}
			drawn[i] = sets[c][n.Int64()]
		}
		if string(drawn) != key {
			return string(drawn), nil
		}
	}
	return "", errNoWrongKey
}

// fewCharacters is how many of a class are too few to draw from.
const fewCharacters = 4

// widen returns a set of characters, or, where it is small, the smallest usual alphabet around it.
func widen(c class, set []byte) []byte {
	if len(set) == 0 || len(set) >= fewCharacters {
		return set
	}
	usual := map[class][]string{
		digit: {"234567", "0123456789"},
		lower: {"abcdef", "abcdefghijkmnpqrstuvwxyz", "abcdefghijklmnopqrstuvwxyz"},
		upper: {"ABCDEF", "ABCDEFGHJKLMNPQRSTUVWXYZ", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"},
	}
	for _, alphabet := range usual[c] {
		if len(bytes.Trim(set, alphabet)) == 0 {
			return []byte(alphabet)
		}
	}
	return set
}

// jwt is a signed JSON Web Token, or what a maker has put before one.
type jwt struct{ before, header, payload, signature string }

func (j *jwt) text() string { return j.before + j.header + "." + j.payload + "." + j.signature }

// jwtHead is how the base64 of a JSON object begins.
const jwtHead = "eyJ"

// splitJWT reads a key as a JWT: three parts, the first of which is a JSON object that names an
// algorithm.
func splitJWT(key string) (j jwt, ok bool) {
	at := strings.Index(key, jwtHead)
	if at < 0 {
		return j, false
	}
	parts := strings.Split(key[at:], ".")
	if len(parts) != 3 || parts[1] == "" || parts[2] == "" {
		return j, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[0])
	var header struct{ Alg string }
	if err != nil || json.Unmarshal(raw, &header) != nil || header.Alg == "" {
		return j, false
	}
	return jwt{key[:at], parts[0], parts[1], parts[2]}, true
}

// wrongJWTs returns the token with another signature, and with another payload.
func wrongJWTs(real jwt) ([]string, error) {
	signed, claimed := real, real
	var err error
	if signed.signature, err = redraw(real.signature, 0); err != nil {
		return nil, err
	}
	if claimed.payload, err = otherPayload(real.payload); err != nil {
		return nil, err
	}
	return []string{signed.text(), claimed.text()}, nil
}

// kept are the claims of RFC 7519 that say for whom and until when a token is good. They stay, so
// that another payload is refused for its signature and nothing else.
var kept = []string{"iss", "aud", "exp", "nbf", "iat"}

// otherPayload returns a payload of the same length that speaks of somebody else: its texts and
// numbers are drawn anew, apart from the claims that stay.
func otherPayload(payload string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(payload)
	if err != nil || !json.Valid(raw) {
		return redraw(payload, 0)
	}
	for _, spare := range [][]string{kept, {"iss", "aud", "exp", "nbf"}, nil} {
		other := slices.Clone(raw)
		for _, value := range valuesOf(raw, spare) {
			redrawValue(other, value)
		}
		if !bytes.Equal(other, raw) {
			return base64.RawURLEncoding.EncodeToString(other), nil
		}
	}
	return redraw(payload, 0)
}

// redrawValue draws one value of a JSON document anew; a value of which there is no other stays.
func redrawValue(document []byte, at [2]int) {
	was := string(document[at[0]:at[1]])
	for range drawTries {
		drawn, err := redraw(was, 0)
		if err != nil {
			return
		}
		copy(document[at[0]:], drawn)
		if json.Valid(document) {
			return
		}
		copy(document[at[0]:], was)
	}
}

// valuesOf returns where the texts (within their quotes) and numbers of a JSON document stand,
// without those of the names in spare. Texts with escapes are left out.
func valuesOf(raw []byte, spare []string) (found [][2]int) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	for at := []frame{{}}; len(at) > 0; {
		token, err := decoder.Token()
		if err != nil {
			return found
		}
		top, end := &at[len(at)-1], int(decoder.InputOffset())
		switch v := token.(type) {
		case json.Delim:
			if v == '}' || v == ']' {
				at = at[:len(at)-1]
				continue
			}
			inner := frame{object: v == '{', spared: top.spared || top.spares(spare)}
			top.name = ""
			at = append(at, inner)
			continue
		case string:
			if top.object && top.name == "" {
				top.name = "=" + v
				continue
			}
			if start := end - 1 - len(v); start > 0 && string(raw[start:end-1]) == v && v != "" &&
				!top.spared && !top.spares(spare) {
				found = append(found, [2]int{start, end - 1})
			}
		case json.Number:
			if !top.spared && !top.spares(spare) {
				found = append(found, [2]int{end - len(v), end})
			}
		}
		top.name = ""
	}
	return found
}

// frame is an object or a list that is being read; name is the member that comes next, behind "=".
type frame struct {
	object, spared bool
	name           string
}

func (f *frame) spares(names []string) bool {
	return f.name != "" && slices.Contains(names, f.name[1:])
}
