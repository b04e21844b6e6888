package browsertest

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// browser is a Chromium: a tab that the walk is taken in, and one without scripts that looks at the
// same pages. Both have the same cookies.
type browser struct {
	*tab
	plain *tab
	// walk is the first word of the names of pictures; seen are the pages that were looked at.
	walk string
	seen map[string]bool
	// heaviest is the most bytes of a page, paints are when they were painted first.
	heaviest int
	paints   []time.Duration
}

// tab is one tab.
type tab struct {
	t   *testing.T
	ctx context.Context
	// mouse is where it was clicked last.
	mouse place

	mu sync.Mutex // guards all below
	// trusted are the origins of a walk, and wrong is what was seen that no page may do.
	trusted map[string]bool
	wrong   []string
	// refusal is the status that the next page is to be answered with, where it is a refusal:
	// Chromium writes that into its log.
	refusal int
	// loads is how many documents were loaded, status what the last one was answered with.
	loads  int
	status int64
}

// openBrowser starts a Chromium for a walk that stays within some origins.
func openBrowser(t *testing.T, walk string, origins ...string) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "these tests need Chromium: apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.Flag("no-proxy-server", true), chromedp.Flag("disable-dev-shm-usage", true),
		chromedp.Flag("force-color-profile", "srgb"), chromedp.Flag("hide-scrollbars", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		closing, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		if err := chromedp.Cancel(closing); err != nil {
			t.Log("chromium:", err)
		}
		leave()
		end()
	})
	b := &browser{walk: walk, seen: map[string]bool{}}
	require.NoError(t, chromedp.Do(ctx), "Chromium does not start")
	b.tab = newTab(ctx, t, origins)
	t.Cleanup(b.weighed)
	second, _ := chromedp.NewContext(ctx)
	require.NoError(t, chromedp.Do(second))
	b.plain = newTab(second, t, origins)
	b.plain.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		off := emulation.SetScriptExecutionDisabledParams{Value: true}
		_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, off)
		return err
	}))
	return b
}

func newTab(ctx context.Context, t *testing.T, origins []string) *tab {
	t.Helper()
	b := &tab{t: t, ctx: ctx, trusted: map[string]bool{}}
	for _, origin := range origins {
		b.trusted[origin] = true
	}
	require.NoError(t, chromedp.Listen(ctx, b.onEvent))
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		on := emulation.SetFocusEmulationEnabledParams{Enabled: true}
		_, err := cdp.Call(ctx, t, emulation.SetFocusEmulationEnabled, on)
		return err
	}))
	b.look(wide, light)
	return b
}

// onEvent notes what no page may do: ask another origin, write an error, break the policy.
func (b *tab) onEvent(event any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		u, err := url.Parse(e.Request.URL)
		// A data: URL reaches no host. Chromium draws the icon of a date field from one.
		if err != nil || u.Scheme != "data" && !b.trusted[u.Scheme+"://"+u.Host] {
			b.wrong = append(b.wrong, "it asks "+e.Request.URL)
		}
	case *network.EventResponseReceived:
		if e.Type == network.ResourceTypeDocument {
			b.status = e.Response.Status
		}
	case *page.EventLoadEventFired:
		b.loads++
	case *runtime.EventExceptionThrown:
		b.wrong = append(b.wrong, "a script fails: "+e.ExceptionDetails.Text)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError ||
			e.Type == runtime.ConsoleAPICalledTypeWarning {
			b.wrong = append(b.wrong, "a script writes to the console")
		}
	case *log.EventEntryAdded:
		refused := e.Entry.Source == log.EntrySourceNetwork && b.refusal != 0
		if e.Entry.Level == log.EntryLevelError && !refused {
			b.wrong = append(b.wrong, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// faults are what was seen since they were last asked for.
func (b *tab) faults() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	wrong := b.wrong
	b.wrong = nil
	return wrong
}

func (b *tab) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	require.NoError(b.t, chromedp.Do(ctx, actions...), "at %s", b.where())
}

// goOn does something that leads to another document, and waits until it is loaded. Its status is
// 200, or the one that refused says.
func (b *tab) goOn(action func()) {
	b.t.Helper()
	from := b.where()
	status := b.awaitLoad(from, action)
	b.mu.Lock()
	wanted := b.refusal
	b.refusal = 0
	b.mu.Unlock()
	if wanted == 0 {
		wanted = 200
	}
	require.EqualValues(b.t, wanted, status, "from %s to %s:\n%s", from, b.where(),
		diagnosis{b, "main"})
}

// awaitLoad does something that leads from an address to another document, and returns the status
// of that once it is loaded.
func (b *tab) awaitLoad(from string, action func()) (status int64) {
	b.t.Helper()
	before, _ := b.arrived()
	action()
	require.Eventually(b.t, func() bool {
		var loads int
		loads, status = b.arrived()
		return loads > before
	}, patience, 5*time.Millisecond, "nothing follows %s", from)
	return status
}

// arrived is how many documents were loaded, and the last one's status.
func (b *tab) arrived() (loads int, status int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loads, b.status
}

// refused reports whether what is done next is answered with a refusal.
func (b *tab) refused(status int) *tab {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refusal = status
	return b
}

// open goes to an address, as if it was typed.
func (b *tab) open(address string) {
	b.t.Helper()
	b.goOn(func() { b.do(chromedp.Navigate(address)) })
}

// press clicks at a link or a button that leads on.
func (b *tab) press(selector string) {
	b.t.Helper()
	b.goOn(func() { b.click(selector) })
}

// confirm says yes to what a page asks, and reads what was done.
func (b *tab) confirm(done string) {
	b.t.Helper()
	b.press("#confirm-button")
	b.reads("#notice", done)
}

// follow clicks at the link within the content, or the sections, that has a text.
func (b *tab) follow(text string) {
	b.t.Helper()
	b.goOn(func() { b.clickAt(`within("main a, header a", ` + quote(text) + `)`) })
}

// unfold clicks at the summary of what is folded, by its text.
func (b *tab) unfold(summary string) {
	b.t.Helper()
	b.clickAt(`within("summary", ` + quote(summary) + `)`)
}

// click clicks at something that stays on the page.
func (b *tab) click(selector string) {
	b.t.Helper()
	b.clickAt(`first(` + quote(selector) + `)`)
}

// clickAt clicks with the mouse where an element is, once it is seen there and nothing is above it.
func (b *tab) clickAt(element string) {
	b.t.Helper()
	var at place
	require.Eventually(b.t, func() bool {
		at.Fault = "the page is being left"
		return b.try(&at, check("middle(c."+element+")")) && at.Fault == ""
	}, patience, 20*time.Millisecond, "%s of %s cannot be clicked at: %s",
		element, b.where(), &at)
	b.mouse = at
	b.clickAgain()
}

// clickAgain clicks where the mouse is, whatever is there by now.
func (b *tab) clickAgain() {
	b.t.Helper()
	b.do(chromedp.MouseClickXY(b.mouse.X, b.mouse.Y))
}

// place is where a mouse clicks, or why it cannot.
type place struct {
	X, Y  float64
	Fault string
}

func (p *place) String() string { return p.Fault }

// fill types a text into a field instead of what is there.
func (b *tab) fill(selector, text string) {
	b.t.Helper()
	b.click(selector)
	evaluate[bool](b, `(document.activeElement.select?.(), true)`)
	b.do(chromedp.KeyEvent(cmp.Or(text, kb.Backspace)))
	require.Equal(b.t, text, b.value(selector), selector)
}

// paste puts a long text into a field, as from the clipboard.
func (b *tab) paste(selector, text string) {
	b.t.Helper()
	b.click(selector)
	evaluate[bool](b, `(document.activeElement.select(), true)`)
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, input.InsertText, input.InsertTextParams{Text: text})
		return err
	}))
	require.Equal(b.t, text, b.value(selector), selector)
}

