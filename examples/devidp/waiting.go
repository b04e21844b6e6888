package devidp

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
)

// waiting is an agent's sign-in that its mailbox has not approved yet.
type waiting struct {
	request request
	until   time.Time
	// inbox is who has approved it; empty before that. owner is whom the mailbox belongs to.
	inbox, owner string
	used         bool
}

// authorize begins a sign-in: a form for persons, a waiting page for agents.
func (p *Provider) authorize(path string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		asked, wrong := p.read(path, r.URL.Query())
		if wrong != "" {
			page(w, http.StatusBadRequest, view{Title: "Invalid sign-in request", Alert: wrong})
			return
		}
		if path == PersonsPath {
			page(w, http.StatusOK, view{
				Title: "Sign in", Form: true, Action: formAction(r),
				Suggested: p.config.Suggested[asked.redirect],
			})
			return
		}
		token := secret()
		now := p.config.Now()
		p.mu.Lock()
		for old, waits := range p.waiting {
			if now.After(waits.until) {
				delete(p.waiting, old)
			}
		}
		full := len(p.waiting) >= maxWaiting
		if !full {
			p.waiting[token] = &waiting{request: asked, until: now.Add(waitingLife)}
		}
		p.mu.Unlock()
		if full {
			page(w, http.StatusServiceUnavailable, view{
				Title: "Busy", Alert: "Too many sign-ins are waiting. Try again in a minute.",
			})
			return
		}
		http.Redirect(w, r, p.config.URL+AgentsPath+"/waiting?"+
			url.Values{"auth_token": {token}}.Encode(), http.StatusSeeOther)
	}
}

// formAction is where the form goes: the request that it answers.
func formAction(r *http.Request) template.URL {
	return template.URL(PersonsPath + "/authorize?" + r.URL.Query().Encode())
}

// signPerson is the persons' form: it believes any name.
func (p *Provider) signPerson(w http.ResponseWriter, r *http.Request) {
	asked, wrong := p.read(PersonsPath, r.URL.Query())
	email := strings.TrimSpace(r.PostFormValue("email"))
	switch {
	case wrong != "":
		page(w, http.StatusBadRequest, view{Title: "Invalid sign-in request", Alert: wrong})
	case !isAddress(email):
		page(w, http.StatusBadRequest, view{
			Title: "Sign in", Form: true, Action: formAction(r),
			Alert: "Write an e-mail address, such as ada@example.com.",
		})
	default:
		name, _, _ := strings.Cut(email, "@")
		p.grantTo(w, r, asked, identity{subject: strings.ToLower(email), email: email, name: name})
	}
}

func isAddress(text string) bool {
	name, host, ok := strings.Cut(text, "@")
	return ok && name != "" && host != "" && len(text) <= 254 &&
		!strings.ContainsAny(name+host, " <>\"'@\\")
}

// wait is the waiting page. It shows the token, asks again every two seconds, and goes on once the
// mailbox has approved.
func (p *Provider) wait(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("auth_token")
	now := p.config.Now()
	p.mu.Lock()
	waits := p.waiting[token]
	gone := waits == nil || now.After(waits.until) || waits.used
	var asked request
	var who identity
	approved := !gone && waits.inbox != ""
	if approved {
		waits.used, asked = true, waits.request
		name, _, _ := strings.Cut(waits.inbox, "@")
		who = identity{
			subject: waits.inbox, name: name, agent: true, owner: waits.owner,
		}
		if isAddress(waits.inbox) {
			who.email = waits.inbox
		}
	}
	p.mu.Unlock()
	switch {
	case gone:
		page(w, http.StatusNotFound, view{
			Title: "Too late", Alert: "This sign-in was not approved within five minutes, or is over. " +
				"Begin again at /login/identity.",
		})
	case approved:
		p.grantTo(w, r, asked, who)
	default:
		page(w, http.StatusOK, view{
			Title: "Waiting for your mailbox", Token: token,
			Endpoint: p.config.URL + "/v0/inboxes/{inbox_id}/authorize",
		})
	}
}

// approve is POST /v0/inboxes/{inbox_id}/authorize: an agent's mailbox approves its sign-in. Beyond
// what the document has, owner is whose the mailbox is.
func (p *Provider) approve(w http.ResponseWriter, r *http.Request) {
	key, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if subtle.ConstantTimeCompare([]byte(key), []byte(p.config.MailboxKey)) != 1 {
		refuse(w, http.StatusUnauthorized, "unauthorized", "Send the mailbox key as a bearer.")
		return
	}
	var body struct {
		Token    string `json:"auth_token"`
		Accepted bool   `json:"accept_disclosure"`
		Owner    string `json:"owner"`
	}
	inbox := r.PathValue("inbox_id")
	if json.UnmarshalRead(r.Body, &body) != nil || body.Token == "" || !body.Accepted ||
		len(inbox) > 200 || body.Owner != "" && !isAddress(body.Owner) {
		refuse(w, http.StatusBadRequest, "invalid_request",
			"Send auth_token, and accept_disclosure: true.")
		return
	}
	p.mu.Lock()
	waits := p.waiting[body.Token]
	known := waits != nil && !p.config.Now().After(waits.until) && waits.inbox == ""
	if known {
		waits.inbox, waits.owner = inbox, body.Owner
	}
	p.mu.Unlock()
	if !known {
		refuse(w, http.StatusNotFound, "not_found", "No such sign-in waits: it is over five minutes "+
			"old, or approved already.")
		return
	}
	answer(w, http.StatusOK, map[string]any{"authorized": true, "inbox_id": inbox})
}

// challengeOf is the challenge of a verifier (RFC 7636, S256).
func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}
