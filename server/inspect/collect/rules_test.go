package collect_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/collect"
)

// codes are the limits of a run, with how many addresses each concerns.
func codes(c *collect.Collection) (all []string) {
	for _, l := range c.Limits {
		number, _, _ := strings.Cut(l.Reason, " ")
		all = append(all, l.Code+" "+number)
	}
	return all
}

// TestRobotsAreAskedBehindRedirects: where a link redirects to, the rules of that host hold, for
// that path; the documents that everybody knows are addressed to us, wherever they are.
func TestRobotsAreAskedBehindRedirects(t *testing.T) {
	s := site(t, "=== https://acme.example/\n200 text/html\n\n<html><a href=/x>Docs</a> <a href=/cost>Pricing</a></html>\n"+
		"=== https://acme.example/robots.txt\n200 text/plain\n\nUser-agent: *\nDisallow: /private\n"+
		"=== https://acme.example/x\n302\nLocation: https://docs.acme.example/inner\n\n"+
		"=== https://docs.acme.example/robots.txt\n200 text/plain\n\nUser-agent: *\nDisallow: /inner\n"+
		"=== https://acme.example/cost\n302\nLocation: /private/cost\n\n"+
		"=== https://acme.example/llms.txt\n302\nLocation: /private/llms.txt\n\n")
	c := collected(t, s)
	asked := strings.Join(s.Asked(), "\n")
	require.Contains(t, asked, "https://docs.acme.example/robots.txt")
	require.NotContains(t, asked, "/inner")
	require.NotContains(t, asked, "/private/cost")
	require.Contains(t, asked, "/private/llms.txt")
	require.Equal(t, []string{"robots 2"}, codes(c))
	require.Equal(t, collect.RoleDocs, c.Missed[0].Role)
	require.Equal(t, collect.RolePricing, c.Missed[1].Role)
}

// TestWhatIsNotFollowedIsSaid: each reason apart, each address once.
func TestWhatIsNotFollowedIsSaid(t *testing.T) {
	var text strings.Builder
	text.WriteString("=== https://acme.example/\n200 text/html\n\n<html>")
	for i := range 5 { // one more than are followed, each twice
		link := fmt.Sprintf("<a href=/docs/%d>Docs</a> ", i)
		text.WriteString(link + link)
	}
	for _, host := range []string{"a", "b", "c", "d"} {
		fmt.Fprintf(&text, "<a href=https://%s.acme.example/openapi.json>API</a> ", host)
	}
	text.WriteString("<a href=https://other.example/openapi.json>API</a>\n" +
		"=== https://b.acme.example/robots.txt\n500 text/plain\n\nno\n" +
		"=== https://acme.example/llms.txt\nfail body 200\n")
	c := collected(t, site(t, text.String()))
	require.Equal(t, []string{"robots_unread 1", "hosts 1", "links 1", "other_domains 1", "answer_size 1"}, codes(c))
	require.Len(t, c.Missed, 4)
	for _, m := range c.Missed {
		require.Equal(t, "obs_2", m.Obs, m.Why)
	}
}

// TestAHomePageThatLeadsInACircle is one that failed: it says so.
func TestAHomePageThatLeadsInACircle(t *testing.T) {
	c := collected(t, site(t, "=== https://acme.example/\n302\nLocation: /a\n\n=== https://acme.example/a\n302\nLocation: /\n\n"))
	home := c.Find(collect.RoleHome)
	require.NotNil(t, home)
	require.Equal(t, "redirect_loop", *home.Failure)

	var long strings.Builder
	long.WriteString("=== https://acme.example/\n302\nLocation: /0\n\n")
	for i := range 9 {
		fmt.Fprintf(&long, "=== https://acme.example/%d\n302\nLocation: /%d\n\n", i, i+1)
	}
	home = collected(t, site(t, long.String())).Find(collect.RoleHome)
	require.Equal(t, "redirect_count", *home.Failure)
}

// TestTheControlIsOfTheHostThatIsRead: where the home page is on another host, that one is asked
// for what cannot exist.
func TestTheControlIsOfTheHostThatIsRead(t *testing.T) {
	const redirect = "=== https://acme.example/\n301\nLocation: https://www.acme.example/\n\n"
	c := collected(t, site(t, redirect+"=== *\n200 text/html\n\n<html>Acme</html>\n"))
	require.True(t, c.AnswersEverything)
	www := "https://www.acme.example/"
	s := site(t, redirect+"=== "+www+"\n200 text/html\n\n<html>Acme</html>\n=== "+
		strings.Replace(c.Observations[0].URL, "https://acme", "https://www.acme", 1)+"\n200 text/html\n\n<html>Acme</html>\n")
	c = collected(t, s)
	require.True(t, c.AnswersEverything)
	require.True(t, strings.HasPrefix(c.Control().URL, www))
	// Where only the host that redirects answers everything, the other does not.
	s = site(t, redirect+"=== "+c.Observations[0].URL+"\n200 text/html\n\n<html>Acme</html>\n=== "+www+"\n200 text/html\n\n<html>Acme</html>\n")
	c = collected(t, s)
	require.False(t, c.AnswersEverything)
}
