package page_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/page"
)

const sample = `<!DOCTYPE html>
<html><head><title> Acme &amp; Co </title>
<meta property="og:site_name" content="Acme"><meta name="description" content="Sends  mail.">
<link rel="Service-Desc" href="/openapi.json">
<script type="application/ld+json">{"@type": "Product"}</script>
<script>SwaggerUIBundle({ url: "/spec.yaml", dom_id: "#x" })</script>
<style>p { color: red }</style></head>
<body><svg><title>logo</title></svg><a href="/pricing?a=1&amp;b=2">See <b>pricing</b></a>
<p>Get an API key.</p><noscript>no script</noscript><redoc spec-url='/redoc.json'></redoc>
<a href=/docs aria-label=Docs><img src=x></a><a>none</a></body></html>`

func TestHTML(t *testing.T) {
	require.True(t, page.IsHTML("", sample))
	p := page.Of("text/html", sample)
	require.Equal(t, page.Found{Value: "Acme & Co", Quote: "Acme &amp; Co"}, p.Title)
	require.Equal(t, "Acme", p.SiteName.Value)
	require.Equal(t, "Sends mail.", p.Description.Value)
	require.Equal(t, []string{"See", "pricing", "Get an API key.", "none"}, p.Runs)
	require.Equal(t, []string{`{"@type": "Product"}`}, p.Data)
	require.Equal(t, 1, p.Scripts, "a block of data is not a script")
	require.Len(t, p.Links, 3)
	require.Equal(t, "service-desc", p.Links[0].Rel)
	require.Equal(t, "/pricing?a=1&b=2", p.Links[1].Href)
	require.Equal(t, "See pricing", p.Links[1].Text)
	require.Equal(t, "Docs", p.Links[2].Text)
	require.Equal(t, "/spec.yaml", p.Specs[0].Href)
	require.Equal(t, "/redoc.json", p.Specs[1].Href)
	for _, quote := range []string{
		p.Title.Quote, p.SiteName.Quote, p.Links[1].Quote, p.Specs[0].Quote, p.Specs[1].Quote,
	} {
		require.NotEmpty(t, quote)
		require.Contains(t, sample, quote)
	}
}

func TestMarkdown(t *testing.T) {
	const text = "# Acme\n\n> Sends mail.\n\n## Docs\n- [API](https://acme.example/api.md): all\n" +
		"See https://acme.example/x, or [pricing](</pricing>).\n### deeper\n"
	p := page.Of("text/markdown", text)
	require.Equal(t, "Acme", p.Title.Value)
	require.Equal(t, "Sends mail.", p.Description.Value)
	require.Equal(t, []page.Found{{Value: "Acme", Quote: "# Acme"}, {Value: "Docs", Quote: "## Docs"}}, p.Headings)
	var hrefs []string
	for _, l := range p.Links {
		hrefs = append(hrefs, l.Href)
		require.Contains(t, text, l.Quote)
	}
	require.Equal(t, []string{"https://acme.example/api.md", "/pricing", "https://acme.example/x"}, hrefs)
}

// TestTheMediaTypeDecides what is HTML; what begins as only a page does is one under any type.
func TestTheMediaTypeDecides(t *testing.T) {
	long := "<!-- " + strings.Repeat("x", 1000) + " -->"
	begins := []string{
		"<meta charset=utf-8>", "<title>Acme</title>", "<p>Acme", long + "<html>", "Acme <b>it</b> is",
		"<h1>Acme</h1>", "<main>Acme</main>", "{{ banner }}<p>",
	}
	for _, text := range begins {
		for _, kind := range []string{"text/html", "Text/HTML; charset=utf-8", "application/xhtml+xml"} {
			require.True(t, page.IsHTML(kind, text), "%s %s", kind, text)
			hidden := page.Of(kind, text+`<p hidden>Get an API key.</p>`)
			require.NotContains(t, strings.Join(hidden.Runs, " "), "API key", text)
		}
		require.False(t, page.IsHTML("text/plain", text), text)
		require.False(t, page.IsHTML("text/markdown", text), text)
	}
	for text, html := range map[string]bool{
		begins[1]: true, begins[2]: true, begins[3]: true, begins[5]: true, "\ufeff\n" + sample: true,
		begins[4]: false, "# Acme\n": false, `{"a":"<html>"}`: false, "": false,
	} {
		require.Equal(t, html, page.IsHTML("", text), text)
	}
	for _, kind := range []string{"", "text/html", "text/plain", "text/markdown", "application/json"} {
		require.True(t, page.IsHTML(kind, "<!-- x --><html>"), kind)
		require.True(t, page.IsHTML(kind, sample), kind)
		require.False(t, page.IsHTML(kind, "# Acme\n\n- [Docs](/docs)\n"), kind)
		require.Equal(t, "Acme", page.Readable(kind, "Acme"))
	}
}

