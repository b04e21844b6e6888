package workspace

import (
	"tollgate/engine/billing"
	state "tollgate/engine/workspace"
	"tollgate/server/admin"
)

// Acts lists what operators did for owners, for the record of changes; see admin.Config.
func (o *Operator) Acts(before uint32, limit, scan int) (
	list []admin.Act, next uint32, ok bool,
) {
	if !o.fresh() {
		return nil, 0, false
	}
	views, next := o.machine.OperatorActs(before, limit, scan)
	for i := range views {
		v := &views[i]
		act := admin.Act{
			Workspace: idText(markWorkspace, v.Workspace),
			Change: billing.ChangeView{
				Number: uint64(v.Number), At: v.At, Actor: v.Actor, Action: "workspace." + v.Action,
				Subject: actSubject(&v.ActView),
			},
		}
		for _, c := range v.Changes {
			act.Change.Values = append(act.Change.Values, billing.FieldChange(c))
		}
		if v.Note != "" {
			act.Change.Values = append(act.Change.Values,
				billing.FieldChange{Name: "note", After: v.Note})
		}
		list = append(list, act)
	}
	return list, next, true
}

// actSubject is the id of the purchase or flow that an act is about; empty where it is about the
// workspace.
func actSubject(v *state.ActView) string {
	if v.Subject == ([16]byte{}) {
		return ""
	}
	switch v.Action {
	case "confirm_signup", "set_alerts", "rotate_alert_secret", "test_alert", "schedule_flow":
		return idText(markFlow, v.Subject)
	}
	return idText(markPurchase, v.Subject)
}
