package verify

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// forms are keys as makers form them, with what a product that looks only at the form checks.
var forms = map[string]struct{ key, form string }{
	"prefix and base62": {"sk_live_4eC39HqLyjWDarjtT1zdp7dcAb", `^sk_live_[A-Za-z0-9]{26}$`},
	"prefix and hex":    {"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", `^shpat_[0-9a-f]{32}$`},
	"upper-case hex":    {"key-9F86D081884C7D659A2FEAA0", `^key-[0-9A-F]{24}$`},
	"bare hex":          {"d41d8cd98f00b204e9800998ecf8427e", `^[0-9a-f]{32}$`},
	"base32":            {"pk_sample_QWERTYUIOPASDFGHJKLZ234567", `^pk_sample_[A-Z2-7]{26}$`},
	"base58":            {"tok_3J98t1WpEZ73CNmQviecrnyiWrnqRhWNLy", `^tok_[1-9A-HJ-NP-Za-km-z]{34}$`},
	"crockford": {
		"api_v1_01j9zq8k7m6n5p4r3s2t1v0wxy",
		`^api_v1_[0-7][0-9abcdefghjkmnpqrstvwxyz]{25}$`,
	},
	"base64":      {"dGhpcyBpcyBhIHNlY3JldCBrZXkgISE=", `^[A-Za-z0-9+/]{31}=$`},
	"base64 bits": {"c2VjcmV0LXNlY3JldC1zZWNyZXQtMTIzNDU2NzQ", ""},
	"separators":  {"xoxb-2048-81626-aB3dE5gH7jK9mN1p", `^xoxb-\d{4}-\d{5}-[A-Za-z0-9]{16}$`},
	"three parts": {
		"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",
		`^SG\.[\w-]{22}\.[\w-]{43}$`,
	},
	"words":           {"sk-ant-api03-R2D2c3po-bb8_K2SO", `^sk-ant-api03-[\w-]{17}$`},
	"maker's letters": {"AKIAIOSFODNN7EXAMPLE", `^AKIA[A-Z0-9]{16}$`},
	"uuid 4":          {"f47ac10b-58cc-4372-a567-0e02b2c3d479", uuidForm("4")},
	"uuid 7":          {"018f2a4c-9d3e-7b21-8c4d-1a2b3c4d5e6f", uuidForm("7")},
	"digits":          {"4929813370017", `^\d{13}$`},
	"short":           {"ab1", `^[a-z]{2}\d$`},
	"one":             {"7", `^\d$`},
	"long":            {strings.Repeat("aZ3", 1365), `^(?:[a-z][A-Z][0-9])+$`},
}

// uuidForm matches the UUIDs of a version (RFC 9562).
func uuidForm(version string) string {
	return `^[0-9a-f]{8}-[0-9a-f]{4}-` + version + `[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`
}

// shape is a key with a letter for each class of characters; separators stay.
func shape(key string) string {
	b := []byte(key)
	for i := range b {
		if c := classOf(b[i]); c != separator {
			b[i] = " 0aA"[c]
		}
	}
	return string(b)
}

// TestWrongKeysLookReal: a wrong key differs from the real one, and has its length, and at each
// position its separator or a character of the same class and alphabet.
func TestWrongKeysLookReal(t *testing.T) {
	for name, form := range forms {
		t.Run(name, func(t *testing.T) {
			for range max(3, 2000/len(form.key)) {
				wrong, err := wrongFor(form.key)
				require.NoError(t, err)
				require.Len(t, wrong, 2)
				require.NotEqual(t, wrong[0], wrong[1])
				for _, key := range wrong {
					require.NotEqual(t, form.key, key)
					require.Len(t, key, len(form.key))
					require.Equal(t, shape(form.key), shape(key))
					requireForm(t, form.form, key)
				}
				third := len(form.key) / 3
				require.Equal(t, form.key[:third], wrong[1][:third], "the second shares the beginning")
			}
		})
	}
	for _, key := range []string{"---", "…"} {
		_, err := wrongFor(key)
		require.ErrorIs(t, err, errNoWrongKey, key)
	}
}

