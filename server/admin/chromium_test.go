//go:build !race || long

// The driver of Chromium takes long to compile for the race detector, which finds nothing in it.
// TestTheHostedPageWithoutScripts takes the same pages; the tag long is for every night.

package admin_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// chromium drives a real browser, headless. It loads nothing but what the page asks for.
type chromium struct {
	t   *testing.T
	ctx context.Context
}

func newChromium(t *testing.T) *chromium {
	t.Helper()
	path, err := exec.LookPath("chromium")
	require.NoError(t, err, "this test needs Chromium: apt-get install chromium")
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path), chromedp.Flag("no-proxy-server", true),
		chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	ctx, end := context.WithTimeout(context.Background(), 2*time.Minute)
	ctx, stop := chromedp.NewExecAllocator(ctx, options...)
	ctx, leave := chromedp.NewContext(ctx)
	t.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			t.Log("chromium:", err)
		}
		leave()
		stop()
		end()
	})
	c := &chromium{t, ctx}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		if e, ok := event.(*network.EventRequestWillBeSent); ok {
			if u, err := url.Parse(e.Request.URL); err != nil || u.Hostname() != "127.0.0.1" {
				t.Errorf("the page loads %s", e.Request.URL)
			}
		}
	}))
	return c
}

func (c *chromium) do(actions ...chromedp.Action[chromedp.Void]) {
	c.t.Helper()
	require.NoError(c.t, chromedp.Do(c.ctx, actions...))
}

func (c *chromium) text(selector chromedp.CSS) string {
	c.t.Helper()
	text, err := chromedp.Run(c.ctx, chromedp.Text(selector))
	require.NoError(c.t, err)
	return text
}

func (c *chromium) visit(address string) string {
	c.t.Helper()
	c.do(chromedp.Navigate(address))
	return c.text("h1")
}

// press clicks a button and waits for the page that follows.
func (c *chromium) press(selector chromedp.CSS) string {
	c.t.Helper()
	_, err := chromedp.RunResponse(c.ctx, chromedp.Click(selector))
	require.NoError(c.t, err)
	return c.text("h1")
}

func (c *chromium) pay(card string) string {
	c.t.Helper()
	c.do(chromedp.Click(chromedp.CSS(`input[value="` + card + `"]`)))
	return c.press(`button[type="submit"]`)
}

func (c *chromium) verify(answer string) string {
	c.t.Helper()
	return c.press(chromedp.CSS(`button[value="` + answer + `"]`))
}

func (c *chromium) alert() string { return c.text(`[role="alert"]`) }

// TestTheHostedPageInABrowser: in Chromium.
func TestTheHostedPageInABrowser(t *testing.T) {
	payAtTheHostedPage(t, func() payer { return newChromium(t) })
}
