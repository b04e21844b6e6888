package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/signup"
	"tollgate/server/provider/runner/follower"
)

const (
	// maxPages is how many pages a run looks at.
	maxPages = 6
	// maxCheckpoint is what a node keeps for a run that waits, in bytes.
	maxCheckpoint = 8 << 10
)

// obtained is what a sign-up led to: a key, or what only a person can tell.
type obtained struct {
	key, question string
	checkpoint    []byte
}

// pause is where a run goes on: the page with the field that a person's answer belongs in, and what
// the product knows this visitor by.
type pause struct {
	URL     string   `json:"url"`
	Field   string   `json:"field"`
	Cookies []cookie `json:"cookies,omitempty"`
}

// walk is one run: what was sent, and where it has been.
type walk struct {
	*task
	b    *browser
	who  fill.Identity
	sent map[string]bool
	been map[string]bool
	// shown are texts that stood there before anything was sent: examples, not keys.
	shown map[string]bool
	// begun reports whether a form was sent, in this run or before it waited.
	begun bool
}

// signUp goes from page to page until there is a key.
func (t *task) signUp(b *browser) (*obtained, error) {
	w := &walk{
		task: t, b: b, who: fill.IdentityOf(t.RunID, t.Task),
		sent: map[string]bool{}, been: map[string]bool{}, shown: map[string]bool{},
	}
	var page *seen
	var err error
	if t.Type == "resume" {
		page, err = w.goOn()
	} else {
		event("opens %s", pathOf(t.URL))
		page, err = b.visit(t.URL)
	}
	for range maxPages {
		if err != nil {
			return nil, err
		}
		var got *obtained
		if got, page, err = w.step(page); got != nil {
			return got, nil
		}
	}
	return nil, cmp.Or(err, error(acquiring("page_budget",
		fmt.Sprintf("The run has seen the %d pages that it may.", maxPages))))
}

// step does what a page leads to: it ends the run, or gives the page that follows.
func (w *walk) step(page *seen) (*obtained, *seen, error) {
	status := w.b.traffic.status()
	event("sees %q (%d)", page.Title, status)
	if key := w.keyOf(page); key != "" {
		return &obtained{key: key}, nil, nil
	}
	if why := w.blockedBy(page, status); why != nil {
		return nil, nil, why
	}
	i := slices.IndexFunc(page.Forms, func(f form) bool { return f.signsUp() })
	if code := slices.IndexFunc(page.Forms, func(f form) bool { return f.code() >= 0 }); code >= 0 &&
		(i < 0 || w.begun) {
		got, err := w.ask(&page.Forms[code], page)
		return got, nil, err
	}
	if i >= 0 {
		f := &page.Forms[i]
		if w.sent[f.key()] {
			return nil, nil, acquiring("signup_refused",
				"The form is shown again after it was sent. "+says(page, status, w.b.traffic.said()))
		}
		w.sent[f.key()], w.begun = true, true
		next, err := w.send(f)
		return nil, next, err
	}
	to := w.next(page)
	if to == "" {
		return w.waitFor(page, status)
	}
	w.been[to] = true
	event("goes to %s", pathOf(to))
	next, err := w.b.visit(to)
	return nil, next, err
}

// waitFor gives a page that leads nowhere the time that scripts take to make one of it that does.
func (w *walk) waitFor(page *seen, status int) (*obtained, *seen, error) {
	next, err := w.b.settle(page.digest())
	if err != nil {
		return nil, nil, err
	}
	if next.digest() != page.digest() {
		return nil, next, nil
	}
	rule, what := "no_way_published", "The page has no form to sign up with, no link to one, no key. "
	if w.begun {
		rule, what = "no_credential_in_answer", "It was sent, and the page that follows shows no key. "
	}
	return nil, nil, acquiring(rule, what+says(page, status, w.b.traffic.said()))
}

// next is a link that leads to signing up, on the hosts of the task.
func (w *walk) next(page *seen) string {
	if w.begun { // an account may exist
		return ""
	}
	for _, l := range page.Links {
		u, err := url.Parse(l.Href)
		if err == nil && slices.Contains(w.Hosts, u.Host) && l.Href != page.URL && !w.been[l.Href] &&
			signup.Called(l.Text+" "+u.Path) {
			return l.Href
		}
	}
	return ""
}

// keyOf is a key that a page shows by itself, after something was sent. What was shown before is an
// example.
func (w *walk) keyOf(page *seen) string {
	for _, text := range page.Shown {
		switch {
		case !follower.LooksLikeKey(text) || w.shown[text]:
		case w.begun:
			return text
		default:
			w.shown[text] = true
		}
	}
	return ""
}

