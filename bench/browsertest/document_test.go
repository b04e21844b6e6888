package browsertest

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"tollgate/server/document"
)

// paper is an A4 page, in millimetres.
const paperWidth, paperHeight = 210.0, 297.0

// printed is a picture of a page of a PDF, as Chromium shows it.
type printed struct {
	image.Image
	page image.Rectangle // where the paper is
}

// ink reports whether a pixel is darker than the middle.
func (p *printed) ink(x, y int) bool {
	r, g, b, _ := p.At(x, y).RGBA()
	return r+g+b < 3*0x8000
}

// white reports whether a pixel is paper.
func (p *printed) white(x, y int) bool {
	r, g, b, _ := p.At(x, y).RGBA()
	return r+g+b > 3*0xfe00
}

// find looks for the paper: what is white from one edge to the other.
func (p *printed) find() bool {
	bounds, page := p.Bounds(), image.Rectangle{}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			if p.white(x, y) {
				page = page.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	p.page = page
	shape := float64(page.Dy()) / float64(max(page.Dx(), 1)) / (paperHeight / paperWidth)
	return page.Dx() > 400 && shape > 0.99 && shape < 1.01
}

// area is a rectangle of the paper, in millimetres, as pixels.
func (p *printed) area(x, y, w, h float64) image.Rectangle {
	scale := float64(p.page.Dx()) / paperWidth
	return image.Rect(int(x*scale), int(y*scale), int((x+w)*scale)+1, int((y+h)*scale)+1).
		Add(p.page.Min)
}

// inked counts the dark pixels of an area.
func (p *printed) inked(area image.Rectangle) (n int) {
	for y := area.Min.Y; y < area.Max.Y; y++ {
		for x := area.Min.X; x < area.Max.X; x++ {
			if p.ink(x, y) {
				n++
			}
		}
	}
	return n
}

// TestAnInvoiceLooksAsItShould: Chromium shows the PDF, on whose first page each text is where it
// was put, and the margins are empty.
func TestAnInvoiceLooksAsItShould(t *testing.T) {
	v := &document.Invoice{
		Title: "Invoice 12", Stamp: "PAST DUE", Currency: "USD",
		From:  document.Party{Name: "Harbor Ltd", Lines: []string{"1 Main St", "Oslo"}},
		To:    document.Party{Name: "Łukasz Žižek", Lines: []string{"a@b.example"}},
		Facts: []document.Fact{{Name: "Issued", Value: "22 Jan 2027"}, {Name: "Due", Value: "29 Jan 2027"}},
		Sums:  []document.Fact{{Name: "Subtotal", Value: "20.06 USD"}, {Name: "Total", Value: "20.06 USD"}},
		Notes: []string{"Thank you."}, Made: time.UnixMilli(1_800_000_000_000),
	}
	for i := range 6 {
		v.Lines = append(v.Lines, document.Line{
			What: fmt.Sprintf("Line %d, output tokens of a model", i), Price: "0.000003",
			Period: "22 Dec 2026 – 22 Jan 2027", Quantity: "123,456,789.000001", Amount: "370.37",
		})
	}
	file, boxes, err := document.PDF(v)
	require.NoError(t, err)
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/pdf")
		if _, err := w.Write(file); err != nil {
			return
		}
	}))
	t.Cleanup(site.Close)
	b := openBrowser(t, "document", site.URL)
	shown := b.printed(site.URL + "/invoice.pdf#toolbar=0&navpanes=0&scrollbar=0&view=Fit")
	texts := 0
	for _, box := range boxes {
		if box.Page != 1 || strings.TrimSpace(box.Says) == "" {
			continue
		}
		texts++
		at := shown.area(box.X, box.Y, box.W, box.H)
		require.NotZero(t, shown.inked(at), "%q is not seen", box.Says)
	}
	require.Greater(t, texts, 30)
	for _, x := range []float64{1, paperWidth - 15} {
		require.Zero(t, shown.inked(shown.area(x, 1, 14, paperHeight-2)), "the margin at %.0f has ink", x)
	}
}

// printed shows a PDF, and takes a picture once there is ink on its paper.
func (b *browser) printed(address string) *printed {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(900, 1260), chromedp.Navigate(address))
	shown := &printed{}
	require.Eventually(b.t, func() bool {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		defer cancel()
		shot, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
			answer, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
				Format: page.CaptureScreenshotFormatPng,
			})
			return answer.Data, err
		})
		if err != nil {
			return false
		}
		shown.Image, err = png.Decode(bytes.NewReader(shot))
		return err == nil && shown.find() && shown.inked(shown.page) > 1000
	}, patience, 100*time.Millisecond, "Chromium does not show the PDF")
	return shown
}
