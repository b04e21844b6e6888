package clustertest

import (
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/cmd/tollgate/config"
)

// browser is a person's browser, which keeps cookies and follows nothing.
type browser struct {
	*development
	http *http.Client
	// operations reports whether it looks at operators' pages, not at those of workspaces' owners.
	operations bool
}

func (d *development) browser(operations bool) *browser {
	jar, err := cookiejar.New(nil)
	require.NoError(d.t, err)
	return &browser{d, &http.Client{
		Jar: jar, Timeout: patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}, operations}
}

// base is a node's address for this browser.
func (b *browser) base(id string) string {
	if b.operations {
		return "http://" + b.node(id).Ops
	}
	return "http://" + b.node(id).HTTP
}

// shown is what a browser got; a node that does not answer is status 0.
type shown struct {
	status   int
	to, body string
}

func (b *browser) open(address string) shown {
	b.t.Helper()
	response, err := b.http.Get(address)
	return b.shown(response, err)
}

func (b *browser) send(address string, form url.Values) shown {
	b.t.Helper()
	response, err := b.http.PostForm(address, form)
	return b.shown(response, err)
}

func (b *browser) shown(response *http.Response, err error) shown {
	b.t.Helper()
	if err != nil {
		return shown{}
	}
	body, err := io.ReadAll(response.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, response.Body.Close())
	return shown{response.StatusCode, response.Header.Get("Location"), string(body)}
}

var formAction = regexp.MustCompile(`action="([^"]*)"`)

// begin signs in on a node up to where the identity provider sends the browser back to.
func (b *browser) begin(id, email string) (callback string) {
	b.t.Helper()
	var p shown
	require.Eventually(b.t, func() bool {
		p = b.open(b.base(id) + "/login?return=/console")
		return p.status == 303
	}, patience, statusEvery, "%v", &p)
	form := b.open(p.to)
	require.Equal(b.t, 200, form.status, form.body)
	action := html.UnescapeString(formAction.FindStringSubmatch(form.body)[1])
	p = b.send(b.Identity+action, url.Values{"email": {email}})
	require.Equal(b.t, 303, p.status, p.body)
	return p.to
}

// signedIn reports whether a node knows the browser's session, as soon as the node can tell.
func (b *browser) signedIn(id string) (yes bool) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		p := b.open(b.base(id) + "/console")
		yes = p.status == 200
		return yes || p.status == 303
	}, patience, statusEvery, "%s cannot tell who is signed in", id)
	return yes
}

var tokenField = regexp.MustCompile(`name="_token" value="([^"]+)"`)

// signOut signs out on a node.
func (b *browser) signOut(id string) {
	b.t.Helper()
	path := "/logout"
	if b.operations {
		path = "/console/sign-out"
	}
	require.Eventually(b.t, func() bool {
		token := tokenField.FindStringSubmatch(b.open(b.base(id) + "/console").body)
		return token != nil && b.send(b.base(id)+path, url.Values{
			"_token": {html.UnescapeString(token[1])},
		}).status == 303
	}, patience, statusEvery, "%s signs nobody out", id)
}

// stolen is another browser with the same cookies: it is signed in while the session goes on,
// whatever the first one has forgotten.
func (b *browser) stolen() *browser {
	b.t.Helper()
	other := b.browser(b.operations)
	at, err := url.Parse(b.base(b.Nodes[0].ID))
	require.NoError(b.t, err)
	other.http.Jar.SetCookies(at, b.http.Jar.Cookies(at))
	return other
}

// The leader is killed between /login, which it has answered, and the callback, which another node
// then finishes: what a browser keeps while it signs in is good everywhere. The session is good on
// every node, also after the next leader was killed, and signing out on one node ends it on all.
// People and operators, whose sessions are not each other's.
func TestSignInsSurviveTheirLeaders(t *testing.T) {
	t.Parallel()
	d := startCluster(t)
	require.Zero(t, d.stop())
	first := d.Nodes[0]
	d.configure(func(_ string, c *config.Config) { // as behind one public address
		c.PublicURL, c.SignIn.OpsURL = "http://"+first.HTTP, "http://"+first.Ops
	})
	d.start()
	person, operator := d.browser(false), d.browser(true)
	leader := d.runner()
	callbacks := map[*browser]string{
		person:   person.begin(leader, "ada@example.com"),
		operator: operator.begin(leader, "operator@localhost.test"),
	}
	killProcess(t, d.node(leader).PID)
	next := d.runner(leader)
	for b, callback := range callbacks {
		at, err := url.Parse(callback)
		require.NoError(t, err)
		require.Equal(t, "/login/callback", at.Path)
		p := b.open(b.base(next) + at.RequestURI())
		require.Equal(t, 303, p.status, p.body)
		require.Equal(t, "/console", p.to)
		p = b.open(b.base(next) + at.RequestURI())
		require.Equal(t, 401, p.status, "it is good once")
	}
	d.restart(leader)
	d.ready(leader)
	killProcess(t, d.node(next).PID)
	d.runner(next)
	d.restart(next)
	d.ready(next)
	held := map[*browser]*browser{person: person.stolen(), operator: operator.stolen()}
	for _, node := range d.Nodes {
		for b, thief := range held {
			require.True(t, b.signedIn(node.ID) && thief.signedIn(node.ID), node.ID)
		}
	}
	crossed := operator.stolen()
	crossed.operations = false
	require.False(t, crossed.signedIn("node1"), "an operator's session shows no workspace")
	crossed = person.stolen()
	crossed.operations = true
	require.False(t, crossed.signedIn("node1"), "a person's session operates nothing")

	person.signOut("node2")
	require.True(t, held[operator].signedIn("node2"))
	operator.signOut("node3")
	for _, node := range d.Nodes {
		for b, thief := range held {
			require.False(t, b.signedIn(node.ID), node.ID)
			require.False(t, thief.signedIn(node.ID), node.ID)
		}
	}
	p := operator.open(operator.base("node1") + "/console/cluster/live")
	require.Equal(t, 401, p.status, strings.TrimSpace(p.body))
	require.Zero(t, d.stop())
}
