package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"tollgate/server/provider/runner/follower"
)

// maxPages is how many pages a run looks at.
const maxPages = 6

// seen is what a page shows, as the agent reads it.
type seen struct {
	Title   string `json:"title"`
	Captcha bool   `json:"captcha"`
	Forms   []form `json:"forms"`
	Links   []link `json:"links"`
	// Shown are the texts that stand by themselves: code, fields that can only be read.
	Shown []string `json:"shown"`
}

// form is a form: its place among the page's forms, what it is called, its visible fields.
type form struct {
	At     int     `json:"at"`
	Called string  `json:"called"`
	Fields []field `json:"fields"`
}

type field struct {
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Label    string   `json:"label"`
	Required bool     `json:"required"`
	Options  []string `json:"options"`
}

type link struct {
	Text string `json:"text"`
	Href string `json:"href"`
}

// look reads a page. What it returns is bounded; a page cannot make it run anything but itself.
const look = `(() => {
const cut = (s, n) => (s || "").trim().slice(0, n);
const all = (q, n) => Array.from(document.querySelectorAll(q)).slice(0, n);
const label = e => cut((e.labels && e.labels[0] && e.labels[0].innerText) ||
  e.getAttribute("aria-label") || e.placeholder, 100);
return {
  title: cut((document.querySelector("h1") || {}).innerText || document.title, 200),
  captcha: !!document.querySelector(
    "[class*=captcha],[id*=captcha],[class*=turnstile],iframe[src*=captcha],[data-sitekey]"),
  forms: all("form", 10).map((f, at) => ({
    at, called: cut((f.getAttribute("action") || "") + " " +
      Array.from(f.querySelectorAll("button,input[type=submit]")).map(
        b => b.innerText || b.value).join(" "), 300),
    fields: Array.from(f.elements).slice(0, 40).filter(
      e => e.name && !["hidden", "submit", "button", "reset"].includes(e.type)).map(e => ({
        name: cut(e.name, 100), type: e.type || "", label: label(e), required: !!e.required,
        options: e.options ? Array.from(e.options).slice(0, 20).map(o => cut(o.value, 100)) : []})),
  })),
  links: all("a[href]", 200).map(a => ({text: cut(a.innerText, 100), href: cut(a.href, 2000)})),
  shown: all("code,pre,kbd,samp,input[readonly],textarea[readonly]", 50).map(
    e => cut(e.value || e.innerText, 4096)),
};})()`

func statusOf(answer *network.Response) int {
	if answer == nil {
		return 0
	}
	return int(answer.Status)
}

// obtained is what a sign-up led to: a key, or what only a person can tell.
type obtained struct {
	key, question string
	pause         *pause
}

// pause is where a run goes on: the page with the field that a person's answer belongs in.
type pause struct {
	URL   string `json:"url"`
	Form  int    `json:"form"`
	Field string `json:"field"`
}

// signUp goes from page to page until there is a key.
func (t *task) signUp(b *browser) (*obtained, error) {
	who := follower.IdentityOf(t.RunID, t.Task)
	status, err := 0, error(nil)
	if t.Type == "resume" {
		status, err = t.goOn(b)
	} else {
		event("opens %s", pathOf(t.URL))
		status, err = b.visit(t.URL)
	}
	sent := map[string]bool{}
	for range maxPages {
		if err != nil {
			return nil, err
		}
		page, err2 := chromedp.Run(b.ctx, chromedp.Evaluate[seen](look))
		at, err3 := chromedp.Run(b.ctx, chromedp.Location())
		if err = firstOf(err2, err3); err != nil {
			return nil, err
		}
		event("sees %q (%d)", page.Title, status)
		if key := keyOf(&page); key != "" {
			return &obtained{key: key}, nil
		}
		if why := blockedBy(&page, status); why != nil {
			return nil, why
		}
		if i := slices.IndexFunc(page.Forms, asksCode); i >= 0 {
			return t.ask(&page.Forms[i], at, who)
		}
		if i := slices.IndexFunc(page.Forms, signsUp); i >= 0 && !sent[at] {
			sent[at] = true
			status, err = send(b, &page.Forms[i], who)
			continue
		}
		next := t.next(&page, at, sent)
		if next == "" {
			return nil, &stop{
				"acquire_credential", "no_way_published",
				fmt.Sprintf("The page has no form to sign up with, no link to one, no key: %q.", page.Title),
			}
		}
		sent[next] = true
		event("goes to %s", pathOf(next))
		status, err = b.visit(next)
	}
	return nil, &stop{"acquire_credential", "page_budget", "The run has seen the 6 pages that it may."}
}

// next is a link that leads to signing up, on the hosts of the task.
func (t *task) next(page *seen, at string, been map[string]bool) string {
	for _, l := range page.Links {
		u, err := url.Parse(l.Href)
		if err == nil && slices.Contains(t.Hosts, u.Host) && l.Href != at && !been[l.Href] &&
			follower.SignsUp(l.Text+" "+u.Path) {
			return l.Href
		}
	}
	return ""
}

// keyOf is a key that a page shows by itself.
func keyOf(page *seen) string {
	for _, text := range page.Shown {
		if follower.LooksLikeKey(text) {
			return text
		}
	}
	return ""
}

