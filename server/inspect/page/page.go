// Package page reads HTML, Markdown and plain text as what an agent sees of them: a title, links,
// headings and runs of visible text. HTML is read token by token, never as a tree: two megabytes
// of tags would be a hundred of nodes. Whatever it returns is a piece of the text, as it is, so
// that it can be quoted.
package page

import (
	"cmp"
	"html"
	"net/http"
	"regexp"
	"strings"

	tokens "golang.org/x/net/html"

	"tollgate/server/inspect/tree"
)

// Bounds of a page.
const (
	MaxLinks    = 2_000
	MaxRuns     = 20_000
	MaxHeadings = 500
	MaxData     = 20
	// MaxWords is how much of the visible text is kept, in bytes: it is searched many times.
	MaxWords = 256 << 10
)

// Found is a value and where it is.
type Found struct{ Value, Quote string }

// Link is where a page leads.
type Link struct {
	// Href is as it is written, without entities.
	Href string
	// Rel is in lower case; Text is what the link is called.
	Rel, Text string
	Quote     string
}

// Page is what an agent sees of a page.
type Page struct {
	Title, SiteName, Description Found
	// Headings are those of the first and second level of Markdown, marks included.
	Headings []Found
	Links    []Link
	// Specs are the API descriptions that a viewer on the page loads.
	Specs []Link
	// Runs are the pieces of visible text; Blocks are the same, as lines.
	Runs   []string
	Blocks []Block
	// Data are the JSON-LD blocks.
	Data []string
	// Unread reports whether there is more visible text than the runs hold.
	Unread bool
	// Letters counts the visible text in bytes; Scripts counts script elements that run. Blocks of
	// data are none.
	Letters, Scripts int
	// kept is how long the runs are together.
	kept int
}

// blank is what may come before the first word of a text.
const blank = " \t\r\n\ufeff"

// tagged is a text with a tag of HTML, or with a comment. Names that texts put between angle
// brackets for what a reader fills in (<code>, <data>, <object>) are left out, though they are
// elements.
var tagged = regexp.MustCompile(`(?i)<!doctype\b|<!--|<\?xml\b|</?(a|abbr|article|aside|audio|b|` +
	`base|blockquote|body|br|button|canvas|center|dd|details|dialog|div|dl|dt|em|fieldset|figure|` +
	`font|footer|form|frameset|h[1-6]|head|header|hr|html|i|iframe|img|input|li|link|main|meta|nav|` +
	`noscript|ol|p|picture|pre|script|section|select|small|span|strong|style|svg|table|tbody|td|` +
	`template|textarea|tfoot|th|thead|title|tr|u|ul|video)[\s/>]`)

// IsHTML reports whether an answer is an HTML page. Its media type decides; if it has none, what
// browsers take it for. Under any other type it is one where it begins as only pages do. text/html
// that has no tag of HTML, or begins as Markdown does, is the text that it is: many servers call
// everything that.
func IsHTML(mediaType, text string) bool {
	essence, _, _ := strings.Cut(mediaType, ";")
	switch strings.ToLower(strings.TrimSpace(essence)) {
	case "text/html", "application/xhtml+xml":
		return tagged.MatchString(text) && !strings.HasPrefix(strings.TrimLeft(text, blank), "# ")
	case "":
		text = strings.TrimPrefix(text, "\ufeff")
		sniffed := http.DetectContentType([]byte(text[:min(len(text), 512)]))
		return strings.HasPrefix(sniffed, "text/html")
	}
	head := strings.ToLower(strings.TrimLeft(text[:min(len(text), 512)], blank))
	for _, mark := range []string{"<!doctype html", "<html", "<head", "<body"} {
		if strings.HasPrefix(head, mark) {
			return true
		}
	}
	return (strings.HasPrefix(head, "<!--") || strings.HasPrefix(head, "<?xml")) &&
		strings.Contains(head, "<html")
}

// Readable is what a reader sees of an answer: of an HTML page its text, of any other all of it.
func Readable(mediaType, text string) string {
	if !IsHTML(mediaType, text) {
		return text
	}
	return html.UnescapeString(strings.Join(HTML(text).Runs, "\n"))
}

// Of reads an answer as what it is.
func Of(mediaType, text string) *Page {
	if IsHTML(mediaType, text) {
		return HTML(text)
	}
	return Markdown(text)
}

// inline are elements that end no line.
var inline = setOf("a abbr b bdi bdo data del em font i ins mark s small span strong sub sup " +
	"time u wbr")

type reader struct {
	p        *Page
	text     string
	blocks   *blocks
	elements elements
	// inTitle, inData and inScript say in which element the next text is; link is the open one.
	inTitle, inData, inScript bool
	link                      *Link
}

// HTML reads an HTML page.
func HTML(text string) *Page {
	r := &reader{p: &Page{}, text: text}
	r.blocks = newBlocks(r.p, text)
	z := tokens.NewTokenizer(strings.NewReader(text))
	at := 0
	for {
		kind := z.Next()
		raw := text[at:min(at+len(z.Raw()), len(text))]
		at += len(raw)
		switch kind {
		case tokens.ErrorToken:
			r.closeLink()
			r.blocks.end()
			return r.p
		case tokens.TextToken:
			r.words(raw, at-len(raw))
		case tokens.StartTagToken, tokens.SelfClosingTagToken:
			r.open(z, raw, kind == tokens.SelfClosingTagToken)
		case tokens.EndTagToken:
			name, _ := z.TagName()
			r.breakAt(string(name))
			r.close(string(name))
		}
	}
}

