package browsertest

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"os"
	"path/filepath"
	"slices"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// screens is the folder that pictures of all pages are written to; none where it is empty.
var screens = flag.String("screens", "", "write pictures of all pages into this folder")

const (
	// cut is where pictures end, in pixels.
	cut = 1200
	// colours is how many of them a picture has.
	colours = 24
)

// picture writes what the tab shows now.
func (b *browser) picture(name string, w window, s scheme) {
	if *screens == "" {
		return
	}
	b.t.Helper()
	height := evaluate[int](b.tab, "Math.ceil(document.documentElement.getBoundingClientRect().height)")
	height = min(max(height, int(w.height)), cut)
	yes := true
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	shot, err := chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) ([]byte, error) {
		answer, err := cdp.Call(ctx, t, page.CaptureScreenshot, page.CaptureScreenshotParams{
			Format: page.CaptureScreenshotFormatPng, CaptureBeyondViewport: &yes, FromSurface: &yes,
			Clip: &page.Viewport{Width: float64(w.width), Height: float64(height), Scale: 1},
		})
		return answer.Data, err
	})
	require.NoError(b.t, err)
	full, err := png.Decode(bytes.NewReader(shot))
	require.NoError(b.t, err)
	var small bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	require.NoError(b.t, encoder.Encode(&small, paletted(full)))
	file := b.walk + "-" + name + "-" + w.name + "-" + string(s) + ".png"
	require.NoError(b.t, os.WriteFile(filepath.Join(*screens, file), small.Bytes(), 0o644))
}

// paletted is a picture in its most frequent colours. Colours between them are those of the edges
// of letters.
func paletted(full image.Image) *image.Paletted {
	counts := map[color.RGBA]int{}
	bounds := full.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			c, _ := color.RGBAModel.Convert(full.At(x, y)).(color.RGBA)
			counts[c]++
		}
	}
	all := make([]color.RGBA, 0, len(counts))
	for c := range counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a.R, b.R),
			cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := color.Palette{}
	for _, c := range all[:min(len(all), colours)] {
		palette = append(palette, c)
	}
	small := image.NewPaletted(bounds, palette)
	draw.Draw(small, bounds, full, bounds.Min, draw.Src)
	return small
}
