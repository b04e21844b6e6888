package portal

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"slices"
	"strings"
	"time"

	"tollgate/engine/billing"
	api "tollgate/sdk/go"
	"tollgate/server"
	"tollgate/server/client"
	"tollgate/server/console/page"
	"tollgate/server/link"
)

// visit is one request with a link that is valid.
type visit struct {
	portal   *Portal
	x        *server.Exchange
	link     link.Link
	customer billing.CustomerView
	account  string
	kind     billing.EnvironmentKind
	// base is the path of the pages that the link opens.
	base string
	// stale reports whether the page is shown as this node last knew it: it offers nothing.
	stale  bool
	fields url.Values
	notice *page.Notice
	status int
}

// readTimeout bounds how long a page waits for this node to be current.
const readTimeout = 2 * time.Second

// trusted is how long a node that hears nothing of the others opens pages by links that may have
// been ended meanwhile.
const trusted = 15 * time.Minute

// faultClosed answers every link that opens nothing, whatever the reason: it discloses no more.
var faultClosed = server.NewFault(403, "link_invalid", "This link is no longer valid").
	With("The link has expired, or was withdrawn, or is incomplete. Nothing was changed. Open your " +
		"account where you got the link: it has a new one there. Or ask whoever sends your invoices " +
		"for one.")

// faultBusy answers a customer who asks too often.
var faultBusy = server.NewFault(429, "rate_limited", "Too many requests").
	With("Nothing was changed. Wait a minute, then load the page again.")

// open finds out whether the request's link is valid; nil when it is answered.
func (p *Portal) open(x *server.Exchange, r *row) *visit {
	l, err := p.config.Links.Read(x.Param(0))
	if err != nil {
		x.Refuse(faultClosed)
		return nil
	}
	// Each link has its own limit, also one that has ended: it takes nothing from its customer's.
	sum := sha256.Sum256(x.Param(0))
	if !p.takes(x, [16]byte(sum[:16])) {
		return nil
	}
	// A link that was ended on another node a moment ago is not valid here either.
	stale := !server.Current(p.config.Reader, readTimeout)
	if stale && (!r.ages || p.config.Reader.Staleness() > trusted) {
		x.Refuse(server.FaultConsistency.With("Nothing was changed. Load the page again in a moment."))
		return nil
	}
	m := p.config.Machine
	v := &visit{
		portal: p, x: x, link: l, base: link.Root + "/" + string(x.Param(0)), stale: stale,
	}
	known := false
	v.customer, known = m.CustomerByID(l.Env, l.Customer)
	if !known || v.customer.ArchivedAt != 0 || v.customer.ErasedAt != 0 ||
		m.Clock(p.config.Now().UnixMilli()) >= l.ExpiresAt() ||
		!m.PortalLinkStands(l.Env, v.customer.Row, l.Key, l.MadeAt) {
		x.Refuse(faultClosed)
		return nil
	}
	if !p.takes(x, l.Customer) {
		return nil
	}
	v.account = m.AccountOf(billing.FlowOf(l.Env))
	for _, kind := range []billing.EnvironmentKind{
		billing.EnvironmentLive, billing.EnvironmentSandbox,
	} {
		if env, ok := m.Environment(v.account, kind); ok && env == l.Env {
			v.kind = kind
		}
	}
	if r.method == "POST" {
		var fault *server.Fault
		if v.fields, fault = p.site.Form(x, v.token()); fault != nil {
			x.Refuse(fault)
			return nil
		}
	}
	return v
}

// takes counts a request of a link or a customer; false when it is refused.
func (p *Portal) takes(x *server.Exchange, key [16]byte) bool {
	full := p.limits.Take(x, key)
	if full != nil {
		x.Refuse(faultBusy.Retry(full.RetryAfter))
	}
	return full == nil
}

// token is that of the link's forms.
func (v *visit) token() string { return page.TokenOf(string(v.x.Param(0))) }

// once is the Idempotency-Key of the form, among the customer's own: it meets no key of the API's
// callers or of another customer.
func (v *visit) once() string {
	given := page.OnceKey(v.fields)
	if given == "" {
		return ""
	}
	sum := sha256.Sum256(append(v.link.Customer[:], given...))
	return "portal-" + hex.EncodeToString(sum[:16])
}

// call carries out a row of the client API, as the customer. What it reads or changes must be the
// link's customer's: whoever calls has found that out, by own, ownInvoice or ownHold.
func (v *visit) call(c server.Call) server.Reply {
	c.Caller = &client.Caller{
		Account: v.account, Env: v.link.Env, Environment: v.kind, Scope: billing.ScopeCustomer,
		CustomerRow: v.customer.Row,
	}
	c.Actor, c.Stale = "portal of "+v.customer.ExternalID, v.stale
	return v.portal.config.Client.Call(c)
}

// dataOf reads the data of a reply; a refusal is answered, and ok is false.
func dataOf[T any](v *visit, r server.Reply) (data T, ok bool) {
	fault := r.Fault
	if fault == nil && (api.Answer{Body: r.Body}).Data(&data) != nil {
		fault = server.FaultInternal
	}
	if fault != nil {
		v.x.Refuse(fault)
	}
	return data, fault == nil
}

