// Package console is the operators' pages, on the operations listener: accounts with their keys,
// catalogs, customers, invoices and webhooks, and the cluster. A page reads and changes data
// through the rows of the admin and the client API, within the process. See DESIGN.md.
package console

import (
	"cmp"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/billing"
	"tollgate/engine/uuid"
	"tollgate/server"
	"tollgate/server/console/page"
)

// Root is the path that all pages begin with.
const Root = "/console"

//go:embed template
var templates embed.FS

// Config is what the pages need from the node.
type Config struct {
	// Admin and Client are the tables of the two APIs whose rows the pages call; Client answers for
	// a given environment.
	Admin, Client *server.Table
	// KeyMatches reports whether a text is the admin key, which then opens a session; nil when it
	// may not.
	KeyMatches func(key []byte) bool
	// SignedIn are operators who sign in through an identity provider; nil when none is configured.
	SignedIn *SignedIn
	// PublicURL is where browsers reach this listener, http(s)://host; empty when that is not
	// known.
	PublicURL string
	Machine   *billing.Machine
	Reader    server.Reader
	// Load counts this node's answers since its start, for the plots; nil shows none.
	Load func() Load
	// Findings are what needs attention, as far as this node alone knows; nil shows none.
	Findings func() []Finding
	// Observe is called for every answer, Gate bounds the memory of all requests together; both may
	// be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	Gate    *server.Gate
	// Now is the node's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Console answers the pages until Close. Safe for concurrent use.
type Console struct {
	config Config
	site   *page.Site
	table  *server.Table
	// operators are the ways in that there are.
	operators doors
	pulse     *pulse
}

// New makes the pages.
func New(c Config) (*Console, error) {
	if c.Admin == nil || c.Client == nil || c.Machine == nil || c.Reader == nil ||
		c.KeyMatches == nil && c.SignedIn == nil {
		return nil, errors.New(
			"console: Admin, Client, Machine, Reader and KeyMatches or SignedIn must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	s := &Console{config: c}
	var err error
	if s.site, err = page.New(page.Config{
		Brand: "Operations", Root: Root, Templates: templates, Log: c.Log, Now: c.Now,
		Origin: c.PublicURL, OrHost: true, Funcs: template.FuncMap{
			"usage": usageMeter, "late": late,
			"id": uuid.Text, "ms": time.UnixMilli, "details": details, "changed": changedFields,
		},
	}); err != nil {
		return nil, err
	}
	routes := append(s.site.Assets(), s.site.Icon(), server.Route{
		Method: "GET", Path: "/", Operation: "console begin", Access: server.AccessOpen,
		Handle: func(x *server.Exchange) { s.site.Redirect(x, Root) },
	})
	routes = append(routes, s.doors()...)
	for _, rows := range s.rows() {
		for i := range rows {
			routes = append(routes, s.route(&rows[i]))
			if rows[i].asks {
				routes = append(routes, s.route(rows[i].question()))
			}
		}
	}
	s.table, err = server.NewTable(routes, server.TableConfig{
		Observe: c.Observe, Gate: c.Gate, Log: c.Log, Show: s.showFault,
	})
	if err != nil {
		return nil, err
	}
	if c.Load != nil {
		s.pulse = newPulse(c.Load, c.Now)
	}
	return s, nil
}

// Paths are those of all pages of who is signed in, as their routes name them, so that a test can
// look at each: those on which forms ask among them, and no part of a page or file.
func Paths() (paths []string) {
	for _, rows := range new(Console).rows() {
		for i := range rows {
			r := &rows[i]
			if r.asks {
				r = r.question()
			}
			if r.method == "GET" && !r.live {
				paths = append(paths, Root+r.path)
			}
		}
	}
	return paths
}

// rows are all pages and forms of who is signed in.
func (s *Console) rows() [][]row {
	return [][]row{
		s.homeRows(), s.overviewRows(), s.keyRows(), s.catalogRows(),
		s.customerRows(), s.profileRows(), s.eventRows(), s.correctionRows(), s.holdRows(),
		s.sheetRows(), s.budgetRows(), s.invoiceRows(), s.poolRows(), s.topUpRows(), s.webhookRows(),
		s.clockRows(), s.settingsRows(), s.clusterRows(), s.workspaceRows(),
	}
}

// Routes are the rows of the route table, for tests.
func (s *Console) Routes() []*server.Route { return s.table.Routes() }

// Close ends the sampling of the node's load.
func (s *Console) Close() {
	if s.pulse != nil {
		s.pulse.close()
	}
}

// Handler answers the pages, and leaves every other path to next. The bare address of the listener,
// which a person types in, leads to the pages.
func (s *Console) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		path := string(ctx.Request.Header.RequestURI())
		if path == "/" || path == page.IconPath || len(path) >= len(Root) && path[:len(Root)] == Root &&
			(len(path) == len(Root) || path[len(Root)] == '/' || path[len(Root)] == '?') {
			s.table.Serve(ctx)
			return
		}
		next(ctx)
	}
}

// reach is what an operator must be allowed to, to open a page.
type reach uint8

const (
	// reachAny: every signed-in operator.
	reachAny reach = iota
	// reachCluster: operators of the whole cluster only.
	reachCluster
	// reachAccount: also those of the account that the path's first parameter names.
	reachAccount
	// reachEnvironment is reachAccount for a path whose second parameter is an environment.
	reachEnvironment
)

// row is one page, or one form's way.
type row struct {
	method, path, name string
	reach              reach
	// limit bounds the body in bytes; 0 is formLimit.
	limit int
	// live reports whether the script asks: refusals are then answered without a page.
	live bool
	// harmless is a form that changes nothing of anybody's: also who may only look sends it.
	harmless bool
	// asks is a form that asks first, on a page of its own; see ask.
	asks bool
	// local is a page about this node alone: it works without a leader.
	local bool
	// upload is a form with a file.
	upload bool
	show   func(v *visit)
}

// ages reports whether the page is shown as this node last knew it, where no leader can be reached:
// it asks for nothing to be done, and is a page that can say so.
func (r *row) ages() bool { return r.method == "GET" && !r.live && !r.asks && !r.local }

// look is a page of an environment, form a form there; live is asked for by the script.
func look(path, name string, show func(*visit)) row {
	return within(reachEnvironment, "GET", path, name, show)
}

func form(path, name string, show func(*visit)) row {
	return within(reachEnvironment, "POST", path, name, show)
}

// within is a page, or a form, of another reach.
func within(reach reach, method, path, name string, show func(*visit)) row {
	return row{method: method, path: path, name: name, reach: reach, show: show}
}

func local(r row) row {
	r.local = true
	return r
}

func live(r row) row {
	r.live = true
	return r
}

// formLimit bounds a form in bytes.
const formLimit = 64 << 10

// route makes a row of the table: it refuses callers without permission before anything is read.
func (s *Console) route(r *row) server.Route {
	media := page.FormMedia
	if r.upload {
		media = page.UploadMedia
	}
	return server.Route{
		Method: r.method, Path: Root + r.path, Operation: "console " + r.name,
		Access: server.AccessOpen, Media: media, Limit: cmp.Or(r.limit, formLimit),
		Handle: func(x *server.Exchange) {
			if v := s.enter(x, r); v != nil {
				r.show(v)
			}
		},
	}
}
