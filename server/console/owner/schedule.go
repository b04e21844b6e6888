package owner

import (
	"fmt"
	"strconv"
	"strings"

	"tollgate/engine/workspace"
	sdk "tollgate/sdk/go"
	"tollgate/server/console/page"
	"tollgate/server/workspaceapi"
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
func (f *flowPage) MaxHours() int { return workspace.MaxScheduleHours }

// setSchedule sets or ends a flow's schedule.
func setSchedule(v *visit, id [16]byte) {
	c, what := sdk.FlowChange{Schedule: sdk.Clear[sdk.FlowSchedule]()}, "unscheduled"
	if v.fields.Get("action") != "end" {
		hours, err := strconv.Atoi(v.typed("hours"))
		if err != nil {
			hours = 0 // which the row refuses in its words
		}
		c.Schedule, what = sdk.Set(sdk.FlowSchedule{EveryHours: hours}), "scheduled"
	}
	fault := v.ask("changeFlow", c, nil, workspaceapi.NounFlow.Text(id))
	v.finish(fault, showFlow, Root+"/flows/"+workspaceapi.NounFlow.Text(id), what)
}

// accessPage is for which hosts test credentials are stored, and the form for one.
type accessPage struct {
	Hosts []workspace.AccessView
	// Host, Username and Note are the form's values: those just refused.
	Host, Username, Note string
	Max                  int
	Path                 string
}

const accessPath = Root + "/test-access"

func showAccess(v *visit) {
	data := &accessPage{
		Hosts: v.config.Machine.TestAccesses(v.who.Workspace), Host: v.query("host"),
		Max: workspace.MaxTestAccess, Path: accessPath,
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
	host := v.typed("host")
	if v.fields.Get("action") == "remove" {
		fault := v.ask("removeTestAccess", nil, nil, host)
		v.finish(fault, showAccess, accessPath, "access-gone")
		return
	}
	fault := v.ask("setTestAccess", map[string]string{
		"username": v.fields.Get("username"), "password": v.fields.Get("password"),
		"note": strings.ReplaceAll(v.fields.Get("note"), "\r\n", "\n"),
	}, nil, host)
	v.finish(fault, showAccess, accessPath, "access")
}
