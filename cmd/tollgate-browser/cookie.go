package main

import (
	"context"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"tollgate/server/provider/runner/follower"
)

// maxCookies is how many cookies are kept while a person is waited for.
const maxCookies = 20

// cookie is what a product knows a visitor by, as it is kept while a person is waited for: without
// it most products have forgotten by then whose code they wait for.
type cookie struct {
	Name     string `json:"n"`
	Value    string `json:"v"`
	Domain   string `json:"d,omitempty"`
	Path     string `json:"p"`
	Secure   bool   `json:"s,omitempty"`
	HTTPOnly bool   `json:"h,omitempty"`
	SameSite string `json:"i,omitempty"`
}

// cookies are those of a page's address. One that is written as keys are is none of them: a
// checkpoint holds no key.
func (b *browser) cookies(address string) (kept []cookie, err error) {
	err = chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		of := network.GetCookiesParams{URLs: []string{address}}
		all, err := cdp.Call(ctx, t, network.GetCookies, of)
		for _, c := range all.Cookies {
			if follower.LooksLikeKey(c.Value) || len(kept) == maxCookies {
				continue
			}
			k := cookie{
				Name: c.Name, Value: c.Value, Path: c.Path, Secure: c.Secure, HTTPOnly: c.HTTPOnly,
				SameSite: string(c.SameSite),
			}
			if strings.HasPrefix(c.Domain, ".") { // else of that host alone
				k.Domain = c.Domain
			}
			kept = append(kept, k)
		}
		return err
	}))
	slices.SortFunc(kept, func(a, b cookie) int { return strings.Compare(a.Name, b.Name) })
	return kept, err
}

// keep gives the browser the cookies of an address back.
func (b *browser) keep(address string, cookies []cookie) error {
	if len(cookies) == 0 {
		return nil
	}
	var all []*network.CookieParam
	for _, c := range cookies[:min(len(cookies), maxCookies)] {
		all = append(all, &network.CookieParam{
			Name: c.Name, Value: c.Value, URL: address, Domain: c.Domain, Path: c.Path,
			Secure: c.Secure, HTTPOnly: c.HTTPOnly, SameSite: network.CookieSameSite(c.SameSite),
		})
	}
	return chromedp.Do(b.ctx, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, network.SetCookies, network.SetCookiesParams{Cookies: all})
		return err
	}))
}
