// Package sampleproduct is a product to try agents and verifications on: it hands out a key at
// POST /keys and answers GET /me to that key. Its variants misbehave as products do.
package sampleproduct

import (
	"compress/gzip"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// Variant is how the product behaves.
type Variant string

// The variants.
const (
	Good        Variant = "good"
	Open        Variant = "open"          // answers without a key
	BadRequest  Variant = "bad_request"   // 400 without a key
	ErrorInBody Variant = "error_in_body" // 200 with an error in the body without a key
	Login       Variant = "login"         // redirects to a login page without a key
	Private     Variant = "private"       // redirects to a private address without a key
	Cached      Variant = "cached"        // a caching proxy in front gives everybody the last answer
	Everything  Variant = "everything"    // answers every path with 200
	Captcha     Variant = "captcha"       // signup needs a CAPTCHA
	EmailCode   Variant = "email_code"    // signup needs a code from an e-mail
	Unavailable Variant = "unavailable"   // 503
	Limited     Variant = "limited"       // 429
	Echo        Variant = "echo"          // repeats the key in the body
	Bomb        Variant = "bomb"          // a gigabyte in a small gzip
	Slow        Variant = "slow"          // does not answer
)

// Key is what the product hands out.
const Key = "pk_sample_0123456789abcdef"

// product is one product with its cache.
type product struct {
	variant Variant
	cached  atomic.Bool
}

// New makes a product.
func New(v Variant) http.Handler { return &product{variant: v} }

// ServeHTTP answers POST /keys and GET /me.
func (p *product) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case p.variant == Slow:
		<-r.Context().Done()
	case p.variant == Unavailable:
		w.WriteHeader(http.StatusServiceUnavailable)
	case p.variant == Limited:
		w.WriteHeader(http.StatusTooManyRequests)
	case p.variant == Everything:
		say(w, "<html>Welcome! Your account is waiting.</html>")
	case r.Method == http.MethodPost && r.URL.Path == "/keys":
		p.signUp(w)
	case r.Method == http.MethodGet && r.URL.Path == "/me":
		p.me(w, r)
	default:
		http.NotFound(w, r)
	}
}

func (p *product) signUp(w http.ResponseWriter) {
	switch p.variant {
	case Captcha:
		w.WriteHeader(http.StatusForbidden)
		say(w, `{"error":"captcha"}`)
	case EmailCode:
		w.WriteHeader(http.StatusAccepted)
		say(w, `{"pending":"email_code"}`)
	default:
		say(w, `{"key":"`+Key+`"}`)
	}
}

func (p *product) me(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	if key == Key || p.variant == Open || p.variant == Cached && p.cached.Load() {
		if p.variant == Cached && p.cached.Swap(true) {
			w.Header().Set("Age", "3")
		}
		p.account(w, key)
		return
	}
	switch p.variant {
	case BadRequest:
		w.WriteHeader(http.StatusBadRequest)
	case ErrorInBody:
		say(w, `{"error":"sign in first"}`)
	case Login:
		http.Redirect(w, r, "/login", http.StatusFound)
	case Private:
		http.Redirect(w, r, "http://10.0.0.1/", http.StatusFound)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}

func (p *product) account(w http.ResponseWriter, key string) {
	switch p.variant {
	case Echo:
		say(w, `{"account":"sample","key":"`+key+`"}`)
	case Bomb:
		w.Header().Set("Content-Encoding", "gzip")
		bomb(w)
	default:
		say(w, `{"account":"sample"}`)
	}
}

// bomb writes a gigabyte of zeroes, as far as somebody reads it.
func bomb(w http.ResponseWriter) {
	packed, zeroes := gzip.NewWriter(w), make([]byte, 1<<20)
	for range 1024 {
		if _, err := packed.Write(zeroes); err != nil {
			return
		}
	}
	if err := packed.Close(); err != nil {
		return
	}
}

// say writes a body. Who does not read it has gone.
func say(w http.ResponseWriter, body string) {
	if _, err := fmt.Fprint(w, body); err != nil {
		return
	}
}
