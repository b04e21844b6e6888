package owner

import (
	"bytes"
	"cmp"
	"errors"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/valyala/fasthttp"

	"tollgate/engine/workspace"
	sdk "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/identity"
	"tollgate/server/workspaceapi"
)

// visit is one request of a person who is signed in.
type visit struct {
	*Pages
	x   *server.Exchange
	who Visitor
	// account is the workspace; of a page that needs none it may be empty.
	account workspace.AccountView
	// stale reports whether the page is shown as this node last knew it.
	stale bool
	// shown is what the form showed of a purchase.
	shown workspaceapi.Shown
	// fields are the form's.
	fields url.Values
	// notice is shown at the top of the page, status is the answer's (200 when 0), wrongs are the
	// form's fields that were refused.
	notice *page.Notice
	status int
	wrongs []page.Wrong
}

var (
	faultSignedOut = server.NewFault(401, "sign_in_required", "You are signed out").With(
		"Nothing was changed. Sign in, load the page again, and repeat what you did.")
	faultAgent = server.NewFault(403, "person_required", "These pages are for people").With(
		"Nothing was changed. An agent has the workspace API: see /llms.txt.")
	faultBusy = server.NewFault(503, "workspace_busy", "The service cannot be reached just now").With(
		"Nothing was changed. Load the page again in a moment.").Retry(1)
	faultNoPage  = server.NewFault(404, "not_found", "Page not found").With("")
	faultUnknown = server.NewFault(404, "not_found", "There is no such record in this workspace").With(
		"The record may belong to another of your workspaces: choose one on the page You.")
)

// enter finds out who asks; nil when it is answered.
func (p *Pages) enter(x *server.Exchange, r *row) *visit {
	v := &visit{Pages: p, x: x}
	var err error
	v.who, err = p.config.Visitors.Visitor(x, false)
	v.stale = r.ages && (errors.Is(err, ErrBusy) ||
		err == nil && !server.Current(p.config.Reader, p.config.ReadTimeout))
	if v.stale && err != nil {
		v.who, err = p.config.Visitors.Visitor(x, true)
	}
	switch {
	case errors.Is(err, ErrSignedOut) && r.method == "GET" && !r.live:
		p.site.Redirect(x, signIn(string(x.Ctx.Path())))
		return nil
	case errors.Is(err, ErrSignedOut):
		v.fail(faultSignedOut)
		return nil
	case err != nil,
		!r.ages && !server.Fresh(p.config.Reader, time.Now().Add(p.config.ReadTimeout)):
		v.fail(faultBusy)
		return nil
	case v.who.Agent:
		v.fail(faultAgent)
		return nil
	}
	if v.who.Workspace != 0 {
		v.account, _ = p.config.Machine.Account(v.who.Workspace, v.now())
	}
	if r.method == "POST" {
		var fault *server.Fault
		if v.fields, fault = p.site.Form(x, v.who.Token); fault != nil {
			v.fail(fault)
			return nil
		}
	}
	if v.who.Workspace == 0 && !r.anywhere {
		if r.method == "GET" && !r.live {
			p.showFirst(v)
		} else {
			v.fail(faultUnknown)
		}
		return nil
	}
	return v
}

// signIn is the sign-in address that leads back to a path of ours.
func signIn(path string) string { return "/login?return=" + url.QueryEscape(path) }

func (p *Pages) showFirst(v *visit) {
	v.show(page.View{
		Page: "first", Title: "No workspace yet",
		Lead: "A workspace holds the tests that agents run against a product, and their results.",
		Data: p.config.Origin,
	})
}

func (v *visit) now() int64 { return v.config.Machine.Clock(v.config.Now().UnixMilli()) }

// section is an entry of the navigation: its first page is where it leads.
type section struct {
	text  string
	pages []page.Link
}

// sections are the navigation. One that has several pages shows them within it.
var sections = []section{
	{"Overview", []page.Link{{URL: Root}}},
	{"Runs", []page.Link{
		{Text: "Runs", URL: Root + "/runs"}, {Text: "Inspections", URL: Root + "/inspections"},
	}},
	{"Flows", []page.Link{{URL: Root + "/flows"}}},
	{"Issues", []page.Link{{URL: Root + "/issues"}}},
	{"Billing", []page.Link{{URL: Root + "/purchases"}}},
	{"Settings", []page.Link{
		{Text: "You", URL: Root + "/you"},
		{Text: "Keys", URL: Root + "/keys"},
		{Text: "Test access", URL: Root + "/test-access"},
		{Text: "History", URL: Root + "/history"},
	}},
}

// navigate fills the navigation of a page at a path.
func navigate(p *page.View, at string) {
	for _, s := range sections {
		link, within := page.Link{Text: s.text, URL: s.pages[0].URL}, []page.Link(nil)
		for _, w := range s.pages {
			w.Here = at == w.URL
			link.Here = link.Here || w.Here || w.URL != Root && strings.HasPrefix(at, w.URL+"/")
			within = append(within, w)
		}
		if p.Nav = append(p.Nav, link); link.Here && len(within) > 1 {
			p.Within = within
		}
	}
}