// of is a call about the link's customer.
func (v *visit) of(operation string) server.Call {
	return server.Call{Operation: operation, Path: []string{v.customer.ExternalID}}
}

// subscriptions are the customer's that have not ended; suspended ones are among them.
func (v *visit) subscriptions() ([]api.Subscription, bool) {
	call := v.of("listCustomerSubscriptions")
	call.Query = url.Values{"status": {"all"}}
	list, ok := dataOf[[]api.Subscription](v, v.call(call))
	return slices.DeleteFunc(list, func(s api.Subscription) bool { return s.Status() == "ended" }), ok
}

// faultSuspended answers a change of a plan that waits for a payment.
var faultSuspended = server.NewFault(409, "suspended", "This plan is suspended").With(
	"Nothing was changed. Pay the invoice that is past due first.")

// own finds the subscription that the path names among the customer's; another's is not found.
func (v *visit) own() (s api.Subscription, ok bool) {
	list, ok := v.subscriptions()
	if !ok {
		return s, false
	}
	at := slices.IndexFunc(list, func(s api.Subscription) bool {
		return s.ID == strings.ToLower(string(v.x.Param(1)))
	})
	if at < 0 {
		v.x.Refuse(server.FaultNotFound)
		return s, false
	}
	if list[at].Status() == "suspended" {
		v.finish(server.Reply{Fault: faultSuspended}, "")
		return s, false
	}
	return list[at], true
}

// show answers with a page in the account's name.
func (v *visit) show(name, title string, data any) {
	m := v.portal.config.Machine
	look := m.PortalLook(v.link.Env)
	house := &page.House{Name: v.name(), Home: v.base}
	if look.Colour != "" {
		house.Style = v.base + "/look.css?" + url.QueryEscape(look.Colour)
	}
	if look.LogoMedia != "" {
		house.Logo = v.base + "/logo"
	}
	p := page.View{
		Page: name, Title: title, Data: data, House: house, Token: v.token(), Notice: v.notice,
	}
	if v.kind == billing.EnvironmentSandbox {
		p.Place = "sandbox"
	}
	if v.stale {
		p.Old = page.Outdated(v.portal.config.Now(), v.portal.config.Reader.Staleness())
		p.Old.Detail = "Nothing can be changed or paid now. Load the page again in a moment."
	}
	if what, known := done[string(v.x.Ctx.QueryArgs().Peek("done"))]; known && p.Notice == nil {
		p.Notice = &page.Notice{Tone: page.Done, Title: what}
	}
	v.portal.site.Show(v.x, cmp.Or(v.status, 200), &p)
	v.portal.frame(v.x, v.link.Env)
}

// frame lets the origins that an environment lists show the answer in a frame.
func (p *Portal) frame(x *server.Exchange, env uint32) {
	if origins := p.config.Machine.Origins(env); len(origins) > 0 {
		x.Framed(strings.Replace(page.Policy, "frame-ancestors 'none'",
			"frame-ancestors 'self' "+strings.Join(origins, " "), 1))
	}
}

// done are the words for what a form did.
var done = map[string]string{
	"changed": "Your plan was changed", "scheduled": "Your plan will change when this period ends",
	"cancelled": "Your plan ends with this period", "kept": "Your plan goes on",
	"released": "The reservation was released", "paid": "The invoice is paid",
}

// name is the account's for its customers.
func (v *visit) name() string {
	return cmp.Or(v.portal.config.Machine.Seller(v.link.Env).Name, v.account)
}

// finish ends a form.
func (v *visit) finish(reply server.Reply, what string) {
	if reply.Fault != nil {
		v.status = reply.Fault.Status
		v.notice = &page.Notice{
			Tone: page.Problem, Title: reply.Fault.Message, Detail: reply.Fault.Detail,
		}
		showOverview(v)
		return
	}
	v.portal.site.Redirect(v.x, v.base+"?done="+what)
}

// showFault shows a refusal as a page. Where the link was ours once, the same frames may show it.
func (p *Portal) showFault(x *server.Exchange, f *server.Fault) bool {
	data := closedData{Detail: f.Detail}
	if f.Status == 404 {
		f = faultNoPage
		data.Detail = f.Detail
	}
	var ours *link.Link
	if x.Route != nil && x.Route.Parameters() > 0 {
		if l, err := p.config.Links.Read(x.Param(0)); err == nil {
			if ours = &l; f.Code != faultClosed.Code {
				data.Home = link.Root + "/" + string(x.Param(0))
			}
		}
	}
	p.site.Show(x, f.Status, &page.View{
		Page: "closed", Title: f.Message, Plain: true, Data: data,
		House: &page.House{Name: "Billing"},
	})
	if ours != nil {
		p.frame(x, ours.Env)
	}
	return true
}

// closedData is why there is no page, and where the way back leads; empty where there is none.
type closedData struct{ Detail, Home string }

var faultNoPage = server.NewFault(404, "not_found", "Page not found").With("")
