package workspaceapi

import (
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"tollgate/server/provider/verify"
)

// scrubbed replaces a key.
const scrubbed = "[key]"

// minKey is the shortest key that is scrubbed in all its encodings, in bytes: shorter ones
// would be found in ordinary words.
const minKey = 8

// maxTold bounds an agent's text that is scrubbed, in bytes. A longer one is left out whole:
// cut before it is scrubbed, it could end in half a key.
const maxTold = 8 << 10

// scrubber takes secrets out of texts, in every encoding in which a product or an agent might
// repeat them, before the texts are stored. The zero value takes nothing out.
type scrubber struct {
	// long are the pieces of secrets as they are, and backwards; escapes within them are seen
	// through.
	long []pattern
	// exact are secrets that are too short for that, forms the beginnings to ends of the long ones
	// within hex, base32 and base64, in small letters.
	exact, forms []string
}

var rawBase32 = base32.StdEncoding.WithPadding(base32.NoPadding)

// scrubberOf makes the scrubber of secrets.
func scrubberOf(secrets ...string) (s scrubber) {
	secrets = slices.Clone(secrets)
	slices.Sort(secrets)
	for _, secret := range slices.Compact(secrets) {
		switch {
		case secret == "":
			continue
		case len(secret) < minKey:
			s.exact = append(s.exact, secret)
			continue
		}
		s.long = slices.Concat(s.long, patternsOf(secret), patternsOf(backwards(secret)))
		s.forms = append(s.forms, hex.EncodeToString([]byte(secret)))
		s.forms = append(s.forms, within(secret, 6, base64.RawStdEncoding.EncodeToString)...)
		s.forms = append(s.forms, within(secret, 6, base64.RawURLEncoding.EncodeToString)...)
		s.forms = append(s.forms, within(secret, 5, rawBase32.EncodeToString)...)
	}
	slices.Sort(s.forms)
	s.forms = slices.Compact(s.forms)
	return s
}

// within is what a secret looks like in an encoding of so many bits a character, wherever it begins
// in what was encoded: the characters that do not depend on its neighbours.
func within(secret string, bits int, encode func([]byte) string) (forms []string) {
	for before := range 5 { // the places of 8 and of 5 or 6 bits meet again after 5 or 3 bytes
		raw := append(make([]byte, before, before+len(secret)), secret...)
		forms = append(forms, lower(encode(raw)[(before*8+bits-1)/bits:len(raw)*8/bits]))
	}
	return forms
}

// lower makes ASCII letters small, and leaves every place where it is.
func lower(text string) string {
	raw := []byte(text)
	for i, b := range raw {
		if 'A' <= b && b <= 'Z' {
			raw[i] = b + 'a' - 'A'
		}
	}
	return string(raw)
}

func backwards(text string) string {
	raw := []rune(text)
	slices.Reverse(raw)
	return string(raw)
}

// found adds up, for each place of a text, how many stretches begin there that say a secret, less
// those that end. All secrets are looked for in the text as it is: one may be a part of another.
func (s scrubber) found(text string) []int32 {
	hit := make([]int32, len(text)+1)
	if len(s.long) > 0 {
		r := readingOf(text)
		for _, p := range s.long {
			r.mark(hit, p)
		}
	}
	for _, secret := range s.exact {
		eachOf(text, secret, func(at, end int) { hit[at]++; hit[end]-- })
	}
	if len(s.forms) > 0 {
		small := lower(text)
		joined, places := joinedOf(small)
		for _, form := range s.forms {
			eachOf(small, form, func(at, end int) { hit[at]++; hit[end]-- })
			eachOf(joined, form, func(at, end int) { hit[places[at]]++; hit[places[end-1]+1]-- })
		}
	}
	return hit
}

