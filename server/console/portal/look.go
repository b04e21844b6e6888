package portal

import (
	"math"
	"strconv"

	"tollgate/server"
)

// showLook is the account's colour as a style sheet: an edge of the page in any case, and links and
// buttons where it is legible.
func showLook(v *visit) {
	v.portal.site.Guard(v.x)
	v.x.Caching("private, max-age=300")
	v.x.Bare(200, "text/css; charset=utf-8", []byte(styleOf(
		v.portal.config.Machine.PortalLook(v.link.Env).Colour)))
}

// Backgrounds of the two schemes that text of the accent's colour stands on, the least legible.
const (
	lightGround = "#e6f0ed"
	darkGround  = "#1d2f2b"
	legible     = 4.5
)

func styleOf(colour string) string {
	if _, ok := luminance(colour); !ok {
		return ""
	}
	style := ".top{border-top:6px solid " + colour + "}"
	if contrast(colour, lightGround) >= legible {
		style += "@media(prefers-color-scheme:light){:root{--accent:" + colour + "}}"
	}
	if contrast(colour, darkGround) >= legible {
		style += "@media(prefers-color-scheme:dark){:root{--accent:" + colour + ";--accent-ink:#000}}"
	}
	return style
}

// luminance is that of WCAG 2.
func luminance(colour string) (sum float64, ok bool) {
	if len(colour) != 7 || colour[0] != '#' {
		return 0, false
	}
	n, err := strconv.ParseUint(colour[1:], 16, 32)
	for i, weight := range [...]float64{0.0722, 0.7152, 0.2126} {
		c := float64(n>>(8*i)&255) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum, err == nil
}

func contrast(a, b string) float64 {
	x, _ := luminance(a)
	y, _ := luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func showLogo(v *visit) {
	look := v.portal.config.Machine.PortalLook(v.link.Env)
	if look.LogoMedia == "" {
		v.x.Refuse(server.FaultNotFound)
		return
	}
	v.portal.site.Guard(v.x)
	v.x.Caching("private, max-age=300")
	v.x.Bare(200, look.LogoMedia, look.Logo)
}
