package devidp_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/examples/devidp"
)

const callback = "http://127.0.0.1/login/callback"

// ask makes one request of a provider.
func ask(
	p *devidp.Provider, method, target, bearer, media, body string,
) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+bearer)
	r.Header.Set("Content-Type", media)
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

// signIn takes an agent from the request to its token, and returns whom that is of.
func signIn(p *devidp.Provider, inbox string) (subject string, err error) {
	verifier := strings.Repeat(inbox, 43)[:43]
	sum := sha256.Sum256([]byte(verifier))
	begun := ask(p, "GET", devidp.AgentsPath+"/authorize?"+url.Values{
		"redirect_uri": {callback}, "client_id": {devidp.ClientID}, "response_type": {"code"},
		"scope": {"openid"}, "code_challenge_method": {"S256"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])},
	}.Encode(), "", "", "")
	waiting, err := url.Parse(begun.Header().Get("Location"))
	if err != nil {
		return "", err
	}
	approved := ask(p, "POST", "/v0/inboxes/"+inbox+"/authorize", "mailbox", "application/json",
		fmt.Sprintf(`{"auth_token":%q,"accept_disclosure":true}`, waiting.Query().Get("auth_token")))
	if approved.Code != http.StatusOK {
		return "", fmt.Errorf("approve: %d %s", approved.Code, approved.Body)
	}
	gone := ask(p, "GET", waiting.RequestURI(), "", "", "")
	back, err := url.Parse(gone.Header().Get("Location"))
	if err != nil {
		return "", err
	}
	form := url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")},
		"redirect_uri": {callback}, "code_verifier": {verifier},
	}.Encode()
	const media = "application/x-www-form-urlencoded"
	given := ask(p, "POST", devidp.AgentsPath+"/token", "", media, form)
	var token struct {
		Access string `json:"access_token"`
	}
	if err = json.Unmarshal(given.Body.Bytes(), &token); err != nil {
		return "", err
	}
	if ask(p, "POST", devidp.AgentsPath+"/token", "", media, form).Code == http.StatusOK {
		return "", fmt.Errorf("the code is good twice")
	}
	var who struct {
		Subject string `json:"sub"`
	}
	info := ask(p, "GET", devidp.AgentsPath+"/userinfo", token.Access, "", "")
	err = json.Unmarshal(info.Body.Bytes(), &who)
	return who.Subject, err
}

// TestManySignInAtOnce: each agent gets a token of its own, while the signing key changes.
func TestManySignInAtOnce(t *testing.T) {
	p, err := devidp.New(devidp.Config{
		URL: "http://127.0.0.1", MailboxKey: "mailbox", Callbacks: []string{callback},
	})
	require.NoError(t, err)
	const agents = 16
	var group sync.WaitGroup
	var subjects [agents]string
	var failures [2 * agents]error
	for n := range agents {
		group.Go(func() { subjects[n], failures[n] = signIn(p, fmt.Sprint("agent", n)) })
		group.Go(func() {
			failures[agents+n] = p.Rotate()
			ask(p, "GET", devidp.AgentsPath+"/keys", "", "", "")
		})
	}
	group.Wait()
	for _, err := range failures {
		require.NoError(t, err)
	}
	for n, subject := range subjects {
		require.Equal(t, fmt.Sprint("agent", n), subject)
	}
	var published struct{ Keys []any }
	require.NoError(t, json.Unmarshal(
		ask(p, "GET", devidp.PersonsPath+"/keys", "", "", "").Body.Bytes(), &published))
	require.Len(t, published.Keys, agents+1)
}
