// Package portal serves an end customer's own pages, which a signed link opens: plan, usage,
// credits and invoices, in the account's name and colour. See DESIGN.md.
package portal

import (
	"cmp"
	"embed"
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/billing"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/link"
	"tollgate/server/payments"
)

//go:embed template
var templates embed.FS

// Config is what the pages need from the node.
type Config struct {
	// Client is the table of the client API, whose rows the pages call for their customer.
	Client  *server.Table
	Machine *billing.Machine
	Reader  server.Reader
	Links   *link.Signer
	// Payments gives out again the page of an invoice that is open; nil where there are none.
	Payments *payments.Service
	// Origin is the public address, http(s)://host without a path.
	Origin string
	// Observe is called for every answer, Gate bounds the memory of all requests together; both may
	// be nil.
	Observe func(route *server.Route, status int, took time.Duration)
	Gate    *server.Gate
	// Now is the cluster's clock; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// Portal answers the pages. Safe for concurrent use.
type Portal struct {
	config Config
	site   *page.Site
	table  *server.Table
	limits *server.RateLimiter
}

// New makes the pages.
func New(c Config) (*Portal, error) {
	if c.Client == nil || c.Machine == nil || c.Reader == nil || c.Links == nil {
		return nil, errors.New("portal: Client, Machine, Reader and Links must be set")
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	c.Log = cmp.Or(c.Log, slog.Default())
	p := &Portal{config: c, limits: server.NewRateLimiter(
		server.RateLimit{Requests: perMinute, Window: time.Minute}, nil,
	)}
	var err error
	if p.site, err = page.New(page.Config{
		Brand: "Billing", Root: link.Root, Templates: templates, Log: c.Log, Now: c.Now, Origin: c.Origin,
		OrHost: true,
	}); err != nil {
		return nil, err
	}
	routes := p.site.Assets()
	for _, r := range rows {
		routes = append(routes, server.Route{
			Method: r.method, Path: link.Root + "/{link}" + r.path, Operation: "portal " + r.name,
			Access: server.AccessOpen, Media: page.FormMedia, Limit: formLimit,
			Handle: func(x *server.Exchange) {
				if v := p.open(x, &r); v != nil {
					r.show(v)
				}
			},
		})
	}
	p.table, err = server.NewTable(routes, server.TableConfig{
		Observe: c.Observe, Gate: c.Gate, Log: c.Log, Show: p.showFault,
	})
	return p, err
}

// Handler answers the pages, and leaves every other path to next.
func (p *Portal) Handler(next fasthttp.RequestHandler) fasthttp.RequestHandler {
	return func(ctx *fasthttp.RequestCtx) {
		if strings.HasPrefix(string(ctx.Request.Header.RequestURI()), link.Root+"/") {
			p.table.Serve(ctx)
			return
		}
		next(ctx)
	}
}

// perMinute is how many requests a node takes for one customer, whichever links they have, and by
// one link, whether or not it has ended.
const perMinute = 120

// formLimit bounds a form in bytes.
const formLimit = 8 << 10

// row is one page, or one form's way, below a link.
type row struct {
	method, path, name string
	// ages: without a leader it is shown as this node last knew it.
	ages bool
	show func(v *visit)
}

// Paths are those of all pages that a link opens, as their routes name them, so that a test can
// look at each.
func Paths() (paths []string) {
	for _, r := range rows {
		if r.method == "GET" && path.Ext(r.path) != ".css" && r.name != "logo" &&
			r.name != "invoice pdf" {
			paths = append(paths, link.Root+"/{link}"+r.path)
		}
	}
	return paths
}

var rows = []row{
	{"GET", "", "overview", true, showOverview},
	{"GET", "/look.css", "look", true, showLook},
	{"GET", "/logo", "logo", true, showLogo},
	{"GET", "/invoices", "invoices", true, showInvoices},
	{"GET", "/invoices/{invoice}", "invoice", true, showInvoice},
	{"GET", "/invoices/{invoice}/pdf", "invoice pdf", false, downloadInvoice},
	{"GET", "/invoices/{invoice}/pay", "pay page", false, showPay},
	{"POST", "/invoices/{invoice}/pay", "pay", false, pay},
	{"GET", "/subscriptions/{subscription}/change", "change question", false, askChange},
	{"POST", "/subscriptions/{subscription}/change", "change plan", false, changePlan},
	{"GET", "/subscriptions/{subscription}/cancel", "cancel question", false, askCancel},
	{"POST", "/subscriptions/{subscription}/cancel", "cancel plan", false, cancelPlan},
	{"POST", "/subscriptions/{subscription}/keep", "keep plan", false, keepPlan},
	{"GET", "/reservations/{reservation}/release", "release question", false, askRelease},
	{"POST", "/reservations/{reservation}/release", "release", false, releaseHold},
}
