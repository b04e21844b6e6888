package paymenttest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// cards are the charges and refunds that were asked for. Stripe's lock guards them.
type cards struct {
	byKey   map[string]map[string]any // Idempotency-Key → payment intent
	forms   map[string]string         // Idempotency-Key → what it was used for
	intents []map[string]any          // newest first
	refunds []string                  // payment intents
	decline string                    // the code with which charges are declined; empty pays them
	silent  int                       // charges that are carried out and answered with 500
}

// Decline makes charges of saved cards fail with a code, until it is called with "".
func (s *Stripe) Decline(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards.decline = code
}

// Silent makes the next n charges be carried out, and answered as if their outcome were
// unknown.
func (s *Stripe) Silent(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards.silent = n
}

// ForgetKeys forgets the idempotency keys of charges, as Stripe does after a day.
func (s *Stripe) ForgetKeys() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.cards.byKey)
	clear(s.cards.forms)
}

// UseKey makes an Idempotency-Key one that another request has used.
func (s *Stripe) UseKey(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cards.forms[key] = "another request"
}

// Charges is how many charges of saved cards were paid.
func (s *Stripe) Charges() (paid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, intent := range s.cards.intents {
		if intent["status"] == "succeeded" {
			paid++
		}
	}
	return paid
}

// ChargeKeys are the idempotency keys of the charges that were asked for, in order of their text.
func (s *Stripe) ChargeKeys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.cards.forms))
}

// Refunds are the payments that were sent back.
func (s *Stripe) Refunds() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.cards.refunds...)
}

// Session finds the session that a metadata value belongs to, and its status; empty when none does.
func (s *Stripe) Session(value string) (id, status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, session := range s.sessions {
		for _, found := range session["metadata"].(map[string]any) {
			if found == value {
				return id, session["status"].(string)
			}
		}
	}
	return "", ""
}

// expire closes an open session.
func (s *Stripe) expire(id string) (int, map[string]any) {
	session, ok := s.sessions[id]
	if !ok || session["status"] != "open" {
		return http.StatusBadRequest, map[string]any{"error": map[string]any{
			"type": "invalid_request_error", "message": "Only open sessions can be expired.",
		}}
	}
	session["status"] = "expired"
	return http.StatusOK, session
}

func metadataOf(form url.Values) map[string]any {
	found := map[string]any{}
	for name := range form {
		if key, ok := strings.CutPrefix(name, "metadata["); ok {
			found[strings.TrimSuffix(key, "]")] = form.Get(name)
		}
	}
	return found
}

func (c *cards) remember(r *http.Request, body []byte) (int, map[string]any) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return http.StatusBadRequest, nil
	}
	switch {
	case r.URL.Path == "/v1/refunds":
		c.refunds = append(c.refunds, form.Get("payment_intent"))
		return http.StatusOK, map[string]any{
			"id": fmt.Sprintf("re_%d", len(c.refunds)), "status": "succeeded",
		}
	case r.Method == http.MethodGet:
		return http.StatusOK, map[string]any{"data": c.intents}
	}
	key := r.Header.Get("Idempotency-Key")
	if used, known := c.forms[key]; known && used != form.Encode() {
		return http.StatusBadRequest, map[string]any{"error": map[string]any{
			"type":    "idempotency_error",
			"message": "Keys for idempotent requests can only be used with the same parameters.",
		}}
	}
	c.forms[key] = form.Encode()
	made, known := c.byKey[key]
	if !known {
		made = map[string]any{
			"id": fmt.Sprintf("pi_charge_%d", len(c.intents)+1), "status": "succeeded",
			"metadata": metadataOf(form),
		}
		if c.decline != "" {
			made["status"], made["code"] = "requires_payment_method", c.decline
		}
		c.byKey[key] = made
		c.intents = append([]map[string]any{made}, c.intents...)
	}
	if code, declined := made["code"]; declined {
		return http.StatusPaymentRequired, map[string]any{
			"error": map[string]any{"type": "card_error", "code": code},
		}
	}
	return http.StatusOK, made
}
