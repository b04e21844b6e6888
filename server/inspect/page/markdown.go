package page

import (
	"regexp"
	"strings"
)

var (
	markdownLink = regexp.MustCompile(`\[([^\[\]]*)\]\(<?([^()\s<>]+)>?(?:\s+"[^"]*")?\)`)
	bareLink     = regexp.MustCompile(`https?://[^\s<>()"'\x60\]]+`)
)

// Markdown reads Markdown, and plain text, which is Markdown without marks.
func Markdown(text string) *Page {
	p := &Page{}
	b, at := newBlocks(p, text), 0
	for line := range strings.Lines(text) {
		b.say(at, at+len(line), true)
		b.end()
		at += len(line)
		plain := strings.TrimSpace(line)
		if plain == "" {
			continue
		}
		p.say(plain)
		p.heading(plain)
		if quote, ok := strings.CutPrefix(plain, ">"); ok && p.Description.Quote == "" {
			p.Description = Found{one(quote), plain}
		}
		if len(p.Links) < MaxLinks {
			p.links(plain)
		}
	}
	return p
}

func (p *Page) heading(line string) {
	title, first := strings.CutPrefix(line, "# ")
	second := strings.HasPrefix(line, "## ")
	if !first && !second || len(p.Headings) >= MaxHeadings {
		return
	}
	p.Headings = append(p.Headings, Found{strings.TrimSpace(strings.TrimLeft(line, "#")), line})
	if first && p.Title.Quote == "" {
		p.Title = Found{strings.TrimSpace(title), line}
	}
}

func (p *Page) links(line string) {
	seen := map[string]bool{}
	for _, m := range markdownLink.FindAllStringSubmatch(line, 50) {
		if len(p.Links) < MaxLinks {
			p.Links = append(p.Links, Link{Href: m[2], Text: one(m[1]), Quote: m[0]})
			seen[m[2]] = true
		}
	}
	for _, href := range bareLink.FindAllString(line, 50) {
		if href = strings.TrimRight(href, ".,;:!?"); !seen[href] && len(p.Links) < MaxLinks {
			p.Links = append(p.Links, Link{Href: href, Text: one(line), Quote: href})
		}
	}
}
