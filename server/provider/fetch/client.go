// Package fetch is the one way by which this server makes requests that leave the machine: webhook
// deliveries, payment providers, inspections. It keeps addresses that strangers name from reaching
// what only this machine can reach, and bounds the cost of answers. See DESIGN.md.
package fetch

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"
)

// Defaults and upper bounds of Config.
const (
	MaxTime    = 10 * time.Second
	MaxBody    = 2 << 20
	MaxHeaders = 64 << 10
	// MaxPatience bounds the time of a client that is patient.
	MaxPatience = 2 * time.Minute
	// MaxRedirects bounds Request.Redirects.
	MaxRedirects = 5
)

// Config sets the reachable addresses and the limits of answers. The zero value reaches public
// addresses on ports 80 and 443.
type Config struct {
	// AllowPrivate are networks that may be dialled although they are not public.
	AllowPrivate []netip.Prefix
	// AllowHosts are host:port pairs allowed in addition to ports 80 and 443; host:* is every port
	// of a host. Their address still has to be public or within AllowPrivate.
	AllowHosts []string
	// Own returns the host:port pairs on which this service itself listens, its other nodes
	// included. They are never reached, by whatever name; nor is another port of their addresses,
	// or of this machine's, unless AllowPrivate has the address. It is asked, and names are looked
	// up, once a minute. A pair without a host, or with an unspecified address, is of every address
	// of this machine. It is safe for concurrent use.
	Own func() []string
	// OwnNames are hosts by which this service is reached through others' addresses, as those of a
	// load balancer: the name alone is refused.
	OwnNames []string
	// Resolver looks names up; nil is the machine's. Its answers are not trusted.
	Resolver *net.Resolver
	// RootCAs are the authorities trusted for https; nil are the machine's.
	RootCAs *x509.CertPool
	// Timeout bounds a request with all its redirects and the reading of its body;
	// 0 < Timeout ≤ MaxTime, 0 is MaxTime.
	Timeout time.Duration
	// Patient makes MaxPatience of MaxTime: for endpoints that the operator has named and that
	// think before they answer, never for addresses that strangers name.
	Patient bool
	// BodyLimit bounds a body in bytes, encoded and decoded each; 0 < BodyLimit ≤ MaxBody,
	// 0 is MaxBody.
	BodyLimit int
	// Bodies bounds what this client and others read at one time, to no less than BodyLimit; nil is
	// the limit shared by all clients of the process, MaxBodies.
	Bodies *Bodies
}

// Client makes guarded requests. Safe for concurrent use. Environment proxies are not used.
type Client struct {
	guard     *guard
	transport *http.Transport
	// fresh is the same without connections that are used again.
	fresh     *http.Transport
	timeout   time.Duration
	bodyLimit int
	bodies    *Bodies
}

// Request is one request. Do keeps no reference to it.
type Request struct {
	// Method is GET when empty.
	Method string
	URL    string
	Header http.Header
	Body   []byte
	// Redirects is how many redirects are followed, 0 to MaxRedirects. With 0 a redirect is an
	// answer like any other. With more, GET and HEAD are followed within one registrable domain.
	Redirects int
	// Budget is what the request is counted on; nil is none.
	Budget *Budget
	// Port is one more port that may be reached, of the address that the requester named. 0 is
	// none, and so is one of unsafePorts.
	Port uint16
	// Fresh makes the request on a connection of its own, which nothing else has used or will use.
	Fresh bool
}

// Response is an answer, read to its end.
type Response struct {
	Status int
	Header http.Header
	// Body is decoded.
	Body []byte
	// URL is where the answer came from, after redirects.
	URL string
	// Redirects is how many were followed.
	Redirects int
}

// New makes a client. An error names the setting that is wrong.
func New(c Config) (*Client, error) {
	maximum := MaxTime
	if c.Patient {
		maximum = MaxPatience
	}
	c.Timeout = cmp.Or(c.Timeout, maximum)
	c.BodyLimit = cmp.Or(c.BodyLimit, MaxBody)
	c.Bodies = cmp.Or(c.Bodies, underWay)
	if c.Timeout < 0 || c.Timeout > maximum {
		return nil, fmt.Errorf("fetch: Timeout %s is not within (0, %s]", c.Timeout, maximum)
	}
	if c.BodyLimit < 0 || c.BodyLimit > MaxBody {
		return nil, fmt.Errorf("fetch: BodyLimit %d is not within (0, %d]", c.BodyLimit, MaxBody)
	}
	if c.Bodies.maximum < int64(c.BodyLimit) {
		return nil, fmt.Errorf("fetch: BodyLimit %d is more than Bodies has, %d", c.BodyLimit,
			c.Bodies.maximum)
	}
	g, err := newGuard(&c)
	if err != nil {
		return nil, err
	}
	client := &Client{
		guard:     g,
		timeout:   c.Timeout,
		bodyLimit: c.BodyLimit,
		bodies:    c.Bodies,
		transport: &http.Transport{
			// A proxy would dial in our place and undo every check of the address.
			Proxy:       nil,
			DialContext: g.dial,
			TLSClientConfig: &tls.Config{
				MinVersion: tls.VersionTLS12, RootCAs: c.RootCAs,
			},
			TLSHandshakeTimeout:    min(c.Timeout, MaxTime),
			MaxResponseHeaderBytes: MaxHeaders,
			// read decodes, so that both sides of the decoder are bounded.
			DisableCompression:  true,
			MaxIdleConns:        32,
			MaxIdleConnsPerHost: 2,
			IdleConnTimeout:     15 * time.Second,
		},
	}
	client.fresh = client.transport.Clone()
	client.fresh.DisableKeepAlives = true
	return client, nil
}

