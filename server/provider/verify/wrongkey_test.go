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
	"slices"
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
	"region at the end": {
		"8f14e45fceea167a5a36dedd4bea2543-us21", `^[0-9a-f]{32}-us21$`,
	},
	"word at the end": {"8f14e45fceea167a5a36dedd4bea2543_live", `^[0-9a-f]{32}_(live|test)$`},
	"hex and base62": {
		"8f14e45fceea167a.aB3dE5gH7jK9mN1pQ2rS", `^[0-9a-f]{16}\.[A-Za-z0-9]{20}$`,
	},
	"base32 groups":  {"01J9Z-QK8M7-N6P5R", `^[0-9A-HJKMNP-TV-Z]{5}(-[0-9A-HJKMNP-TV-Z]{5}){2}$`},
	"binary":         {"b_0110100110010110", `^b_[01]{16}$`},
	"one hex letter": {"00112233445566aa", `^[0-9a-f]{16}$`},
	"short":          {"ab1", `^[a-z]{2}\d$`},
	"one":            {"7", `^\d$`},
	"long":           {strings.Repeat("aZ3", 1365), `^(?:[a-z][A-Z][0-9])+$`},
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
				requireFew(t, form.key, wrong[1])
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

// requireFew: the second wrong key differs in a few characters.
func requireFew(t *testing.T, was, now string) {
	t.Helper()
	n := 0
	for i := range was {
		if was[i] != now[i] {
			n++
		}
	}
	require.LessOrEqual(t, n, fewBytes, now)
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

// signedToken makes a JWT, signed under a secret.
func signedToken(payload string) string {
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
			realKey := before + signedToken(payload)
			for range 50 {
				wrong, err := wrongFor(realKey)
				require.NoError(t, err)
				was, ok := splitToken(realKey)
				require.True(t, ok)
				first, ok := splitToken(wrong[0])
				require.True(t, ok)
				require.Equal(t, []string{was.before, was.payload}, []string{first.before, first.payload})
				require.NotEqual(t, was.signature, first.signature)
				_, err = base64.RawURLEncoding.Strict().DecodeString(first.signature)
				require.NoError(t, err)

				second, ok := splitToken(wrong[1])
				require.True(t, ok)
				require.Equal(t, []string{was.before, was.signature}, []string{second.before, second.signature})
				require.NotEqual(t, was.payload, second.payload)
				require.Len(t, second.payload, len(was.payload))
				requireClaims(t, payload, second.payload)
			}
		}
	}
	for _, no := range []string{
		"eyJ.a.b", "eyJhbGciOiJIUzI1NiJ9..c2ln", "a.b.c", "bnVsbA", "",
	} {
		_, ok := splitToken(no)
		require.False(t, ok, no)
	}
	// A payload that is not JSON, or has no value, is drawn anew as any text.
	head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`))
	for _, payload := range []string{"e30", "bm9qc29u"} {
		wrong, err := wrongFor(head + "." + payload + ".c2lnbmF0dXJl")
		require.NoError(t, err)
		require.NotEqual(t, wrong[0], wrong[1])
	}
}

// TestOtherTokensLookReal: a token stays of its kind, whatever has signed it or not. Without a
// signature both wrong keys are other documents.
func TestOtherTokensLookReal(t *testing.T) {
	url, std := base64.RawURLEncoding, base64.StdEncoding
	user := []byte(`{"user":"user_1","plan":"free","expires":4102444800}`)
	none := url.EncodeToString([]byte(`{"alg":"none"}`)) + "."
	sealed := url.EncodeToString([]byte(`{"alg":"dir","enc":"A256GCM"}`)) + "..aXZpdml2aXZpdml2"
	for name, test := range map[string]struct {
		key               string
		encoding          *base64.Encoding
		before, signature string
		payload           int
	}{
		"unsigned":           {none + url.EncodeToString(user) + ".", url, none, "", 1},
		"without a last dot": {none + url.EncodeToString(user), url, none, "", 1},
		"a document":         {url.EncodeToString(user), url, "", "", 0},
		"with spaces":        {std.EncodeToString([]byte(`{ "user": "user_1", "plan": "free" }`)), std, "", "", 0},
		"behind a prefix":    {"tok_" + std.EncodeToString(user), std, "tok_", "", 0},
		"a signed session":   {url.EncodeToString(user) + ".aZ3xY7.c2lnbmF0dXJlc2ln", url, "", "c2lnbmF0dXJlc2ln", 0},
		"encrypted":          {sealed + ".aBcDeFgHiJkLmNoP.c2lnbmF0dXJlc2ln", nil, sealed + ".", "c2lnbmF0dXJlc2ln", 3},
	} {
		t.Run(name, func(t *testing.T) {
			for range 100 {
				wrong, err := wrongFor(test.key)
				require.NoError(t, err)
				require.NotEqual(t, wrong[0], wrong[1])
				for i, key := range wrong {
					require.NotEqual(t, test.key, key)
					require.Len(t, key, len(test.key))
					require.True(t, strings.HasPrefix(key, test.before), key)
					if test.signature != "" {
						require.Equal(t, i == 1, strings.HasSuffix(key, test.signature), key)
					}
					if test.encoding == nil {
						continue
					}
					parts := strings.Split(strings.TrimPrefix(key, "tok_"), ".")
					raw, err := test.encoding.DecodeString(parts[test.payload])
					require.NoError(t, err, key)
					var c struct {
						User, Plan string
						Expires    int64
					}
					require.NoError(t, json.Unmarshal(raw, &c), string(raw))
					require.Regexp(t, `^user_\d$`, c.User)
					require.Equal(t, test.signature != "" && i == 0, c.User == "user_1")
					require.Contains(t, []int64{0, 4102444800}, c.Expires)
					if test.signature == "" && i == 1 {
						require.Equal(t, "free", c.Plan, "one value differs")
					}
				}
			}
		})
	}
}

// TestWrongKeysHaveARightChecksum, where the real key has one that is known. These keys are made
// here, in the form of GitHub's.
func TestWrongKeysHaveARightChecksum(t *testing.T) {
	for _, sum := range []checksum{{base62[0], 4}, {base62[1], 4}, {base62[2], 0}} {
		right := func(key string) bool {
			body, ok := key[:34], regexp.MustCompile(`^ghp_[A-Za-z0-9]{36}$`).MatchString(key)
			return ok && sum.of(body) == key[34:]
		}
		body := "ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0"
		for range 200 {
			wrong, err := wrongFor(body + sum.of(body))
			require.NoError(t, err)
			require.NotEqual(t, wrong[0], wrong[1])
			for _, key := range wrong {
				require.True(t, right(key), key)
				require.NotEqual(t, body, key[:34])
			}
		}
	}
	body := "github_pat_11ABCDEFG0aB3dE5gH7jK9_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA2bC4dE6fG8hI0jK2lM4nO6p"
	for _, from := range []int{0, 11, 34} {
		key := body + checksum{base62[0], from}.of(body)
		_, found := splitChecksum(key)
		require.Equal(t, checksum{base62[0], from}, found, key[from:])
	}
	whole, none := splitChecksum(body)
	require.Equal(t, body, whole)
	require.Equal(t, checksum{}, none)
	// The polynomial's check value: the CRC-32 of "123456789" is cbf43926.
	require.Equal(t, "3jZRME", checksum{alphabet: base62[0]}.of("123456789"))
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

// fixedInside are keys with fixed text within the random: only the second wrong key keeps it.
var fixedInside = map[string]struct{ key, form string }{
	"OpenAI": {
		"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",
		`^sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}$`,
	},
	"Anthropic": {
		"sk-ant-api03-aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0zA2bC4dE6fG8hI0jK2lM4nO6pQ8rS0tU2vW4xY6zA8bC" +
			"0dE2fG4hI6jK8lM0nOpQAA", `^sk-ant-api03-[\w-]+AA$`,
	},
	"Azure": {
		"1aB2cD3eF4gH5iJ6kL7mN8oP9qR0sT1uV2wX3yZ4aB5cD6eF7gH8JQQJ99ALACYeBjFXJ3w3AAABACOGabcd",
		`^[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{14}.{4}ACOG[A-Za-z0-9]{4}$`,
	},
	"a date": {"k_2026-11-23_aB3dE5gH7jK9mN1p", `^k_20\d\d-[01]\d-[0-3]\d_[A-Za-z0-9]{16}$`},
}

// TestFixedTextStays in the second wrong key, each time.
func TestFixedTextStays(t *testing.T) {
	for name, form := range fixedInside {
		for range 200 {
			wrong, err := wrongFor(form.key)
			require.NoError(t, err)
			require.Regexp(t, form.form, wrong[1], name)
			require.NotEqual(t, form.key, wrong[1])
		}
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
	jwtKey := signedToken(`{"sub":"user_1","exp":4102444800,"plan":"free"}`)
	parts := strings.Split(jwtKey, ".")
	claims := func(key string) (c struct{ Sub, Plan string }) {
		if j, ok := splitToken(key); ok {
			if raw, err := base64.RawURLEncoding.DecodeString(j.payload); err == nil {
				if json.Unmarshal(raw, &c) != nil {
					c.Sub = ""
				}
			}
		}
		return c
	}
	liars := map[string]liar{
		"any JWT":                {jwtKey, func(key string) bool { _, ok := splitToken(key); return ok }},
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
	encode := base64.RawURLEncoding.EncodeToString
	hasUser := func(document string) bool {
		var c struct{ Sub string }
		raw, err := base64.RawURLEncoding.DecodeString(document)
		return err == nil && json.Unmarshal(raw, &c) == nil && c.Sub != ""
	}
	user := encode([]byte(`{"sub":"user_1"}`))
	liars["an unsigned token"] = liar{
		encode([]byte(`{"alg":"none"}`)) + "." + user + ".",
		func(key string) bool {
			parts := strings.Split(key, ".")
			return len(parts) == 3 && parts[2] == "" && hasUser(parts[1])
		},
	}
	liars["a document"] = liar{user, hasUser}
	liars["a checksum"] = liar{
		"ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0" +
			checksum{base62[0], 4}.of("ghp_aB3dE5gH7jK9mN1pQ2rS4tU6vW8xY0"),
		func(key string) bool {
			return len(key) == 40 && checksum{base62[0], 4}.of(key[:34]) == key[34:]
		},
	}
	for name, form := range fixedInside {
		liars["fixed text: "+name] = liar{form.key, regexp.MustCompile(form.form).MatchString}
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
		j, ok := splitToken(key)
		mac, err := base64.RawURLEncoding.DecodeString(j.signature)
		return ok && err == nil && hmac.Equal(mac, signed(j.before+j.payload))
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
// a token that nobody has signed, and both must be refused with 401 or 403: another answer to
// either is unclear, and where either gets 429, 5xx or none, nothing is known.
func TestAPreflightFindsProductsThatAcceptAnyToken(t *testing.T) {
	var mu sync.Mutex
	var sent []string
	for name, test := range map[string]struct {
		toDigits, toToken int
		want              Answer
	}{
		"accepts any token":           {401, 200, Accepted},
		"refuses":                     {401, 401, Refused},
		"refuses otherwise":           {401, 403, Refused},
		"fails over a token":          {401, 503, Unknown},
		"is busy with a token":        {401, 429, Unknown},
		"breaks off over a token":     {401, 0, Unknown},
		"does not understand":         {401, 400, Soft},
		"knows no token":              {401, 404, Soft},
		"fails over digits":           {503, 401, Unknown},
		"is busy with digits":         {429, 401, Unknown},
		"breaks off over digits":      {0, 401, Unknown},
		"knows no digits":             {404, 401, Soft},
		"knows no digits and fails":   {404, 503, Unknown},
		"knows no digits and accepts": {404, 200, Accepted},
	} {
		mu.Lock()
		sent = nil
		mu.Unlock()
		v, url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
			mu.Lock()
			sent = append(sent, key)
			mu.Unlock()
			status := test.toDigits
			if _, ok := splitToken(key); ok {
				status = test.toToken
			} else if key == "" {
				status = http.StatusUnauthorized
			}
			if status == 0 {
				panic(http.ErrAbortHandler)
			}
			w.WriteHeader(status)
		})
		p := v.Preflight(t.Context(), Check{URL: url, Credential: "bearer"})
		require.Equal(t, Preflight{NoKey: Refused, WrongKey: test.want}, p, name)
		mu.Lock()
		asked := slices.Clone(sent)
		mu.Unlock()
		require.Empty(t, asked[0])
		require.Regexp(t, `^[0-9a-f]{32}$`, asked[1])
		if test.toDigits == 401 || test.toDigits == 404 {
			_, ok := splitToken(asked[2])
			require.True(t, ok, asked[2])
		}
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