// says is what a page says, in a sentence.
func says(page *seen, status int, dialog string) string {
	words := page.Title
	for _, more := range []string{page.Says, dialog} {
		if more != "" {
			words += " · " + more
		}
	}
	if len(words) > 300 {
		words = strings.ToValidUTF8(words[:300], "")
	}
	if status == 0 {
		return fmt.Sprintf("The page says %q.", words)
	}
	return fmt.Sprintf("The page says %q (%d).", words, status)
}

// blockedBy says what of a page stops an agent.
func (w *walk) blockedBy(page *seen, status int) error {
	said := says(page, status, w.b.traffic.said())
	switch {
	case page.Captcha:
		return acquiring("captcha", "The product wants a CAPTCHA solved. "+said)
	case status == 402:
		return acquiring("payment_required", said)
	case status == 429:
		return acquiring("rate_limited", said)
	case status >= 500:
		return acquiring("product_error", said)
	case status >= 400:
		return acquiring("signup_refused", said)
	}
	return nil
}

// ask leaves the page with the field that a code belongs in.
func (w *walk) ask(f *form, page *seen) (*obtained, error) {
	if w.Type == "resume" {
		return nil, acquiring("email_code", "The product asks for the code again. "+
			says(page, w.b.traffic.status(), w.b.traffic.said()))
	}
	d := &f.Fields[f.code()]
	cookies, err := w.b.cookies(page.URL)
	if err != nil {
		return nil, err
	}
	left, err := json.Marshal(pause{URL: page.URL, Field: d.Name, Cookies: cookies})
	if err != nil {
		return nil, err
	}
	if len(left) > maxCheckpoint {
		return nil, acquiring("checkpoint_too_large",
			"What the run would go on from is too large to be kept.")
	}
	return &obtained{
		question: fmt.Sprintf("The product has sent a code by e-mail to %s. Which one? (%q)",
			w.who.Mail, cmp.Or(d.Label, d.Name)),
		checkpoint: left,
	}, nil
}

// goOn opens the page that was left, and sends what the person has answered.
func (w *walk) goOn() (*seen, error) {
	var p pause
	answer := strings.TrimSpace(w.Answer)
	err := json.Unmarshal(w.Checkpoint, &p)
	u, malformed := url.Parse(p.URL)
	switch {
	case errors.Join(err, malformed) != nil || !slices.Contains(w.Hosts, u.Host):
		return nil, acquiring("checkpoint_foreign", "The checkpoint is none of this agent's.")
	case answer == "":
		return nil, acquiring("email_code",
			"The product wants a code from an e-mail, and no one has provided it.")
	}
	event("opens %s again", pathOf(p.URL))
	if err = w.b.keep(p.URL, p.Cookies); err != nil {
		return nil, err
	}
	page, err := w.b.visit(p.URL)
	if err != nil {
		return nil, err
	}
	w.keyOf(page) // examples
	for i := range page.Forms {
		f := &page.Forms[i]
		if at := f.code(); at >= 0 && f.Fields[at].Name == p.Field {
			if err = w.b.fill(f, &f.Fields[at], answer); err != nil {
				return nil, err
			}
			event("sends the code")
			w.begun = true
			return w.b.press(f)
		}
	}
	return nil, acquiring("email_code", "The product does not ask for the code "+
		"any more where it did. "+says(page, w.b.traffic.status(), w.b.traffic.said()))
}

// send fills a form with who signs up, and sends it.
func (w *walk) send(f *form) (*seen, error) {
	chosen := map[string]bool{}
	filled := 0
	for i := range f.Fields {
		d := &f.Fields[i]
		rule := d.wanted()
		if rule != "" && (d.Required || rule == "password_wanted" && d.Visible) {
			return nil, acquiring(rule,
				fmt.Sprintf("The form wants %q, which this agent does not have.", cmp.Or(d.Label, d.Name)))
		}
		// An invisible field is there to catch programs that fill everything.
		if !d.Required && (d.Type != "email" || !d.Visible) {
			continue
		}
		if d.Type == "file" {
			return nil, acquiring("body_not_fillable", "The form wants a file.")
		}
		if d.Type == "radio" && chosen[d.Name] {
			continue
		}
		chosen[d.Name] = true
		if err := w.b.fill(f, d, w.value(d)); err != nil {
			return nil, err
		}
		filled++
	}
	event("sends the form with %d fields", filled)
	return w.b.press(f)
}

// value is what belongs in a field.
func (w *walk) value(d *field) string {
	switch d.Type {
	case "email":
		return w.who.Mail
	case "select-one":
		for _, option := range d.Options {
			if option != "" {
				return option
			}
		}
		return ""
	case "number", "range":
		return "1"
	case "url":
		return "https://agents.example/" + w.who.Name
	case "date":
		return "2026-01-01"
	default:
		return cmp.Or(w.who.Own(d.Name), w.who.Own(d.Label), w.who.Name)
	}
}

// pathOf is what is said of an address: in a query there may be a secret.
func pathOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "?"
	}
	return u.EscapedPath()
}
