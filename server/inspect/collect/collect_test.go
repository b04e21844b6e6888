package collect_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/inspecttest"
	"tollgate/server/inspect/collect"
)

const home = "https://acme.example/"

func clock() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 6_000_000, time.UTC) }

func site(t *testing.T, text string) *inspecttest.Site {
	t.Helper()
	s, err := inspecttest.Parse(text)
	require.NoError(t, err)
	return s
}

func collected(t *testing.T, s *inspecttest.Site) *collect.Collection {
	t.Helper()
	c, err := collect.Run(t.Context(), collect.Config{Fetcher: s, Now: clock}, home, "run_1")
	require.NoError(t, err)
	return c
}

// lines are the observations as lines: role, status or failure, address, how it was found.
func lines(c *collect.Collection) string {
	var b strings.Builder
	for _, o := range c.Observations {
		status := 0
		if o.Status != nil {
			status = *o.Status
		}
		if o.Failure != nil {
			fmt.Fprintf(&b, "%s %s %d %s %s %s\n", o.ID, o.Role, status, *o.Failure, o.URL, o.DiscoveredVia)
		} else {
			fmt.Fprintf(&b, "%s %s %d %s %s\n", o.ID, o.Role, status, o.URL, o.DiscoveredVia)
		}
	}
	return b.String()
}

const linked = `
=== https://acme.example/
200 text/html
Link: </.well-known/api-catalog>; rel="api-catalog", </spec/openapi.yaml>; rel=service-desc

<html><a href="https://docs.acme.example/start">Documentation</a> <a href="/cost">Pricing</a>
<a href="https://other.example/docs">Docs elsewhere</a> <a href="/logo.png">Docs</a>
<a href="/private/docs">More docs</a> <a href="mailto:x@acme.example">Docs</a></html>
=== https://acme.example/robots.txt
200 text/plain

User-agent: *
Disallow: /private/
Sitemap: https://acme.example/map.xml
=== https://acme.example/map.xml
200 application/xml

<urlset><url><loc>https://acme.example/authentication</loc></url></urlset>
=== https://acme.example/llms.txt
200 text/plain

# Acme
- [API keys](/keys.md)
=== https://docs.acme.example/start
200 text/html

<html><redoc spec-url="/api/openapi.json"></redoc></html>
=== https://docs.acme.example/api/openapi.json
200 application/json

{"openapi":"3.1.0"}
=== https://acme.example/.well-known/api-catalog
200 application/linkset+json

{"linkset":[{"anchor":"x","service-desc":[{"href":"https://api.acme.example/openapi.json"}]}]}
`

func TestLinksAreFollowedByRole(t *testing.T) {
	s := site(t, linked)
	c := collected(t, s)
	found := lines(c)
	for _, line := range []string{
		"openapi 404 https://acme.example/spec/openapi.yaml link:obs_2",
		"docs 200 https://docs.acme.example/start link:obs_2",
		"pricing 404 https://acme.example/cost link:obs_2",
		"auth_docs 404 https://acme.example/keys.md link:obs_5",
		"sitemap 200 https://acme.example/map.xml link:obs_4",
		"openapi 404 https://api.acme.example/openapi.json link:obs_11",
	} {
		require.Contains(t, found, line)
	}
	require.Contains(t, found, "openapi 200 https://docs.acme.example/api/openapi.json link:", "a second step")
	asked := strings.Join(s.Asked(), "\n")
	require.NotContains(t, asked, "/private/", "robots.txt forbids it")
	require.NotContains(t, asked, "other.example", "another registrable domain")
	require.NotContains(t, asked, "logo.png")
	require.NotContains(t, asked, "acme.example/docs\n", "no guess where a link names one")
	require.Contains(t, asked, "https://docs.acme.example/robots.txt", "each host has rules of its own")
	require.NotContains(t, asked, "/authentication", "a sitemap says only what no link does")
	var codes []string
	for _, l := range c.Limits {
		codes = append(codes, l.Code+" "+l.Reason[:1])
	}
	require.Equal(t, []string{"robots 1", "other_domains 1"}, codes)
}

