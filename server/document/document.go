// Package document draws an invoice as a PDF of A4 pages.
//
// Fonts are in the file: the Go fonts, which have the letters of Latin, Greek and Cyrillic. A
// character that they lack (東) is drawn as an empty box, and the document says so.
package document

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"codeberg.org/go-pdf/fpdf"
	"golang.org/x/image/font/gofont/gobold"
	"golang.org/x/image/font/gofont/goregular"
	"golang.org/x/image/font/sfnt"
)

// Party is the seller or the customer: a name and the lines below it.
type Party struct {
	Name  string
	Lines []string
}

// Fact is a short statement with its name: "Due", "2 Jan 2027".
type Fact struct{ Name, Value string }

// Line is a line of the invoice; all but What may be empty.
type Line struct {
	What, Period, Quantity, Price, Amount string
	// Parts are what its amount is the sum of, or the prices that make it.
	Parts []Part
}

// Part is some of a line's quantity, with one price; all but What may be empty.
type Part struct{ What, Quantity, Price, Amount string }

// Invoice is what the document shows. Amounts are texts, with their currency where it is not clear.
type Invoice struct {
	// Title names the document: "Invoice 12".
	Title string
	// Stamp is a word that must not be missed, in its colour: "VOID".
	Stamp       string
	StampColour [3]int
	From, To    Party
	Facts       []Fact
	// Currency is that of the lines' amounts.
	Currency string
	Lines    []Line
	// Sums are below the lines; the last one is in bold.
	Sums []Fact
	// Notes are sentences below the sums.
	Notes []string
	// Made is the instant that the file says it was made at, so that the same invoice has the same
	// bytes.
	Made time.Time
}

// Box is a text on a page, in millimetres from the upper left; its text is Text wide.
type Box struct {
	Page             int
	X, Y, W, H, Text float64
	Says             string
}

// An A4 page in millimetres, and what is on it.
const (
	pageWidth, pageHeight = 210.0, 297.0
	margin                = 20.0
	inner                 = pageWidth - 2*margin
	bottom                = pageHeight - 25
	lineHeight            = 5.2

	fullPage = "{pages}"
)

// columns of the table of lines: left edge and width.
var columns = [...]struct {
	name    string
	x, w    float64
	toRight bool
}{
	{"Description", margin, 82, false},
	{"Quantity", margin + 84, 27, true},
	{"Unit price", margin + 113, 27, true},
	{"Amount", margin + 142, 28, true},
}

// box is drawn for a character that the fonts lack.
const box = '□'

// sheet is a document on its way.
type sheet struct {
	pdf             *fpdf.Fpdf
	fonts           map[string]*sfnt.Font
	buffer          sfnt.Buffer
	style           string
	size            float64
	y               float64
	title, currency string
	lacks           bool
	boxes           []Box
}

// PDF draws the invoice. The boxes are where its texts are.
func PDF(v *Invoice) (file []byte, boxes []Box, err error) {
	s := &sheet{pdf: fpdf.New("P", "mm", "A4", ""), title: v.Title, fonts: map[string]*sfnt.Font{}}
	for style, data := range map[string][]byte{"": goregular.TTF, "B": gobold.TTF} {
		if s.fonts[style], err = sfnt.Parse(data); err != nil {
			return nil, nil, fmt.Errorf("document: font: %w", err)
		}
	}
	s.pdf.AddUTF8FontFromBytes("go", "", goregular.TTF)
	s.pdf.AddUTF8FontFromBytes("go", "B", gobold.TTF)
	s.pdf.SetCatalogSort(true)
	s.pdf.SetCreationDate(v.Made)
	s.pdf.SetModificationDate(v.Made)
	s.pdf.SetTitle(v.Title, true)
	s.pdf.SetLang("en")
	s.pdf.SetAutoPageBreak(false, 0)
	s.pdf.SetCellMargin(0)
	s.pdf.AliasNbPages(fullPage)
	s.pdf.SetFooterFunc(s.footer)
	s.page()
	s.head(v)
	s.currency = v.Currency
	s.lines(v.Lines)
	s.sums(v.Sums)
	notes := v.Notes
	if s.lacks {
		notes = append(notes[:len(notes):len(notes)], string(box)+
			" stands for a character that this file's fonts lack; the invoice's page shows it.")
	}
	s.font("", 9)
	for _, note := range notes {
		s.y += 2
		s.paragraph(margin, inner, note)
	}
	var out bytes.Buffer
	if err = s.pdf.Output(&out); err != nil {
		return nil, nil, fmt.Errorf("document: %w", err)
	}
	return out.Bytes(), s.boxes, nil
}

func (s *sheet) page() {
	s.pdf.AddPage()
	s.y = margin
	s.font(s.style, max(s.size, 9))
}

func (s *sheet) font(style string, size float64) {
	s.style, s.size = style, size
	s.pdf.SetFont("go", style, size)
}

// footer is drawn at the end of each page.
func (s *sheet) footer() {
	style, size := s.style, s.size
	s.font("", 8)
	s.put(margin, pageHeight-15, inner, fmt.Sprintf("%s, page %d of %s", s.title, s.pdf.PageNo(),
		fullPage), false)
	s.font(style, size)
}

// shown is a text as the fonts can draw it.
func (s *sheet) shown(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\u00a0' || r < ' ' {
			return ' '
		}
		glyph, err := s.fonts[s.style].GlyphIndex(&s.buffer, r)
		if err != nil || glyph == 0 || r > 0xffff {
			s.lacks = true
			return box
		}
		return r
	}, text)
}