// blockedBy says what of a page stops an agent.
func blockedBy(page *seen, status int) error {
	said := fmt.Sprintf("The page says %q (%d).", page.Title, status)
	switch {
	case page.Captcha:
		return &stop{"acquire_credential", "captcha", "The product wants a CAPTCHA solved. " + said}
	case status == 402:
		return &stop{"acquire_credential", "payment_required", said}
	case status == 429:
		return &stop{"acquire_credential", "rate_limited", said}
	case status >= 500:
		return &stop{"acquire_credential", "product_error", said}
	case status >= 400:
		return &stop{"acquire_credential", "signup_refused", said}
	}
	return nil
}

func asksCode(f form) bool {
	return slices.ContainsFunc(f.Fields, isCode)
}

func isCode(d field) bool { return follower.Wanted(d.Name) == "email_code" }

// signsUp says that a form is one to sign up with: called so, with a field for who signs up.
func signsUp(f form) bool {
	return follower.SignsUp(f.Called) && slices.ContainsFunc(f.Fields, func(d field) bool {
		return d.Type == "email" || follower.Identity{Name: "n", Mail: "m"}.Own(d.Name) != ""
	})
}

// ask leaves the page with the field that a code belongs in.
func (t *task) ask(f *form, at string, who follower.Identity) (*obtained, error) {
	if t.Type == "resume" {
		return nil, &stop{
			"acquire_credential", "email_code", "The product asks for the code again.",
		}
	}
	i := slices.IndexFunc(f.Fields, isCode)
	name := f.Fields[i].Name
	return &obtained{
		question: fmt.Sprintf("The product has sent a code by e-mail to %s. Which one? (%q)", who.Mail,
			cmp.Or(f.Fields[i].Label, name)),
		pause: &pause{URL: at, Form: f.At, Field: name},
	}, nil
}

// goOn opens the page that was left, and sends what the person has answered.
func (t *task) goOn(b *browser) (int, error) {
	var p pause
	answer := strings.TrimSpace(t.Answer)
	u, err := url.Parse("")
	if json.Unmarshal(t.Checkpoint, &p) == nil {
		u, err = url.Parse(p.URL)
	}
	switch {
	case err != nil || !slices.Contains(t.Hosts, u.Host):
		return 0, &stop{
			"acquire_credential", "checkpoint_foreign", "The checkpoint is none of this agent's.",
		}
	case answer == "":
		return 0, &stop{
			"acquire_credential", "email_code",
			"The product wants a code from an e-mail, and nobody has told it.",
		}
	}
	event("opens %s again", pathOf(p.URL))
	if _, err = b.visit(p.URL); err != nil {
		return 0, err
	}
	if err = fill(b, p.Form, p.Field, answer); err != nil {
		return 0, err
	}
	event("sends the code")
	return b.press(buttonOf(p.Form))
}

// send fills a form with who signs up, and sends it.
func send(b *browser, f *form, who follower.Identity) (int, error) {
	for _, d := range f.Fields {
		if rule := follower.Wanted(d.Name); rule != "" && (d.Required || rule == "password_wanted") {
			return 0, &stop{
				"acquire_credential", rule,
				fmt.Sprintf("The form wants %q, which this agent does not have.", cmp.Or(d.Label, d.Name)),
			}
		}
		if !d.Required && d.Type != "email" {
			continue
		}
		value := cmp.Or(who.Own(d.Name), who.Name)
		switch d.Type {
		case "email":
			value = who.Mail
		case "checkbox", "radio":
			if err := chromedp.Do(b.ctx, chromedp.Click(fieldOf(f.At, d.Name))); err != nil {
				return 0, err
			}
			continue
		case "select-one":
			value = ""
			for _, option := range d.Options {
				value = cmp.Or(value, option)
			}
		case "number", "range":
			value = "1"
		case "file":
			return 0, &stop{"acquire_credential", "body_not_fillable", "The form wants a file."}
		}
		if err := fill(b, f.At, d.Name, value); err != nil {
			return 0, err
		}
	}
	event("sends the form with %d fields", len(f.Fields))
	return b.press(buttonOf(f.At))
}

// selectors name the form by its place: pages seldom give them ids.
func formOf(at int) string { return fmt.Sprintf(`document.querySelectorAll("form")[%d]`, at) }

func fieldOf(at int, name string) chromedp.JSPath {
	quoted, err := json.Marshal(name)
	if err != nil { // no text is no JSON
		quoted = []byte(`""`)
	}
	return chromedp.JSPath(fmt.Sprintf(`%s.elements.namedItem(%s)`, formOf(at), quoted))
}

func buttonOf(at int) chromedp.JSPath {
	return chromedp.JSPath(formOf(at) +
		`.querySelector("button:not([type=button]):not([type=reset]),input[type=submit]")`)
}

// fill writes a text into a field.
func fill(b *browser, at int, name, value string) error {
	return chromedp.Do(b.ctx, chromedp.SetValue(fieldOf(at, name), value))
}

// pathOf is what is said of an address: in a query there may be a secret.
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "?"
	}
	return u.EscapedPath()
}
