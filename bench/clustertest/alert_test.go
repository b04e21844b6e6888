package clustertest

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// letters is a mail server that takes mails, and says so only when it is let.
type letters struct {
	mu    sync.Mutex
	taken int
	came  chan struct{}
	let   chan struct{}
}

// Mail, Rcpt, Data, Reset and Logout are one mail's way in.
func (l *letters) Mail(string, *smtp.MailOptions) error { return nil }
func (l *letters) Rcpt(string, *smtp.RcptOptions) error { return nil }
func (l *letters) Reset()                               {}
func (l *letters) Logout() error                        { return nil }
func (l *letters) Data(r io.Reader) error {
	if _, err := io.Copy(io.Discard, r); err != nil {
		return err
	}
	l.mu.Lock()
	l.taken++
	l.mu.Unlock()
	select {
	case l.came <- struct{}{}:
	default:
	}
	<-l.let
	return nil
}

func (l *letters) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.taken
}

// serveLetters serves mail on loopback.
func serveLetters(t *testing.T) (l *letters, port int) {
	t.Helper()
	l = &letters{came: make(chan struct{}, 1), let: make(chan struct{})}
	server := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) {
		return l, nil
	}))
	server.Domain = "post.example"
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		<-ended
	})
	return l, listener.Addr().(*net.TCPAddr).Port
}

// bell is an owner's endpoint: it takes no message while it is held, and notes the id of each.
type bell struct {
	*gate
	mu  sync.Mutex
	ids []string
}

func (b *bell) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return // whoever sends it was killed; a body that is not read hides that they have gone
	}
	b.mu.Lock()
	b.ids = append(b.ids, r.Header.Get("webhook-id"))
	b.mu.Unlock()
	b.pass(r)
}

func (b *bell) rung() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.ids...)
}

// The leader is killed while an alert leaves it: its webhook has reached the endpoint, and its mail
// the mail server, and neither has been answered. The webhook comes again from the next leader,
// with the same id; the mail does not come again, since nobody knows that it has not arrived.
func TestAlertsWhoseLeaderIsKilled(t *testing.T) {
	t.Parallel()
	post, port := serveLetters(t)
	ring := &bell{gate: newGate()}
	endpoint := httptest.NewServer(ring)
	t.Cleanup(endpoint.Close)
	a := &agent{development: startCluster(t)}
	require.Zero(t, a.stop())
	a.configure(func(_ string, c *config.Config) {
		c.Mail.Folder, c.Mail.Host, c.Mail.Port, c.Mail.Security = "", "127.0.0.1", port, "none"
		c.Mail.From, c.Mail.AllowNetworks = "alerts@tollgate.example", []string{"127.0.0.0/8"}
	})
	a.start()
	tenant := a.claim()
	flow := a.flow("nop", endpoint.URL, "never")
	tool := "/api/v1/admin/workspaces/" + tenant + "/flows/" + flow + "/alerts"
	status, answer := a.call("node1", "POST", tool, a.AdminKey, map[string]any{
		"on": true, "email": "ada@example.com", "webhookUrl": endpoint.URL + "/alerts",
	})
	require.Equal(t, 200, status, answer)

	ring.arm()
	status, answer = a.call("node2", "POST", tool+"/test", a.AdminKey, map[string]any{})
	require.Equal(t, 200, status, answer)
	ring.await(t, "no webhook came")
	select {
	case <-post.came:
	case <-time.After(patience):
		require.Fail(t, "no mail came")
	}
	leader := a.runner()
	killProcess(t, a.node(leader).PID)
	before := len(ring.rung())
	require.Equal(t, 1, before)
	ring.armed.Store(false)
	close(post.let)
	alive := a.runner(leader)
	require.Eventually(t, func() bool { return len(ring.rung()) > before }, patience, statusEvery,
		"the webhook is lost")
	a.delivered(alive, flow, "webhook")
	for _, id := range ring.rung() {
		require.Equal(t, ring.rung()[0], id, "whoever takes it can tell that it is the same")
	}
	require.NotEmpty(t, ring.rung()[0])

	// The next leader delivers alerts, and lets the first mail be: what came of it is unknown.
	status, answer = a.call(alive, "POST", tool+"/test", a.AdminKey, map[string]any{})
	require.Equal(t, 200, status, answer)
	require.Eventually(t, func() bool { return ring.rung()[len(ring.rung())-1] != ring.rung()[0] },
		patience, statusEvery, "the next alert")
	a.delivered(alive, flow, "webhook")
	require.Equal(t, 1, post.count(), "the mail was sent again")
	a.restart(leader)
	a.ready(leader)
	require.Equal(t, 1, post.count())
	require.Zero(t, a.stop())
}

// delivered waits until the newest alert of a flow has arrived by the named channels.
func (a *agent) delivered(id, flow string, channels ...string) {
	a.t.Helper()
	var answer map[string]any
	require.Eventually(a.t, func() bool {
		_, answer = a.call(id, "GET", "/v1/flows/"+flow+"/alerts", a.key, nil)
		list, ok := answer["deliveries"].([]any)
		if !ok || len(list) < len(channels) {
			return false
		}
		arrived := map[any]any{}
		for _, d := range list {
			if channel := inner(d.(map[string]any), "channel"); arrived[channel] == nil {
				arrived[channel] = inner(d.(map[string]any), "status")
			}
		}
		for _, channel := range channels {
			if arrived[channel] != "delivered" {
				return false
			}
		}
		return true
	}, patience, statusEvery, "%v", &answer)
}
