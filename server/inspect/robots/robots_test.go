package robots_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/robots"
)

// The cases of RFC 9309, sections 2.2 and 5, and those in which parsers differ.
func TestDecide(t *testing.T) {
	const simple = "User-Agent: *\nDisallow: *.gif$\nDisallow: /example/\nAllow: /publications/\n\n" +
		"User-Agent: foobot\nDisallow:/\nAllow:/example/page.html\nAllow:/example/allowed.gif\n\n" +
		"User-Agent: barbot\nUser-Agent: bazbot\nDisallow: /example/page.html\n\nUser-Agent: quxbot\n"
	for _, c := range []struct {
		text, agent, path string
		allowed           bool
		line              string
	}{
		{simple, "foobot", "/", false, "Disallow:/"},
		{simple, "FooBot/1.0", "/example/page.html", true, "Allow:/example/page.html"},
		{simple, "barbot", "/example/page.html", false, "Disallow: /example/page.html"},
		{simple, "bazbot", "/example/page.html", false, "Disallow: /example/page.html"},
		{simple, "bazbot", "/example/", true, ""},
		{simple, "quxbot", "/example/", true, ""},
		{simple, "other", "/example/x", false, "Disallow: /example/"},
		{simple, "other", "/a.gif", false, "Disallow: *.gif$"},
		{simple, "other", "/a.gif?x", true, ""},
		{simple, "other", "/robots.txt", true, ""},
		{"User-agent: *\nDisallow: /\n", "x", "/robots.txt", true, ""},
		{"User-agent: *\nAllow: /p\nDisallow: /", "x", "/page", true, "Allow: /p"},
		{"User-agent: *\nDisallow: /a\nAllow: /a", "x", "/ab", true, "Allow: /a"},
		{"User-agent: *\nAllow: /a\nDisallow: /a", "x", "/ab", true, "Allow: /a"},
		{"User-agent: *\nAllow: /page\nDisallow: /*.htm", "x", "/page.htm", false, "Disallow: /*.htm"},
		{"User-agent: *\nAllow: /$\nDisallow: /", "x", "/", true, "Allow: /$"},
		{"User-agent: *\nAllow: /$\nDisallow: /", "x", "/page", false, "Disallow: /"},
		{"User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /\nUser-agent: a\nDisallow: /y", "a", "/y", false, "Disallow: /y"},
		{"User-agent: a\nDisallow: /x\nUser-agent: b\nDisallow: /\nUser-agent: a\nDisallow: /y", "a", "/z", true, ""},
		{"Disallow: /\nUser-agent: *\nAllow: /", "x", "/a", true, "Allow: /"},
		{"User-agent: *\nDisallow:", "x", "/a", true, ""},
		{"", "x", "/a", true, ""},
		{"User-agent: a\n\n# between\nUser-agent: b\nDisallow: /", "a", "/x", false, "Disallow: /"},
		{"User-agent: a\nSitemap: https://x.example/s.xml\nDisallow: /q", "a", "/q", false, "Disallow: /q"},
		{"User-agent: *\nDisallow: /foo/bar?baz=https://foo.bar", "x", "/foo/bar?baz=https://foo.bar", false, "Disallow: /foo/bar?baz=https://foo.bar"},
		{"User-agent: *\nDisallow: /foo/bar/ツ", "x", "/foo/bar/%E3%83%84", false, "Disallow: /foo/bar/ツ"},
		{"User-agent: *\nDisallow: /foo/bar/%62%61%7A", "x", "/foo/bar/baz", false, "Disallow: /foo/bar/%62%61%7A"},
		{"User-agent: *\nDisallow: /a%3cd.html", "x", "/a%3Cd.html", false, "Disallow: /a%3cd.html"},
		{"user-AGENT : GPTBot # who\n  disallow : / # all", "gptbot", "/", false, "disallow : / # all"},
		{"\ufeffUser-agent: *\rDisallow: /x\r", "a", "/x", false, "Disallow: /x"},
		{"User-agent: *\nDisallow: /fish*.php", "x", "/fish/a.php?b", false, "Disallow: /fish*.php"},
		{"User-agent: *\nDisallow: /fish*.php", "x", "/Fish.php", true, ""},
		{"User-agent: *\nDisallow: /a**b", "x", "/acb", false, "Disallow: /a**b"},
		{"User-agent: *\nDisallow: /*$", "x", "/acb", false, "Disallow: /*$"},
		{"<html><title>Not found: 404</title></html>", "x", "/a", true, ""},
	} {
		d := robots.Parse(c.text).Decide(c.agent, c.path)
		require.Equal(t, robots.Decision{Allowed: c.allowed, Line: c.line}, d, "%q %s %s", c.text, c.agent, c.path)
	}
}

func TestWhatElseAFileSays(t *testing.T) {
	f := robots.Parse("Sitemap: https://x.example/a.xml\nUser-agent: *\n" +
		"Content-Signal: search=yes, ai-train=no\nAllow: /\nsitemap:/b.xml\nCrawl-delay: 3\n")
	require.Equal(t, []string{"https://x.example/a.xml", "/b.xml"}, f.Sitemaps)
	require.Equal(t, []string{"Content-Signal: search=yes, ai-train=no"}, f.Signals)
	require.Equal(t, 5, f.Lines)
	require.Zero(t, robots.Parse("<html>not: found</html>").Lines)
}

func FuzzDecide(f *testing.F) {
	f.Add("User-agent: *\nDisallow: /*a*b$\nAllow: /", "/xaybz")
	f.Fuzz(func(t *testing.T, text, path string) {
		file := robots.Parse(text)
		d := file.Decide("Tollgate", path)
		require.True(t, d.Line == "" || strings.Contains(text, d.Line))
		require.True(t, d.Allowed || d.Line != "")
	})
}