// show answers with a page of this visit.
func (v *visit) show(p page.View) {
	p.Token, p.Who, p.SignOut = v.who.Token, v.who.Name, "/logout"
	if v.stale {
		p.SignOut = "" // all nodes would have to know
		p.Old = page.Outdated(v.config.Now(), v.config.Reader.Staleness())
	}
	navigate(&p, string(v.x.Ctx.Path()))
	if v.who.Workspace != 0 {
		p.At, p.Others = v.account.Label, v.others()
		p.Search, p.Seek = Root+"/search", "Flow, run, purchase"
	}
	if p.Notice = v.notice; p.Notice == nil {
		p.Notice = v.happened()
	}
	if v.notice != nil && v.notice.Tone == page.Problem {
		p.Fields, p.Wrong = v.fields, v.wrongs
	}
	v.site.Show(v.x, cmp.Or(v.status, 200), &p)
}

// maxSwitch is how many workspaces the switcher offers, the newest first.
const maxSwitch = 20

// others are the person's other workspaces; nil where there is none.
func (v *visit) others() []page.Group {
	owned, more := v.config.Machine.Owned(v.who.Person, workspace.Page{Limit: maxSwitch})
	g := page.Group{Title: "Workspace"}
	for i := range owned {
		if owned[i].Row == v.who.Workspace {
			continue
		}
		g.Choices = append(g.Choices, page.Choice{
			Link: page.Link{Text: owned[i].Label, URL: Root + "/you/workspace"},
			Post: "workspace", Value: workspaceapi.NounWorkspace.Text(owned[i].ID),
		})
	}
	if len(g.Choices) == 0 {
		return nil
	}
	if more {
		all := page.Link{Text: "All workspaces", URL: Root + "/you"}
		g.Choices = append(g.Choices, page.Choice{Link: all})
	}
	return []page.Group{g}
}

// fail answers with a page: what went wrong, what was not changed and what to do.
func (v *visit) fail(f *server.Fault) {
	if f.RetryAfter > 0 {
		v.x.Ctx.Response.Header.Set("Retry-After", strconv.Itoa(f.RetryAfter))
	}
	next := page.Link{Text: "To the overview", URL: Root}
	if f.Code == faultSignedOut.Code {
		next = page.Link{Text: "Sign in", URL: signIn(Root)}
	}
	if f.Message == server.FaultNotFound.Message {
		f = faultNoPage
	}
	v.site.Show(v.x, f.Status, &page.View{
		Page: "problem", Title: "That did not work", Plain: true,
		Notice: &page.Notice{
			Tone: page.Problem, Title: f.Message, Detail: f.Detail, Next: next,
		},
		Data: string(v.x.RequestID()),
	})
}

// showFault shows what the table refuses as a page; what the script asks for needs none.
func (p *Pages) showFault(x *server.Exchange, f *server.Fault) bool {
	if !acceptsPages(x.Ctx) {
		return false
	}
	(&visit{Pages: p, x: x}).fail(f)
	return true
}

// acceptsPages reports whether a browser asks for something to show.
func acceptsPages(ctx *fasthttp.RequestCtx) bool {
	return bytes.Contains(ctx.Request.Header.Peek("Accept"), []byte("text/html"))
}

// problem shows an error on the next page, in the form's words, and at the field that it is about.
func (v *visit) problem(f *server.Fault) {
	v.status = f.Status
	v.notice = &page.Notice{Tone: page.Problem, Title: f.Message, Detail: f.Detail}
	for _, wrong := range f.Fields {
		in, known := formFields[wrong.Field]
		if !known || !v.fields.Has(in.name) {
			continue
		}
		text, named := strings.CutPrefix(f.Message, wrong.Field+" ")
		if named {
			v.notice.Title = in.words + " " + text
		}
		text = strings.TrimSuffix(text, " Nothing was changed.")
		v.wrongs = append(v.wrongs, page.Wrong{
			Name: in.name, Text: strings.ToUpper(text[:1]) + text[1:],
		})
	}
}

// formFields are the fields of the rows that forms have: by which name, and how people call them.
var formFields = map[string]struct{ name, words string }{
	"schedule.everyHours": {"hours", "The number of hours"},
	"email":               {"email", "The e-mail address"},
	"webhookUrl":          {"webhook", "The webhook address"},
	"host":                {"host", "The host"},
	"username":            {"username", "The name"},
	"password":            {"password", "The password"},
	"note":                {"note", "The note"},
	"label":               {"label", "The name"},
	"answer":              {"answer", "The answer"},
	"runs":                {"runs", "The number of runs"},
	"url":                 {"url", "The address"},
}

// happened is the result of the form before this page: the address names one of a fixed list, and
// no other text of an address is ever shown.
func (v *visit) happened() *page.Notice {
	notice, known := happenings[string(v.x.Ctx.QueryArgs().Peek("done"))]
	if !known {
		return nil
	}
	notice.Tone = cmp.Or(notice.Tone, page.Done)
	return &notice
}

// of is a page or form of the record that the path names.
func of(noun workspaceapi.Noun, show func(*visit, [16]byte)) func(*visit) {
	return func(v *visit) {
		if id, ok := v.id(noun); ok {
			show(v, id)
		}
	}
}

