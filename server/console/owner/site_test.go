package owner_test

import (
	"bytes"
	"crypto/sha256"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"
	"golang.org/x/net/html"

	"tollgate/bench/enginetest"
	"tollgate/bench/inspecttest"
	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/owner"
	"tollgate/server/console/page"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/provider/webhook"
	"tollgate/server/workspaceapi"
)

const origin = "https://tollgate.test"

// site is the pages over a real state machine, without raft.
type site struct {
	*servertest.Workspaces
	t       *testing.T
	api     *workspaceapi.API
	pages   *owner.Pages
	handler fasthttp.RequestHandler
	// the signed-in visitor; nil is none.
	who *owner.Visitor
	// post gets the mails.
	post *postbox
}

// Visitor is who is signed in.
func (s *site) Visitor(*server.Exchange, bool) (owner.Visitor, error) {
	if s.who == nil {
		return owner.Visitor{}, owner.ErrSignedOut
	}
	return *s.who, nil
}

// open makes pages; inspections read a recorded site.
func open(t *testing.T, recorded string) *site {
	t.Helper()
	s := &site{Workspaces: servertest.NewWorkspaces(), t: t, post: &postbox{}}
	client, err := fetch.New(fetch.Config{})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	product, err := inspecttest.Parse(recorded)
	require.NoError(t, err)
	s.api, err = workspaceapi.New(workspaceapi.Config{
		Machine: s.Machine, Proposer: s, Reader: s, PublicURL: origin, QuoteKey: [32]byte{7},
		Inspector: inspect.New(product, nil), Payments: true,
		Console: origin + owner.Root, Mail: s.post,
		Hooks: webhook.NewSender(client, nil), Check: client.CheckAt,
		Agents: []workspaceapi.Agent{
			{Name: "clever", Kind: "exec", Version: "1"}, {Name: "nop", Kind: "nop", Version: "1"},
		},
	})
	require.NoError(t, err)
	s.pages, err = owner.New(owner.Config{
		Machine: s.Machine, Reader: s, Workspaces: s.api, Visitors: s, Origin: origin,
		ReadTimeout: 10 * time.Millisecond,
	})
	require.NoError(t, err)
	nothing := func(ctx *fasthttp.RequestCtx) { ctx.SetStatusCode(404) }
	s.handler = s.pages.Handler(s.api.Handler(nothing))
	return s
}

// does brings a command into the state.
func (s *site) does(kind engine.Kind, c wire.Fielder) engine.Result {
	s.t.Helper()
	return s.Do(s.t, kind, c)
}

// signUp makes a workspace, and returns its row and its key.
func (s *site) signUp(label string) (ws uint32, key string) {
	s.t.Helper()
	key = server.MintKey(server.KeyPrefixWorkspace)
	id := enginetest.ID("workspace " + label)
	s.does(workspace.KindSignUp, &workspace.SignUp{
		ID: id, KeyID: enginetest.ID("key " + label), KeyHash: sha256.Sum256([]byte(key)),
		ClaimHash: sha256.Sum256([]byte("code " + label)), Scopes: workspace.ScopesAll,
		Label: label,
	})
	return s.Machine.WorkspaceRow(id), key
}

// answer is what a browser gets.
type answer struct {
	status int
	header *fasthttp.ResponseHeader
	body   string
}

// ask sends a request; fields make it a form of the session that is signed in.
func (s *site) ask(method, path string, fields url.Values, headers ...string) answer {
	s.t.Helper()
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	request := &ctx.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(path)
	request.Header.SetHost("tollgate.test")
	request.Header.Set("Accept", "text/html,application/xhtml+xml")
	if method == "POST" {
		request.Header.Set("Origin", origin)
		request.Header.SetContentType(page.FormMedia[0])
		body := fields.Encode()
		request.SetBodyStream(strings.NewReader(body), len(body))
		request.Header.SetContentLength(len(body))
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	s.handler(&ctx)
	header := &fasthttp.ResponseHeader{}
	ctx.Response.Header.CopyTo(header)
	return answer{ctx.Response.StatusCode(), header, string(ctx.Response.Body())}
}

// sees opens a page that must be there.
func (s *site) sees(path string) string {
	s.t.Helper()
	a := s.ask("GET", path, nil)
	require.Equal(s.t, 200, a.status, "%s: %s", path, a.body)
	require.Equal(s.t, page.Media, string(a.header.ContentType()), path)
	require.Empty(s.t, code(s.t, a.body), path)
	require.Equal(s.t, 1, strings.Count(a.body, "<h1>"), path)
	require.NotContains(s.t, a.body, "ZgotmplZ", path)
	require.NotRegexp(s.t, `<th[^>]*>\s*</th>`, a.body, "a column or row of %s has no name", path)
	require.NotRegexp(s.t, `<th( class="n")?>`, a.body, "%s: a column or a row?", path)
	return a.body
}

// calls sends a request with a key of the workspace API.
func (s *site) calls(method, path, key, body string) answer {
	s.t.Helper()
	var ctx fasthttp.RequestCtx
	ctx.Init(&fasthttp.Request{}, nil, nil)
	request := &ctx.Request
	request.Header.SetMethod(method)
	request.SetRequestURI(path)
	request.Header.Set("Authorization", "Bearer "+key)
	request.SetBodyStream(strings.NewReader(body), len(body))
	request.Header.SetContentLength(len(body))
	s.handler(&ctx)
	return answer{status: ctx.Response.StatusCode(), body: string(ctx.Response.Body())}
}

// code lists what in a page is code or style, or an address that is code.
func code(t *testing.T, body string) (found []string) {
	t.Helper()
	root, err := html.Parse(bytes.NewReader([]byte(body)))
	require.NoError(t, err)
	addresses := map[string]bool{"href": true, "src": true, "action": true, "formaction": true}
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		ours := false
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			ours = ours || a.Key == "src" && strings.HasPrefix(value, owner.Root+"/asset/")
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" || addresses[a.Key] &&
				(strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:")) {
				found = append(found, n.Data+" "+a.Key+"="+a.Val)
			}
		}
		if n.Data == "style" || n.Data == "iframe" || n.Data == "img" || n.Data == "script" && !ours {
			found = append(found, n.Data)
		}
	}
	return found
}
