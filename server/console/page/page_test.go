package page_test

import (
	"bytes"
	"html/template"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/html"

	"tollgate/server"
	"tollgate/server/console/page"
)

// payloads are texts that become code where a context is forgotten.
var payloads = []string{
	`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onfocus='alert(1)`,
	`javascript:alert(1)`, `</title><svg onload=alert(1)>`, `{{.Token}}`, "\u2028</style>",
	`data:text/html,<script>alert(1)</script>`,
}

const everyPart = `{{define "main"}}
{{template "empty" dict "Title" .Data "Text" .Data "Example" .Data "URL" .Data "Action" .Data}}
{{template "field" dict "ID" .Data "Name" .Data "Label" .Data "Value" .Data "Hint" .Data
  "Example" .Data "Pattern" .Data}}
{{template "status" .Data}}{{template "copy" .Data}}{{time .Data}}{{amount .Data}}
<a href="{{.Data}}" title={{.Data}}>{{.Data}}</a>{{meter 9.0 7.0 .Data}}
<form method="post">{{template "once" .}}</form>
{{template "pager" dict "First" .Data "Next" .Data}}
<section data-live="{{.Data}}">{{template "live" .Data}}</section>{{end}}
{{define "live"}}<p>{{.}}</p>{{end}}`

// ask is one request, answered by the table of a site with one page.
type ask struct {
	method, path, body string
	headers            map[string]string
}

func newSite(t *testing.T) *page.Site {
	t.Helper()
	site, err := page.New(page.Config{
		Brand: "Operations", Root: "/console",
		Templates: fstest.MapFS{"template/every.html": {Data: []byte(everyPart)}},
	})
	require.NoError(t, err)
	return site
}

func serve(t *testing.T, site *page.Site, handle func(*server.Exchange), a ask) *fasthttp.Response {
	t.Helper()
	routes := append(site.Assets(),
		server.Route{Method: "GET", Path: "/console", Operation: "show", Handle: handle},
		server.Route{
			Method: "POST", Path: "/console", Operation: "send", Handle: handle, Media: page.FormMedia,
		})
	table, err := server.NewTable(routes, server.TableConfig{})
	require.NoError(t, err)
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	request := &ctx.Request
	request.Header.SetMethod(a.method)
	request.SetRequestURI(a.path)
	request.Header.SetHost("ops.example:9080")
	for name, value := range a.headers {
		request.Header.Set(name, value)
	}
	if a.body != "" {
		request.Header.SetContentType(page.FormMedia[0])
		request.SetBodyStream(strings.NewReader(a.body), len(a.body))
		request.Header.SetContentLength(len(a.body))
	}
	table.Serve(&ctx)
	answer := new(fasthttp.Response)
	ctx.Response.CopyTo(answer)
	return answer
}

func view(data string) *page.View {
	link := []page.Link{{Text: data, URL: data, Here: true}}
	return &page.View{
		Page: "every", Title: data, Lead: data, Nav: link, Crumbs: link, Tabs: link, Who: data,
		SignOut: data, Token: "session-token", Data: data,
		Notice: &page.Notice{Tone: page.Problem, Title: data, Detail: data, Secret: data, Next: link[0]},
	}
}

// code lists what in a page is code or style, or an address that is code: what the policy forbids.
func code(t *testing.T, body []byte) (found []string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader(body))
	require.NoError(t, err)
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		source := false
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			source = source || a.Key == "src" && strings.HasPrefix(value, "/console/asset/")
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || address[a.Key] &&
				(strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:")) {
				found = append(found, n.Data+" "+a.Key+"="+a.Val)
			}
		}
		if n.Data == "style" || n.Data == "iframe" || n.Data == "img" || n.Data == "script" && !source {
			found = append(found, n.Data)
		}
	}
	return found
}

// address are the attributes that name another page or file.
var address = map[string]bool{"href": true, "src": true, "action": true, "formaction": true}

// TestPagesKeepThePolicy: a page without hostile texts has nothing that the policy forbids, and
// every answer has the policy.
func TestPagesKeepThePolicy(t *testing.T) {
	site := newSite(t)
	answer := serve(t, site, func(x *server.Exchange) { site.Show(x, 200, view("Anna")) },
		ask{method: "GET", path: "/console"})
	require.Equal(t, 200, answer.StatusCode(), "%s", answer.Body())
	require.Equal(t, page.Media, string(answer.Header.ContentType()))
	require.Empty(t, code(t, answer.Body()))
	require.Equal(t, 1, strings.Count(string(answer.Body()), "<h1>"))
	require.Contains(t, string(answer.Body()), `<main id="main"`)
	policy := string(answer.Header.Peek("Content-Security-Policy"))
	for _, rule := range []string{
		"default-src 'none'", "script-src 'self'", "style-src 'self'", "frame-ancestors 'none'",
		"base-uri 'none'", "form-action 'self';",
	} {
		require.Contains(t, policy, rule)
	}
	require.NotContains(t, policy, "unsafe")
	require.Equal(t, "no-store", string(answer.Header.Peek("Cache-Control")))
	require.Equal(t, "same-origin", string(answer.Header.Peek("Referrer-Policy")))
}

