package console_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestSearchPage: every page of an environment has a search; one result is opened, several are
// listed, and what is not there is said to be so, whatever it is.
func TestSearchPage(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.submit("/console", "/console/accounts", fields("name", "demo"))
	b.submit("/console", "/console/accounts", fields("name", "other"))
	const at = "/console/accounts/demo/sandbox"
	for _, account := range []string{"demo", "other"} {
		home := "/console/accounts/" + account + "/sandbox/customers"
		b.submit(home, home, fields("id", account+"/1", "first", "Anna", "last", "Berg", "email", "a@x.example"))
	}
	b.submit(at+"/customers", at+"/customers", fields("id", "anna/2", "first", "Bo", "last", "Al",
		"email", "bo@x.example"))
	b.get(at+"/keys").is(200, `action="`+at+`/search"`, `aria-keyshortcuts="/"`)
	b.get(at+"/search").is(200, "Type the beginning")
	b.get(at+"/search?q=ann").is(200, "Anna Berg", "Bo Al", at+"/customers/demo%2F1", `value="ann"`)
	require.Equal(t, at+"/customers/anna%2F2", b.get(at+"/search?q=bo").is(303).to)
	for _, nothing := range []string{"other", "%25", "%3Cscript%3E", strings.Repeat("a", 10_000)} {
		b.get(at+"/search?q="+nothing).is(200, "Nothing here begins with")
	}
}
