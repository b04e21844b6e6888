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
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Waiting for a page.
const (
	// quiet is how long nothing may have been loaded before a page is taken to be done, unmoved how
	// long a page may stay as it is after something was done to it, longest how long both may take.
	quiet   = 500 * time.Millisecond
	unmoved = 3 * time.Second
	maximum = 15 * time.Second
	tick    = 100 * time.Millisecond
)

// browser is a Chromium with one tab. What it loads goes through the run's proxy, which alone
// decides where that may be.
type browser struct {
	ctx     context.Context
	ends    []context.CancelFunc
	traffic *traffic
}

// Errors of starting.
var (
	errNoBrowser = errors.New("there is no Chromium on this machine: install the package chromium " +
		"(Debian: apt-get install chromium)")
	errNoProxy = errors.New("there is no proxy in HTTP_PROXY, and without one a browser goes " +
		"anywhere: a node gives each run its own; nothing was opened")
)

func findBrowser() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// switches are Chromium's, in addition to those that chromedp sets: everything goes to the proxy or
// nowhere. Chromium leaves loopback out of a proxy by itself, looks names up that a page only
// mentions, and bypasses the proxy for peers (WebRTC) and QUIC.
func switches(proxy *url.URL) []chromedp.ExecAllocatorOption {
	return []chromedp.ExecAllocatorOption{
		chromedp.ProxyServer("http://" + proxy.Host),
		chromedp.Flag("proxy-bypass-list", "<-loopback>"),
		chromedp.Flag("webrtc-ip-handling-policy", "disable_non_proxied_udp"),
		chromedp.Flag("force-webrtc-ip-handling-policy", "disable_non_proxied_udp"), // before 2025
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE "+proxy.Hostname()),
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-dev-shm-usage", true),
	}
}

// openBrowser starts a Chromium that keeps what it writes in the run's own folder. The proxy's
// address carries its password.
func openBrowser(ctx context.Context, proxy string) (*browser, error) {
	way, err := url.Parse(proxy)
	if err != nil || way.Host == "" {
		return nil, errNoProxy
	}
	path, err := findBrowser()
	if err != nil {
		return nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path),
		chromedp.UserDataDir(filepath.Join(os.Getenv("HOME"), "chromium")))
	options = append(options, switches(way)...)
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	b := &browser{traffic: newTraffic()}
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	b.ends = append(b.ends, end)
	b.ctx, end = chromedp.NewContext(ctx)
	b.ends = append(b.ends, end)
	if err = b.start(way); err != nil {
		return nil, errors.Join(fmt.Errorf("no browser starts: %w", err), b.close())
	}
	return b, nil
}

// start opens the tab. The browser gives the proxy's password when the proxy asks for it, and
// to no other host.
func (b *browser) start(way *url.URL) error {
	if err := chromedp.Do(b.ctx); err != nil {
		return err
	}
	if err := chromedp.Listen(b.ctx, b.onEvent(way.User)); err != nil {
		return err
	}
	yes := true
	return chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		tree, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return err
		}
		b.traffic.of(tree.FrameTree.Frame.ID)
		_, err = cdp.Call(ctx, t, fetch.Enable, fetch.EnableParams{HandleAuthRequests: &yes})
		return err
	}))
}

// onEvent is what is done about events: requests go on, the proxy gets its password, and dialogs,
// which hold a page up, are answered: what is told is noted, what is asked is agreed to.
func (b *browser) onEvent(user *url.Userinfo) func(any) {
	password, _ := user.Password()
	return func(event any) {
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
					Username: user.Username(), Password: password,
				}
			}
			b.tell(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
					RequestID: e.RequestID, AuthChallengeResponse: reply,
				})
				return err
			})
		case *page.EventJavascriptDialogOpening:
			b.traffic.told(e.Message)
			b.tell(func(ctx context.Context, t *chromedp.Target) error {
				_, err := cdp.Call(ctx, t, page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{
					Accept: e.Type != page.DialogTypePrompt,
				})
				return err
			})
		default:
			b.traffic.note(event)
		}
	}
}

