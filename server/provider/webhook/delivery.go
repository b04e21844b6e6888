package webhook

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tollgate/server/provider/fetch"
)

// Outcome is the class of an attempt's result.
type Outcome string

// The outcomes. The outbox stores them; they are never renamed.
const (
	// Delivered: the endpoint answered 2xx.
	Delivered Outcome = "delivered"
	// Retry: anything that may be different next time: no answer, a redirect, 4xx, 5xx.
	Retry Outcome = "retry"
	// Gone: the endpoint answered 410. It is to be disabled.
	Gone Outcome = "gone"
	// Blocked: our own guard did not let the request out. Names can change their address, so it may
	// be repeated like Retry; the owner should see which rule it was.
	Blocked Outcome = "blocked"
)

// Endpoint is where messages go.
type Endpoint struct {
	URL     string
	Secrets Secrets
}

// Message is one message; every attempt has the same ID and Body.
type Message struct {
	// ID is 1 to 255 visible ASCII characters without a point. Receivers know repetitions by it.
	ID string
	// Body is JSON.
	Body []byte
}

// MaxAnswer bounds Result.Answer in bytes.
const MaxAnswer = 1 << 10

// Result is what one attempt came to, fit for a delivery log.
type Result struct {
	Outcome Outcome
	// Status is the HTTP status, 0 when there was no answer.
	Status int
	// Reason is shown in the delivery log: it holds neither an address, nor a secret.
	Reason string
	// Detail is for the node's own log: what went wrong on the way, with the address that was dialled.
	Detail string
	// RetryAfter is what the endpoint asked for; 0 is nothing.
	RetryAfter time.Duration
	Took       time.Duration
	// Answer is the beginning of the endpoint's answer, as printable text. The guarded client has let
	// the request out, so it is not the answer of a host that the owner of the endpoint may not reach.
	Answer string
}

// Sender delivers messages through a guarded client. Safe for concurrent use.
type Sender struct {
	client *fetch.Client
	// now is the wall clock: receivers compare timestamps with theirs, not with the log's.
	now func() time.Time
}

// NewSender makes a sender. A nil clock is the machine's.
func NewSender(client *fetch.Client, now func() time.Time) *Sender {
	if now == nil {
		now = time.Now
	}
	return &Sender{client, now}
}

// Deliver makes one attempt, signed at this moment. Its error is the context's or that of a message
// that cannot be signed; whatever the endpoint does is a Result.
func (s *Sender) Deliver(ctx context.Context, e Endpoint, m Message) (Result, error) {
	start := s.now()
	headers, err := Sign(e.Secrets.At(start), m.ID, start, m.Body)
	if err != nil {
		return Result{}, err
	}
	answer, err := s.client.Do(ctx, &fetch.Request{
		Method: http.MethodPost,
		URL:    e.URL,
		Header: http.Header{
			"Content-Type":    {"application/json"},
			"User-Agent":      {"Tollgate-Webhooks"},
			HeaderID:          {headers.ID},
			HeaderTimestamp:   {headers.Timestamp},
			HeaderSignature:   {headers.Signature},
			"Accept":          {"*/*"},
			"Accept-Language": {"en"},
		},
		Body: m.Body,
	})
	took := s.now().Sub(start)
	if err != nil {
		return failed(ctx, err, took)
	}
	result := Result{Outcome: Retry, Status: answer.Status, Took: took, Answer: printable(answer.Body)}
	switch {
	case answer.Status >= 200 && answer.Status <= 299:
		result.Outcome = Delivered
	case answer.Status == http.StatusGone:
		result.Outcome, result.Reason = Gone, "the endpoint is gone (410)"
	case answer.Status >= 300 && answer.Status <= 399:
		result.Reason = "redirects are not followed"
	default:
		result.Reason = "the endpoint answered " + strconv.Itoa(answer.Status)
		result.RetryAfter = retryAfter(answer.Header.Get("Retry-After"), s.now())
	}
	return result, nil
}

// printable is the beginning of a body as text: what is not a printable character, nor a space, is
// U+FFFD.
func printable(body []byte) string {
	text := make([]byte, 0, min(len(body), MaxAnswer))
	for len(body) > 0 {
		r, size := utf8.DecodeRune(body)
		if !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			r = utf8.RuneError
		}
		if body = body[size:]; len(text)+utf8.RuneLen(r) > MaxAnswer {
			break
		}
		text = utf8.AppendRune(text, r)
	}
	return strings.TrimSpace(string(text))
}

func failed(ctx context.Context, err error, took time.Duration) (Result, error) {
	status, _ := fetch.Status(err)
	result := Result{
		Outcome: Retry, Status: status, Reason: reason(err), Detail: err.Error(), Took: took,
	}
	var refusal *fetch.Refusal
	switch {
	case result.Status >= 200 && result.Status <= 299:
		// The message arrived; the rest of the answer is ignored.
		result.Outcome, result.Reason, result.Detail = Delivered, "", ""
	case result.Status == http.StatusGone:
		result.Outcome = Gone
	case ctx.Err() != nil:
		return Result{}, ctx.Err()
	case errors.As(err, &refusal) && refusal.Local():
		result.Outcome = Blocked
	}
	return result, nil
}

// retryAfter reads both forms of RFC 9110, section 10.2.3. An unreadable value counts as none.
func retryAfter(text string, now time.Time) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 32); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRetryAfter)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRetryAfter)
}