func TestASitemapSaysWhatNoLinkDoes(t *testing.T) {
	c := collected(t, site(t, "=== https://acme.example/\n200 text/html\n\n<html>Acme</html>\n"+
		"=== https://acme.example/sitemap.xml\n200 text/xml\n\n<urlset><loc>"+
		"https://acme.example/a.jpg</loc><loc>https://acme.example/authentication</loc></urlset>"))
	require.Contains(t, lines(c), "auth_docs 404 https://acme.example/authentication sitemap\n")
	require.Contains(t, lines(c), "pricing 404 https://acme.example/pricing well_known\n", "a guess")
}

// TestTheOrderOfAnswersDoesNotMatter: whichever answer comes first, the observations are the same.
func TestTheOrderOfAnswersDoesNotMatter(t *testing.T) {
	want := lines(collected(t, site(t, linked)))
	for seed := range uint64(20) {
		s := site(t, linked)
		s.Before = func(url string) {
			r := rand.New(rand.NewPCG(seed, uint64(len(url))*31+uint64(url[len(url)-1])))
			<-time.After(time.Duration(r.IntN(300)) * time.Microsecond)
		}
		require.Equal(t, want, lines(collected(t, s)))
	}
}

func TestRobotsOutOfReachForbidEverything(t *testing.T) {
	for answer, followed := range map[string]bool{
		"404 text/plain\n\nx": true, "401 text/plain\n\nx": true, "200 text/html\n\n<html>": true,
		"500 text/plain\n\nx": false, "fail time": false, "fail body": false,
		"301 text/plain\nLocation: /r\n\nx": true,
	} {
		t.Run(answer, func(t *testing.T) {
			s := site(t, "=== https://acme.example/\n200 text/html\n\n<html><a href=/x>Docs</a></html>\n"+
				"=== https://acme.example/robots.txt\n"+answer+"\n")
			collected(t, s)
			require.Equal(t, followed, strings.Contains(strings.Join(s.Asked(), " "), "example/x"))
		})
	}
}

func TestRobotsOfARedirectAreThoseOfTheHostThatWasAsked(t *testing.T) {
	s := site(t, "=== https://acme.example/\n200 text/html\n\n<html><a href=/x>Docs</a></html>\n"+
		"=== https://acme.example/robots.txt\n302\nLocation: https://www.acme.example/r.txt\n\n"+
		"=== https://www.acme.example/r.txt\n200 text/plain\n\nUser-agent: tollgate\nDisallow: /x\n")
	collected(t, s)
	require.NotContains(t, strings.Join(s.Asked(), " "), "acme.example/x")
}

func TestEachHopIsAnObservation(t *testing.T) {
	s := site(t, "=== https://acme.example/\n301\nLocation: https://www.acme.example/\n\n"+
		"=== https://www.acme.example/\n302\nLocation: /home\n\n"+
		"=== https://www.acme.example/home\n200 text/html\n\n<html>Acme</html>\n"+
		"=== https://www.acme.example/llms.txt\n302\nLocation: https://elsewhere.example/\n\n"+
		"=== https://www.acme.example/auth.md\n302\nLocation: /auth.md?again\n\n"+
		"=== https://www.acme.example/auth.md?again\n302\nLocation: /auth.md\n\n")
	found := lines(collected(t, s))
	require.Contains(t, found, "obs_2 home 301 https://acme.example/ root\n")
	require.Contains(t, found, "obs_3 home 302 https://www.acme.example/ link:obs_2\n")
	require.Contains(t, found, "obs_4 home 200 https://www.acme.example/home link:obs_3\n")
	require.Contains(t, found, "robots 404 https://www.acme.example/robots.txt well_known\n")
	require.Contains(t, found, "llms_txt 302 redirect_target https://www.acme.example/llms.txt")
	require.Equal(t, 2, strings.Count(found, "auth_md "), "a circle ends")
	require.NotContains(t, strings.Join(s.Asked(), " "), "elsewhere")
}

