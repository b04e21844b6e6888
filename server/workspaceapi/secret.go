package workspaceapi

import (
	"math"
	"regexp"
	"slices"
	"sort"
	"strings"

	"tollgate/server"
)

// secretNames are names of fields that hold secrets, in lower case without separators.
var secretNames = map[string]bool{
	"password": true, "secret": true, "token": true, "apikey": true, "key": true,
	"authorization": true,
}

var (
	// assigned is a header or field with a value.
	assigned = regexp.MustCompile(`(?i)(authorization\s*:\s*\S|(password|passwd|pwd)\s*[=:]\s*\S)`)
	// knownKey is what providers' keys look like.
	knownKey = regexp.MustCompile(`\b(sk|pk|rk)[-_](live|test|proj|ant|or|admin)[-_][\w-]{8,}|` +
		`\b(gh[pousr]|github_pat|glpat|xox[abprs]|whsec|tg_ws|tg_clm)[-_]\w{8,}|\bAKIA[0-9A-Z]{16}\b|` +
		`\bAIza[\w-]{30,}|\beyJ[\w-]{10,}\.[\w-]{10,}\.|-----BEGIN [A-Z ]*PRIVATE KEY-----`)
	tokenLike = regexp.MustCompile(`[A-Za-z0-9+/_=-]{32,}`)
)

// noSecrets refuses a body that has a field for a secret anywhere, or a text that holds one.
// The field except is ours, and looks like a secret.
func (b *body) noSecrets(except string) {
	for name, value := range b.fields {
		if b.wrong == nil && name != except && holdsSecret(map[string]any{name: value}) {
			b.wrong = no("credentials_not_allowed")
		}
	}
}

func holdsSecret(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			plain := strings.NewReplacer("_", "", "-", "").Replace(strings.ToLower(name))
			if secretNames[plain] || holdsSecret(inner) {
				return true
			}
		}
	case []any:
		for _, inner := range v {
			if holdsSecret(inner) {
				return true
			}
		}
	case string:
		return secretText(v)
	}
	return false
}

// secretText reports whether a text holds a secret, also one whose characters are written apart.
func secretText(text string) bool {
	return secretWords(text) || slices.ContainsFunc(apart.FindAllString(text, -1),
		func(spelled string) bool { return secretWords(unspelled(spelled)) })
}

func secretWords(text string) bool {
	return assigned.MatchString(text) || knownKey.MatchString(text) ||
		server.WellFormedKey([]byte(strings.TrimSpace(text))) ||
		slices.ContainsFunc(tokenLike.FindAllString(text, -1), highEntropy)
}

// highEntropy reports whether a word looks random: digits and letters mixed, and more than 3.8 bits
// a character by the frequency of its characters.
func highEntropy(word string) bool {
	if !strings.ContainsAny(word, "0123456789") || strings.Count(word, "/") > 2 ||
		strings.Count(word, "-") > 4 {
		return false
	}
	counts := map[rune]int{}
	for _, r := range word {
		counts[r]++
	}
	each := make([]int, 0, len(counts))
	for _, n := range counts {
		each = append(each, n)
	}
	sort.Ints(each) // so that the sum has one order
	bits := 0.0
	for _, n := range each {
		share := float64(n) / float64(len(word))
		bits -= share * math.Log2(share)
	}
	return bits > 3.8
}