// breakAt ends a line at an element that ends one.
func (r *reader) breakAt(tag string) {
	if !inline[tag] {
		r.blocks.end()
	}
}

// words takes a piece of text that is at a place of the page.
func (r *reader) words(raw string, at int) {
	plain := strings.TrimSpace(raw)
	switch {
	case plain == "":
		if r.elements.shown() && !r.inTitle {
			r.blocks.say(at, at+len(raw), false)
		}
	case r.inTitle:
		r.inTitle = false
		r.p.Title = Found{one(html.UnescapeString(plain)), plain}
	case r.inData:
		if len(r.p.Data) < MaxData {
			r.p.Data = append(r.p.Data, raw)
		}
	case r.inScript:
		r.viewer(raw)
	case r.elements.lost():
		r.p.Unread = true
	case r.elements.styles(raw):
	case !r.elements.shown():
	default:
		r.p.say(plain)
		r.blocks.say(at, at+len(raw), false)
		if r.link != nil && len(r.link.Text) < 200 {
			r.link.Text = one(r.link.Text + " " + html.UnescapeString(plain))
		}
	}
}

// say adds a run of visible text, up to the bounds.
func (p *Page) say(plain string) {
	kept := ""
	if len(p.Runs) < MaxRuns {
		kept = tree.Cut(plain, MaxWords-p.kept)
	}
	p.Letters, p.kept = p.Letters+len(plain), p.kept+len(kept)
	p.Unread = p.Unread || len(kept) < len(plain)
	if kept != "" {
		p.Runs = append(p.Runs, kept)
	}
}

// one is a text with each white space as one space.
func one(text string) string { return strings.Join(strings.Fields(text), " ") }

// viewerURL is how Swagger UI is told what to show.
var viewerURL = regexp.MustCompile(
	`(?:\burl|\bspecUrl|\bspec-url)["']?\s*[:=]\s*["']([^"'\s]{1,500})["']`)

func (r *reader) viewer(script string) {
	if !strings.Contains(script, "Swagger") && !strings.Contains(script, "Redoc") &&
		!strings.Contains(script, "Scalar") {
		return
	}
	for _, m := range viewerURL.FindAllStringSubmatch(script, 5) {
		r.p.Specs = append(r.p.Specs, Link{Href: m[1], Quote: m[0]})
	}
}

func (r *reader) open(z *tokens.Tokenizer, raw string, closed bool) {
	name, more := z.TagName()
	tag := string(name)
	r.breakAt(tag)
	attributes := map[string]string{}
	for more && len(attributes) < 50 {
		var key, value []byte
		key, value, more = z.TagAttr()
		if _, twice := attributes[string(key)]; !twice {
			attributes[string(key)] = string(value)
		}
	}
	switch tag {
	case "meta":
		r.meta(attributes, raw)
	case "link":
		r.add(Link{Href: attributes["href"], Rel: strings.ToLower(attributes["rel"]), Quote: raw})
	case "a":
		r.closeLink()
		r.link = &Link{
			Href: attributes["href"], Rel: strings.ToLower(attributes["rel"]), Quote: raw,
			Text: one(attributes["aria-label"]),
		}
	case "redoc", "rapi-doc", "openapi-explorer":
		r.spec(attributes["spec-url"], raw)
	case "elements-api":
		r.spec(attributes["apidescriptionurl"], raw)
	case "script":
		r.spec(attributes["data-url"], raw)
		kind := strings.ToLower(strings.TrimSpace(attributes["type"]))
		if runs(kind) {
			r.p.Scripts++
		}
		essence, _, _ := strings.Cut(kind, ";")
		r.inData = strings.TrimSpace(essence) == "application/ld+json"
		r.inScript = !r.inData
	case "title":
		r.inTitle = r.elements.shown() && r.p.Title.Quote == ""
	}
	r.elements.begin(tag, attributes, closed)
}

func (r *reader) spec(href, raw string) {
	if href != "" && len(r.p.Specs) < 10 {
		r.p.Specs = append(r.p.Specs, Link{Href: href, Quote: raw})
	}
}

func (r *reader) close(tag string) {
	switch tag {
	case "a":
		r.closeLink()
	case "script":
		r.inData, r.inScript = false, false
	case "title":
		r.inTitle = false
	}
	r.elements.finish(tag)
}

func (r *reader) closeLink() {
	if r.link != nil {
		r.add(*r.link)
		r.link = nil
	}
}

func (r *reader) add(l Link) {
	if l.Href = strings.TrimSpace(l.Href); l.Href != "" && len(r.p.Links) < MaxLinks {
		r.p.Links = append(r.p.Links, l)
	}
}

func (r *reader) meta(attributes map[string]string, raw string) {
	content := one(attributes["content"])
	if content == "" {
		return
	}
	name := strings.ToLower(attributes["name"])
	name = cmp.Or(name, strings.ToLower(attributes["property"]))
	switch {
	case name == "og:site_name" || name == "application-name" && r.p.SiteName.Value == "":
		r.p.SiteName = Found{content, raw}
	case name == "description" || name == "og:description" && r.p.Description.Value == "":
		r.p.Description = Found{content, raw}
	}
}
