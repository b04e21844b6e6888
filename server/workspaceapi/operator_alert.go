package workspaceapi

import (
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
	"tollgate/server"
)

// alertTools are the tools by which an operator sets a flow's alerts for the owner.
func (o *Operator) alertTools() []server.Route {
	const path = "/flows/{flow}/alerts"
	answer := server.Object(secretly()...)
	return []server.Route{
		tool(path, "setFlowAlerts",
			"Set a flow's alerts for the owner; a secret that webhooks are signed with is shown once",
			o.alertTool(o.setAlerts), alertsForm(), answer),
		tool(path+"/secret", "rotateFlowAlertSecret",
			"Replace the signing secret for the owner; the one before signs alongside it for 24 hours",
			o.alertTool(o.rotateAlertSecret), server.Object(), answer),
		tool(path+"/test", "testFlowAlert", "Send a test alert for the owner",
			o.alertTool(o.testAlert), server.Object(), answer),
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

// alertTool is the handler that carries out what read makes of a request.
func (o *Operator) alertTool(
	read func(x *server.Exchange, row uint32, flow [16]byte) (alertAct, *server.Fault),
) func(*server.Exchange) *server.Fault {
	return func(x *server.Exchange) *server.Fault {
		row, fault := o.tenant(x)
		if fault != nil {
			return fault
		}
		flow, _ := parseID(markFlow, string(x.Param(1)))
		if _, known := o.machine.Flow(row, flow); !known {
			return server.NewFault(404, "not_found", "No such flow")
		}
		made, fault := read(x, row, flow)
		if fault == nil {
			fault = o.act(x, row, made.kind, made.change)
		}
		if fault != nil {
			return fault
		}
		now, _ := o.alertsOf(row, flow, made.sealed, made.shown)
		return server.One(x, 200, &now, writeAlerts)
	}
}

func (o *Operator) setAlerts(x *server.Exchange, row uint32, flow [16]byte) (
	alertAct, *server.Fault,
) {
	b := open(x, false)
	c, shown := o.alerts.alertSettings(b, row, flow)
	fault := closed(b)
	if refused := o.alerts.cannotSend(c); fault == nil && refused != nil {
		fault = server.NewFault(503, refused.Code, refused.Message)
	}
	return alertAct{workspace.KindSetAlerts, c, c.Secret, shown}, fault
}

func (o *Operator) rotateAlertSecret(x *server.Exchange, row uint32, flow [16]byte) (
	alertAct, *server.Fault,
) {
	if fault := closed(open(x, true)); fault != nil {
		return alertAct{}, fault
	}
	sealed, shown := o.alerts.mintAlertSecret(flow)
	return alertAct{
		workspace.KindRotateAlertSecret,
		&workspace.RotateAlertSecret{Workspace: row, Flow: flow, Secret: sealed}, sealed, shown,
	}, nil
}

func (o *Operator) testAlert(x *server.Exchange, row uint32, flow [16]byte) (
	alertAct, *server.Fault,
) {
	return alertAct{
		kind:   workspace.KindSendTestAlert,
		change: &workspace.SendTestAlert{Workspace: row, Flow: flow},
	}, closed(open(x, true))
}