func requireForm(t *testing.T, form, key string) {
	t.Helper()
	switch form {
	case "":
		_, err := base64.RawStdEncoding.Strict().DecodeString(key)
		require.NoError(t, err, key)
	default:
		require.Regexp(t, regexp.MustCompile(form), key)
	}
}

// token makes a JWT, signed under a secret.
func token(payload string) string {
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(payload))
	return text + "." + encode(signed(text))
}

func signed(text string) []byte {
	mac := hmac.New(sha256.New, []byte("secret"))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// TestWrongTokensLookReal: of a JWT, one wrong key has header and payload with another signature.
// The other has another payload of the same length, with the same expiry, about somebody else.
func TestWrongTokensLookReal(t *testing.T) {
	for _, before := range []string{"", "sk_live_"} {
		for _, payload := range []string{
			`{"sub":"user_1","iss":"https://a.example","exp":4102444800,"iat":1700000000,"n":17}`,
			`{"iss":"a","aud":["b"],"exp":4102444800,"iat":1700000000}`,
			`{"exp":4102444800}`, `{"data":{"sub":"\"a\"","iss":"a"},"roles":["admin"],"ok":true}`,
		} {
			realKey := before + token(payload)
			for range 50 {
				wrong, err := wrongFor(realKey)
				require.NoError(t, err)
				was, ok := splitJWT(realKey)
				require.True(t, ok)
				first, ok := splitJWT(wrong[0])
				require.True(t, ok)
				require.Equal(t, []string{before, was.header, was.payload},
					[]string{first.before, first.header, first.payload})
				require.NotEqual(t, was.signature, first.signature)
				_, err = base64.RawURLEncoding.Strict().DecodeString(first.signature)
				require.NoError(t, err)

				second, ok := splitJWT(wrong[1])
				require.True(t, ok)
				require.Equal(t, []string{before, was.header, was.signature},
					[]string{second.before, second.header, second.signature})
				require.NotEqual(t, was.payload, second.payload)
				require.Len(t, second.payload, len(was.payload))
				requireClaims(t, payload, second.payload)
			}
		}
	}
	for _, no := range []string{
		"eyJ.a.b", "eyJhIjoxfQ.e30.c2ln", "eyJhbGciOiJIUzI1NiJ9.e30", "a.b.c",
	} {
		_, ok := splitJWT(no)
		require.False(t, ok, no)
	}
	// A payload that is no JSON, or has no value, is drawn anew as any text.
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for _, payload := range []string{"e30", "bm9qc29u"} {
		wrong, err := wrongFor(head + "." + payload + ".c2lnbmF0dXJl")
		require.NoError(t, err)
		require.NotEqual(t, wrong[0], wrong[1])
	}
}

func requireClaims(t *testing.T, was, encoded string) {
	t.Helper()
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	require.NoError(t, err)
	var before, now map[string]any
	require.NoError(t, json.Unmarshal([]byte(was), &before))
	require.NoError(t, json.Unmarshal(raw, &now), string(raw))
	if before["sub"] != nil {
		require.NotEqual(t, before["sub"], now["sub"])
		require.Equal(t, before["iat"], now["iat"])
	}
	for _, name := range []string{"iss", "aud"} {
		require.Equal(t, before[name], now[name], name)
	}
	if len(before) > 1 {
		require.Equal(t, before["exp"], now["exp"])
	}
}

// liar is a product that hands a key out and then looks at less of it than it should.
type liar struct {
	key    string
	accept func(key string) bool
}

// TestLyingProductsDoNotPass: each accepts the real key and refuses requests without one; none
// knows whether a key is one of its own. A product that looks, of each kind of key, passes.
func TestLyingProductsDoNotPass(t *testing.T) {
	jwtKey := token(`{"sub":"user_1","exp":4102444800,"plan":"free"}`)
	parts := strings.Split(jwtKey, ".")
	claims := func(key string) (c struct{ Sub, Plan string }) {
		if j, ok := splitJWT(key); ok {
			if raw, err := base64.RawURLEncoding.DecodeString(j.payload); err == nil {
				if json.Unmarshal(raw, &c) != nil {
					c.Sub = ""
				}
			}
		}
		return c
	}
	liars := map[string]liar{
		"any JWT":                {jwtKey, func(key string) bool { _, ok := splitJWT(key); return ok }},
		"a JWT's payload":        {jwtKey, func(key string) bool { return claims(key).Sub == "user_1" }},
		"a JWT's plan":           {jwtKey, func(key string) bool { return claims(key).Plan == "free" }},
		"a JWT's signature only": {jwtKey, func(key string) bool { return strings.HasSuffix(key, parts[2]) }},
		"a key's id": {
			"ak_7Hq2Zx9Lm4Tb_s3cR3tS3cR3tS3cR3t",
			func(key string) bool { return strings.HasPrefix(key, "ak_7Hq2Zx9Lm4Tb_") },
		},
		"a key's first characters": {
			hex.EncodeToString([]byte("0123456789abcdef")),
			func(key string) bool { return strings.HasPrefix(key, "30313233") },
		},
	}
	for name, form := range forms {
		if form.form != "" && len(form.key) > 1 {
			liars["form: "+name] = liar{form.key, regexp.MustCompile(form.form).MatchString}
		}
	}
	for name, lie := range liars {
		t.Run(name, func(t *testing.T) {
			d := decideOn(t, lie)
			require.Equal(t, Inconclusive, d.Outcome, "%+v", d)
			require.Equal(t, "answers_wrong_key", d.Code)
		})
	}
	honest := map[string]liar{"a checked signature": {jwtKey, func(key string) bool {
		j, ok := splitJWT(key)
		mac, err := base64.RawURLEncoding.DecodeString(j.signature)
		return ok && err == nil && hmac.Equal(mac, signed(j.header+"."+j.payload))
	}}}
	for name, form := range maps.All(forms) {
		honest["looked up: "+name] = liar{form.key, func(key string) bool { return key == form.key }}
	}
	for name, truth := range honest {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, Passed, decideOn(t, truth).Outcome)
		})
	}
}

