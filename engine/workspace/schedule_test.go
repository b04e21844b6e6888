package workspace_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// scheduled is a bench whose flow has a schedule, and an agent that runs it.
func scheduled(t *testing.T, hours uint32, change ...func(*workspace.SetPolicy)) *bench {
	b := newBench(t, change...)
	b.done(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1", "other exec 2"}})
	b.every(hours)
	return b
}

func (b *bench) every(hours uint32) {
	b.t.Helper()
	b.done(workspace.KindScheduleFlow, &workspace.ScheduleFlow{
		Workspace: 1, Flow: flowOne, EveryHours: hours,
	})
}

// answered notes what the flow's verification answers.
func (b *bench) answered() {
	b.t.Helper()
	f, _ := b.m.Flow(1, flowOne)
	b.done(workspace.KindNotePreflight, &workspace.NotePreflight{
		Workspace: 1, ID: flowOne, Version: f.Version, NoKey: workspace.CalledRefused,
	})
}

// begun are the instants for which runs of the flow began by themselves, newest first.
func (b *bench) begun() (at []int64) {
	runs, _ := b.m.Runs(1, workspace.Page{Limit: 100})
	for i := range runs {
		if runs[i].Scheduled != 0 {
			at = append(at, runs[i].Scheduled)
		}
	}
	return at
}

func (b *bench) skips() (reasons []string) {
	all, _ := b.m.Notifications(1, workspace.Page{Limit: 100})
	for i := range all {
		if all[i].Kind == workspace.NoticeScheduleSkipped {
			reasons = append(reasons, all[i].Skip.String())
		}
	}
	return reasons
}

// TestAnInstantBeginsOneRun: whatever time does, however often the machine is restarted and whether
// a preflight is noted or not, the runs that began by themselves are those of a model: one for each
// time that entries came after an instant, of the newest instant, and none while one is open.
func TestAnInstantBeginsOneRun(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		b := scheduled(t, 1)
		const hour = int64(time.Hour / time.Millisecond)
		phase, seen := b.log.Stamp, map[int64]bool{}
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			before := (b.log.Stamp - phase) / hour
			b.pass(rapid.SampledFrom([]time.Duration{
				time.Minute, 59 * time.Minute, time.Hour, time.Hour, 3*time.Hour + time.Second,
			}).Draw(r, "later"))
			if rapid.Bool().Draw(r, "restart") {
				b.restart()
			}
			late := rapid.SampledFrom([]bool{false, false, true}).Draw(r, "late")
			if wait := (2 * time.Minute).Milliseconds(); late && (b.log.Stamp-phase)%hour+wait < hour {
				b.pass(2 * time.Minute)
			} else {
				b.answered()
			}
			if rapid.Bool().Draw(r, "restart again") {
				b.restart()
			}
			now := (b.log.Stamp - phase) / hour
			if now > before {
				seen[phase+now*hour] = true
			}
			require.Empty(t, b.m.Broken())
			require.Len(t, b.begun(), len(seen), "one for each time that an hour came")
			for _, at := range b.begun() {
				require.True(t, seen[at], "%d is the newest instant of then", at-phase)
			}
			b.ends()
		}
	})
}

// ends lets whichever runs are open end.
func (b *bench) ends() {
	for {
		f, _ := b.m.Flow(1, flowOne)
		if f.Open == ([16]byte{}) {
			return
		}
		b.finish(f.Open, "cancelled", "")
	}
}

// TestSkipsAreToldOnce: each reason once, until the schedule has begun a run again; a purchase is
// never asked for, and what was skipped costs nothing.
func TestSkipsAreToldOnce(t *testing.T) {
	settings := func(change func(*workspace.SetPolicy)) func(*bench) {
		return func(b *bench) {
			p := b.m.Policy()
			change(&p)
			b.done(workspace.KindSetPolicy, &p)
		}
	}
	mended := settings(func(p *workspace.SetPolicy) {
		p.FreeRunsPerMonth, p.RunsPerDay, p.FreeRunsPerDay, p.CreditsRun = 1000, 1000, 1000, 0
	})
	save := func(change func(*workspace.FlowDocument)) func(*bench) {
		return func(b *bench) {
			d := document()
			change(&d)
			b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
				Workspace: 1, ID: flowOne, Replace: true, Document: d,
			})
		}
	}
	agents := func(names ...string) func(*bench) {
		return func(b *bench) { b.done(workspace.KindSetAgents, &workspace.SetAgents{Agents: names}) }
	}
	for reason, row := range map[string]struct{ breaks, mends func(*bench) }{
		"payment_required": {settings(func(p *workspace.SetPolicy) { p.FreeRunsPerMonth = 0 }), mended},
		"free_capacity_exhausted": {
			settings(func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 0 }), mended,
		},
		"run_limit_reached":    {settings(func(p *workspace.SetPolicy) { p.RunsPerDay = 0 }), mended},
		"insufficient_credits": {settings(func(p *workspace.SetPolicy) { p.CreditsRun = 5 }), mended},
		"no_agent":             {agents(), agents("clever exec 1")},
		"flow_busy":            {func(b *bench) { b.waitForPerson() }, func(b *bench) { b.ends() }},
		"test_access_missing": {
			save(func(d *workspace.FlowDocument) { d.Access = "test_account" }),
			save(func(*workspace.FlowDocument) {}),
		},
		"verification_open": {
			save(func(d *workspace.FlowDocument) { d.Credential = "bearer" }),
			save(func(*workspace.FlowDocument) {}),
		},
	} {
		b := scheduled(t, 1)
		instant := func() {
			b.pass(time.Hour)
			b.pass(2 * time.Minute)
		}
		row.breaks(b)
		for range 3 {
			instant()
		}
		require.Equal(t, []string{reason}, b.skips())
		require.Empty(t, b.begun(), reason)
		row.mends(b)
		instant()
		require.Len(t, b.begun(), 1, reason)
		b.ends()
		row.breaks(b)
		instant()
		require.Equal(t, []string{reason, reason}, b.skips(), "it ran again since")
		purchases, _ := b.m.Purchases(1, workspace.Page{Limit: 1})
		require.Empty(t, purchases, reason)
		require.Empty(t, b.m.Broken(), reason)
	}
}

