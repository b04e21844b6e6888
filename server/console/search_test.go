package console_test

import (
	"html"
	"net/url"
	"regexp"
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
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "shop"))
	b.submit(at+"/keys", at+"/keys", fields("scope", "full", "label", "till"))
	to := b.get(at + "/search?q=shop").is(303).to
	one := b.get(to).is(200, `id="only"`, ">shop<", `href="`+at+`/keys">All keys`)
	require.NotContains(t, one.body, ">till<")
	safe(t, one)
	gone := strings.TrimPrefix(to, at+"/keys?key=")
	b.submit(to, at+"/keys/"+gone+"/revoke", fields())
	b.get(to).is(200, `id="revoked" open`, ">shop<")
	b.get(at+"/keys?key=none").is(200, "no such key")
	for _, nothing := range []string{"other", "%25", "%3Cscript%3E", strings.Repeat("a", 10_000)} {
		b.get(at+"/search?q="+nothing).is(200, "Nothing found for")
	}
}

// TestASearchOpensTheEvent that a key names, wherever it is among a customer's.
func TestASearchOpensTheEvent(t *testing.T) {
	n := start(t)
	b := n.signedIn()
	b.furnish()
	const at = "/console/accounts/demo/sandbox"
	const anna = at + "/customers/anna"
	for range 3 {
		b.submit(anna, anna+"/usage", fields("feature", "calls", "units", "1"))
	}
	keys := regexp.MustCompile(`<code>([^<]+)</code>`).FindAllStringSubmatch(b.get(anna+"/events").body, -1)
	key := html.UnescapeString(keys[len(keys)-1][1])
	to := b.get(at + "/search?q=" + url.QueryEscape(key)).is(303).to
	require.Contains(t, to, anna+"/events?")
	p := b.get(to).is(200, "The event with this key", key)
	require.Equal(t, 1, strings.Count(p.body, `data-label="Kind"`))
	safe(t, p)
	b.get(anna+"/events?key=none&at=2026-01-01T00:00:00Z").is(200, "No event of this customer")
	b.get(anna+"/events?at=2026-01-01T00:00:00Z&key="+url.QueryEscape(hostile)).is(200, "No event of this customer")
	b.get(at+"/nothing-here").is(404, "Page not found")
}
