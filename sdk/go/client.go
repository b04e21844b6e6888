// Package tollgate calls Tollgate over HTTP: the client API, the admin API and the workspace API,
// on any of several nodes. It needs the standard library alone.
package tollgate

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// maxAnswer bounds the bytes read of an answer (64 MiB).
const maxAnswer = 64 << 20

// answerTimeout is the time limit of one try unless the client sets another.
const answerTimeout = 30 * time.Second

// firstWait and lastWait bound the wait between two tries.
const (
	firstWait = 20 * time.Millisecond
	lastWait  = time.Second
)

// Client sends requests to one of several nodes, and to the next one when a node cannot be reached
// or reports whether it cannot serve. It is safe for concurrent use.
type Client struct {
	// Patience is how long Do tries; 0: until its context ends. To be set before the first call.
	Patience time.Duration
	// Refused is how long a client with Patience retries while every node refuses the connection,
	// which waiting rarely fixes. 0: it fails immediately. Set it before the first call.
	Refused time.Duration
	// AnswerTimeout is how long one try may take; 0: 30 s. To be set before the first call.
	AnswerTimeout time.Duration
	// Actor is who acts with an API key that several people have: what they change is recorded as
	// theirs. Empty leaves no record of what a program does. At most 128 blanks and visible ASCII
	// characters: with another name, requests that may change something are ErrActor, and not sent.
	// To be set before the first call.
	Actor string

	nodes   []string
	key     string
	current atomic.Uint32
	http    *http.Client
	retries atomic.Uint64
}

// Request is one call.
type Request struct {
	Method, Path string
	// Body is sent as it is; ContentType is application/json when empty.
	Body        []byte
	ContentType string
	Header      map[string]string
	// Once forbids a second try after an answer that leaves open whether the call took effect.
	Once bool
}

// Answer is a response.
type Answer struct {
	Status  int
	Header  http.Header
	Body    []byte
	Elapsed time.Duration // of the last try
}

// Error is an answer with an error envelope. Codes are stable, messages are for people.
type Error struct {
	Status    int    `json:"-"`
	Code      string `json:"code"`
	Message   string `json:"message"`
	Detail    string `json:"detail"`
	RequestID string `json:"requestId"`
	// Fields are the invalid fields of the request, where the code is validation_failed.
	Fields []FieldError `json:"fields"`
	// Shortage says what a limit, or a pool, has too little of; nil where nothing was short.
	Shortage *Shortage `json:"shortage"`
	// Budget is the limit of a budget that refused; nil where none did.
	Budget *BudgetRefusal `json:"budget"`
}

// Shortage is what a request asked for and what was left of it. Used, Held and Limit count in Unit:
// units, or credits.
type Shortage struct {
	Level          string      `json:"level"`
	FeatureKey     string      `json:"featureKey"`
	RequestedUnits json.Number `json:"requestedUnits"`
	Used           json.Number `json:"used"`
	Held           json.Number `json:"held"`
	Limit          json.Number `json:"limit"`
	Unit           string      `json:"unit"`
	LogIndex       uint64      `json:"logIndex"`
}

// BudgetRefusal is the limit of a budget that refuses something; of a frozen or archived budget, it
// has the key alone.
type BudgetRefusal struct {
	Budget      string      `json:"budget"`
	Of          string      `json:"of,omitzero"`
	FeatureKey  string      `json:"featureKey,omitzero"`
	Currency    string      `json:"currency,omitzero"`
	Window      string      `json:"window,omitzero"`
	Used        json.Number `json:"used,omitzero"`
	Held        json.Number `json:"held,omitzero"`
	Limit       json.Number `json:"limit,omitzero"`
	WindowStart time.Time   `json:"windowStart,omitzero"`
	WindowEnd   time.Time   `json:"windowEnd,omitzero"`
	LogIndex    uint64      `json:"logIndex"`
}

