package sampleproduct

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// ofForm is what every key looks like that newKey makes of random text.
var ofForm = regexp.MustCompile(`^` + KeyPrefix + `[A-Z2-7]{26}$`)

// tokenLife is how long a signed token is good.
const tokenLife = 24 * time.Hour

// newToken makes a JWT for an account of its own, signed with HMAC-SHA256 under a secret that the
// product makes for itself.
func (p *product) newToken(now time.Time) string {
	account := rand.Text()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys.add(account)
	encode := base64.RawURLEncoding.EncodeToString
	text := encode([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + encode([]byte(
		`{"iss":"sample","sub":"`+account+`","iat":`+strconv.FormatInt(now.Unix(), 10)+
			`,"exp":`+strconv.FormatInt(now.Add(tokenLife).Unix(), 10)+`}`))
	return text + "." + encode(p.sign(text))
}

// sign needs mu.
func (p *product) sign(text string) []byte {
	if p.secret == "" {
		p.secret = rand.Text()
	}
	mac := hmac.New(sha256.New, []byte(p.secret))
	mac.Write([]byte(text))
	return mac.Sum(nil)
}

// opens reports whether a key works, as far as the variant looks. It needs mu.
func (p *product) opens(key string, now time.Time) bool {
	switch p.variant {
	case FormOnly:
		return ofForm.MatchString(key)
	case SignedToken, UnsignedToken:
		return p.opensToken(key, now)
	}
	return p.keys.known[key]
}

// opensToken reads a token. The variant UnsignedToken believes what it says.
func (p *product) opensToken(key string, now time.Time) bool {
	parts := strings.Split(key, ".")
	if len(parts) != 3 {
		return false
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || p.variant == SignedToken &&
		!hmac.Equal(signature, p.sign(parts[0]+"."+parts[1])) {
		return false
	}
	raw, err := base64.RawURLEncoding.DecodeString(parts[1])
	var claims struct {
		Sub string
		Exp int64
	}
	return err == nil && json.Unmarshal(raw, &claims) == nil && claims.Exp > now.Unix() &&
		p.keys.known[claims.Sub]
}