func TestABudgetOfFetches(t *testing.T) {
	var text strings.Builder
	text.WriteString("=== https://acme.example/\n200 text/html\n\n<html>")
	for i := range 60 {
		fmt.Fprintf(&text, "<a href='https://h%d.acme.example/docs'>Docs</a>", i)
	}
	text.WriteString("\n=== https://acme.example/auth.md\n301\nLocation: /1\n\n")
	for i := 1; i < 12; i++ {
		fmt.Fprintf(&text, "=== https://acme.example/%d\n301\nLocation: /%d\n\n", i, i+1)
	}
	s := site(t, text.String())
	c := collected(t, s)
	require.LessOrEqual(t, len(c.Observations), collect.MaxFetches)
	require.Len(t, s.Asked(), len(c.Observations))
	asked := strings.Join(s.Asked(), "\n")
	require.Contains(t, asked, "acme.example/5")
	require.NotContains(t, asked, "acme.example/6", "five redirects and no more")
	require.LessOrEqual(t, strings.Count(asked, "acme.example/docs"), 4)

	// Five documents that redirect five times each leave no room for the rest.
	for i, path := range []string{"robots.txt", "llms.txt", "openapi.json", "swagger.json", "pricing.json"} {
		fmt.Fprintf(&text, "=== https://acme.example/%s\n301\nLocation: /%d00\n\n", path, i)
		for j := range 5 {
			fmt.Fprintf(&text, "=== https://acme.example/%d0%d\n301\nLocation: /%d0%d\n\n", i, j, i, j+1)
		}
	}
	c = collected(t, site(t, text.String()))
	require.Len(t, c.Observations, collect.MaxFetches)
	require.Equal(t, "fetch_budget", c.Limits[0].Code)
}

func TestAHostThatAnswersEverything(t *testing.T) {
	s := site(t, "=== *\n200 text/html\n\n<html><div id=app></div><script src=/a.js></script></html>\n")
	c := collected(t, s)
	require.True(t, c.AnswersEverything)
	require.NotContains(t, strings.Join(s.Asked(), " "), "/pricing ", "nothing is guessed there")
	require.False(t, collected(t, site(t, linked)).AnswersEverything)
}

func TestWhatCannotBeInspected(t *testing.T) {
	run := func(text, url string) error {
		_, err := collect.Run(t.Context(), collect.Config{Fetcher: site(t, text), Now: clock}, url, "run_1")
		return err
	}
	nothing := "=== *\nfail network\n"
	require.ErrorIs(t, run(nothing, home), collect.ErrUnreachable)
	require.ErrorIs(t, run("=== *\nfail dns\n", home), collect.ErrUnreachable)
	for _, rule := range []string{"address", "port", "host", "userinfo", "url"} {
		require.ErrorIs(t, run("=== *\nfail "+rule+"\n", home), collect.ErrForbidden, rule)
	}
	require.ErrorIs(t, run(nothing, "no url"), collect.ErrForbidden)
	// One document is enough, and so is a home page that refuses.
	require.NoError(t, run(nothing+"=== https://acme.example/llms.txt\n200 text/plain\n\n# Acme\n", home))
	require.NoError(t, run(nothing+"=== https://acme.example/\n403 text/plain\n\nno\n", home))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := collect.Run(ctx, collect.Config{Fetcher: site(t, linked), Now: clock}, home, "run_1")
	require.ErrorIs(t, err, context.Canceled)
}

func TestCharsets(t *testing.T) {
	for name, c := range map[string]struct{ kind, body string }{
		"declared":   {"text/html; charset=iso-8859-1", "<html>Caf\xe9</html>"},
		"in meta":    {"text/html", "<html><meta charset=windows-1252>Caf\xe9</html>"},
		"UTF-16":     {"text/html", "\xff\xfe<\x00h\x00t\x00m\x00l\x00>\x00C\x00a\x00f\x00\xe9\x00"},
		"undeclared": {"text/plain", "Caf\xe9"},
	} {
		t.Run(name, func(t *testing.T) {
			c := collected(t, site(t, "=== https://acme.example/\n200 "+c.kind+"\n\n"+c.body+"\n"))
			require.Contains(t, c.Find(collect.RoleHome).Text, "Café")
			require.True(t, c.Holds("obs_2", "Café"))
			require.False(t, c.Holds("obs_1", "Café"))
		})
	}
}

func TestAllTextsAreBoundedTogether(t *testing.T) {
	big := strings.Repeat("x", 1<<20)
	s := site(t, "=== *\n200 text/plain\n\n"+big)
	c := collected(t, s)
	held := 0
	for _, o := range c.Observations {
		held += len(o.Text)
	}
	require.LessOrEqual(t, held, collect.MaxBytes)
	require.Contains(t, lines(c), " 200 total_size ")
}
