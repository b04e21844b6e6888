package verify

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// token is a key that carries a JSON document in base64: a JSON Web Token, or a session as web
// frameworks make them. before and after are the rest of the key; of a JWT, before ends with the
// header and its dot, and signature is the last part, which may be empty.
type token struct{ before, payload, after, signature string }

func (t *token) text() string { return t.before + t.payload + t.after + t.signature }

// tokenHead is how the base64 of a JSON object mostly begins.
const tokenHead = "eyJ"

// splitToken reads a key as a token, perhaps behind a prefix. Where its first part is a header that
// names an algorithm, the last part is the signature and the one before it the payload (of an
// encrypted token the ciphertext); a header and one part more are an unsigned token. Else the first
// part is the payload.
func splitToken(key string) (t token, ok bool) {
	at := max(0, strings.Index(key, tokenHead))
	parts := strings.Split(key[at:], ".")
	raw, _, ok := decodeObject(parts[0])
	if !ok {
		return t, false
	}
	var header struct{ Alg string }
	payload, last := 0, len(parts)-1
	if json.Unmarshal(raw, &header) == nil && header.Alg != "" && last > 0 {
		if payload = max(1, last-1); parts[payload] == "" {
			return t, false
		}
	}
	t.before = key[:at]
	for _, part := range parts[:payload] {
		t.before += part + "."
	}
	t.payload = parts[payload]
	if payload < last {
		t.signature = parts[last]
		t.after = key[len(t.before)+len(t.payload) : len(key)-len(t.signature)]
	}
	return t, true
}

// decodeObject decodes a JSON object from base64 of any kind.
func decodeObject(text string) (raw []byte, encoding *base64.Encoding, ok bool) {
	for _, encoding := range []*base64.Encoding{
		base64.RawURLEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.StdEncoding,
	} {
		raw, err := encoding.DecodeString(text)
		if err == nil && json.Valid(raw) && bytes.HasPrefix(bytes.TrimSpace(raw), []byte("{")) {
			return raw, encoding, true
		}
	}
	return nil, nil, false
}

// wrong returns the token with another signature, and with another payload; where it has no
// signature, with two other payloads, one of which differs in one value.
func (t *token) wrong() ([]string, error) {
	other := func(one bool) func() (string, error) {
		return func() (string, error) {
			claimed, err := *t, error(nil)
			claimed.payload, err = otherPayload(t.payload, one)
			return claimed.text(), err
		}
	}
	if t.signature == "" {
		return twoOf(other(false), other(true))
	}
	return twoOf(func() (string, error) {
		signed, err := *t, error(nil)
		signed.signature, err = redrawAll(t.signature)
		return signed.text(), err
	}, other(false))
}

// kept are the values that stay, so that another payload is refused for its signature and nothing
// else: the audience and times of a token (RFC 7519, and the usual names), and its kind. Where
// nothing else can change, times and kinds may, and then all.
var kept = [][]string{
	{
		"iss", "aud", "exp", "nbf", "expires", "expires_at", "expiresAt", "expires_in", "expiry",
		"iat", "issued_at", "created", "created_at", "createdAt",
		"alg", "typ", "type", "v", "ver", "version",
	},
	{"iss", "aud", "exp", "nbf", "expires", "expires_at", "expiresAt", "expires_in", "expiry"},
	nil,
}

// otherPayload returns a payload of the same length about another subject: its texts and numbers
// are drawn anew, or only the one that looks most like an id, apart from the values that stay.
func otherPayload(payload string, one bool) (string, error) {
	raw, encoding, ok := decodeObject(payload)
	if !ok {
		return redrawAll(payload)
	}
	for _, spare := range kept {
		values, other := valuesOf(raw, spare), slices.Clone(raw)
		if one && len(values) > 1 {
			values = [][2]int{maxDigits(raw, values)}
		}
		for _, value := range values {
			redrawValue(other, value)
		}
		if !bytes.Equal(other, raw) {
			return encoding.EncodeToString(other), nil
		}
	}
	return redrawAll(payload)
}

// maxDigits returns the first of the values with the most digits.
func maxDigits(raw []byte, values [][2]int) [2]int {
	digits := func(at [2]int) (n int) {
		for _, b := range raw[at[0]:at[1]] {
			if classOf(b) == digit {
				n++
			}
		}
		return n
	}
	return slices.MaxFunc(values, func(a, b [2]int) int { return digits(a) - digits(b) })
}

// redrawValue draws one value of a JSON document anew. A value stays where there is no other.
func redrawValue(document []byte, at [2]int) {
	was := string(document[at[0]:at[1]])
	for range drawTries {
		drawn, err := secretOf(was).redraw(secretOf(was).all())
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
