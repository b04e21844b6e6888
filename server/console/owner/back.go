package owner

import (
	"errors"
	"time"

	"tollgate/server"
	"tollgate/server/console/page"
	api "tollgate/server/workspace"
)

// returnRoute is where payers come back to from the payment provider's page.
func (p *Pages) returnRoute() server.Route {
	return server.Route{
		Method: "GET", Path: api.ReturnPath + "{id}", Operation: "owner return",
		Access: server.AccessOpen, Handle: p.showReturn,
	}
}

// showReturn leads the owner to the purchase's page. All others, payers included, see what happens
// next, and nothing about the purchase. The address names the purchase but no destination: that is
// always a page of ours. It changes nothing.
func (p *Pages) showReturn(x *server.Exchange) {
	v := &visit{Pages: p, x: x}
	who, err := p.config.Visitors.Visitor(x)
	if err != nil && !errors.Is(err, ErrSignedOut) ||
		!server.Fresh(p.config.Reader, time.Now().Add(p.config.ReadTimeout)) {
		v.fail(faultBusy)
		return
	}
	id, ok := v.id(api.NounPurchase)
	if !ok {
		return
	}
	path := Root + "/purchases/" + api.NounPurchase.Text(id)
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
