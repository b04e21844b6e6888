package admin_test

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// payer is a person in front of a browser: a real one, or one without scripts and styles.
type payer interface {
	// visit opens an address and returns the page's title.
	visit(address string) string
	// pay chooses a card and presses the button; verify answers the bank's question. Both return
	// the title of the page that follows.
	pay(card string) string
	verify(answer string) string
	// alert is what the page says went wrong.
	alert() string
}

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

// plainPayer sends the forms itself.
type plainPayer struct{ *browser }

func (p *plainPayer) text(mark string) string {
	_, rest, found := strings.Cut(p.page, mark)
	require.True(p.t, found, p.page)
	text, _, _ := strings.Cut(rest, "<")
	return text
}

func (p *plainPayer) visit(address string) string {
	p.open(address)
	return p.text("<h1>")
}

func (p *plainPayer) send(choice url.Values) string {
	if p.press(choice); p.status == 303 {
		p.open(p.address)
	}
	return p.text("<h1>")
}

func (p *plainPayer) pay(card string) string { return p.send(url.Values{"card": {card}}) }
func (p *plainPayer) verify(answer string) string {
	return p.send(url.Values{"verify": {answer}})
}
func (p *plainPayer) alert() string { return p.text(`role="alert">`) }

// TestTheHostedPageInABrowser: in Chromium.
func TestTheHostedPageInABrowser(t *testing.T) {
	payAtTheHostedPage(t, func() payer { return newChromium(t) })
}

// TestTheHostedPageWithoutScripts: by its forms alone.
func TestTheHostedPageWithoutScripts(t *testing.T) {
	payAtTheHostedPage(t, func() payer { return &plainPayer{newBrowser(t)} })
}

// payAtTheHostedPage: a person declines, is asked by the bank, refuses, tries again, confirms, and
// comes back to a receipt; the page of a void invoice takes nothing.
func payAtTheHostedPage(t *testing.T, open func() payer) {
	n := start(t)
	key := n.furnish()
	n.call("PUT", sandbox+"payment-provider", `{"provider":"sandbox"}`).is(200, "")
	invoice := n.subscribe(key)["id"].(string)
	void := n.subscribe(key)["id"].(string)
	address := n.checkout(key, invoice).is(200, "").data()["url"].(string)
	voided := n.checkout(key, void).is(200, "").data()["url"].(string)

	p := open() // last, so that it leaves before the listener closes
	require.Equal(t, "Pay Invoice 1", p.visit(address))
	require.Equal(t, "Pay Invoice 1", p.pay("decline"))
	require.Equal(t, "The card was declined. Nothing was charged.", p.alert())
	require.Equal(t, "Confirm Invoice 1", p.pay("authenticate"))
	require.Equal(t, "Pay Invoice 1", p.verify("refuse"))
	require.Equal(t, "The authentication failed. Nothing was charged.", p.alert())
	require.Equal(t, "DUE", n.invoiceStatus(key))
	require.Equal(t, "Confirm Invoice 1", p.pay("authenticate"))
	require.Equal(t, "Paid: Invoice 1", p.verify("confirm"))
	require.Equal(t, "PAID", n.invoiceStatus(key))
	require.Equal(t, "Paid: Invoice 1", p.visit(address), "the address shows the receipt")
	require.Len(t, n.payments(invoice), 1)
	require.Len(t, n.reports(invoice), 2)

	n.call("POST", sandbox+"invoices/"+void+"/void", "").is(200, "")
	if plain, ok := p.(*plainPayer); ok {
		plain.take(plain.http.Get(voided))
		require.Equal(t, 410, plain.status)
		require.Equal(t, "Not payable: Invoice 2", plain.text("<h1>"))
	} else {
		require.Equal(t, "Not payable: Invoice 2", p.visit(voided))
	}
	require.Equal(t, "This invoice takes no payment. Nothing was charged.", p.alert())
	require.Empty(t, n.payments(void))
}
