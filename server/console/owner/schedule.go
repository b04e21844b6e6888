package owner

import (
	"fmt"
	"strconv"
	"strings"

	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/console/page"
	api "tollgate/server/workspace"
)

// Scheduled describes the flow's schedule in words; the next instant follows it.
func (f *flowPage) Scheduled() string {
	switch f.EveryHours {
	case 0:
		return "A run begins when you or an agent starts one, and at no other time."
	case 1:
		return "A run starts automatically every hour, next"
	}
	return fmt.Sprintf("A run starts automatically every %d hours, next", f.EveryHours)
}

// MaxHours is the longest time between two runs.
func (f *flowPage) MaxHours() int { return state.MaxScheduleHours }

// setSchedule sets or ends a flow's schedule.
func setSchedule(v *visit, id [16]byte) {
	c := &state.ScheduleFlow{Workspace: v.who.Workspace, Flow: id}
	what, fault := "unscheduled", (*server.Fault)(nil)
	if v.fields.Get("action") != "end" {
		what = "scheduled"
		hours, err := strconv.ParseUint(v.typed("hours"), 10, 8)
		if err != nil || hours < 1 || hours > state.MaxScheduleHours {
			fault = server.NewFault(400, "invalid_field",
				fmt.Sprintf("Hours are a whole number of 1 to %d", state.MaxScheduleHours)).With(
				"Nothing was changed. 24 is once a day, 168 once a week.")
		}
		c.EveryHours = uint32(hours)
	}
	if fault == nil {
		fault = v.config.Workspaces.Decide(v.decision(v.who.Workspace), state.KindScheduleFlow, c)
	}
	v.finish(fault, showFlow, Root+"/flows/"+api.NounFlow.Text(id), what)
}

// accessPage is for which hosts test credentials are stored, and the form for one.
type accessPage struct {
	Hosts []state.AccessView
	// Host, Username and Note are the form's values: those just refused.
	Host, Username, Note string
	Most                 int
	Path                 string
}

const accessPath = Root + "/test-access"

func showAccess(v *visit) {
	data := &accessPage{
		Hosts: v.config.Machine.TestAccesses(v.who.Workspace), Host: v.query("host"),
		Most: state.MaxTestAccess, Path: accessPath,
	}
	if v.status != 0 {
		data.Host, data.Username = v.fields.Get("host"), v.fields.Get("username")
		data.Note = v.fields.Get("note")
	}
	v.show(page.View{
		Page: "access", Title: "Test credentials", Data: data,
		Lead: "Credentials for flows with a test account. They are sealed, and not shown again.",
	})
}

// setAccess stores test credentials of a host, or forgets them.
func setAccess(v *visit) {
	host, d := v.typed("host"), v.decision(v.who.Workspace)
	if v.fields.Get("action") == "remove" {
		fault := v.config.Workspaces.Decide(d, state.KindRemoveTestAccess, &state.RemoveTestAccess{
			Workspace: v.who.Workspace, Host: host,
		})
		v.finish(fault, showAccess, accessPath, "access-gone")
		return
	}
	fault := v.config.Workspaces.Flows.SetTestAccess(d, host, &api.TestCredentials{
		Username: v.fields.Get("username"), Password: v.fields.Get("password"),
		Note: strings.ReplaceAll(v.fields.Get("note"), "\r\n", "\n"),
	})
	v.finish(fault, showAccess, accessPath, "access")
}
