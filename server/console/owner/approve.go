package owner

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/valyala/fasthttp"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// approvePath is the path of approval links.
const approvePath = "/approve/"

// approvalRoutes are the page of an approval link. The link shows its request; GET changes nothing.
// Acting needs a signed-in person, and the form.
func (p *Pages) approvalRoutes() []server.Route {
	return []server.Route{
		{
			Method: "GET", Path: approvePath + "{token}", Operation: "owner approval",
			Access: server.AccessOpen, Handle: p.showApproval,
		},
		{
			Method: "POST", Path: approvePath + "{token}", Operation: "owner decides",
			Access: server.AccessOpen, Media: page.FormMedia, Limit: formLimit,
			Handle: p.decideApproval,
		},
	}
}

// approves reports whether a request is for an approval link.
func approves(ctx *fasthttp.RequestCtx) bool {
	return bytes.HasPrefix(ctx.Request.Header.RequestURI(), []byte(approvePath))
}

// forBrowser reports whether a request for an approval link wants a page: programs get JSON.
func forBrowser(ctx *fasthttp.RequestCtx) bool {
	if ctx.IsPost() {
		return string(ctx.Request.Header.ContentType()) == page.FormMedia[0]
	}
	return acceptsPages(ctx)
}

type approvalPage struct {
	Path     string
	Label    string
	Purchase workspace.PurchaseView
	// Flow is the flow of the request; nil where runs are bought ahead, or it was archived.
	Flow     *workspace.FlowView
	Confirms bool
	// Claimed: the workspace has an owner; Theirs: the viewer; Signed: the viewer is signed in.
	Claimed, Theirs, Signed bool
	Name, SignIn            string
	CapApproved             bool
	CapCents                uint32
}

// May reports whether who is signed in may decide.
func (a approvalPage) May() bool { return a.Signed && (a.Theirs || !a.Claimed) }

// approval reads a link; nil when it is answered.
func (p *Pages) approval(x *server.Exchange) (v *visit, data *approvalPage) {
	v = &visit{Pages: p, x: x}
	who, err := p.config.Visitors.Visitor(x, false)
	if err != nil && !errors.Is(err, ErrSignedOut) ||
		!server.Fresh(p.config.Reader, time.Now().Add(p.config.ReadTimeout)) {
		v.fail(faultBusy)
		return nil, nil
	}
	if err == nil {
		v.who = who
	}
	bought, known := p.config.Machine.PurchaseByLink(sha256.Sum256(x.Param(0)))
	if !known {
		v.ended()
		return nil, nil
	}
	account, _ := p.config.Machine.Account(bought.Workspace, v.now())
	path := approvePath + string(x.Param(0))
	data = &approvalPage{
		Path: path, Label: account.Label, Purchase: bought, Claimed: account.Claimed,
		SignIn: signIn(path), CapApproved: account.CapApproved, CapCents: account.CapCents,
	}
	if err == nil {
		data.Signed, data.Name = !who.Agent, who.Name
		data.Theirs = p.config.Machine.Owns(bought.Workspace, who.Person)
	}
	if flow, known := p.config.Machine.Flow(bought.Workspace, bought.Flow); known {
		data.Flow, data.Confirms = &flow, bought.FlowShown && flow.Credential != ""
	}
	return v, data
}

var faultLink = server.NewFault(404, "not_found", "This link is no longer valid").With(
	"A newer link has replaced it, the purchase was decided or paid already, or seven days are " +
		"over. Nothing was changed and nothing is charged by this link. Your purchases are in the " +
		"console; the sender of the link can ask for a new one.")

// ended answers for a link that is no longer valid. The form that ended it, sent again by a double
// click, gets its result.
func (v *visit) ended() {
	if v.x.Ctx.IsPost() && v.who.Person != 0 {
		var fault *server.Fault
		v.fields, fault = v.site.Form(v.x, v.who.Token)
		if fault == nil && v.config.Workspaces.Decided(v.asking()) {
			v.site.Show(v.x, 200, &page.View{
				Page: "decided", Title: "You have decided it", Plain: true,
				Lead: "This form was sent before, and was carried out then, once.",
			})
			return
		}
	}
	v.fail(faultLink)
}

