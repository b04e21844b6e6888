package page_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/server/inspect/page"
)

// TestWhatIsNotShownIsNoText: of each page the text "seen" is what a browser shows.
func TestWhatIsNotShownIsNoText(t *testing.T) {
	for _, body := range []string{
		`<p>seen</p><p hidden>no</p>`,
		`<div hidden="until-found">no <b>no</b> no</div><p>seen</p>`,
		`<div style="display:none">no<div>no</div>no</div>seen`,
		`<div style="color: red; DISPLAY : None !important">no</div>seen`,
		`<div style="display:none;display:block">seen</div>`,
		`<div hidden style="display:flex">seen</div>`,
		`<span style="visibility:hidden">no</span>seen`,
		`<p hidden>no <code>no</code> <em>no</em><p>seen`,
		`<p hidden>no<div>seen</div>`,
		`<ul><li hidden>no<ul><li>no</ul>no<li>seen</ul>`,
		`<dl><dt hidden>no<dd>seen</dl>`,
		`<table><tr hidden><td>no<td>no<tr><td>seen</table>`,
		`<table><tr><td hidden>no</div>no<td>seen</table>`,
		`<div hidden></p>no</div>seen`,
		`<div hidden><br>no<img src=x>no<input></div>seen`,
		`<dialog>no</dialog><dialog open>seen</dialog>`,
		`<template><p>no</p></template><p>seen</p>`,
		`<noscript>no</noscript><canvas>no</canvas><datalist><option>no</datalist>seen`,
		`<svg><path d="x"/><text>no</text></svg>seen`,
		`<div hidden/>no</div>seen`,
		`<style>.x{display:none}</style><p class="a x">no</p><p>seen</p>`,
		`<style>@charset "a"; p, #x { color:red; Visibility: hidden !important }</style>` +
			`<p>no</p><div id=x>no</div>seen`,
		`<style>.x{display:none}.on .x{display:block}</style><p class=x>seen</p>`,
		`<style>.x{display:none}@media (min-width:9px){.x{display:flex}}</style><p class=x>seen</p>`,
		`<style>@media print{.x{display:none}}.z .x{display:none}</style><p class=x>seen</p>`,
		`<style>p{display:none}.x{display:block}body{display:none}</style><p>no</p><p class=x>seen</p>`,
		`<style>.x{display:none}</style><p class=x style="display:block">seen</p>`,
		`<style>body{display:none}</style><body><p>seen</p>`,
		`<style>/* a */ .x{display:none}</style><p class=x>no</p>seen`,
		`<style>/* .x{display:none} */</style><p class=x>seen</p>`,
		`<template><style>.x{display:none}</style></template><p class=x>seen</p>`,
		`<noscript><style>.x{display:none}</style></noscript><p class=x>seen</p>`,
		`<div class="hidden" data-hidden aria-hidden="true">seen</div>`,
	} {
		p := page.HTML("<html><body>" + body)
		require.Equal(t, []string{"seen"}, p.Runs, body)
		require.Equal(t, len("seen"), p.Letters, body)
		require.Len(t, p.Blocks, 1, body)
		require.Equal(t, "seen", p.Blocks[0].Text, body)
		require.False(t, p.Unread, body)
	}
	p := page.HTML(`<html><a hidden href="/docs">no</a>`)
	require.Equal(t, "/docs", p.Links[0].Href, "a link leads somewhere all the same")
	require.Empty(t, p.Links[0].Text)
}

// TestDataIsNoScript: what runs counts, and blocks of data do not.
func TestDataIsNoScript(t *testing.T) {
	for kind, runs := range map[string]bool{
		``: true, ` type=""`: true, ` type="module"`: true, ` type="Text/JavaScript"`: true,
		` type="application/javascript"`: true, ` type="text/javascript1.5"`: true, ` src="x.js"`: true,
		` type="application/ld+json"`: false, ` type="application/json"`: false,
		` type="application/ld+json; charset=utf-8"`: false, ` type="importmap"`: false,
		` type="text/template"`: false, ` type="speculationrules"`: false,
	} {
		p := page.HTML("<html><script" + kind + `>{"@type":"Product"}</script>`)
		require.Equal(t, runs, p.Scripts == 1, kind)
		require.Equal(t, strings.Contains(kind, "ld+json"), len(p.Data) == 1, kind)
	}
}

// TestDeepPagesAreReadToABound: what lies deeper than is tracked is not read, and that is said.
func TestDeepPagesAreReadToABound(t *testing.T) {
	p := page.HTML("<html>" + strings.Repeat("<div>", 1000) + "deep" + strings.Repeat("</div>", 1000) + "seen")
	require.Equal(t, []string{"seen"}, p.Runs)
	require.True(t, p.Unread)

	deep := strings.Repeat("<i>", 500)
	for _, tags := range []string{"</b>", "<li></li>", "<div>", "</i><i>", "<p></p>"} {
		began := time.Now()
		text := "<html><b><table><ul><li><ul>" + deep
		page.HTML(text + strings.Repeat(tags, (2<<20)/len(tags)))
		require.Less(t, time.Since(began), 5*time.Second, tags)
	}
}