// put draws one line of a text, whose box is w wide. What does not fit is cut, and ends with "…"; a
// number, which stands at the right, becomes smaller instead.
func (s *sheet) put(x, y, w float64, text string, toRight bool) {
	text = s.shown(text)
	size := s.size
	for toRight && s.size > 3 && s.pdf.GetStringWidth(text) > w {
		s.font(s.style, s.size-.5)
	}
	for runes := []rune(text); s.pdf.GetStringWidth(text) > w && len(runes) > 1; {
		runes = runes[:len(runes)-1]
		text = string(runes) + "…"
	}
	align := "L"
	if toRight {
		align = "R"
	}
	s.pdf.SetXY(x, y)
	s.pdf.CellFormat(w, lineHeight, text, "", 0, align, false, 0, "")
	b := Box{s.pdf.PageNo(), x, y, w, lineHeight, s.pdf.GetStringWidth(text), text}
	s.boxes = append(s.boxes, b)
	if s.size != size {
		s.font(s.style, size)
	}
}

// fits begins another page where so many lines do not fit on this one; true where it did.
func (s *sheet) fits(count int) (begun bool) {
	if s.y+float64(count)*lineHeight <= bottom {
		return false
	}
	s.page()
	return true
}

// wrapped are the lines of a text.
func (s *sheet) wrapped(text string, w float64) []string {
	return s.pdf.SplitText(s.shown(text), w-.5)
}

// paragraph draws a text below what there is.
func (s *sheet) paragraph(x, w float64, text string) {
	for _, line := range s.wrapped(text, w) {
		s.fits(1)
		s.put(x, s.y, w, line, false)
		s.y += lineHeight
	}
}

// head draws seller, title, customer and facts, in two columns.
func (s *sheet) head(v *Invoice) {
	const half = inner/2 - 4
	s.font("B", 18)
	s.put(margin+inner/2+4, s.y, half, v.Title, true)
	if v.Stamp != "" {
		s.pdf.SetTextColor(v.StampColour[0], v.StampColour[1], v.StampColour[2])
		s.put(margin+inner/2+4, s.y+9, half, v.Stamp, true)
		s.pdf.SetTextColor(0, 0, 0)
	}
	top := s.y
	s.party(v.From, half)
	s.y = max(s.y, top+18) + 6
	top = s.y
	s.font("", 9)
	s.put(margin, s.y, half, "Billed to", false)
	s.y += lineHeight
	s.party(v.To, half)
	end := s.y
	s.y = top
	for _, f := range v.Facts {
		s.font("", 10)
		s.put(margin+inner/2+4, s.y, half/2-2, f.Name, false)
		s.put(margin+inner/2+4+half/2, s.y, half/2, f.Value, true)
		s.y += lineHeight
	}
	s.y = max(s.y, end) + 8
}

func (s *sheet) party(p Party, w float64) {
	s.font("B", 11)
	s.paragraph(margin, w, p.Name)
	s.font("", 10)
	for _, line := range p.Lines {
		s.paragraph(margin, w, line)
	}
}

func (s *sheet) rule(width float64) {
	s.pdf.SetLineWidth(width)
	s.pdf.Line(margin, s.y, margin+inner, s.y)
	s.y += 1.2
}

func (s *sheet) lines(lines []Line) {
	s.tableHead()
	for _, line := range lines {
		s.font("", 10)
		what := s.wrapped(line.What, columns[0].w)
		count := len(what)
		if line.Period != "" {
			count++
		}
		count += len(line.Parts)
		if s.fits(min(count, 20)) {
			s.tableHead()
			s.font("", 10)
		}
		for i, value := range [...]string{line.Quantity, line.Price, line.Amount} {
			if value != "" {
				s.put(columns[i+1].x, s.y, columns[i+1].w, value, true)
			}
		}
		for _, text := range what {
			if s.fits(1) {
				s.tableHead()
				s.font("", 10)
			}
			s.put(columns[0].x, s.y, columns[0].w, text, false)
			s.y += lineHeight
		}
		if line.Period != "" {
			s.font("", 8)
			s.put(columns[0].x, s.y, columns[0].w, line.Period, false)
			s.y += lineHeight
		}
		s.parts(line.Parts)
		s.y += .8
		s.rule(.1)
	}
}

// parts draws the rows below a line that say how its amount is made.
func (s *sheet) parts(parts []Part) {
	const indent = 4
	for _, p := range parts {
		if s.fits(1) {
			s.tableHead()
		}
		s.font("", 8)
		s.put(columns[0].x+indent, s.y, columns[0].w-indent, p.What, false)
		for i, value := range [...]string{p.Quantity, p.Price, p.Amount} {
			if value != "" {
				s.put(columns[i+1].x, s.y, columns[i+1].w, value, true)
			}
		}
		s.y += lineHeight
	}
}

func (s *sheet) tableHead() {
	s.font("B", 9)
	for _, c := range columns {
		name := c.name
		if name == "Amount" && s.currency != "" {
			name += ", " + s.currency
		}
		s.put(c.x, s.y, c.w, name, c.toRight)
	}
	s.y += lineHeight + .8
	s.rule(.3)
}

func (s *sheet) sums(sums []Fact) {
	s.y += 2
	s.fits(len(sums))
	for i, f := range sums {
		s.font("", 10)
		if i == len(sums)-1 {
			s.font("B", 12)
		}
		s.put(columns[1].x, s.y, 42, f.Name, false)
		s.put(columns[1].x+43, s.y, margin+inner-columns[1].x-43, f.Value, true)
		s.y += lineHeight + .6
	}
}
