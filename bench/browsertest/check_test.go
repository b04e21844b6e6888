package browsertest

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

//go:embed check.js
var checks string

// The windows that pages are looked at in, and the two schemes.
type (
	window struct {
		name          string
		width, height int64
	}
	scheme string
)

var (
	wide   = window{"wide", 1280, 800}
	narrow = window{"narrow", 360, 780}
)

const (
	light scheme = "light"
	dark  scheme = "dark"
)

// look sets the window and the scheme.
func (b *tab) look(w window, s scheme) {
	b.t.Helper()
	b.do(chromedp.EmulateViewport(w.width, w.height), chromedp.Func(
		func(ctx context.Context, t *chromedp.Target) error {
			media := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: string(s)},
				{Name: "prefers-reduced-motion", Value: "reduce"},
			}}
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, media)
			return err
		}))
}

// page reports whether the walk has arrived at a page, and looks at everything that every page
// keeps.
func (b *browser) page(name string) {
	b.t.Helper()
	b.answer(name)
	require.Empty(b.t, b.anew(), "%s (%s)", name, b.where())
	require.Empty(b.t, b.slowly(), "%s (%s)", name, b.where())
}

// answer is page for what a form answered: it is not loaded anew.
func (b *browser) answer(name string) {
	b.t.Helper()
	require.False(b.t, b.seen[name], "two pages are called %s", name)
	b.seen[name] = true
	require.Empty(b.t, b.asItIs(func(w window, s scheme) { b.picture(name, w, s) }),
		"%s (%s)", name, b.where())
}

// asItIs is what is wrong with the page as it is, in both windows and schemes.
func (b *browser) asItIs(each func(window, scheme)) (faults []string) {
	b.t.Helper()
	for _, w := range []window{narrow, wide} {
		for _, s := range []scheme{dark, light} {
			b.look(w, s)
			found := ask[[]string](b.tab, "look()")
			// Schemes differ in contrast alone, which look() compares in all four: axe-core sees each
			// window in one of them, or with -every in both.
			if *every || (w == narrow) == (s == dark) {
				found = append(found, b.axe()...)
			}
			for _, fault := range found {
				faults = append(faults, fmt.Sprintf("%s, %s: %s", w.name, s, fault))
			}
			each(w, s)
		}
	}
	open := evaluate[[]bool](b.tab, `[...document.querySelectorAll("details")].map(d => d.open)`)
	b.look(narrow, light)
	for _, fault := range ask[[]string](b.tab, "(c.unfold(), c.overflow())") {
		faults = append(faults, "narrow, unfolded: "+fault)
	}
	evaluate[bool](b.tab, fmt.Sprintf(`([...document.querySelectorAll("details")].forEach(
		(d, i) => { d.open = %s[i] }), true)`, list(open)))
	b.look(wide, light)
	return append(append(faults, b.weight()...), b.faults()...)
}

// anew is what is wrong with the page when it is loaded again, without scripts, and gone through by
// the keyboard.
func (b *browser) anew() (faults []string) {
	b.t.Helper()
	wanted := ask[[]string](b.tab, "outline()")
	b.plain.open(b.where())
	if found := ask[[]string](b.plain, "outline()"); !slices.Equal(wanted, found) {
		faults = append(faults, fmt.Sprintf("with scripts it has %q, without %q", wanted, found))
	}
	return append(append(faults, b.plain.byKeyboard()...), b.plain.faults()...)
}

func list(values []bool) string {
	return strings.ReplaceAll(fmt.Sprint(values), " ", ",")
}

// ask evaluates a call of check.js.
func ask[T any](b *tab, call string) T {
	b.t.Helper()
	return evaluate[T](b, check(call))
}

// check is the script of a call of check.js.
func check(call string) string {
	if !strings.HasPrefix(call, "(") {
		call = "c." + call
	}
	return `(() => { window.tollgateCheck ?? ` + strings.TrimSpace(checks) + `;
		const c = window.tollgateCheck; return ` + call + `; })()`
}

// byKeyboard presses Tab until everything was reached, from the top of a page that was just loaded.
func (b *tab) byKeyboard() (faults []string) {
	b.t.Helper()
	most := ask[int](b, "gather()")
	reached := make([]bool, most)
	// Areas that can be scrolled have the focus, too, and the first field of a form may have had
	// it. A field for a date keeps it for its parts.
	last := -1
	for range 2*most + 20 {
		b.do(chromedp.KeyEvent(kb.Tab))
		at := ask[struct {
			Stop  int
			Fault string
		}](b, "at()")
		if at.Stop < 0 || at.Stop == last {
			continue
		}
		last = at.Stop
		if reached[at.Stop] {
			break // once around
		}
		reached[at.Stop] = true
		if at.Fault != "" {
			faults = append(faults, at.Fault)
		}
	}
	for i, there := range reached {
		if !there {
			faults = append(faults, ask[string](b, fmt.Sprintf("name(%d)", i))+
				" is not reached by the keyboard")
		}
	}
	return faults
}