// TestATextUnderTheWrongTypeIsNoPage: what stands between angle brackets is a tag where HTML has an
// element of that name.
func TestATextUnderTheWrongTypeIsNoPage(t *testing.T) {
	for _, text := range []string{
		"# Acme\n\n> Send `Authorization: Bearer <your-key>`.\n", "Write to <help@acme.example>.",
		"See <https://acme.example/docs>.", "Bearer <API_KEY> <name> <token> </token>", "a < b, c <d> e",
		"Put <code>, <data> or <object> there.", "<paste your key>", "<!important>",
		"\ufeff# Acme\n\n```html\n<script src=\"https://acme.example/a.js\"></script>\n```\n",
	} {
		require.False(t, page.IsHTML("text/html", text), text)
		require.Equal(t, text, page.Readable("text/html", text))
	}
	for _, text := range []string{"<P>Acme", "Acme<br/>it", "<a\nhref=/x>", "x</div>", "<?xml version='1.0'?>"} {
		require.True(t, page.IsHTML("text/html", text), text)
	}
}

// TestBlocks: a line is what a reader sees of it, and is quoted as it stands.
func TestBlocks(t *testing.T) {
	const text = "<html><p>From <b>&euro;</b>&nbsp;\n<i>29</i>,&amp; more<br>x &unknown; y</p>" +
		"<td>a</td><td><span>b</span>c</td><script>d</script>"
	p := page.HTML(text)
	var lines []string
	for i := range p.Blocks {
		lines = append(lines, p.Blocks[i].Text)
		require.Contains(t, text, p.Blocks[i].Quote(0, len(p.Blocks[i].Text)))
	}
	require.Equal(t, []string{"From € 29,& more", "x &unknown; y", "a", "bc"}, lines)
	require.Equal(t, "&euro;</b>&nbsp;\n<i>29", p.Blocks[0].Quote(5, 11))
	require.Equal(t, "9</i>,&amp;", p.Blocks[0].Quote(10, 13))
	require.Equal(t, "b</span>c", p.Blocks[3].Quote(0, 2))
	p = page.Markdown("It is **$7** `now`.\nAnd then")
	require.Equal(t, "$7** `now", p.Blocks[0].Quote(6, 12))
	require.Equal(t, "It is $7 now. ", p.Blocks[0].Text)
}

// TestMemoryIsBounded: what a page costs does not follow what it holds.
func TestMemoryIsBounded(t *testing.T) {
	for name, piece := range map[string]string{
		"links": `<a href="/x">y</a>`, "open tags": "<div>", "attributes": " a=b", "text": "a<b>c</b>",
		"ld": `<script type="application/ld+json">{}</script>`, "titles": "<svg><title>", "angles": "<",
		"comments": "<!---->", "markdown": "[a](b) ",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(piece, (2<<20)/len(piece))
			if name == "attributes" {
				text = "<p" + text
			}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			p := page.HTML(text)
			m := page.Markdown(text)
			runtime.ReadMemStats(&after)
			require.Less(t, after.HeapInuse-min(before.HeapInuse, after.HeapInuse), uint64(48<<20))
			require.LessOrEqual(t, len(p.Links)+len(m.Links), 2*page.MaxLinks)
			require.LessOrEqual(t, len(p.Runs), page.MaxRuns)
			require.LessOrEqual(t, len(p.Data), page.MaxData)
		})
	}
}

func FuzzPage(f *testing.F) {
	f.Add(sample)
	f.Add("# a\n[b](c)")
	f.Fuzz(func(t *testing.T, text string) {
		for _, p := range []*page.Page{page.HTML(text), page.Markdown(text)} {
			for _, run := range p.Runs {
				require.Contains(t, text, run)
			}
			for _, l := range p.Links {
				require.Contains(t, text, l.Quote)
			}
			require.Contains(t, text, p.Title.Quote)
			for i := range p.Blocks {
				b := &p.Blocks[i]
				require.NotEmpty(t, b.Quote(0, len(b.Text)))
				require.Contains(t, text, b.Quote(0, len(b.Text)))
				require.Contains(t, text, b.Quote(len(b.Text)/2, len(b.Text)))
			}
		}
	})
}
