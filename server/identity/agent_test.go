package identity_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var authToken = regexp.MustCompile(`id="auth_token">([^<]*)<`)

// mailbox approves an agent's sign-in.
func (s *site) mailbox(base, inbox, body, key string) int {
	s.t.Helper()
	r, err := http.NewRequest("POST", base+"/v0/inboxes/"+inbox+"/authorize", strings.NewReader(body))
	require.NoError(s.t, err)
	r.Header.Set("Authorization", "Bearer "+key)
	a, err := s.web.Do(r)
	require.NoError(s.t, err)
	require.NoError(s.t, a.Body.Close())
	return a.StatusCode
}

// approval is the body of an approval.
func approval(t *testing.T, token, owner string) string {
	t.Helper()
	body := map[string]any{"auth_token": token, "accept_disclosure": true}
	if owner != "" {
		body["owner"] = owner
	}
	text, err := json.Marshal(body)
	require.NoError(t, err)
	return string(text)
}

// TestAgentsSignIn: by the waiting page, which its mailbox approves within five minutes, once.
func TestAgentsSignIn(t *testing.T) {
	s, _, base := openLocal(t)
	begin := func(web *http.Client) (page, token string) {
		a := s.get(web, s.get(web, "/login/identity").location)
		require.Equal(t, 303, a.status)
		page = a.location
		a = s.get(web, page)
		require.Equal(t, 200, a.status)
		require.Contains(t, a.body, `http-equiv="refresh"`)
		return page, authToken.FindStringSubmatch(a.body)[1]
	}
	page, token := begin(s.web)
	require.Equal(t, 401, s.mailbox(base, "bot", approval(t, token, ""), "wrong"))
	require.Equal(t, 400, s.mailbox(base, "bot", `{"auth_token":"`+token+`"}`, mailboxKey))
	require.Equal(t, 400, s.mailbox(base, "bot",
		`{"auth_token":"`+token+`","accept_disclosure":false}`, mailboxKey))
	require.Equal(t, 400, s.mailbox(base, "bot", `{"accept_disclosure":true}`, mailboxKey))
	require.Equal(t, 404, s.mailbox(base, "bot", approval(t, "another", ""), mailboxKey))
	require.Equal(t, 200, s.get(s.web, page).status, "it waits still")
	require.Equal(t, 200, s.mailbox(base, "bot", approval(t, token, ""), mailboxKey))
	require.Equal(t, 404, s.mailbox(base, "bot", approval(t, token, ""), mailboxKey), "once")
	callback := s.get(s.web, page).location
	require.Contains(t, callback, "/login/callback?")
	require.Equal(t, 404, s.get(s.web, page).status, "the page is good once")
	require.Equal(t, 303, s.get(s.web, callback).status)
	require.True(t, strings.HasPrefix(s.get(s.web, "/me").body, "agent "))

	late := s.browser()
	page, token = begin(late)
	s.Later(5*time.Minute + time.Second)
	require.Equal(t, 404, s.mailbox(base, "bot", approval(t, token, ""), mailboxKey))
	require.Equal(t, 404, s.get(late, page).status)
}