// TestHostileTexts: whatever a field contains, it stays text everywhere.
func TestHostileTexts(t *testing.T) {
	site := newSite(t)
	for _, payload := range payloads {
		answer := serve(t, site, func(x *server.Exchange) { site.Show(x, 200, view(payload)) },
			ask{method: "GET", path: "/console"})
		require.Equal(t, 200, answer.StatusCode(), "%s", answer.Body())
		body := string(answer.Body())
		require.NotContains(t, body, "<script>", payload)
		require.Empty(t, code(t, answer.Body()), payload)
	}
}

func TestPlotsEscape(t *testing.T) {
	for _, payload := range payloads {
		for _, made := range []template.HTML{
			page.Meter(1, 2, payload), page.Draw(page.Plot{Title: payload, Points: []float64{1, 2}}),
		} {
			title := regexp.MustCompile(`(?s)<title>(.*)</title>`).FindStringSubmatch(string(made))
			require.Len(t, title, 2, string(made))
			require.NotContains(t, title[1], "<")
		}
	}
}

// TestForms: a form counts with the session's token and from this site only, and once.
func TestForms(t *testing.T) {
	site := newSite(t)
	token := page.TokenOf("secret")
	good := url.Values{"_token": {token}, "_once": {"form-1"}, "name": {"Ü\r\nb"}}.Encode()
	own := map[string]string{"Origin": "http://ops.example:9080", "Sec-Fetch-Site": "same-origin"}
	for name, c := range map[string]struct {
		body    string
		headers map[string]string
		token   string
		code    string
	}{
		"ours":           {body: good, headers: own},
		"over TLS":       {body: good, headers: map[string]string{"Origin": "https://ops.example:9080"}},
		"no browser":     {body: good},
		"another origin": {body: good, headers: map[string]string{"Origin": "https://evil.example"}, code: "cross_site"},
		"another port":   {body: good, headers: map[string]string{"Origin": "http://ops.example"}, code: "cross_site"},
		"no origin to speak of": {
			body: good, headers: map[string]string{"Origin": "null"}, code: "cross_site",
		},
		"from a sister site": {
			body: good, headers: map[string]string{"Sec-Fetch-Site": "same-site"}, code: "cross_site",
		},
		"typed in": {
			body: good, headers: map[string]string{"Sec-Fetch-Site": "none"}, code: "cross_site",
		},
		"no token":         {body: "name=a", headers: own, code: "form_outdated"},
		"another token":    {body: "_token=" + page.TokenOf("other"), headers: own, code: "form_outdated"},
		"signed out since": {body: good, headers: own, token: "-", code: "form_outdated"},
		"a field twice":    {body: good + "&name=c", headers: own, code: "validation_failed"},
		"no UTF-8":         {body: good + "&x=%ff", headers: own, code: "validation_failed"},
		"no form":          {body: good + "&%zz", headers: own, code: "validation_failed"},
		"too many fields":  {body: good + manyFields(), headers: own, code: "validation_failed"},
	} {
		t.Run(name, func(t *testing.T) {
			session := token
			if c.token != "" {
				session = ""
			}
			var fields url.Values
			answer := serve(t, site, func(x *server.Exchange) {
				var fault *server.Fault
				if fields, fault = site.Form(x, session); fault != nil {
					x.Refuse(fault)
					return
				}
				site.Redirect(x, "/console?done=1")
			}, ask{method: "POST", path: "/console", body: c.body, headers: c.headers})
			if c.code != "" {
				require.Contains(t, string(answer.Body()), c.code)
				require.GreaterOrEqual(t, answer.StatusCode(), 400)
				return
			}
			require.Equal(t, 303, answer.StatusCode(), "%s", answer.Body())
			require.Equal(t, "/console?done=1", string(answer.Header.Peek("Location")))
			require.Equal(t, "Ü\nb", fields.Get("name"))
			require.Equal(t, "form-1", page.OnceKey(fields))
		})
	}
}

func manyFields() string {
	var b strings.Builder
	for i := range 96 {
		b.WriteString("&f" + string(rune('a'+i%26)) + strings.Repeat("x", i/26) + "=1")
	}
	return b.String()
}

