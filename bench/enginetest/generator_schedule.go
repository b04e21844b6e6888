package enginetest

import (
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// agents are those that are configured: none, or one that every flow takes.
func (g *workspaceGenerator) agents() engine.Record {
	c := &workspace.SetAgents{}
	if g.pick("agents", "nop", "nop", "nop", "none") == "nop" {
		c.Agents = []string{"clever exec 1"}
	}
	return record(workspace.KindSetAgents, c)
}

// schedule lets a flow's runs begin by themselves, or ends that; an owner, an operator for them, or
// who is not allowed to.
func (g *workspaceGenerator) schedule() engine.Record {
	row, flow := g.row(), g.pick("flow", "one", "two")
	c := &workspace.ScheduleFlow{
		Workspace: row, Flow: ID("flow " + flow),
		EveryHours: sample[uint32](g.t, "hours", 0, 1, 1, 1, 2, 24, 168, 169),
	}
	if g.flag("saves") {
		saved := g.document()
		c.Save, c.Replace, c.Document = true, g.flag("replace"), saved
	}
	if g.flag("operator") {
		return g.acted(record(workspace.KindScheduleFlow, c))
	}
	return record(workspace.KindScheduleFlow, c)
}

// access stores test credentials of a host, or forgets them.
func (g *workspaceGenerator) access() engine.Record {
	row, host := g.row(), g.pick("host", "product.example", "b.example", "")
	var r engine.Record
	if g.flag("stores") {
		r = record(workspace.KindSetTestAccess, &workspace.SetTestAccess{
			Workspace: row, Host: host, Sealed: []byte(g.pick("sealed", "s1", "s2 longer", "")),
		})
	} else {
		r = record(workspace.KindRemoveTestAccess, &workspace.RemoveTestAccess{
			Workspace: row, Host: host,
		})
	}
	if g.flag("operator") {
		return g.acted(r)
	}
	return r
}

// regular is a flow whose next run begins by itself an hour later, and ends by itself: of the
// entries behind it.
func (g *workspaceGenerator) regular() []engine.Record {
	row := sample[uint32](g.t, "of", 1, 1, 2)
	flow := map[uint32]string{1: "one", 2: "two"}[row]
	g.pauses = []int64{0, 3_600_000, 130_000, 700_000}
	return []engine.Record{
		agreed(engine.Version),
		record(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1"}}),
		record(workspace.KindScheduleFlow, &workspace.ScheduleFlow{
			Workspace: row, Flow: ID("flow " + flow), EveryHours: 1,
		}),
	}
}
