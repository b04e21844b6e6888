package verify

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
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
	// suffixBytes is the length of a word at the end of a key that stays.
	suffixBytes = 7
	// fewBytes is how many characters the second wrong key has of its own.
	fewBytes = 4
	// longSecret is from how many letters and digits on some of a secret may stay.
	longSecret = 16
	// keptBytes is the most that stays at the beginning of a long secret: makers begin keys with
	// letters of their own (AKIA, AIza), or with the time.
	keptBytes = 6
	// drawTries bounds how often a key that came out equal is drawn again.
	drawTries = 100
)

var errNoWrongKey = errors.New("verify: no wrong key can be made")

// wrongFor returns two wrong keys for a real one. The first shares only the form of the real key:
// all of its secret is drawn anew. The second differs in a few characters. Of a token that carries
// a JSON document, the first has another signature and the second another document. A product that
// checks only the form of a key, looks it up by its beginning, or trusts a document whose signature
// it does not check, accepts one of them.
func wrongFor(real string) ([]string, error) {
	if token, ok := splitToken(real); ok {
		return token.wrong()
	}
	body, sum := splitChecksum(real)
	secret := secretOf(body)
	return twoOf(
		func() (string, error) { return sum.added(secret.redraw(secret.all())) },
		func() (string, error) { return sum.added(secret.redraw(secret.few())) },
	)
}

// twoOf returns what two functions draw, and draws the second again while both are equal.
func twoOf(first, second func() (string, error)) ([]string, error) {
	one, err := first()
	if err != nil {
		return nil, err
	}
	for range drawTries {
		two, err := second()
		if err != nil {
			return nil, err
		}
		if two != one {
			return []string{one, two}, nil
		}
	}
	return nil, errNoWrongKey
}

// wrongUnseen returns wrong keys for a product whose keys are unknown: random hexadecimal digits,
// and a JWT that has not expired and whose signature is random.
func wrongUnseen() ([]string, error) {
	hex, err := redrawAll("0123456789abcdef0123456789abcdef")
	if err != nil {
		return nil, err
	}
	encode := base64.RawURLEncoding.EncodeToString
	token := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		encode([]byte(`{"sub":"`+hex[:16]+`","iat":1700000000,"exp":4102444800}`)) + "."
	signature := make([]byte, 32)
	rand.Read(signature) // never fails
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

// prefixOf returns where a key's secret begins: after its leading words and, where the rest is
// long, after the few characters that its maker may begin all keys with.
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

// isWord reports whether a part of a key reads like a name, as sk, live, v1 and api03 do.
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

// uuid matches the digits of a UUID that are kept: its version and variant.
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

// secret is the part of a key that is random: key[from:to].
type secret struct {
	key      string
	from, to int
}

// secretOf returns the secret of a key: the text after its prefix and, where that is long, before
// the short words at its end (Mailchimp's us21, or live).
func secretOf(key string) secret {
	s := secret{key: key, from: prefixOf(key), to: len(key)}
	for s.from < s.to {
		n := s.from + strings.LastIndexFunc(key[s.from:s.to], func(r rune) bool {
			return r > 127 || isSeparator(byte(r))
		})
		if n < s.from || s.to-n-1 > suffixBytes || !isWord(key[n+1:s.to]) ||
			secretBytes(key[s.from:n]) < longSecret {
			break
		}
		s.to = n
	}
	return s
}

// redrawAll returns a text with every letter and digit drawn anew.
func redrawAll(text string) (string, error) {
	s := secret{text, 0, len(text)}
	return s.redraw(s.all())
}

// parts returns the bounds of the parts of a secret between its separators.
func (s secret) parts() (found [][2]int) {
	start := s.from
	for i := s.from; i <= s.to; i++ {
		if i < s.to && !isSeparator(s.key[i]) {
			continue
		}
		if start < i {
			found = append(found, [2]int{start, i})
		}
		start = i + 1
	}
	return found
}

// all returns the positions of a secret that may change.
func (s secret) all() []int { return s.within(s.from, s.to) }

func (s secret) within(from, to int) (at []int) {
	keep := fixed(s.key, s.from)
	for i := from; i < to; i++ {
		if !isSeparator(s.key[i]) && !slices.Contains(keep, i) {
			at = append(at, i)
		}
	}
	return at
}

// few returns a few positions of a secret's last long part: an id comes before the secret proper.
// They begin at three quarters of it, where no maker is known to put fixed text: OpenAI's is in
// the middle, others' at an end.
func (s secret) few() []int {
	parts, longest := s.parts(), 0
	for _, part := range parts {
		longest = max(longest, part[1]-part[0])
	}
	for _, part := range slices.Backward(parts) {
		if 2*(part[1]-part[0]) < longest {
			continue
		}
		if at := s.within(part[0], part[1]); len(at) > 0 {
			at = at[len(at)*3/4:]
			return at[:min(fewBytes, len(at))]
		}
	}
	return s.all()
}

// redraw returns the key with the characters at some positions of its secret drawn anew, from the
// alphabet that the secret has there. Only where this gives no other key the alphabet is widened.
func (s secret) redraw(at []int) (string, error) {
	for _, wide := range []bool{false, true} {
		alphabets := s.alphabets(wide)
		for range drawTries {
			drawn := []byte(s.key)
			for _, i := range at {
				n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabets[i]))))
				if err != nil {
					return "", err
				}
				drawn[i] = alphabets[i][n.Int64()]
			}
			if string(drawn) != s.key {
				return string(drawn), nil
			}
		}
	}
	return "", errNoWrongKey
}

// alphabets returns, for each position of a secret, the characters of the same class that its part
// has, so whatever the alphabet is (hex, base32, base58), the result is of it. A short part reveals
// little of its alphabet: it has that of the whole secret, widened where this is small.
func (s secret) alphabets(wide bool) [][]byte {
	whole := setsOf(s.key[s.from:s.to])
	found := make([][]byte, len(s.key))
	for _, part := range s.parts() {
		sets, short := whole, part[1]-part[0] < longSecret/2
		if !short {
			sets = setsOf(s.key[part[0]:part[1]])
		}
		if short || wide {
			for c := digit; c <= upper; c++ {
				sets[c] = widen(c, sets[c])
			}
		}
		for i := part[0]; i < part[1]; i++ {
			found[i] = sets[classOf(s.key[i])]
		}
	}
	return found
}

// setsOf returns the characters that a text has of each class.
func setsOf(text string) (sets [upper + 1][]byte) {
	for i := range len(text) {
		if c := classOf(text[i]); !slices.Contains(sets[c], text[i]) {
			sets[c] = append(sets[c], text[i])
		}
	}
	return sets
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
