package enginetest

import (
	"fmt"

	"tollgate/engine/workspace"
)

// agents reads `agents [NAME…]`: those that are configured, the default one first.
func (s *workspaceScenario) agents(l *line) string {
	c := &workspace.SetAgents{}
	for i := 0; l.word(i) != ""; i++ {
		c.Agents = append(c.Agents, l.word(i)+" exec 1")
	}
	return s.do(workspace.KindSetAgents, c)
}

// schedule reads `schedule WORKSPACE [flow=] hours=`.
func (s *workspaceScenario) schedule(l *line) string {
	return s.do(workspace.KindScheduleFlow, &workspace.ScheduleFlow{
		Workspace: s.row(l.word(0)), Flow: s.flowID(l), EveryHours: uint32(l.number("hours", 0)),
	})
}

// scheduled prints when a flow's runs begin by themselves, and the newest of them.
func (s *workspaceScenario) scheduled(l *line) string {
	row := s.row(l.word(0))
	f, ok := s.m.Flow(row, s.flowID(l))
	if !ok {
		return "unknown"
	}
	text := "no schedule"
	if f.EveryHours != 0 {
		text = fmt.Sprintf("every %d h, next %s", f.EveryHours, show(f.NextRunAt))
	}
	if wanted, _ := s.m.WantedPreflights(0, 1); len(wanted) > 0 {
		text += ", a preflight is wanted"
	}
	runs, _ := s.m.Runs(row, workspace.Page{Limit: 100})
	for i := range runs {
		r := &runs[i]
		if r.Scheduled == 0 || r.Flow != f.ID {
			continue
		}
		text += fmt.Sprintf("\n%s at %s for %s by %s charge=%s", r.Status, show(r.CreatedAt),
			show(r.Scheduled), r.Agent, charge(&r.RunCharge))
	}
	return text
}

// newestRun is the newest run of a workspace that a schedule has begun.
func (s *workspaceScenario) newestRun(row uint32) (id [16]byte) {
	runs, _ := s.m.Runs(row, workspace.Page{Limit: 100})
	for i := range runs {
		if runs[i].Scheduled != 0 {
			return runs[i].ID
		}
	}
	return id
}

// finishScheduled reads `finish-scheduled WORKSPACE OUTCOME`: of the newest that a schedule began.
func (s *workspaceScenario) finishScheduled(l *line) string {
	return s.do(workspace.KindFinishRun, &workspace.FinishRun{
		Run: s.newestRun(s.row(l.word(0))), Token: 1, Status: workspace.RunCompleted,
		Outcome: named[workspace.RunOutcome](l.word(1)),
	})
}
