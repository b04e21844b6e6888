package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/chromedp/chromedp"

	"tollgate/server/inspect/fill"
	"tollgate/server/inspect/signup"
)

// seen is what a page shows, as the agent reads it.
type seen struct {
	URL   string `json:"url"`
	Title string `json:"title"`
	// Says is what the page tells as gone wrong.
	Says    string `json:"says"`
	Captcha bool   `json:"captcha"`
	Forms   []form `json:"forms"`
	Links   []link `json:"links"`
	// Shown are the texts that stand by themselves: code, fields that can only be read.
	Shown []string `json:"shown"`
}

// form is a form: its place among the page's forms, what it is called, its fields.
type form struct {
	At     int     `json:"at"`
	Called string  `json:"called"`
	Fields []field `json:"fields"`
}

// field is a field: its place in its form, and what is known of it.
type field struct {
	At       int      `json:"at"`
	Name     string   `json:"name"`
	Type     string   `json:"type"`
	Label    string   `json:"label"`
	Complete string   `json:"complete"`
	Required bool     `json:"required"`
	Visible  bool     `json:"visible"`
	Options  []string `json:"options"`
}

type link struct {
	Text string `json:"text"`
	Href string `json:"href"`
}

// own begins every script: elements of a form by the browser's own account, whatever a form has
// called its fields.
const own = `const elementsOf = f => Array.from(Object.getOwnPropertyDescriptor(
  HTMLFormElement.prototype, "elements").get.call(f));
const attr = (e, n) => Element.prototype.getAttribute.call(e, n);
const visible = e => e.getClientRects().length > 0 && getComputedStyle(e).visibility !== "hidden";
`

// look reads a page. What it returns is bounded.
const look = `(() => {
` + own + `const cut = (s, n) => (s || "").trim().slice(0, n);
const all = (q, n) => Array.from(document.querySelectorAll(q)).slice(0, n);
const label = e => cut((e.labels && e.labels[0] && e.labels[0].innerText) ||
  attr(e, "aria-label") || attr(e, "placeholder"), 100);
const told = all("[role=alert],[aria-invalid=true]~*,.error,.errors,.alert", 20).filter(
  e => visible(e) && e.innerText.trim());
return {
  url: cut(document.location.href, 2000),
  title: cut((document.querySelector("h1") || {}).innerText || document.title, 200),
  says: cut(told.map(e => e.innerText).join(" "), 200),
  captcha: !!document.querySelector(
    "[class*=captcha],[id*=captcha],[class*=turnstile],iframe[src*=captcha],[data-sitekey]"),
  forms: all("form", 10).map((f, at) => ({
    at, called: cut((attr(f, "action") || "") + " " +
      elementsOf(f).filter(e => e.tagName === "BUTTON" || e.type === "submit").map(
        b => b.innerText || b.value).join(" "), 300),
    fields: elementsOf(f).slice(0, 60).map((e, at) => ({
        at, name: cut(attr(e, "name") || attr(e, "id"), 100), type: e.type || "", label: label(e),
        complete: cut(attr(e, "autocomplete"), 100),
        required: !!e.required || attr(e, "aria-required") === "true", visible: visible(e),
        options: e.options ? Array.from(e.options).slice(0, 20).map(o => cut(o.value, 100)) : []})
      ).filter(d => (d.name || d.label) &&
        !["hidden", "submit", "button", "reset", "image", "fieldset", "output"].includes(d.type)),
  })),
  links: all("a[href]", 200).map(a => ({text: cut(a.innerText, 100), href: cut(a.href, 2000)})),
  shown: all("code,pre,kbd,samp,input[readonly],textarea[readonly]", 50).map(
    e => cut(e.value || e.innerText, 4096)),
};})()`

// look reads the page that the tab shows.
func (b *browser) look() (*seen, error) {
	now, err := inside[seen](b, look)
	return &now, err
}

// digest tells one look at a page from another.
func (s *seen) digest() string { return fmt.Sprintf("%+v", *s) }

// filling writes a value into a field, or ticks it, as a person does: what is ticked already stays
// so. It says false where the field is not there any more.
const filling = `((at, i, name, value) => {
` + own + `const f = document.querySelectorAll("form")[at];
const e = f && elementsOf(f)[i];
if (!e || (attr(e, "name") || attr(e, "id") || "").trim().slice(0, 100) !== name) return false;
if (e.type === "checkbox" || e.type === "radio") {
  if (!e.checked) HTMLElement.prototype.click.call(e);
  return e.checked;
}
HTMLElement.prototype.focus.call(e);
e.value = value;
for (const kind of ["input", "change"]) e.dispatchEvent(new Event(kind, {bubbles: true}));
HTMLElement.prototype.blur.call(e);
return true;
})`