// TestAssets: what the layout names is served, to be kept forever.
func TestAssets(t *testing.T) {
	site := newSite(t)
	answer := serve(t, site, func(x *server.Exchange) { site.Show(x, 200, view("a")) },
		ask{method: "GET", path: "/console"})
	named := regexp.MustCompile(`"(/console/asset/[^"]+)"`).
		FindAllStringSubmatch(string(answer.Body()), -1)
	require.Len(t, named, 3)
	for _, address := range named {
		answer = serve(t, site, nothing, ask{method: "GET", path: address[1]})
		require.Equal(t, 200, answer.StatusCode(), address[1])
		require.Contains(t, string(answer.Header.Peek("Cache-Control")), "immutable")
		require.NotEmpty(t, answer.Header.Peek("Content-Security-Policy"))
		require.NotContains(t, string(answer.Body()), "http://tollgate")
	}
}

// TestADocumentIsPrintedAlone: the frame, crumbs, forms and internal parts stay on the screen.
func TestADocumentIsPrintedAlone(t *testing.T) {
	site := newSite(t)
	answer := serve(t, site, func(x *server.Exchange) { site.Show(x, 200, view("a")) },
		ask{method: "GET", path: "/console"})
	address := regexp.MustCompile(`/console/asset/[^"]+style\.css`).Find(answer.Body())
	answer = serve(t, site, nothing, ask{method: "GET", path: string(address)})
	_, printed, found := strings.Cut(string(answer.Body()), "@media print {")
	require.True(t, found)
	hidden, _, found := strings.Cut(printed, "{ display: none; }")
	require.True(t, found)
	require.Subset(t, strings.Split(strings.TrimSpace(hidden), ", "), []string{
		".top", ".tabs", ".crumbs", "form", ".internal", ".skip", "footer", ".notice",
	})
}

func nothing(x *server.Exchange) { x.Refuse(server.FaultInternal) }

// TestBrokenTemplates: half a page is never sent, and what can be known at the start is.
func TestBrokenTemplates(t *testing.T) {
	for name, text := range map[string]string{
		"no main": `{{define "other"}}{{end}}`, "no syntax": `{{define "main"}}{{if}}{{end}}`,
		"no function": `{{define "main"}}{{nonsense}}{{end}}`,
	} {
		_, err := page.New(page.Config{
			Root: "/console", Templates: fstest.MapFS{"template/a.html": {Data: []byte(text)}},
		})
		require.Error(t, err, name)
	}
	_, err := page.New(page.Config{Root: "/console", Templates: fstest.MapFS{}})
	require.Error(t, err)
	site, err := page.New(page.Config{Root: "/console", Templates: fstest.MapFS{
		"template/a.html": {Data: []byte(`{{define "main"}}before{{.Data.Absent.Field}}{{end}}`)},
	}})
	require.NoError(t, err)
	for _, named := range []string{"a", "b"} {
		answer := serve(t, site, func(x *server.Exchange) {
			site.Show(x, 200, &page.View{Page: named, Data: struct{}{}})
		}, ask{method: "GET", path: "/console"})
		require.Equal(t, 500, answer.StatusCode())
		require.NotContains(t, string(answer.Body()), "before")
	}
}

func TestClip(t *testing.T) {
	require.Equal(t, "short", page.Clip(5, "short"))
	require.Equal(t, "éééééé", page.Clip(6, "éééééé"))
	require.Equal(t, "abc…yz", page.Clip(6, "abcdefghijklmnopqrstuvwxyz"))
}

// TestTimes: a time is short, without its year within the present one, and whole in its title.
func TestTimes(t *testing.T) {
	site, err := page.New(page.Config{
		Root: "/console", Now: func() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) },
		Templates: fstest.MapFS{"template/a.html": {Data: []byte(
			`{{define "main"}}[{{time .Data}}][{{date .Data}}][{{second .Data}}]{{end}}`)}},
	})
	require.NoError(t, err)
	text := func(data any) string {
		return string(serve(t, site, func(x *server.Exchange) {
			site.Show(x, 200, &page.View{Page: "a", Data: data})
		}, ask{method: "GET", path: "/console"}).Body())
	}
	const whole = ` title="2026-11-22 21:10:33 UTC">`
	shown := text("2026-11-22T21:10:33Z")
	require.Contains(t, shown, whole+`22 Nov, <span class="clock">21:10</span></time>][<time `)
	require.Contains(t, shown, whole+`22 Nov 2026</time>]`)
	require.Contains(t, shown, whole+`21:10:33</time>]`)
	require.Contains(t, text(time.Date(2027, 2, 3, 4, 5, 6, 0, time.UTC)),
		`>3 Feb 2027, <span class="clock">04:05</span>`)
	require.Contains(t, text(time.Time{}), "[][][]")
	require.Contains(t, text("<b>"), "[&lt;b&gt;]")
}