// joinedOf is a text without what may stand between the characters of an encoded key that is
// written apart: blanks, commas, colons, quotes and 0x. Places are where its bytes stand in the
// text.
func joinedOf(text string) (joined string, places []int) {
	kept := make([]byte, 0, len(text))
	places = make([]int, 0, len(text))
	for at := 0; at < len(text); at++ {
		switch b := text[at]; {
		case b <= ' ' || strings.IndexByte(`,;:."'|\`, b) >= 0:
		case strings.HasPrefix(text[at:], "0x"):
			at++
		default:
			kept, places = append(kept, b), append(places, at)
		}
	}
	return string(kept), places
}

// eachOf calls do for each place of a word in a text.
func eachOf(text, word string, do func(at, end int)) {
	for at := 0; ; at += len(word) {
		next := strings.Index(text[at:], word)
		if next < 0 {
			return
		}
		at += next
		do(at, at+len(word))
	}
}

// clean is a text without the secrets.
func (s scrubber) clean(text string) string {
	var b strings.Builder
	kept, within := 0, int32(0)
	for at, change := range s.found(text) {
		before := within
		within += change
		switch {
		case before == 0 && within > 0:
			b.WriteString(text[kept:at])
			b.WriteString(scrubbed)
		case before > 0 && within == 0:
			kept = at
		}
	}
	if b.Len() == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

// holds reports whether a text has one of the secrets.
func (s scrubber) holds(text string) bool {
	return slices.ContainsFunc(s.found(text), func(change int32) bool { return change != 0 })
}

// verdict takes the key out of what is stored of a verification, should the product have echoed it.
func (s scrubber) verdict(v *verify.Verdict) {
	v.Reason = s.clean(v.Reason)
	for i := range v.Calls {
		v.Calls[i].Note = s.clean(v.Calls[i].Note)
	}
}

// answerSecrets are the parts of a person's answer that an agent must not repeat: all of it, and
// each word of at least four characters that is more than small letters (a code, a password).
func answerSecrets(answer string) (secrets []string) {
	const minimum = 4
	words := strings.FieldsFunc(answer, func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(`"'(),;<>`, r)
	})
	for _, word := range append([]string{strings.TrimSpace(answer)}, words...) {
		word = strings.TrimRight(word, ".:!?")
		small := strings.IndexFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) < 0
		if utf8.RuneCountInString(word) >= minimum && (!small || len(words) == 1) {
			secrets = append(secrets, word)
		}
	}
	return secrets
}

// valued is a name that secrets have, with its value to the value's end, as headers, forms, queries
// and JSON have it. Of a header for credentials it is the line.
var valued = regexp.MustCompile(`(?i)\b(authorization|cookie)\\*["']?\s*[=:][^\n]*|` +
	`\\*["']?\b[\w-]*(password|passwd|pwd|passphrase|secret|token|api[_-]?key)\\*["']?\s*` +
	`(=|:|%3d|%3a)\s*(\\*"[^"]*"?|'[^']*'?|[^\s&,;"'}]+)|` +
	`\bbearer\s+\S{6,}|\bbasic\s+[a-z0-9+/]*[0-9+/=][a-z0-9+/=]*`)

// apart is a word whose characters are written apart.
var apart = regexp.MustCompile(`\b(?:[\w+=~/.-][\s,]+){7,}[\w+=~/.-]\b`)

// unspelled is such a word as it was before somebody spelled it.
func unspelled(spelled string) string {
	return strings.Map(func(r rune) rune {
		if r == ',' || unicode.IsSpace(r) {
			return -1
		}
		return r
	}, spelled)
}

// masked is a text of an agent's without what looks like a secret.
func masked(text string) string {
	text = apart.ReplaceAllStringFunc(text, func(spelled string) string {
		if secretWords(unspelled(spelled)) {
			return scrubbed
		}
		return spelled
	})
	text = valued.ReplaceAllString(text, scrubbed)
	text = knownKey.ReplaceAllString(text, scrubbed)
	return tokenLike.ReplaceAllStringFunc(text, func(word string) string {
		if highEntropy(word) {
			return scrubbed
		}
		return word
	})
}

// codeLike is a word of what keys are made of, some or all of it escaped.
var codeLike = regexp.MustCompile(
	`([A-Za-z0-9_+=~-]|%[0-9A-Fa-f]{2}|&#x?[0-9A-Fa-f]+;|\\+u[0-9A-Fa-f]{4}|\\+x[0-9A-Fa-f]{2}){8,}`)

// veiled is masked, without every word that could be a key at all: of eight characters or more,
// with a digit or with large letters among small ones. It is for texts that are stored before a key
// is known that is to be obtained: what was stored cannot be taken out of a log any more.
func veiled(text string) string {
	veil := func(word string) string {
		inner := unspelled(word)[1:]
		if strings.ContainsAny(word, "0123456789") || inner != lower(inner) {
			return scrubbed
		}
		return word
	}
	text = apart.ReplaceAllStringFunc(masked(text), veil)
	return codeLike.ReplaceAllStringFunc(text, veil)
}