// back presses the browser's button, so often. A page that Chromium has kept is not loaded anew, so
// it is its address that says when it is there.
func (b *tab) back(steps int64) {
	b.t.Helper()
	var before string
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		all, err := cdp.Call(ctx, t, page.GetNavigationHistory, cdp.Empty{})
		if err != nil {
			return err
		}
		entry := all.Entries[all.CurrentIndex-steps]
		before = entry.URL
		_, err = cdp.Call(ctx, t, page.NavigateToHistoryEntry,
			page.NavigateToHistoryEntryParams{EntryID: entry.ID})
		return err
	}))
	require.Eventually(b.t, func() bool {
		var there bool
		return b.where() == before && b.try(&there, `document.readyState === "complete"`) && there
	},
		patience, 50*time.Millisecond, "no way back from %s to %s", b.where(), before)
}

func (b *tab) where() string {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	address, err := chromedp.Run(ctx, chromedp.Location())
	if err != nil {
		return err.Error()
	}
	return address
}

// path is the path of the page's address.
func (b *tab) path() string {
	b.t.Helper()
	u, err := url.Parse(b.where())
	require.NoError(b.t, err)
	return u.Path
}

// text is what an element shows; empty if there is none.
func (b *tab) text(selector string) string {
	return evaluate[string](b, `document.querySelector(`+quote(selector)+`)?.innerText ?? ""`)
}

// count is how many elements there are.
func (b *tab) count(selector string) int {
	return evaluate[int](b, `document.querySelectorAll(`+quote(selector)+`).length`)
}

func quote(text string) string { return "`" + strings.ReplaceAll(text, "`", "\\`") + "`" }

// reads waits until an element shows a text, without the page being loaded again by the walk.
func (b *tab) reads(selector, text string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return strings.Contains(b.text(selector), text) },
		patience, 100*time.Millisecond, "%s of %s does not read %q but:\n%s", selector, b.where(), text,
		diagnosis{b, selector})
}

// diagnosis is what an element shows when a failure is told.
type diagnosis struct {
	*tab
	selector string
}

func (d diagnosis) String() string { return d.text(d.selector) }

// shortcut presses a key as one event, whose character the page may keep from being typed;
// chromedp.KeyEvent sends the character by itself.
func (b *tab) shortcut(key string) {
	b.t.Helper()
	b.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		press := input.DispatchKeyEventParams{
			Type: input.DispatchKeyEventTypeKeyDown, Key: key, Text: key,
		}
		if _, err := cdp.Call(ctx, t, input.DispatchKeyEvent, press); err != nil {
			return err
		}
		press.Type, press.Text = input.DispatchKeyEventTypeKeyUp, ""
		_, err := cdp.Call(ctx, t, input.DispatchKeyEvent, press)
		return err
	}))
}

// hasFocus waits until the element with an id has the focus.
func (b *tab) hasFocus(id string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		return evaluate[string](b, `document.activeElement?.id ?? ""`) == id
	}, patience, 20*time.Millisecond, "%s of %s does not get the focus", id, b.where())
}

// value is what a field holds.
func (b *tab) value(selector string) string {
	return evaluate[string](b, `document.querySelector(`+quote(selector)+`)?.value ?? ""`)
}

// try evaluates a script of a page that may be left meanwhile.
func (b *tab) try(value any, script string) bool {
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.Evaluate[string](`JSON.stringify(`+script+`)`))
	return err == nil && json.Unmarshal([]byte(text), value) == nil
}

func evaluate[T any](b *tab, script string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	value, err := chromedp.Run(ctx, chromedp.Evaluate[T](script))
	require.NoError(b.t, err)
	return value
}
