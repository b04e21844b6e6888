package devidp

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"net/http"

	"github.com/go-json-experiment/json"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// pagePolicy allows the one style sheet and no script. Forms go to ourselves, and on from there to
// the cluster's callback, which browsers count as the form's target too.
var pagePolicy = func() string {
	hash := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) +
		"'; form-action 'self' http://127.0.0.1:* http://localhost:*; base-uri 'none'; " +
		"frame-ancestors 'none'"
}()

// view is what the page shows.
type view struct {
	Title, Alert    string
	Form            bool
	Action          template.URL // of the form
	Suggested       string       // address
	Token, Endpoint string
	Home            bool
}

func page(w http.ResponseWriter, status int, v view) {
	var b bytes.Buffer
	err := pageTemplate.Execute(&b, struct {
		view
		Style template.CSS
	}{v, template.CSS(pageCSS)})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	write(w, status, b.Bytes())
}

func (p *Provider) home(w http.ResponseWriter, _ *http.Request) {
	page(w, http.StatusOK, view{Title: "The identity provider of tollgate dev", Home: true})
}

func answer(w http.ResponseWriter, status int, v any) {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	write(w, status, text)
}

func refuse(w http.ResponseWriter, status int, code, about string) {
	answer(w, status, map[string]string{"error": code, "error_description": about})
}

// write sends an answer; a client that has gone does not need it.
func write(w http.ResponseWriter, status int, body []byte) {
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		return
	}
}