// waitForPerson lets a run of the flow wait for a person, for as long as that takes.
func (b *bench) waitForPerson() {
	run := b.begin(fmt.Sprint("waits ", b.log.Stamp))
	b.done(workspace.KindAwaitPerson, &workspace.AwaitPerson{Run: run, Token: 1, Question: "code?"})
}

// TestAFullQueueIsTriedAgain: each minute, until the next instant has come; said once.
func TestAFullQueueIsTriedAgain(t *testing.T) {
	b := scheduled(t, 1, func(p *workspace.SetPolicy) { p.QueueLimit = 0 })
	instant := b.log.Stamp + time.Hour.Milliseconds()
	b.pass(time.Hour)
	b.answered()
	for range 30 {
		b.pass(time.Minute)
	}
	require.Equal(t, []string{"runner_busy"}, b.skips())
	require.Empty(t, b.begun())
	p := b.m.Policy()
	p.QueueLimit = 1
	b.done(workspace.KindSetPolicy, &p)
	b.pass(time.Minute)
	require.Equal(t, []int64{instant}, b.begun())
	f, _ := b.m.Flow(1, flowOne)
	require.Equal(t, instant+time.Hour.Milliseconds(), f.NextRunAt, "the phase stays")
}

// TestWhoRunsAScheduledFlow: the agent that the flow names, as it is configured when its instant
// comes, and no other whose name begins so.
func TestWhoRunsAScheduledFlow(t *testing.T) {
	b := scheduled(t, 1)
	d := document()
	d.Agent = "other"
	b.done(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: 1, ID: flowOne, Replace: true, Document: d,
	})
	b.done(workspace.KindSetAgents, &workspace.SetAgents{
		Agents: []string{"clever exec 1", "otherwise exec 1", "other exec 3"},
	})
	b.pass(time.Hour)
	b.answered()
	runs, _ := b.m.Runs(1, workspace.Page{Limit: 1})
	require.Equal(t, workspace.Agent{Name: "other", Kind: "exec", Version: "3"}, runs[0].Agent)
	b.ends()
	b.done(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"otherwise exec 1"}})
	b.pass(time.Hour)
	require.Equal(t, []string{"no_agent"}, b.skips())
}

// TestWhoMayHaveASchedule: a flow of a workspace with an owner, that an agent can run as it will
// be; with the flow it is saved whole, or not at all.
func TestWhoMayHaveASchedule(t *testing.T) {
	b := newBench(t)
	save := func(change func(*workspace.ScheduleFlow)) *workspace.ScheduleFlow {
		c := &workspace.ScheduleFlow{
			Workspace: 1, Flow: enginetest.ID("new"), EveryHours: 1, Save: true, Document: document(),
		}
		change(c)
		return c
	}
	none := func(*workspace.ScheduleFlow) {}
	b.refused(engine.OutcomeScheduleUnavailable, workspace.KindScheduleFlow, save(none))
	b.done(workspace.KindSetAgents, &workspace.SetAgents{Agents: []string{"clever exec 1"}})
	b.done(workspace.KindSignUp, &workspace.SignUp{
		ID: enginetest.ID("free"), KeyID: enginetest.ID("k2"), KeyHash: [32]byte{3}, Label: "free",
		ClaimHash: [32]byte{4}, Scopes: workspace.ScopesAll,
	})
	b.refused(engine.OutcomePersonRequired, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Workspace = 2 }))
	b.refused(engine.OutcomeScheduleUnavailable, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Document.Credential = "bearer" }))
	b.refused(engine.OutcomeScheduleUnavailable, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Document.Agent = "nobody" }))
	b.refused(engine.OutcomeFlowOptions, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Document.VerificationURL = "" }))
	b.refused(engine.OutcomeRecordUnknown, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Replace = true }))
	_, known := b.m.Flow(1, enginetest.ID("new"))
	require.False(t, known)
	b.done(workspace.KindScheduleFlow, save(none))
	for i := range workspace.MaxSchedules - 1 {
		b.done(workspace.KindScheduleFlow, save(func(c *workspace.ScheduleFlow) {
			c.Flow = enginetest.ID(fmt.Sprint("more ", i))
		}))
	}
	b.refused(engine.OutcomeScheduleLimit, workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Flow = enginetest.ID("one more") }))
	b.done(workspace.KindScheduleFlow, save(func(c *workspace.ScheduleFlow) {
		c.Save, c.EveryHours = false, 168
	}))
	b.done(workspace.KindArchiveFlow, &workspace.ArchiveFlow{
		Workspace: 1, ID: enginetest.ID("new"),
	})
	b.done(workspace.KindScheduleFlow,
		save(func(c *workspace.ScheduleFlow) { c.Flow = enginetest.ID("one more") }))
	require.Empty(t, b.m.Broken())
}