// FieldError describes one invalid field of a request.
type FieldError struct {
	Field   string `json:"field"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Error returns the server's message.
func (e *Error) Error() string {
	text := fmt.Sprintf("%d %s", e.Status, e.Message)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// ErrUnsure means that a call marked Once may or may not have taken effect.
var ErrUnsure = errors.New("the call may or may not have taken effect")

// New returns a client of the nodes, given as host:port or URL, that authenticates with key and
// keeps up to connections connections open.
func New(nodes []string, key string, connections int) (*Client, error) {
	if len(nodes) == 0 {
		return nil, errors.New("no node to talk to")
	}
	c := &Client{key: key}
	for _, node := range nodes {
		if !strings.Contains(node, "://") {
			node = "http://" + node
		}
		u, err := url.Parse(node)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("%q is not a node address: want host:port or http://host:port", node)
		}
		c.nodes = append(c.nodes, u.Scheme+"://"+u.Host)
	}
	dialer := net.Dialer{Timeout: 2 * time.Second}
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:               nil, // the nodes are given by address
			DialContext:         dialer.DialContext,
			MaxIdleConns:        connections * len(nodes),
			MaxIdleConnsPerHost: connections,
			IdleConnTimeout:     time.Minute,
			DisableCompression:  true,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return c, nil
}

// Trust makes the certificate authorities in a PEM text those that nodes with https:// addresses
// are known by, in place of the machine's. To be called before the first request.
func (c *Client) Trust(text []byte) error {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return errors.New("no certificate of an authority in PEM form")
	}
	c.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool,
	}
	return nil
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Retries is how often a request was sent again.
func (c *Client) Retries() uint64 { return c.retries.Load() }

// Do sends a request until it gets a definite answer, moving on to the next node on 503 and when
// the connection fails, waiting on 429, until the context or the client's patience ends. Statuses
// from 400 on are answers too, not errors. It adds no idempotency key: a change needs one in its
// Header, or an identifier in its Body, or Once.
func (c *Client) Do(ctx context.Context, r Request) (Answer, error) {
	if c.Patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Patience)
		defer cancel()
	}
	wait, begin, refused := firstWait, time.Now(), 0
	for {
		node := c.current.Load()
		answer, err := c.try(ctx, c.nodes[int(node)%len(c.nodes)], r)
		if errors.Is(err, syscall.ECONNREFUSED) {
			refused++
		} else {
			refused = 0
		}
		switch {
		case err == nil && answer.Status != 503 && answer.Status != 429, errors.Is(err, ErrActor):
			return answer, err
		case c.Patience > 0 && refused >= len(c.nodes) && time.Since(begin) >= c.Refused:
			return Answer{}, c.noListener()
		case ctx.Err() != nil:
			return Answer{}, c.lastWord(ctx, answer, err)
		case r.Once && (err != nil || unsure(answer)):
			c.current.CompareAndSwap(node, node+1)
			return answer, errors.Join(ErrUnsure, err)
		}
		if err != nil || answer.Status == 503 {
			c.current.CompareAndSwap(node, node+1)
		}
		c.retries.Add(1)
		pause := min(max(wait, retryAfter(answer)), lastWait)
		select {
		case <-ctx.Done():
			return Answer{}, c.lastWord(ctx, answer, err)
		case <-time.After(pause):
		}
		wait = min(2*wait, lastWait)
	}
}

// ErrActor means that a header cannot have the name in Client.Actor.
var ErrActor = errors.New("the actor must be at most 128 blanks and visible ASCII characters")

// maxActor bounds the bytes of Client.Actor.
const maxActor = 128

func named(actor string) bool {
	return len(actor) <= maxActor &&
		!strings.ContainsFunc(actor, func(r rune) bool { return r < ' ' || r > '~' })
}

// ErrRefused means that no node took a connection.
var ErrRefused = errors.New("connection refused")

func (c *Client) noListener() error {
	return fmt.Errorf("cannot connect to %s: %w. Is a node running there?",
		strings.Join(c.nodes, ", "), ErrRefused)
}

// Pause turns to the next node after a short wait: what to do when single items of an answer want
// to be sent again. The error is the context's.
func (c *Client) Pause(ctx context.Context) error {
	c.retries.Add(1)
	c.current.Add(1)
	select {
	case <-ctx.Done():
		return fmt.Errorf("gave up: %w", ctx.Err())
	case <-time.After(firstWait):
		return nil
	}
}

// unsure reports whether a refusal leaves the result open, or the request may still be in progress.
func unsure(a Answer) bool {
	return a.Status == 503 && (strings.Contains(string(a.Body), `"outcome_unknown"`) ||
		strings.Contains(string(a.Body), `"clock_settling"`))
}

// lastWord is why Do gave up, with the last node's answer.
func (c *Client) lastWord(ctx context.Context, a Answer, err error) error {
	if err == nil && a.Status != 0 {
		err = a.Err()
	}
	if c.Patience > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errors.Join(gaveUp{c.Patience}, err)
	}
	return errors.Join(fmt.Errorf("gave up: %w", ctx.Err()), err)
}

// gaveUp records how long a client retried.
type gaveUp struct{ after time.Duration }

// Error describes it in words.
func (g gaveUp) Error() string { return fmt.Sprintf("no node could do it within %s", g.after) }

// Unwrap returns the error of the call's context.
func (gaveUp) Unwrap() error { return context.DeadlineExceeded }

func retryAfter(a Answer) time.Duration {
	seconds, err := strconv.Atoi(a.Header.Get("Retry-After"))
	if err != nil || a.Status != 429 {
		return 0 // another node may answer a 503 at once
	}
	return time.Duration(seconds) * time.Second
}

// Try sends a request once, to the node that the client last turned to, and returns its answer
// whatever the status.
func (c *Client) Try(ctx context.Context, r Request) (Answer, error) {
	return c.try(ctx, c.nodes[int(c.current.Load())%len(c.nodes)], r)
}

func (c *Client) try(ctx context.Context, node string, r Request) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(c.AnswerTimeout, answerTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, r.Method, node+r.Path, bytes.NewReader(r.Body))
	if err != nil {
		return Answer{}, fmt.Errorf("request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	if len(r.Body) > 0 {
		kind := cmp.Or(r.ContentType, "application/json")
		request.Header.Set("Content-Type", kind)
	}
	if c.Actor != "" && r.Method != "GET" {
		if !named(c.Actor) {
			return Answer{}, ErrActor
		}
		request.Header.Set("X-Actor", c.Actor)
	}
	for name, value := range r.Header {
		request.Header.Set(name, value)
	}
	begin := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		return Answer{}, fmt.Errorf("%s: %w", node, err)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return Answer{}, fmt.Errorf("%s: answer: %w", node, err)
	}
	return Answer{response.StatusCode, response.Header, body, time.Since(begin)}, nil
}

// Stream passes the body of an answer to take, as it arrives and however long it is, until ctx
// ends. It tries the next node where one cannot be reached or cannot serve, each once. An answer
// that is cut off is an error of the reader.
func (c *Client) Stream(ctx context.Context, path string, take func(io.Reader) error) error {
	var failed []error
	for range c.nodes {
		node := c.current.Load()
		response, err := c.open(ctx, c.nodes[int(node)%len(c.nodes)]+path)
		if err == nil {
			return errors.Join(take(response), response.Close())
		}
		failed = append(failed, err)
		var refused *Error
		if ctx.Err() != nil || errors.As(err, &refused) && refused.Status != 503 {
			break
		}
		c.current.CompareAndSwap(node, node+1)
	}
	return errors.Join(failed...)
}

// open sends a GET and returns the body of its answer of success.
func (c *Client) open(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, "GET", url, nil)
	if err != nil {
		return nil, fmt.Errorf("request: %w", err)
	}
	request.Header.Set("Authorization", "Bearer "+c.key)
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", request.URL.Host, err)
	}
	if response.StatusCode == 200 {
		return response.Body, nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err = errors.Join(err, response.Body.Close()); err != nil {
		return nil, fmt.Errorf("%s: answer: %w", request.URL.Host, err)
	}
	return nil, Answer{Status: response.StatusCode, Body: body}.Err()
}

type envelope struct {
	Success    bool            `json:"success"`
	Data       json.RawMessage `json:"data"`
	Error      *Error          `json:"error"`
	NextCursor string          `json:"nextCursor"`
}

// Err is nil for a successful answer, and otherwise an *Error of what either API says.
func (a Answer) Err() error {
	if a.Status < 400 {
		return nil
	}
	e := &Error{Status: a.Status, Message: http.StatusText(a.Status)}
	var v envelope
	if json.Unmarshal(a.Body, &v) == nil && v.Error != nil {
		v.Error.Status = a.Status
		return v.Error
	}
	var flat struct { // the workspace API's
		Code      string `json:"error"`
		Message   string `json:"message"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(a.Body, &flat) == nil && flat.Code != "" {
		e.Code, e.Message, e.RequestID = flat.Code, flat.Message, flat.RequestID
	}
	return e
}