func TestFigures(t *testing.T) {
	for in, out := range map[any]string{
		"1234567.50": "1,234,567.50", "-1000": "−1,000", "0": "0", 12: "12", "999": "999",
		"no number": "no number", "": "", "-": "−", "1e5": "1e5", uint64(1 << 40): "1,099,511,627,776",
	} {
		require.Equal(t, out, page.Amount(in), "%v", in)
	}
	for in, out := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 150 << 20: "150 MiB", 3 << 40: "3.0 TiB",
	} {
		text, err := page.Bytes(in)
		require.NoError(t, err)
		require.Equal(t, out, text)
	}
	_, err := page.Bytes("1")
	require.Error(t, err)
	require.Empty(t, page.Meter(1, 0, "no limit"))
	require.Contains(t, page.Meter(5, 10, ""), `class="meter low"`)
	require.Contains(t, page.Meter(8, 10, ""), `class="meter high"`)
	require.NotContains(t, page.Meter(10, 10, ""), `class="mark"`)
	require.Contains(t, page.Meter(20, 10, ""), `x1="50.0"`)
	for points, top := range map[float64]float64{
		0: 1, 0.3: 0.5, 1: 1, 1.1: 2, 3: 5, 7: 10, 1200: 2000,
	} {
		plot := page.Plot{Points: []float64{points, 0}}
		require.InDelta(t, top, plot.Top(), 1e-9)
	}
	require.NotContains(t, page.Draw(page.Plot{Points: []float64{1}}), "polyline")
}

func TestMoneyHasThePlacesOfItsCurrency(t *testing.T) {
	for wanted, c := range map[string]struct{ number, currency string }{
		"51.20 USD": {"51.2", "USD"}, "20.00 USD": {"20", "USD"}, "−1,234.50 USD": {"-1234.5", "USD"},
		"1,200 JPY": {"1200", "JPY"}, "3.100 KWD": {"3.1", "KWD"}, "0.0025 USD": {"0.0025", "USD"},
	} {
		require.Equal(t, wanted, page.Money(c.number, c.currency))
	}
}

// TestOutdated: a page says how old it is, and where that is not known, so.
func TestOutdated(t *testing.T) {
	now := time.Date(2026, 11, 27, 5, 59, 11, 0, time.UTC)
	for age, title := range map[time.Duration]string{
		0: "As of 05:59:11, 0 s old", 19 * time.Second: "As of 05:58:52, 19 s old",
		61 * time.Second: "As of 05:58:10, 1 min old", 90 * time.Minute: "As of 27 Nov 2026, 04:29",
		56 * 365 * 24 * time.Hour: "The age of this page is not known",
	} {
		n := page.Outdated(now, age)
		require.Equal(t, title, n.Title)
		require.Contains(t, n.Detail, "Nothing can be changed now")
	}
}

// TestAPagerSaysHowManyThereAre: as far as its page knows it.
func TestAPagerSaysHowManyThereAre(t *testing.T) {
	only, first := page.Pager{}, page.Pager{Next: "next"}
	last := page.Pager{First: "first"}
	require.Equal(t, "1 run", only.Of(1, "run").Count)
	require.Equal(t, "1,200 deliveries", only.Of(1200, "delivery").Count)
	require.Equal(t, "50 runs on this page; more on the next.", first.Of(50, "run").Count)
	require.Equal(t, "2 runs on this page, the last one.", last.Of(2, "run").Count)
	require.Empty(t, last.Of(0, "run").Count)
	require.Equal(t, "next", first.Of(50, "run").Next)
	require.Equal(t, "51 to 100 of 1,230 keys", last.Within(50, 50, 1230, "key").Count)
	require.Equal(t, "3 keys", only.Within(0, 3, 3, "key").Count)
	require.Empty(t, only.Within(0, 0, 3, "key").Count)
}

// TestCellsAreNoFormulas: not in a spreadsheet.
func TestCellsAreNoFormulas(t *testing.T) {
	for text, want := range map[string]string{
		"calls": "calls", "": "", "=1+1": "'=1+1", "@x": "'@x", "-1": "'-1", "+1": "'+1", "\tx": "'\tx",
	} {
		s := page.NewSheet("text")
		s.Add(text)
		require.Equal(t, want, s.Rows()[1][0])
	}
}