func decideOn(t *testing.T, of liar) Verdict {
	t.Helper()
	require.True(t, of.accept(of.key))
	v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		key, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		if !sent || !of.accept(key) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	return v.Decide(t.Context(), Check{URL: url, Credential: "bearer"}, of.key)
}

// TestAPreflightFindsProductsThatAcceptAnyToken: before any key was seen it tries random digits and
// a token that nobody has signed; what else the token is answered changes nothing.
func TestAPreflightFindsProductsThatAcceptAnyToken(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	for name, test := range map[string]struct {
		toToken int
		want    Answer
	}{
		"accepts any token":   {200, Accepted},
		"refuses":             {401, Refused},
		"fails over a token":  {500, Refused},
		"does not understand": {400, Refused},
	} {
		sent = nil
		v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			mu.Lock()
			defer mu.Unlock()
			sent = append(sent, key)
			if _, ok := splitJWT(key); ok {
				w.WriteHeader(test.toToken)
				return
			}
			w.WriteHeader(http.StatusUnauthorized)
		})
		p := v.Preflight(t.Context(), Check{URL: url, Credential: "bearer"})
		require.Equal(t, Preflight{NoKey: Refused, WrongKey: test.want}, p, name)
		require.Empty(t, sent[0])
		require.Regexp(t, `^[0-9a-f]{32}$`, sent[1])
		_, ok := splitJWT(sent[2])
		require.True(t, ok, sent[2])
	}
}

// BenchmarkWrongKeys is what the longest key costs.
func BenchmarkWrongKeys(b *testing.B) {
	raw := make([]byte, 3000)
	if _, err := rand.Read(raw); err != nil {
		b.Fatal(err)
	}
	key := base64.RawURLEncoding.EncodeToString(raw)
	for b.Loop() {
		if _, err := wrongFor(key); err != nil {
			b.Fatal(err)
		}
	}
}
