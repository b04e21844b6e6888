package workspaceapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/verify"
)

// TestAFlowsOwnPort: the port that a flow's url names is reached for it, by the quote and by the
// run, and is good for its verification too; no other one is.
func TestAFlowsOwnPort(t *testing.T) {
	_, _, base := product(t, func(ctx *fasthttp.RequestCtx) { ctx.SetBodyString("all is done") })
	client, err := fetch.New(fetch.Config{
		AllowPrivate: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	n := start(t, func(c *Config) {
		c.Verifier, c.Check = &verify.Verifier{Fetch: client}, client.CheckAt
	})
	c := n.signUp("")
	flow := func(url, verification string) string {
		return `{` + strings.Replace(flowText, "https://product.example", url, 1) +
			`,"verification":{"url":"` + verification + `/","contains":"done"}}`
	}
	id := c.flow(flow(base, base))
	require.Equal(t, true, c.quote(id)["preflight"].(map[string]any)["alreadyTrue"], "it was reached")
	for _, row := range [][2]string{
		{"https://a.example", "https://a.example:8443"},
		{"https://a.example:8443", "https://a.example:8444"},
		{"https://a.example:25", "https://a.example"},
		{"https://a.example:6379", "https://a.example"},
		{"http://10.0.0.1:8443", "https://a.example"},
		{"http://[fc00::1]:8443", "https://a.example"},
		{"https://a.example:0", "https://a.example"},
	} {
		c.call("POST", "/v1/flows", flow(row[0], row[1])).is(400, "invalid_url")
	}
	for _, row := range [][2]string{
		{"https://a.example:8443", "https://a.example:8443"},
		{"https://a.example:8443", "https://api.a.example"},
		{"http://[2600::1]:8080", "http://[2600::1]:8080"},
	} {
		id = c.flow(flow(row[0], row[1]))
	}
	c.call("PATCH", "/v1/flows/"+id, `{"url":"https://b.example/"}`).is(400, "invalid_url")
	c.call("PATCH", "/v1/flows/"+id, `{"url":"http://b.example:8080/"}`).is(200, "")
}

// TestSignupsBehindAProxy: they are counted by the address that a configured proxy was called from;
// a header that anybody else sends is ignored.
func TestSignupsBehindAProxy(t *testing.T) {
	for _, proxies := range [][]netip.Prefix{nil, {netip.MustParsePrefix("127.0.0.0/8")}} {
		n := start(t, func(c *Config) { c.Proxies = proxies })
		n.policy(func(p *workspace.SetPolicy) { p.SignupsPerHour = 2 })
		from := func(forwarded string) int {
			return n.send("POST", "/v1/signup", `{"label":"x"}`, "",
				map[string]string{"X-Forwarded-For": forwarded}).status
		}
		trusted := map[bool]int{true: 201, false: 429}[proxies != nil]
		require.Equal(t, 201, from("198.51.100.1"))
		require.Equal(t, 201, from("198.51.100.1"))
		require.Equal(t, 429, from("198.51.100.1"))
		require.Equal(t, 429, from("6.6.6.6, 198.51.100.1"), "what a client writes itself")
		require.Equal(t, trusted, from("198.51.100.2"))
		require.Equal(t, trusted, from("2001:db8::1"))
		require.Equal(t, trusted, from("2001:db8::2"))
		require.Equal(t, 429, from("2001:db8::3"), "one /64")
	}
}

// logged is a log that a test reads while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestFeedbackIsLoggedWithoutKeys: in its message and in its path, and no more than a little of it.
func TestFeedbackIsLoggedWithoutKeys(t *testing.T) {
	log := &logged{}
	n := start(t, func(c *Config) { c.Log = slog.New(slog.NewTextHandler(log, nil)) })
	c := n.signUp("")
	feedbacks.Store(0)
	for _, message := range []string{
		"I am stuck with " + c.key, strings.Repeat("word ", 30) + c.key,
		strings.Repeat("long ", 390),
	} {
		n.send("POST", "/v1/feedback",
			`{"message":"`+message+`","path":"/v1/flows?key=`+c.key+`"}`, "", nil).is(202, "")
	}
	require.Eventually(t, func() bool { return strings.Count(log.String(), "msg=feedback") == 3 },
		10*time.Second, time.Millisecond)
	text := log.String()
	require.Contains(t, text, "I am stuck with "+scrubbed)
	require.NotContains(t, text, c.key[:len(c.key)/2])
	for line := range strings.Lines(text) {
		require.Less(t, len(line), 1000)
	}
}

// lagging is a node whose memory is behind: what it has not seen yet happens when it asks.
type lagging struct {
	*group
	mu     sync.Mutex
	unseen func()
}

func (l *lagging) BeginRead(deadline time.Time) (engine.ReadTicket, engine.Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.unseen != nil {
		l.unseen()
		l.unseen = nil
	}
	return l.group.BeginRead(deadline)
}

// TestARevokedKeyDoesNotWorkOnANodeThatLags: neither to read nor to write, nor to learn that there
// is something.
func TestARevokedKeyDoesNotWorkOnANodeThatLags(t *testing.T) {
	behind := &lagging{}
	n := start(t, func(c *Config) {
		behind.group = c.Reader.(*group)
		c.Reader = behind
	})
	n.policy(func(p *workspace.SetPolicy) { p.SignupsPerHour = 100 })
	for _, request := range [][2]string{
		{"GET", "/v1/account"},
		{"GET", "/v1/flows"},
		{"GET", "/v1/flows/FLOW"},
		{"GET", "/v1/flows/FLOW/quote"},
		{"GET", "/v1/purchases"},
		{"POST", "/v1/flows"},
		{"POST", "/v1/run-requests"},
		{"POST", "/v1/purchases"},
		{"POST", "/v1/billing/pause"},
		{"POST", "/v1/keys/self/revoke"},
		{"DELETE", "/v1/flows/FLOW"},
	} {
		c := n.signUp("")
		flow := c.flow(plainFlow)
		id, _ := parseID(markWorkspace, c.workspace)
		before := n.Machine.WorkspaceRow(id)
		principal, known := n.Machine.Authenticate(sha256.Sum256([]byte(c.key)))
		require.True(t, known)
		revoke := engine.Record{Kind: workspace.KindRevokeKey, Payload: wire.Encode(nil,
			&workspace.RevokeKey{Workspace: before, ID: principal.KeyID})}
		behind.mu.Lock()
		behind.unseen = func() {
			var results [1]engine.Result
			behind.Propose(time.Time{}, []engine.Record{revoke}, results[:])
		}
		behind.mu.Unlock()
		path, body := strings.Replace(request[1], "FLOW", flow, 1), ""
		switch path {
		case "/v1/flows":
			body = plainFlow
		case "/v1/run-requests":
			body = `{"flowId":"` + flow + `"}`
		case "/v1/purchases":
			body = `{"runs":1}`
		case "/v1/billing/pause":
			body = `{"paused":true}`
		}
		if request[0] == "GET" {
			body = ""
		}
		c.send(request[0], path, body, c.key, map[string]string{"Idempotency-Key": "some-key-1"}).
			is(401, "invalid_key")
		flows, _ := n.Machine.Flows(before, workspace.Page{Limit: 9})
		requests, _ := n.Machine.Runs(before, workspace.Page{Limit: 9})
		purchases, _ := n.Machine.Purchases(before, workspace.Page{Limit: 9})
		require.Equal(t, []int{1, 0, 0}, []int{len(flows), len(requests), len(purchases)}, path)
	}
}

// TestWhatOnlyAnOperatorEnds says so in Retry-After, so that nobody asks each second forever.
func TestWhatOnlyAnOperatorEnds(t *testing.T) {
	n := start(t, func(c *Config) { c.Payments = false })
	n.policy(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth = 0 })
	c := n.signUp("")
	n.policy(func(p *workspace.SetPolicy) { p.SignupsPerHour = 0 })
	for code, a := range map[string]answer{
		"signup_unavailable":            n.send("POST", "/v1/signup", `{"label":"x"}`, "", nil),
		"authentication_not_configured": n.send("GET", "/login/identity", "", "", nil),
		"hosting_not_configured":        c.keyed("/v1/purchases", "key-00001", `{"runs":1}`),
	} {
		require.Equal(t, "3600", a.is(503, code).header.Get("Retry-After"), code)
	}
	n.NoLeader.Store(true)
	a := c.call("GET", "/v1/account", "").is(503, "workspace_busy")
	require.Equal(t, "1", a.header.Get("Retry-After"))
}

// TestABodyThatIsTooSlow is what the document calls a body that did not arrive.
func TestABodyThatIsTooSlow(t *testing.T) {
	t.Parallel()
	n := start(t)
	c := n.signUp("")
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	limits := server.DefaultLimits()
	limits.Header = 200 * time.Millisecond
	srv := server.Serve(ln, n.api.Handler(func(*fasthttp.RequestCtx) {}), limits)
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		require.NoError(t, srv.Shutdown(ctx))
	}()
	conn, err := net.Dial("tcp", srv.Addr().String())
	require.NoError(t, err)
	defer func() { require.NoError(t, conn.Close()) }()
	_, err = fmt.Fprintf(conn, "POST /v1/flows HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n"+
		"Content-Length: 100\r\n\r\n{\"name\":", c.key)
	require.NoError(t, err)
	readAnswer(t, bufio.NewReader(conn)).is(400, "request_aborted")
}