// Payload is the payload of an answer of success as it came; nil when there is none.
func (a Answer) Payload() json.RawMessage {
	var e envelope
	if json.Unmarshal(a.Body, &e) != nil {
		return nil
	}
	return e.Data
}

// Data decodes the payload of an answer of success into v; an answer of failure is its *Error.
func (a Answer) Data(v any) error {
	if err := a.Err(); err != nil {
		return err
	}
	var e envelope
	if err := json.Unmarshal(a.Body, &e); err != nil {
		return fmt.Errorf("the answer is not an envelope: %w", err)
	}
	if len(e.Data) == 0 {
		return errors.New("answer carries no data")
	}
	if err := json.Unmarshal(e.Data, v); err != nil {
		return fmt.Errorf("answer's data: %w", err)
	}
	return nil
}

// Call sends a request with v as its JSON body (none when nil) and decodes the payload of the
// answer into out (ignored when nil). A request that may change something carries the context's
// idempotency key, or a random one: what an operation with an Idempotency-Key does, it does once.
// Other operations may do it again where the first answer was lost; see Request.Once.
func (c *Client) Call(ctx context.Context, method, path string, v, out any) (Answer, error) {
	r := Request{Method: method, Path: path}
	if key := keyIn(ctx); method != http.MethodGet && key != "" {
		r.Header = map[string]string{"Idempotency-Key": key}
	}
	if v != nil {
		body, err := json.Marshal(v)
		if err != nil {
			return Answer{}, fmt.Errorf("request body: %w", err)
		}
		r.Body = body
	}
	answer, err := c.Do(ctx, r)
	if err != nil {
		return answer, err
	}
	if out == nil {
		return answer, answer.Err()
	}
	return answer, answer.Data(out)
}

// IsStatus reports whether err is an answer with that status.
func IsStatus(err error, status int) bool {
	var e *Error
	return errors.As(err, &e) && e.Status == status
}
