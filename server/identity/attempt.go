package identity

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"
	"golang.org/x/oauth2"

	"tollgate/server/ascii"
)

// attempt is a sign-in in progress. The browser keeps it, sealed: any node can finish it, and
// strangers use no memory.
type attempt struct {
	State    string `json:"s"`
	Nonce    string `json:"n"`
	Verifier string `json:"v"`
	Return   string `json:"r"`
	Agents   bool   `json:"a"`
	At       int64  `json:"t"` // milliseconds since 1970
}

// attemptLife is how long a sign-in may take: an agent's mailbox has five minutes to approve it.
const attemptLife = 15 * time.Minute

func newAttempt(now time.Time, path string, agents bool) *attempt {
	var raw [64]byte
	rand.Read(raw[:]) // never fails
	return &attempt{
		State:    base64.RawURLEncoding.EncodeToString(raw[:32]),
		Nonce:    base64.RawURLEncoding.EncodeToString(raw[32:]),
		Verifier: oauth2.GenerateVerifier(), Return: path, Agents: agents, At: now.UnixMilli(),
	}
}

// keep gives the browser an attempt.
func (s *Service) keep(ctx *fasthttp.RequestCtx, a *attempt) error {
	text, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("identity: %w", err)
	}
	sealed := s.attempts.Seal(uint32(s.config.Surface), "attempt", string(text))
	s.setCookie(ctx, s.cookieName(attemptCookie), base64.RawURLEncoding.EncodeToString(sealed),
		attemptLife)
	return nil
}

// kept is the attempt that the browser has; nil if it has none, or it is too old.
func (s *Service) kept(ctx *fasthttp.RequestCtx) *attempt {
	sealed, err := base64.RawURLEncoding.DecodeString(s.cookie(ctx, attemptCookie))
	if err != nil {
		return nil
	}
	text, err := s.attempts.Open(uint32(s.config.Surface), "attempt", sealed)
	if err != nil {
		return nil
	}
	a := &attempt{}
	if json.Unmarshal([]byte(text), a) != nil {
		return nil
	}
	age := s.config.Now().Sub(time.UnixMilli(a.At))
	if age > attemptLife || age < -time.Minute {
		return nil
	}
	return a
}

// LocalPath is a path of our own to continue to after signing in; "/" for anything else: no address
// that a stranger names is ever gone to.
func LocalPath(text string) string {
	if !ascii.Visible(text, 512) || text[0] != '/' || strings.HasPrefix(text, "//") ||
		strings.Contains(text, `\`) {
		return "/"
	}
	return text
}
