package paymenttest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Stripe is stripe-mock with a memory in front of it: every request is judged by stripe-mock, which
// knows Stripe's own description of its API and forgets everything; what it answers is brought up
// to what happened to the session before.
type Stripe struct {
	t    testing.TB
	mock string
	key  string

	mu       sync.Mutex
	down     bool
	sessions map[string]map[string]any
	byKey    map[string]string // Idempotency-Key → session
	forms    []url.Values
	cards    cards
	asked    int
	refuses  map[string]string // path → code
}

// ServeStripe answers on a listener until the test ends; requests must carry the secret key.
func ServeStripe(t testing.TB, ln net.Listener, key string) *Stripe {
	t.Helper()
	s := &Stripe{
		t: t, mock: "http://" + StripeMock(t), key: key,
		sessions: map[string]map[string]any{}, byKey: map[string]string{},
		cards: cards{byKey: map[string]map[string]any{}, forms: map[string]string{}},
	}
	served := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- served.Serve(ln) }()
	t.Cleanup(func() {
		require.NoError(t, served.Shutdown(context.Background()))
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return s
}

// Down makes every answer a 503, until it is called with false.
func (s *Stripe) Down(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Refuse makes requests to a path be refused with a code, until it is called with "".
func (s *Stripe) Refuse(path, code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuses == nil {
		s.refuses = map[string]string{}
	}
	s.refuses[path] = code
}

// Asked is how many requests came, those that found it down among them.
func (s *Stripe) Asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked
}

// Forms are the bodies of the requests that made sessions, or asked for one again.
func (s *Stripe) Forms() []url.Values {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]url.Values(nil), s.forms...)
}

// Sessions is how many sessions there are.
func (s *Stripe) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Set changes fields of a session, as if that had happened at Stripe.
func (s *Stripe) Set(session string, fields map[string]any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Contains(s.t, s.sessions, session)
	maps.Copy(s.sessions[session], fields)
}

// Forget removes a session, so that Stripe answers that there is none.
func (s *Stripe) Forget(session string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, session)
}

// Pay makes a session complete and paid, by a card that its customer has saved.
func (s *Stripe) Pay(session string) {
	s.Set(session, map[string]any{
		"status": "complete", "payment_status": "paid", "customer": "cus_" + session,
		"payment_intent": map[string]any{
			"id": "pi_" + session, "status": "succeeded", "payment_method": "pm_" + session,
		},
	})
}

// ServeHTTP answers one request of Stripe's API.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch {
	case s.down:
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	case r.Header.Get("Authorization") != "Bearer "+s.key:
		w.WriteHeader(http.StatusUnauthorized)
		return
	case s.refuses[r.URL.Path] != "":
		w.WriteHeader(http.StatusBadRequest)
		if _, err := fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","code":%q}}`,
			s.refuses[r.URL.Path]); err != nil {
			s.t.Error(err)
		}
		return
	}
	status, judged := s.judge(r, body)
	switch {
	case status != http.StatusOK:
	case strings.HasPrefix(r.URL.Path, "/v1/checkout/sessions"):
		status, judged = s.remember(r, body, judged)
	default:
		status, judged = s.cards.remember(r, body)
	}
	if s.cards.silent > 0 && r.Method == http.MethodPost && r.URL.Path == "/v1/payment_intents" {
		s.cards.silent--
		status, judged = http.StatusInternalServerError, map[string]any{}
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(judged); err != nil {
		s.t.Error(err)
	}
}

// judge is stripe-mock's own answer.
func (s *Stripe) judge(r *http.Request, body []byte) (status int, answer map[string]any) {
	request, err := http.NewRequestWithContext(r.Context(), r.Method, s.mock+r.URL.RequestURI(),
		bytes.NewReader(body))
	if err != nil {
		return http.StatusBadGateway, nil
	}
	request.Header = r.Header.Clone()
	request.Header.Set("Authorization", "Bearer sk_test_123") // of the only form that it takes
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return http.StatusBadGateway, nil
	}
	err = json.NewDecoder(response.Body).Decode(&answer)
	if closed := response.Body.Close(); err != nil || closed != nil {
		return http.StatusBadGateway, nil
	}
	if response.StatusCode != http.StatusOK {
		s.t.Errorf("stripe-mock refuses %s %s: %v", r.Method, r.URL.Path, answer)
	}
	return response.StatusCode, answer
}

func (s *Stripe) remember(
	r *http.Request, body []byte, fresh map[string]any,
) (int, map[string]any) {
	if strings.HasSuffix(r.URL.Path, "/expire") {
		return s.expire(strings.Split(r.URL.Path, "/")[4])
	}
	if r.Method != http.MethodPost {
		id := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if kept, ok := s.sessions[id]; ok {
			return http.StatusOK, kept
		}
		return http.StatusNotFound, map[string]any{"error": map[string]any{"code": "resource_missing"}}
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return http.StatusBadRequest, nil
	}
	s.forms = append(s.forms, form)
	key := r.Header.Get("Idempotency-Key")
	if id, ok := s.byKey[key]; ok {
		return http.StatusOK, s.sessions[id]
	}
	const price = "line_items[0][price_data]"
	amount, err := strconv.ParseInt(form.Get(price+"[unit_amount]"), 10, 64)
	if err != nil {
		return http.StatusBadRequest, nil
	}
	id := fmt.Sprintf("cs_test_%d", len(s.sessions)+1)
	maps.Copy(fresh, map[string]any{
		"id": id, "url": "https://checkout.stripe.com/c/pay/" + id, "livemode": false,
		"status": "open", "payment_status": "unpaid", "amount_total": amount,
		"currency": form.Get(price + "[currency]"),
		"metadata": metadataOf(form),
	})
	s.byKey[key], s.sessions[id] = id, fresh
	return http.StatusOK, fresh
}

// Event is the body of an event about a session, as it is now.
func (s *Stripe) Event(id, kind, session string, at time.Time) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	require.Contains(s.t, s.sessions, session)
	object := maps.Clone(s.sessions[session])
	if intent, expanded := object["payment_intent"].(map[string]any); expanded {
		object["payment_intent"] = intent["id"] // events expand nothing
	}
	return Event(s.t, id, kind, object, at)
}

// Event is the body of an event of Stripe's documented form about an object.
func Event(t testing.TB, id, kind string, object any, at time.Time) []byte {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"id": id, "object": "event", "type": kind, "livemode": false, "created": at.Unix(),
		"pending_webhooks": 1, "data": map[string]any{"object": object},
	})
	require.NoError(t, err)
	return body
}

// Signature is the value of Stripe-Signature for a body that is sent at an instant.
func Signature(secret string, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