// Close closes idle connections. Requests in progress finish.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Check reports whether a URL could be fetched, without touching the network: every rule but the
// addresses that a name will resolve to. The error is a *Refusal.
func (c *Client) Check(rawURL string) error { return c.CheckAt(rawURL, 0) }

// CheckAt is Check for a request that may reach one more port: see Request.Port.
func (c *Client) CheckAt(rawURL string, port uint16) error {
	t, err := parseTarget(rawURL)
	if err != nil {
		return err
	}
	return c.guard.check(t, port)
}

// Do makes a request. An error is a *Refusal, a *Failure, or the context's.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	if r.Redirects < 0 || r.Redirects > MaxRedirects {
		return nil, fmt.Errorf("fetch: Redirects %d is not within [0, %d]",
			r.Redirects, MaxRedirects)
	}
	t, err := parseTarget(r.URL)
	if err != nil {
		return nil, err
	}
	caller := ctx
	if r.Budget != nil {
		var cancel context.CancelFunc
		ctx, cancel = r.Budget.within(ctx)
		defer cancel()
	}
	x := exchange{
		client: c, caller: caller, ctx: ctx, header: headerOf(r.Header), body: r.Body,
		transport: c.transport,
	}
	if r.Fresh {
		x.transport = c.fresh
	}
	if x.method = r.Method; x.method == "" {
		x.method = http.MethodGet
	}
	x.port = r.Port
	for followed := 0; ; followed++ {
		response, err := x.hop(t, r.Budget)
		if err != nil {
			return nil, err
		}
		response.Redirects = followed
		if r.Redirects == 0 || !redirects(response) {
			return response, nil
		}
		if t, err = x.follow(t, response, followed >= r.Redirects); err != nil {
			return nil, err
		}
	}
}

func headerOf(given http.Header) http.Header {
	header := make(http.Header, len(given)+2)
	for name, values := range given {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if header.Get("User-Agent") == "" {
		header.Set("User-Agent", "Tollgate")
	}
	header.Set("Accept-Encoding", "gzip")
	return header
}

// exchange is one Do: the hops from the first URL to the last.
type exchange struct {
	client    *Client
	transport *http.Transport
	// caller is the caller's context; ctx ends with the budget too.
	caller, ctx context.Context
	method      string
	header      http.Header
	body        []byte
	port        uint16
	// deadline is set by the first hop: waiting for the budget's slot does not count.
	deadline time.Time
}

func (x *exchange) hop(t *target, b *Budget) (*Response, error) {
	if err := x.client.guard.check(t, x.port); err != nil {
		return nil, err
	}
	if b != nil {
		if err := b.enter(x.ctx, t.hostPort()); err != nil {
			return nil, err
		}
		defer b.leave()
	}
	if x.deadline.IsZero() {
		x.deadline = time.Now().Add(x.client.timeout)
	}
	ctx, cancel := context.WithDeadline(withPort(x.ctx, x.port), x.deadline)
	defer cancel()
	body := bytes.NewReader(x.body)
	request, err := http.NewRequestWithContext(ctx, x.method, t.url.String(), body)
	if err != nil {
		return nil, &Refusal{Rule: RuleURL, Host: t.hostPort(), Detail: "no request can be made"}
	}
	request.Header = x.header
	// RoundTrip, not http.Client: it follows nothing, keeps no cookies and adds no Referer.
	answer, err := x.transport.RoundTrip(request)
	if err != nil {
		return nil, x.explain(t, err, 0, 0)
	}
	decoded, err := x.client.bodies.read(ctx, answer, x.client.bodyLimit)
	if closeErr := answer.Body.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		return nil, x.explain(t, err, answer.StatusCode, len(decoded))
	}
	return &Response{
		Status: answer.StatusCode, Header: answer.Header, Body: decoded, URL: t.url.String(),
	}, nil
}

// explain turns what RoundTrip or a read failed with into one of this package's errors. Status is
// the answer's, 0 before there is one, and read how much of its body came.
func (x *exchange) explain(t *target, err error, status, read int) error {
	refuse := func(rule Rule, detail string) error {
		return &Refusal{Rule: rule, Host: t.hostPort(), Detail: detail, Status: status, Read: read}
	}
	var refusal *Refusal
	switch {
	case errors.As(err, &refusal):
		return refuse(refusal.Rule, refusal.Detail)
	case x.caller.Err() != nil:
		return fmt.Errorf("fetch: %s: %w", t.hostPort(), x.caller.Err())
	case x.ctx.Err() != nil:
		// Not RuleBudget: that one promises that nothing was sent.
		return refuse(RuleTime, "the time of its budget is over")
	case isTimeout(err):
		return refuse(RuleTime, "longer than "+x.client.timeout.String())
	case strings.Contains(err.Error(), "server response headers exceeded"):
		return refuse(RuleHeaders, "more than 64 KiB")
	default:
		return &Failure{Host: t.hostPort(), Err: err, Status: status, Read: read}
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout()
}

// Dial opens a connection to host:port under the rules of this client, and to whatever port it
// names, for a proxy that has its own list of hosts and limits, and forwards another party's
// traffic. An error is a *Refusal, or the network's.
func (c *Client) Dial(ctx context.Context, hostPort string) (net.Conn, error) {
	t, err := parseTarget("http://" + hostPort)
	if err != nil {
		return nil, err
	}
	if err = c.guard.check(t, t.port); err != nil {
		return nil, err
	}
	return c.guard.dial(withPort(ctx, t.port), "tcp", t.hostPort())
}
