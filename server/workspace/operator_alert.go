package workspace

import (
	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
)

// alertTools are the tools by which an operator sets a flow's alerts for the owner.
func (o *Operator) alertTools(tool operatorTool) []server.Route {
	const path = "/flows/{flow}/alerts"
	answer := func(r server.Route) server.Route {
		r.Responses[0].Data = server.Object(secretly()...)
		return r
	}
	return []server.Route{
		answer(tool(path, "setFlowAlerts",
			"Set a flow's alerts for the owner; a secret that webhooks are signed with is shown once",
			o.alertTool(o.setAlerts), named("flow"), alertsForm())),
		answer(tool(path+"/secret", "rotateFlowAlertSecret",
			"Replace the signing secret for the owner; the one before signs alongside it for 24 hours",
			o.alertTool(o.rotateAlertSecret), named("flow"), server.Object())),
		answer(tool(path+"/test", "testFlowAlert", "Send a test alert for the owner",
			o.alertTool(o.testAlert), named("flow"), server.Object())),
	}
}

// alertAct is an operator's change of a flow's alerts.
type alertAct struct {
	kind   engine.Kind
	change wire.Fielder
	// sealed is the secret that the change may make, shown what an operator is shown of it.
	sealed []byte
	shown  string
}

// alertTool carries out what read makes of a request; read refuses itself.
func (o *Operator) alertTool(
	read func(x *server.Exchange, row uint32, flow [16]byte) (alertAct, bool),
) func(*server.Exchange) {
	return func(x *server.Exchange) {
		row, ok := o.tenant(x)
		if !ok {
			return
		}
		flow, _ := parseID(markFlow, string(x.Param(1)))
		if _, known := o.machine.Flow(row, flow); !known {
			x.Refuse(server.NewFault(404, "not_found", "No such flow"))
			return
		}
		made, ok := read(x, row, flow)
		if !ok || !o.act(x, row, made.kind, made.change) {
			return
		}
		now, _ := o.alertsOf(row, flow, made.sealed, made.shown)
		writeAlerts(x.Begin(), &now)
		x.End(200)
	}
}

func (o *Operator) setAlerts(x *server.Exchange, row uint32, flow [16]byte) (alertAct, bool) {
	b := open(x, false)
	c, shown, err := o.alerts.alertSettings(b, row, flow)
	if !o.form(x, b) {
		return alertAct{}, false
	}
	if refused := o.alerts.cannotSend(c); refused != nil {
		x.Refuse(server.NewFault(503, refused.Code, refused.Message))
		return alertAct{}, false
	}
	return alertAct{state.KindSetAlerts, c, c.Secret, shown}, o.sealed(x, err)
}

// sealed reports whether a secret could be made, and refuses where it could not.
func (o *Operator) sealed(x *server.Exchange, err error) bool {
	if err != nil {
		o.log.Error("a secret cannot be made", "error", err)
		x.Refuse(server.FaultConsistency)
	}
	return err == nil
}

func (o *Operator) rotateAlertSecret(x *server.Exchange, row uint32, flow [16]byte) (
	alertAct, bool,
) {
	if !o.form(x, open(x, true)) {
		return alertAct{}, false
	}
	sealed, shown, err := o.alerts.mintAlertSecret(flow)
	return alertAct{
		state.KindRotateAlertSecret,
		&state.RotateAlertSecret{Workspace: row, Flow: flow, Secret: sealed}, sealed, shown,
	}, o.sealed(x, err)
}

func (o *Operator) testAlert(x *server.Exchange, row uint32, flow [16]byte) (alertAct, bool) {
	ok := o.form(x, open(x, true))
	return alertAct{
		kind: state.KindSendTestAlert, change: &state.SendTestAlert{Workspace: row, Flow: flow},
	}, ok
}
