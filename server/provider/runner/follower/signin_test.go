package follower

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/provider/fetch"
	"tollgate/server/provider/runner"
)

// withAccount lets a run sign in at the site.
func withAccount(t *runner.Task, _ *fetch.Config) {
	t.Account = &runner.Account{
		Host: t.Hosts[0], Username: "qa@acme.example", Password: "pass-4711-word",
	}
}

// door is a description with a sign-in and a sign-up, and the site that takes the account.
func door(schema string) map[string]string {
	return map[string]string{
		"GET /openapi.json": `{"openapi":"3.1.0","info":{"title":"A product","version":"1"},"paths":{
"/signup":{"post":{"operationId":"signUp","requestBody":{"content":{"application/json":{"schema":
{"type":"object"}}}},"responses":{"200":{"description":"Done."}}}},
"/login":{"post":{"operationId":"logIn","requestBody":{"content":{"application/json":{"schema":` +
			schema + `}}},"responses":{"200":{"description":"Done."}}}},
"/password/reset":{"post":{"operationId":"resetLogin","requestBody":{"content":{"application/json":
{"schema":` + schema + `}}},"responses":{"200":{"description":"Done."}}}}}}`,
		"POST /signup": `{"key":"k-of-a-stranger"}`,
		"POST /login":  `{"access_token":"k-12345678"}`,
	}
}

// TestItSignsIn: with an account it signs in, by whatever the fields are called, and signs nobody
// up.
func TestItSignsIn(t *testing.T) {
	fields := func(names ...string) string {
		text := make([]string, len(names))
		for i, name := range names {
			text[i] = `"` + name + `":{"type":"string"}`
		}
		return `{"type":"object","properties":{` + strings.Join(text, ",") + `}`
	}
	const name, password = `"qa@acme.example"`, `"pass-4711-word"`
	for schema, sent := range map[string]string{
		fields("email", "password") + `,"required":["email","password"]}`: `{"email":` + name +
			`,"password":` + password + `}`,
		fields("username", "pwd") + `}`: `{"pwd":` + password + `,"username":` + name + `}`,
		`{"type":"object","required":["user"],"properties":{"user":` +
			fields("login", "passphrase") + `}}}`: "",
	} {
		s := newSite(t, door(schema), nil)
		got := follow(t, s.URL, s.URL+"/", withAccount)
		if sent == "" { // what is asked for lies deeper: no field of the body is a password
			require.Equal(t, noSignIn, got.Code)
			require.Empty(t, s.sent)
			continue
		}
		require.Equal(t, "key", got.said(), got.events)
		require.Equal(t, "k-12345678", got.Credential)
		require.Equal(t, []string{"/login " + sent}, s.sent)
		require.NotContains(t, strings.Join(got.events, "\n"), "4711")
	}
}

// TestAnAccountGoesToItsHost: to no other, though that is one of the task's; and where no way to
// sign in is published, it does not sign up instead.
func TestAnAccountGoesToItsHost(t *testing.T) {
	answers := door(`{"type":"object","properties":{"password":{"type":"string"}}}`)
	s := newSite(t, answers, nil)
	got := follow(t, s.URL, s.URL+"/", withAccount, func(t *runner.Task, _ *fetch.Config) {
		t.Account.Host = "other.example"
	})
	require.Equal(t, noSignIn, got.Code)
	require.Empty(t, s.sent)

	delete(answers, "GET /openapi.json")
	s = newSite(t, answers, nil)
	got = follow(t, s.URL, s.URL+"/", withAccount)
	require.Equal(t, noSignIn, got.Code)
	require.True(t, got.Blocked)
	require.Empty(t, s.sent)
}