// showApproval is GET /approve/{token}. It changes nothing, however often it is opened.
func (p *Pages) showApproval(x *server.Exchange) {
	if v, data := p.approval(x); v != nil {
		v.showApproval(data)
	}
}

func (v *visit) showApproval(data *approvalPage) {
	v.site.Show(v.x, max(200, v.status), &page.View{
		Page: "approve", Title: "An agent asks to buy " + runWords(data.Purchase.Runs), Plain: true,
		Token: v.who.Token, Notice: v.notice, Data: data,
	})
}

func runWords(runs uint32) string {
	if runs == 1 {
		return "1 hosted run"
	}
	return page.Amount(runs) + " hosted runs"
}

// decideApproval is POST /approve/{token}.
func (p *Pages) decideApproval(x *server.Exchange) {
	v, data := p.approval(x)
	if v == nil {
		return
	}
	if !data.Signed {
		v.fail(faultSignedOut)
		return
	}
	var fault *server.Fault
	if v.fields, fault = p.site.Form(x, v.who.Token); fault != nil {
		v.fail(fault)
		return
	}
	fault = v.ask("decideApproval", map[string]string{"action": v.fields.Get("action")}, nil,
		string(x.Param(0)))
	session, _ := p.config.Machine.Session(v.who.Session, workspace.SurfaceWorkspaces, v.now())
	switch {
	case fault != nil && fault.Code == faultLink.Code: // it has ended since it was looked at
		v.ended()
	case fault != nil:
		v.problem(fault)
		v.showApproval(data)
	case v.fields.Get("action") == "deny":
		v.site.Show(x, 200, &page.View{
			Page: "decided", Title: "You denied the purchase", Plain: true,
			Lead: "Nothing was charged, and the link is no longer valid.",
		})
	case session.Principal.Workspace != data.Purchase.Workspace:
		// It is approved all the same, and must not be approved again.
		v.site.Show(x, 200, &page.View{
			Page: "decided", Title: "You approved the purchase", Plain: true,
			Lead: "These pages do not show its workspace yet: choose it on the page You, and look at its " +
				"purchases. The link shows where it is paid.",
		})
	default: // the pages now show this workspace
		v.site.Redirect(x, Root+"/purchases/"+
			workspaceapi.NounPurchase.Text(data.Purchase.ID)+"?done=approve")
	}
}

// returnRoute is where payers come back to from the payment provider's page.
func (p *Pages) returnRoute() server.Route {
	return server.Route{
		Method: "GET", Path: workspaceapi.ReturnPath + "{id}", Operation: "owner return",
		Access: server.AccessOpen, Handle: p.showReturn,
	}
}

// showReturn leads the owner to the purchase's page. All others, payers included, see what happens
// next, and nothing about the purchase. The address names the purchase but no destination: that is
// always a page of ours. It changes nothing.
func (p *Pages) showReturn(x *server.Exchange) {
	v := &visit{Pages: p, x: x}
	who, err := p.config.Visitors.Visitor(x, false)
	if err != nil && !errors.Is(err, ErrSignedOut) ||
		!server.Fresh(p.config.Reader, time.Now().Add(p.config.ReadTimeout)) {
		v.fail(faultBusy)
		return
	}
	id, ok := v.id(workspaceapi.NounPurchase)
	if !ok {
		return
	}
	path := Root + "/purchases/" + workspaceapi.NounPurchase.Text(id)
	if err == nil && !who.Agent && who.Workspace != 0 {
		if _, theirs := p.config.Machine.Purchase(who.Workspace, id); theirs {
			p.site.Redirect(x, path+"?done=payment")
			return
		}
	}
	p.site.Show(x, 200, &page.View{
		Page: "paid", Title: "You may close this page", Plain: true, Data: path,
		Lead: "If you have paid, the purchase shows as paid as soon as the payment provider has " +
			"confirmed it. Nothing is charged twice.",
	})
}
