package page

import (
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxParts bounds the pieces of all blocks of a page.
const maxParts = 50_000

// Block is what a reader sees as one line: visible text without the tags within it, so that a price
// is one though its sign and its number are marked up each.
type Block struct {
	// Text is without entities, each white space as one space.
	Text  string
	whole string
	parts []part
}

// part is a piece of a block: where it begins in its text, and where it is in the page.
type part struct{ at, from, to int32 }

// Quote is the piece of the page that has from..to of the text, as it is written.
func (b *Block) Quote(from, to int) string {
	begin, end := -1, -1
	for i, p := range b.parts {
		next := len(b.Text)
		if i+1 < len(b.parts) {
			next = int(b.parts[i+1].at)
		}
		// What is as long in the text as on the page is the same; an entity is whole or not there.
		same := next-int(p.at) == int(p.to-p.from)
		if begin < 0 && from < next {
			if begin = int(p.from); same {
				begin += from - int(p.at)
			}
		}
		if to <= next {
			if end = int(p.to); same {
				end = int(p.from) + to - int(p.at)
			}
			break
		}
	}
	if begin < 0 || end < begin {
		return ""
	}
	return b.whole[begin:end]
}

// blocks makes the blocks of a page while it is read.
type blocks struct {
	p     *Page
	whole string
	text  strings.Builder
	parts []part
	// left is how much more text, and partsLeft how many more parts, are kept.
	left, partsLeft int
}

func newBlocks(p *Page, whole string) *blocks {
	return &blocks{p: p, whole: whole, left: MaxWords, partsLeft: maxParts}
}

// end ends the present block.
func (b *blocks) end() {
	if text := b.text.String(); strings.TrimSpace(text) != "" {
		b.p.Blocks = append(b.p.Blocks, Block{Text: text, whole: b.whole, parts: b.parts})
	}
	b.text.Reset()
	b.parts = nil
}

// put adds a piece of text that is at from..to of the page.
func (b *blocks) put(text string, from, to int) {
	if len(text) > b.left || b.partsLeft == 0 {
		b.left, b.p.Unread = 0, true
		return
	}
	b.left -= len(text)
	if n := len(b.parts); n > 0 && len(text) == to-from {
		last := &b.parts[n-1]
		if int(last.to) == from && b.text.Len()-int(last.at) == int(last.to-last.from) {
			last.to = int32(to)
			b.text.WriteString(text)
			return
		}
	}
	b.partsLeft--
	b.parts = append(b.parts, part{int32(b.text.Len()), int32(from), int32(to)})
	b.text.WriteString(text)
}

// space adds a space at from..to of the page, if there is none yet.
func (b *blocks) space(from, to int) {
	if text := b.text.String(); text != "" && text[len(text)-1] != ' ' {
		b.put(" ", from, to)
	}
}

// say adds from..to of the page. Of Markdown the marks of emphasis are left out.
func (b *blocks) say(from, to int, markdown bool) {
	for at := from; at < to && b.left > 0; {
		raw := b.whole[at:to]
		r, size := utf8.DecodeRuneInString(raw)
		switch {
		case unicode.IsSpace(r): // no-break and thin ones, too
			b.space(at, at+size)
		case markdown && (r == '*' || r == '`'):
		case r == '&':
			size = b.entity(at, raw)
		default:
			size = len(raw)
			if end := strings.IndexFunc(raw, func(r rune) bool {
				return r == '&' || r == '*' || r == '`' || r > unicode.MaxLatin1 || unicode.IsSpace(r)
			}); end > 0 {
				size = end
			} else if end == 0 {
				_, size = utf8.DecodeRuneInString(raw)
			}
			b.put(raw[:size], at, at+size)
		}
		at += size
	}
}

// entity adds what an entity stands for, or its & where it is none; size is how long it is.
func (b *blocks) entity(at int, raw string) (size int) {
	end := strings.IndexByte(raw[:min(len(raw), 32)], ';') + 1
	if plain := html.UnescapeString(raw[:end]); end > 0 && plain != raw[:end] {
		if strings.TrimSpace(plain) == "" {
			b.space(at, at+end)
		} else {
			b.put(plain, at, at+end)
		}
		return end
	}
	b.put("&", at, at+1)
	return 1
}