// press finds how a form is sent: a place to click at where its button can be seen; else it does
// what a click would, and where there is no button what the Enter key would.
const press = `(at => {
` + own + `const f = document.querySelectorAll("form")[at];
if (!f) return {done: false};
Element.prototype.removeAttribute.call(f, "target");
const can = elementsOf(f).filter(e => !e.disabled &&
  (e.tagName === "BUTTON" && e.type !== "reset" || e.type === "submit"));
const b = can.find(e => e.type === "submit" && visible(e)) || can.find(e => e.type === "submit") ||
  can.find(visible);
if (!b) {
  HTMLFormElement.prototype.requestSubmit.call(f);
  return {done: true};
}
b.scrollIntoView({block: "center", behavior: "instant"});
const r = b.getBoundingClientRect(), x = r.left + r.width / 2, y = r.top + r.height / 2;
const top = visible(b) && document.elementFromPoint(x, y);
if (top && b.contains(top)) return {done: true, click: true, x, y};
HTMLElement.prototype.click.call(b);
return {done: true};
})`

// call writes a call of a script's function.
func call(function string, arguments ...any) (string, error) {
	list, err := json.Marshal(arguments)
	return function + "(..." + string(list) + ")", err
}

func (b *browser) fill(f *form, d *field, value string) error {
	script, err := call(filling, f.At, d.At, d.Name, value)
	if err != nil {
		return err
	}
	if filled, err := inside[bool](b, script); err != nil || !filled {
		return cmp.Or[error](b.ctx.Err(), errChanged)
	}
	return nil
}

// press sends a form, and waits for what follows.
func (b *browser) press(f *form) (*seen, error) {
	before, err := b.look()
	if err != nil {
		return nil, cmp.Or[error](b.ctx.Err(), errChanged)
	}
	script, err := call(press, f.At)
	if err != nil {
		return nil, err
	}
	b.traffic.begin()
	type place struct {
		Done  bool    `json:"done"`
		Click bool    `json:"click"`
		X     float64 `json:"x"`
		Y     float64 `json:"y"`
	}
	// Where the page is left at once, there is nothing to answer; what follows is seen all the same.
	found, err := inside[place](b, script)
	if err == nil && !found.Done {
		return nil, errChanged
	}
	if found.Click {
		ctx, cancel := context.WithTimeout(b.ctx, maximum)
		defer cancel()
		if err = chromedp.Do(ctx, chromedp.MouseClickXY(found.X, found.Y)); err != nil {
			event("the click was not answered: the page is left, or busy")
		}
	}
	return b.settle(before.digest())
}

// errChanged is a stop where a page is not any more what was read.
var errChanged = acquiring("page_changed",
	"The form is not there any more: the page has changed it.")

// wanted is the rule of a field that only somebody else can fill: by its type, its name, what a
// browser would complete it with, and its label.
func (d *field) wanted() string {
	names := []string{d.Name, d.Complete}
	if len(d.Label) <= 40 && d.Type != "checkbox" && d.Type != "radio" {
		names = append(names, d.Label)
	}
	for _, name := range names {
		if rule := signup.Wanted(name); rule != "" {
			return rule
		}
	}
	switch d.Type {
	case "password":
		return "password_wanted"
	case "tel":
		return "phone"
	default:
		return ""
	}
}

func (d *field) isCode() bool { return d.Visible && d.wanted() == "email_code" }

// code is the place of a form's field for a code; -1 if it has none.
func (f *form) code() int {
	return slices.IndexFunc(f.Fields, func(d field) bool { return d.isCode() })
}

// signsUp reports whether a form is one to sign up with: called so, with a field for who signs up.
func (f *form) signsUp() bool {
	return signup.Called(f.Called) && slices.ContainsFunc(f.Fields, func(d field) bool {
		return d.Type == "email" || fill.Identity{Name: "n", Mail: "m"}.Own(d.Name) != ""
	})
}

// key tells a form from another, on whichever page it stands.
func (f *form) key() string {
	key := f.Called
	for _, d := range f.Fields {
		key += "\n" + d.Name + " " + d.Type
	}
	return key
}
