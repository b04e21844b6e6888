package owner

import (
	"crypto/sha256"
	"strconv"
	"time"

	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
)

// confirmRoutes are the page that confirms an e-mail address for alerts. It needs no session: the
// link was mailed to that address alone. GET shows, POST acts.
func (p *Pages) confirmRoutes() []server.Route {
	const path = Root + workspaceapi.ConfirmPath + "{flow}/{token}"
	return []server.Route{
		{
			Method: "GET", Path: path, Operation: "owner asks address", Access: server.AccessOpen,
			Handle: p.showAddress,
		},
		{
			Method: "POST", Path: path, Operation: "owner confirms address", Access: server.AccessOpen,
			Media: page.FormMedia, Limit: formLimit, Handle: p.confirmAddress,
		},
	}
}

var faultAddress = server.NewFault(404, "not_found", "This link is no longer valid").With(
	"A link works once, for 24 hours, and for the address that is set now. Nothing was changed. " +
		"The owner of the workspace can have another one sent.")

type addressPage struct {
	workspace.AddressView
	Path string
	Done bool
}

// address reads a link; false when it is answered.
func (p *Pages) address(x *server.Exchange) (v *visit, data addressPage, ok bool) {
	v = &visit{Pages: p, x: x}
	if !server.Fresh(p.config.Reader, time.Now().Add(p.config.ReadTimeout)) {
		v.fail(faultBusy)
		return v, data, false
	}
	flow, _ := workspaceapi.NounFlow.Parse(string(x.Param(0)))
	data.AddressView, ok = p.config.Machine.AddressByLink(flow, sha256.Sum256(x.Param(1)), v.now())
	if !ok {
		v.fail(faultAddress)
		return v, data, false
	}
	data.Path = string(x.Ctx.Path())
	return v, data, true
}

func (p *Pages) showAddress(x *server.Exchange) {
	if v, data, ok := p.address(x); ok {
		v.site.Show(x, 200, &page.View{
			Page: "address", Title: "May alerts be sent to you?", Plain: true, Data: data,
		})
	}
}

func (p *Pages) confirmAddress(x *server.Exchange) {
	v, data, ok := p.address(x)
	if !ok {
		return
	}
	_, fault := p.site.Fields(x) // from this page, not from another site
	if fault == nil {
		fault = v.ask("confirmAddress", nil, nil, string(x.Param(0)), string(x.Param(1)))
	}
	if fault != nil {
		v.fail(fault)
		return
	}
	data.Done = true
	v.site.Show(x, 200, &page.View{
		Page: "address", Title: "Alerts are sent to you from now on", Plain: true, Data: data,
		Lead: "You may close this page. Each mail has a link to turn off its alerts.",
	})
}

// linkShown says until when the link works that a page has shown; 0 is none.
type linkShown struct {
	LinkUntil int64 `json:"linkUntil"`
}

// askAddress mails the link that asks for an address once more.
func askAddress(v *visit, id [16]byte, data *alertsPage) {
	until, err := strconv.ParseInt(v.typed("until"), 10, 64)
	if err != nil {
		until = 0 // as if there were no link
	}
	fault := v.ask("askAddress", linkShown{until}, nil, workspaceapi.NounFlow.Text(id))
	done := "asked"
	if askedBefore(fault) {
		fault, done = nil, "asked-before"
	}
	v.finish(fault, showAlerts, data.Path, done)
}

// askedBefore reports whether another form has asked for the link: it is not known here whether its
// mail went out.
func askedBefore(fault *server.Fault) bool {
	return fault != nil && fault.Code == workspaceapi.FaultAsked.Code
}
