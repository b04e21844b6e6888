// Package owner serves the pages of a workspace's owner, on the public listener: results of agents,
// their cost, and the decisions that only a person takes. See DESIGN.md.
package owner

import (
	"cmp"
	"embed"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// Root is the path that the pages begin with.
const Root = "/console"

//go:embed template
var templates embed.FS

// Config is what the pages need from the node.
type Config struct {
	Machine *workspace.Machine
	Reader  server.Reader
	// Workspaces carries out what an owner decides.
	Workspaces *workspaceapi.API
	Visitors   Visitors
	// Origin is the public address, http(s)://host without a path.
	Origin string
	// Observe is called for every answer, Gate bounds the memory of all requests together; both may
	// be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	Gate    *server.Gate
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	// ReadTimeout is how long a page may wait for a leader; 2 s when 0.
	ReadTimeout time.Duration
	Log         *slog.Logger
}

// Visitor is who is signed in.
type Visitor struct {
	// Person is the row of who signed in.
	Person uint32
	// Agent reports whether it is not a person.
	Agent bool
	// Name is shown: an e-mail address, or a name.
	Name string
	// Token is the token of the session's forms, Session the SHA-256 by which the log knows it.
	Token   string
	Session [32]byte
	// Workspace is the row that the session works in; 0 is none.
	Workspace uint32
}

// Visitors identifies the sender of a request.
type Visitors interface {
	// Visitor finds the sender's session: ErrSignedOut when there is none, ErrBusy when it cannot
	// be looked up; a local one in this node's memory alone, with or without a leader.
	Visitor(x *server.Exchange, local bool) (Visitor, error)
}

var (
	// ErrSignedOut means that the sender is not signed in.
	ErrSignedOut = errors.New("owner: not signed in")
	// ErrBusy means that this node cannot look up sessions.
	ErrBusy = errors.New("owner: no quorum can be reached")
)

// Pages answers the pages. Safe for concurrent use.
type Pages struct {
	config Config
	site   *page.Site
	table  *server.Table
	// walked and fileWalked are less than maxWalked and maxFileWalked in tests; 0: they are those.
	walked, fileWalked int
}

// New makes the pages.
func New(c Config) (*Pages, error) {
	if c.Machine == nil || c.Reader == nil || c.Workspaces == nil || c.Visitors == nil ||
		c.Origin == "" {
		return nil, errors.New(
			"owner: Machine, Reader, Workspaces, Visitors and Origin must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.ReadTimeout = cmp.Or(c.ReadTimeout, 2*time.Second)
	c.Log = cmp.Or(c.Log, slog.Default())
	p := &Pages{config: c}
	var err error
	if p.site, err = page.New(page.Config{
		Brand: "Workspace", Root: Root, Templates: templates, Funcs: functions, Origin: c.Origin,
		Log: c.Log, Now: c.Now,
	}); err != nil {
		return nil, err
	}
	routes := append(p.site.Assets(), p.site.Icon())
	for _, r := range p.rows() {
		routes = append(routes, p.route(r))
	}
	routes = append(append(routes, p.approvalRoutes()...), p.returnRoute())
	routes = append(routes, p.confirmRoutes()...)
	p.table, err = server.NewTable(routes, server.TableConfig{
		Observe: c.Observe, Gate: c.Gate, Log: c.Log, Show: p.showFault,
	})
	return p, err
}

// Handler answers the pages, and leaves every other path to next.
func (p *Pages) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if p.table.Knows(ctx) && (!approves(ctx) || forBrowser(ctx)) {
			p.table.Serve(ctx)
			return
		}
		next(ctx)
	}
}

// row is one page, or one form's way.
type row struct {
	method, path, name string
	// anywhere: it needs no workspace.
	anywhere bool
	// live reports whether the script asks: refusals are then answered without a page.
	live bool
	// ages: without a leader it is shown as this node last knew it.
	ages bool
	show func(v *visit)
}

// formLimit bounds a form in bytes.
const formLimit = 32 << 10

// Paths are those of all pages of who is signed in, as their routes name them, so that a test can
// look at each.
func Paths() (paths []string) {
	for _, r := range new(Pages).rows() {
		if r.method == "GET" && !r.live {
			paths = append(paths, Root+r.path)
		}
	}
	return paths
}

// Routes are the rows of the route table, for tests.
func (p *Pages) Routes() []*server.Route { return p.table.Routes() }

func (p *Pages) rows() []row {
	get := func(path, name string, show func(*visit)) row {
		return row{method: "GET", path: path, name: name, ages: true, show: show}
	}
	fill := func(path, name string, show func(*visit)) row { // a page that is a form
		return row{method: "GET", path: path, name: name, show: show}
	}
	form := func(path, name string, show func(*visit)) row {
		return row{
			method: "POST", path: path, name: name, show: show,
			anywhere: strings.HasPrefix(path, "/you/"),
		}
	}
	return []row{
		get("", "overview", showOverview),
		get("/runs", "runs", showRuns), runs.file(),
		get("/runs/{id}", "run", showRun),
		{method: "GET", path: "/runs/{id}/live", name: "run live", live: true, show: showProgress},
		get("/inspections", "inspections", showInspections), inspections.file(),
		get("/flows", "flows", showFlows), flows.file(),
		get("/flows/{id}", "flow", showFlow),
		fill("/flows/new", "new flow", newFlow),
		fill("/flows/{id}/edit", "edit flow", editFlow),
		fill("/flows/{id}/start", "start page", showStart),
		get("/flows/{id}/alerts", "alerts", showAlerts),
		{
			method: "GET", path: "/flows/{id}/alerts/live", name: "alerts live", live: true,
			show: ofAlerts(showDeliveries),
		},
		get("/issues", "issues", showIssues), issues.file(),
		get("/purchases", "purchases", showPurchases), purchases.file(),
		get("/purchases/{id}", "purchase", showPurchase),
		fill("/purchases/buy", "buy question", askRuns),
		{
			method: "GET", path: "/purchases/{id}/live", name: "purchase live", live: true,
			show: showPayment,
		},
		get("/test-access", "test access", showAccess),
		get("/keys", "keys", showKeys), keys.file(),
		get("/history", "history", showHistory), acts.file(),
		get("/search", "search", showSearch),
		{method: "GET", path: "/you", name: "you", anywhere: true, ages: true, show: showYou},
		form("/you/workspace", "choose workspace", chooseWorkspace),
		form("/you/workspaces", "open workspace", openWorkspace),
		form("/you/claim", "claim workspace", claimWorkspace),
		form("/you/links/{id}", "answer link", answerLink),
		form("/flows", "save flow", saveFlow),
		form("/flows/{id}/archive", "archive flow", of(workspaceapi.NounFlow, archiveFlow)),
		form("/flows/{id}/start", "start run", of(workspaceapi.NounFlow, startRun)),
		form("/runs/{id}/answer", "answer run", of(workspaceapi.NounRun, answerRun)),
		form("/runs/{id}/cancel", "cancel run", of(workspaceapi.NounRun, cancelRun)),
		form("/inspections", "inspect", inspect),
		form("/purchases", "buy runs", buyRuns),
		form("/billing", "set billing", setBilling),
		form("/purchases/{id}", "decide purchase", decidePurchase),
		form("/keys", "rotate keys", rotateKeys),
		form("/test-access", "set test access", setAccess),
		form("/flows/{id}/schedule", "set schedule", of(workspaceapi.NounFlow, setSchedule)),
		form("/flows/{id}/confirm-signup", "confirm signup",
			of(workspaceapi.NounFlow, confirmSignup)),
		form("/flows/{id}/alerts", "set alerts", ofAlerts(setAlerts)),
		form("/flows/{id}/alerts/secret", "rotate alert secret", ofAlerts(rotateAlertSecret)),
		form("/flows/{id}/alerts/confirm", "ask address", ofAlerts(askAddress)),
		form("/flows/{id}/alerts/test", "test alert", ofAlerts(testAlert)),
		form("/issues/{id}/ready", "mark issue", of(workspaceapi.NounIssue, markReady)),
	}
}

// route makes a row of the table: who may not is turned away before anything is read.
func (p *Pages) route(r row) server.Route {
	return server.Route{
		Method: r.method, Path: Root + r.path, Operation: "owner " + r.name,
		Access: server.AccessOpen, Media: page.FormMedia, Limit: formLimit,
		Handle: func(x *server.Exchange) {
			if v := p.enter(x, &r); v != nil {
				r.show(v)
			}
		},
	}
}