// tell answers an event in a goroutine of its own, since events are told one after the other. What
// is gone by then needs no answer.
func (b *browser) tell(do func(context.Context, *chromedp.Target) error) {
	go func() {
		if err := chromedp.Do(b.ctx, chromedp.Func(do)); err != nil {
			return
		}
	}()
}

func (b *browser) close() error {
	err := chromedp.Cancel(b.ctx)
	for i := len(b.ends) - 1; i >= 0; i-- {
		b.ends[i]()
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// visit opens an address, and waits for its page.
func (b *browser) visit(address string) (*seen, error) {
	b.traffic.begin()
	ctx, cancel := context.WithTimeout(b.ctx, maximum)
	defer cancel()
	failed := ""
	err := chromedp.Do(ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		answer, err := cdp.Call(ctx, t, page.Navigate, page.NavigateParams{URL: address})
		failed = answer.ErrorText
		return err
	}))
	switch {
	case b.ctx.Err() != nil:
		return nil, b.ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &stop{"discover", "no_answer", "The page does not answer."}
	case err != nil:
		return nil, err
	// Chromium shows no page for an answer of 4xx or 5xx without a body.
	case failed != "" && b.traffic.status() == 0:
		return nil, b.unreached(failed)
	}
	return b.settle("")
}

// unreached is a stop where a page could not be loaded: the names of Chromium's errors say why.
func (b *browser) unreached(failed string) error {
	name := strings.TrimPrefix(failed, "net::")
	if name == "ERR_TUNNEL_CONNECTION_FAILED" {
		return errOtherHost
	}
	return &stop{"discover", "no_answer", "The page cannot be loaded (" + name + ")."}
}

// errOtherHost is a stop where the run's proxy, and not the product, has refused a page.
var errOtherHost = acquiring("other_host",
	"The page leads to a host that is none of the task's, or to where no agent goes.")

// settle waits until a page that was something before is something else, and stays so while nothing
// is loaded; or until it is clear that it stays as it was. A page need not be left for that: many
// send their forms by a script.
func (b *browser) settle(before string) (*seen, error) {
	begun, last := time.Now(), ""
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for {
		select {
		case <-b.ctx.Done():
			return nil, b.ctx.Err()
		case <-ticker.C:
		}
		waited := time.Since(begun)
		if waited < maximum && !b.traffic.idle(quiet) {
			continue
		}
		if b.traffic.refused() {
			return nil, errOtherHost
		}
		now, err := b.look()
		switch {
		case b.ctx.Err() != nil:
			return nil, b.ctx.Err()
		case err != nil && waited < maximum: // it was left while it was read
			continue
		case err != nil:
			return nil, &stop{"discover", "answer_unusable", "The page cannot be read: it never rests."}
		case now.digest() != before && now.digest() == last, waited >= maximum,
			now.digest() == before && waited >= unmoved:
			return now, nil
		}
		last = now.digest()
	}
}

// inside evaluates a script in a world of our own, which shares the page's documents and nothing
// else: what the page's scripts have made of the functions that we call does not reach it.
func inside[T any](b *browser, script string) (T, error) {
	ctx, cancel := context.WithTimeout(b.ctx, unmoved)
	defer cancel()
	return chromedp.Run(ctx, func(ctx context.Context, t *chromedp.Target) (none T, err error) {
		tree, err := cdp.Call(ctx, t, page.GetFrameTree, cdp.Empty{})
		if err != nil {
			return none, err
		}
		world, err := cdp.Call(ctx, t, page.CreateIsolatedWorld, page.CreateIsolatedWorldParams{
			FrameID: tree.FrameTree.Frame.ID, WorldName: "tollgate",
		})
		if err != nil {
			return none, err
		}
		return chromedp.Evaluate[T](script, func(p *runtime.EvaluateParams) {
			p.ContextID = world.ExecutionContextID
		})(ctx, t)
	})
}