// id reads the record that the path names; false when it is answered.
func (v *visit) id(noun workspaceapi.Noun) (id [16]byte, ok bool) {
	if id, ok = noun.Parse(string(v.x.Param(0))); !ok {
		v.fail(faultUnknown)
	}
	return id, ok
}

// typed is what a field of the form holds, without the blanks around it.
func (v *visit) typed(name string) string { return strings.TrimSpace(v.fields.Get(name)) }

// query reads a parameter of the page's address.
func (v *visit) query(name string) string { return string(v.x.Ctx.QueryArgs().Peek(name)) }

// functions are what the templates call besides the layout's own.
var functions = template.FuncMap{
	"when": when, "addr": address,
	"flowid": workspaceapi.NounFlow.Text, "runid": workspaceapi.NounRun.Text,
	"purid":   workspaceapi.NounPurchase.Text,
	"issueid": workspaceapi.NounIssue.Text, "linkid": workspaceapi.NounLink.Text,
	"keyid": workspaceapi.NounKey.Text, "wsid": workspaceapi.NounWorkspace.Text,
	"alertkind": alertWords,
	"given":     func(id [16]byte) bool { return id != [16]byte{} },
	"case":      caseWords, "meaning": meaning, "note": noteWords, "why": reasonWords,
}

// when is an instant as the layout's time takes it; empty for none.
func when(ms int64) string {
	if ms == 0 {
		return ""
	}
	return string(server.AppendTime(nil, ms))
}

// address is where a record's page is.
func address(noun string, id [16]byte) (string, error) {
	switch noun {
	case "run":
		return Root + "/runs/" + workspaceapi.NounRun.Text(id), nil
	case "flow":
		return Root + "/flows/" + workspaceapi.NounFlow.Text(id), nil
	case "purchase":
		return Root + "/purchases/" + workspaceapi.NounPurchase.Text(id), nil
	}
	return "", errors.New("owner: no page of a " + noun)
}

// SignedIn finds sessions of the service of package identity.
type SignedIn struct{ Service *identity.Service }

// Visitor finds the session of a request's cookie.
func (s SignedIn) Visitor(x *server.Exchange, local bool) (Visitor, error) {
	find := s.Service.Session
	if local {
		find = s.Service.Remembered
	}
	n, err := find(x.Ctx)
	switch {
	case errors.Is(err, identity.ErrSignIn):
		return Visitor{}, ErrSignedOut
	case err != nil:
		return Visitor{}, ErrBusy
	}
	return Visitor{
		Person: n.Person, Agent: n.Agent, Name: cmp.Or(n.Email, n.Name, "signed in"),
		Token: n.FormToken(), Session: n.Hash(), Workspace: n.Principal.Workspace,
	}, nil
}

// asking is how this visit calls the workspace API.
func (v *visit) asking() *workspaceapi.Visit {
	return &workspaceapi.Visit{
		Person: v.who.Person, Session: v.who.Session, Workspace: v.who.Workspace,
		Once: page.OnceKey(v.fields), Shown: v.shown,
	}
}

// ask calls a row of the workspace API in this person's name, about what path names, and decodes
// its answer into data. The row checks and refuses as it does for an agent, and its message is
// shown.
func (v *visit) ask(operation string, body, data any, path ...string) *server.Fault {
	c, err := server.Call{Operation: operation, Path: path}, error(nil)
	if body != nil {
		if c.Body, err = json.Marshal(body, json.Deterministic(true)); err != nil {
			v.config.Log.Error("a request cannot be written", "operation", operation, "error", err)
			return server.FaultInternal
		}
	}
	reply := v.config.Workspaces.Ask(v.asking(), c)
	if data != nil && (reply.Fault == nil || reply.Fault.Code == "payment_required") {
		err = json.Unmarshal(reply.Body, data, json.MatchCaseInsensitiveNames(true))
	}
	if err != nil {
		v.config.Log.Error("an answer cannot be read", "operation", operation, "error", err)
		return server.FaultInternal
	}
	return unchanged(reply.Fault)
}

// unchanged adds to a refusal that nothing was changed, where it does not say what became of it.
func unchanged(f *server.Fault) *server.Fault {
	if f == nil || f.Status >= 500 || f.Detail != "" || strings.Contains(f.Message, "Nothing ") {
		return f
	}
	return f.With("Nothing was changed.")
}

// went ends a form that starts or buys: at the run or at the purchase that it made.
func (v *visit) went(fault *server.Fault, made *sdk.Started, again func(*visit), what string) {
	run, isRun := workspaceapi.NounRun.Parse(made.Run.ID)
	purchase, isPurchase := workspaceapi.NounPurchase.Parse(made.Purchase.ID)
	switch {
	case isPurchase && (fault == nil || fault.Code == "payment_required"):
		v.site.Redirect(v.x, Root+"/purchases/"+workspaceapi.NounPurchase.Text(purchase))
	case fault == nil && isRun:
		v.finish(nil, nil, Root+"/runs/"+workspaceapi.NounRun.Text(run), what)
	default:
		v.problem(fault)
		again(v)
	}
}
