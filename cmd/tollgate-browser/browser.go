package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with one tab. What it loads goes through the run's proxy, which alone
// decides where that may be.
type browser struct {
	ctx  context.Context
	ends []context.CancelFunc
}

// errNoBrowser says what to install.
var errNoBrowser = errors.New("there is no Chromium on this machine: install the package chromium")

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// openBrowser starts a Chromium that keeps what it writes in the run's own folder. The proxy's
// address carries its password; empty is none.
func openBrowser(ctx context.Context, proxy string) (*browser, error) {
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(filepath.Join(os.Getenv("HOME"), "chromium")),
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("disable-quic", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	way, err := url.Parse(proxy)
	if err != nil {
		return nil, errors.New("HTTP_PROXY is no address")
	}
	if way.Host != "" {
		// Chromium leaves loopback out of a proxy by itself; here nothing may go beside it.
		options = append(options, chromedp.ProxyServer("http://"+way.Host),
			chromedp.Flag("proxy-bypass-list", "<-loopback>"))
	}
	b := &browser{}
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	b.ends = append(b.ends, end)
	b.ctx, end = chromedp.NewContext(ctx)
	b.ends = append(b.ends, end)
	if err = b.start(way); err != nil {
		return nil, errors.Join(fmt.Errorf("no browser starts: %w", err), b.close())
	}
	return b, nil
}

// start opens the tab. The proxy's password is given when the browser is asked for it, and to
// nobody else.
func (b *browser) start(way *url.URL) error {
	if err := chromedp.Do(b.ctx); err != nil {
		return err
	}
	if way.User == nil {
		return nil
	}
	password, _ := way.User.Password()
	answer := func(event any) {
		switch e := event.(type) {
		case *fetch.EventRequestPaused:
			b.tell(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, fetch.ContinueRequest, fetch.ContinueRequestParams{
					RequestID: e.RequestID,
				})
				return err
			})
		case *fetch.EventAuthRequired:
			reply := &fetch.AuthChallengeResponse{
				Response: fetch.AuthChallengeResponseResponseCancelAuth,
			}
			if e.AuthChallenge.Source == fetch.AuthChallengeSourceProxy {
				reply = &fetch.AuthChallengeResponse{
					Response: fetch.AuthChallengeResponseResponseProvideCredentials,
					Username: way.User.Username(), Password: password,
				}
			}
			b.tell(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
					RequestID: e.RequestID, AuthChallengeResponse: reply,
				})
				return err
			})
		}
	}
	if err := chromedp.Listen(b.ctx, answer); err != nil {
		return err
	}
	yes := true
	return chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, fetch.Enable, fetch.EnableParams{HandleAuthRequests: &yes})
		return err
	}))
}

// tell answers an event: beside it, for events are told one after the other. A request that is gone
// by then needs no answer.
func (b *browser) tell(do func(context.Context, *chromedp.Target) error) {
	go func() {
		if err := chromedp.Do(b.ctx, chromedp.Func(do)); err != nil {
			return
		}
	}()
}

// close ends the browser.
func (b *browser) close() error {
	err := chromedp.Cancel(b.ctx)
	for i := len(b.ends) - 1; i >= 0; i-- {
		b.ends[i]()
	}
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// visit opens an address, and returns its status.
func (b *browser) visit(address string) (int, error) {
	answer, err := chromedp.Run(b.ctx, chromedp.NavigateResponse(address))
	if err != nil {
		return 0, unreached(err)
	}
	return statusOf(answer), nil
}

// press clicks a button and waits for the page that follows.
func (b *browser) press(button chromedp.JSPath) (int, error) {
	answer, err := chromedp.RunResponse(b.ctx, chromedp.Click(button))
	if err != nil {
		return 0, unreached(err)
	}
	return statusOf(answer), nil
}

// unreached is a stop where a page could not be loaded: the names of Chromium's errors say why.
func unreached(err error) error {
	if at := strings.Index(err.Error(), "net::ERR_"); at >= 0 {
		name, _, _ := strings.Cut(err.Error()[at+len("net::"):], " ")
		return &stop{"discover", "no_answer", "The page cannot be loaded (" + name + ")."}
	}
	return err
}
