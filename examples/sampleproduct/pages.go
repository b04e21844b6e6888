package sampleproduct

import (
	"html"
	"net/http"
	"net/url"
	"strings"
)

// page is a page of the product's for persons.
func page(w http.ResponseWriter, status int, title, body string) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	say(w, "<!doctype html>\n<html lang=\"en\"><head><title>"+title+"</title></head>\n"+
		"<body><h1>"+title+"</h1>\n"+body+"\n</body></html>\n")
}

const signUpForm = `<form method="post" action="signup">
<p><label>Name <input name="name" required></label></p>
<p><label>E-mail <input type="email" name="email" required></label></p>
{captcha}<p><label><input type="checkbox" name="terms" required> I accept the terms</label></p>
<p><button type="submit">Create account</button></p>
</form>`

// pages answers the pages of a sign-up by a form, as a browser sees them; false where a request is
// for none.
func (p *product) pages(w http.ResponseWriter, r *http.Request) bool {
	switch r.Method + " " + r.URL.Path {
	case "GET /signup":
		captcha := ""
		if p.variant == Captcha {
			captcha = `<div class="g-recaptcha" data-sitekey="x"></div>`
		}
		page(w, 200, "Sign up", strings.Replace(signUpForm, "{captcha}", captcha, 1))
	case "POST /signup":
		p.formSent(w, r)
	case "GET /signup/confirm":
		page(w, 200, "Confirm your e-mail address", `<form method="post" action="confirm">
<input type="hidden" name="signup" value="`+html.EscapeString(r.URL.Query().Get("signup"))+`">
<p><label>Code <input name="code" inputmode="numeric" required></label></p>
<p><button type="submit">Confirm</button></p></form>`)
	case "POST /signup/confirm":
		signup, code := r.PostFormValue("signup"), r.PostFormValue("code")
		p.mu.Lock()
		good := p.codes.take(signup + code)
		p.mu.Unlock()
		if !good {
			page(w, 403, "That is not the code", "<p>Look for the newest e-mail.</p>")
			return true
		}
		p.keyPage(w)
	default:
		return false
	}
	return true
}

// formSent takes the form of a sign-up.
func (p *product) formSent(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.variant == Captcha:
		page(w, 403, "Are you a person?", "<p>Solve the CAPTCHA.</p>")
	case !strings.Contains(r.PostFormValue("email"), "@") || r.PostFormValue("name") == "" ||
		r.PostFormValue("terms") == "":
		page(w, 422, "Something is missing", "<p>Name, e-mail and consent are needed.</p>")
	case p.variant == EmailCode:
		// Relative, for http.Redirect does not know of the path that Site took off.
		w.Header().Set("Location", "signup/confirm?signup="+url.QueryEscape(p.mailCode()))
		w.WriteHeader(http.StatusSeeOther)
	default:
		p.keyPage(w)
	}
}

func (p *product) keyPage(w http.ResponseWriter) {
	page(w, 200, "Your API key", "<p>It is shown once: <code>"+p.newKey()+"</code></p>")
}
