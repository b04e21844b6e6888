package workspace_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// inspected is an inspection whose document has so many bytes, of which the first come with it.
func inspected(name string, size, first int) *workspace.SaveInspection {
	return &workspace.SaveInspection{
		Workspace: 1, ID: enginetest.ID(name), Kind: workspace.RunInspection, Host: "acme.example",
		Size: uint32(size), Part: make([]byte, first),
	}
}

// TestInspectionsAreBounded: nothing is kept that is larger than its bounds, and no refusal changes
// anything.
func TestInspectionsAreBounded(t *testing.T) {
	m, l := guests()
	part := workspace.MaxPartBytes
	for name, change := range map[string]func(*workspace.SaveInspection){
		"nothing":        func(c *workspace.SaveInspection) { c.Part = nil },
		"a large part":   func(c *workspace.SaveInspection) { c.Part = make([]byte, part+1) },
		"more than all":  func(c *workspace.SaveInspection) { c.Size = 1 },
		"a large whole":  func(c *workspace.SaveInspection) { c.Size = workspace.MaxDocumentBytes + 1 },
		"a long host":    func(c *workspace.SaveInspection) { c.Host = strings.Repeat("a", 300) },
		"many findings":  func(c *workspace.SaveInspection) { c.Findings = make([]workspace.Finding, 21) },
		"a long quote":   func(c *workspace.SaveInspection) { c.Findings[0].Quote = strings.Repeat("a", 301) },
		"a long rule":    func(c *workspace.SaveInspection) { c.Findings[0].Rule = strings.Repeat("a", 65) },
		"a long verdict": func(c *workspace.SaveInspection) { c.Findings[0].Verdict = strings.Repeat("a", 65) },
		"a long field":   func(c *workspace.SaveInspection) { c.Findings[0].Field = strings.Repeat("a", 65) },
	} {
		c := inspected("x", part+1, part)
		c.Findings = []workspace.Finding{{Field: "api"}}
		change(c)
		require.Equal(t, engine.OutcomeTooLarge, l.Do(workspace.KindSaveInspection, c).Outcome, name)
	}
	before, _ := m.Held(1)
	r := l.Do(workspace.KindSaveInspection, inspected("x", workspace.MaxUnclaimedBytes, 1))
	require.Equal(t, engine.OutcomeWorkspaceFull, r.Outcome, "there is room for all of it, or none")
	held, _ := m.Held(1)
	require.Equal(t, before, held)

	require.Equal(t, engine.OutcomeDone,
		l.Do(workspace.KindSaveInspection, inspected("x", 2*part+1, 1)).Outcome)
	large := &workspace.AddInspectionPart{Run: enginetest.ID("x"), From: 1, Part: make([]byte, part+1)}
	require.Equal(t, engine.OutcomeTooLarge, l.Do(workspace.KindAddInspectionPart, large).Outcome)
	held, _ = m.Held(1)
	require.Greater(t, held, before+uint64(2*part), "what was announced is held at once")
	l.Stamp += 61_000
	l.DoPayload(engine.KindTick, nil)
	held, _ = m.Held(1)
	require.Less(t, held, before+1000, "what was never whole is given back")
	require.Empty(t, m.Broken())
}

// TestInspectionsOfADay: a workspace saves so many in a UTC day; the next day begins anew.
func TestInspectionsOfADay(t *testing.T) {
	m, l := guests()
	for i := range workspace.MaxInspectionsPerDay {
		c := inspected(fmt.Sprint("i", i), 1, 1)
		if c.Kind = workspace.RunInspection; i%2 == 0 {
			c.Kind = workspace.RunAssessment
		}
		require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindSaveInspection, c).Outcome)
	}
	r := l.Do(workspace.KindSaveInspection, inspected("more", 1, 1))
	require.Equal(t, engine.OutcomeRunLimit, r.Outcome)
	var retry workspace.RetryReply
	require.NoError(t, wire.Decode(r.Value, &retry))
	require.EqualValues(t, workspace.MaxInspectionsPerDay, retry.Limit)
	asked := m.Inspectable(1, workspace.RunAssessment, l.Stamp)
	require.Equal(t, r, asked, "what would be refused is known before")
	require.Equal(t, engine.OutcomeDone, m.Inspectable(2, workspace.RunAssessment, l.Stamp).Outcome)
	l.Stamp = retry.ResetsAt
	require.Equal(t, engine.OutcomeDone,
		l.Do(workspace.KindSaveInspection, inspected("more", 1, 1)).Outcome)
}

// TestPartsAreInTheSnapshot: a document that has come in part goes on behind a restore, and is the
// same as without one.
func TestPartsAreInTheSnapshot(t *testing.T) {
	m, l := guests()
	whole := []byte("a document in three parts")
	c := inspected("x", len(whole), 0)
	c.Part = whole[:8]
	l.Do(workspace.KindSaveInspection, c)
	bring := func(from, to int) *workspace.AddInspectionPart {
		return &workspace.AddInspectionPart{
			Run: c.ID, From: uint32(from), Part: slices.Clone(whole[from:to]),
		}
	}
	l.Do(workspace.KindAddInspectionPart, bring(8, 16))
	m = restored(t, enginetest.Snapshot(t, m))
	l.Machine = m
	_, ok := m.Inspection(1, c.ID)
	require.False(t, ok, "it is not whole")
	require.Equal(t, engine.OutcomeDone, l.Do(workspace.KindAddInspectionPart, bring(16, 25)).Outcome)
	v, ok := m.Inspection(1, c.ID)
	require.True(t, ok)
	require.Equal(t, whole, v.Document)
	_, ok = m.Inspection(2, c.ID)
	require.False(t, ok, "another workspace's")
	require.Empty(t, m.Broken())
}

// TestAKeyIsUsedUpByAWholeDocument: until it is there, the key's run is the one that is under way;
// when that has failed, the key is as new, for whatever body.
func TestAKeyIsUsedUpByAWholeDocument(t *testing.T) {
	m, l := guests()
	key := enginetest.ID("key")
	save := func(name string, first int) workspace.RunReply {
		c := inspected(name, 2, first)
		c.Key, c.Body = key, enginetest.ID("body")
		r := l.Do(workspace.KindSaveInspection, c)
		require.Equal(t, engine.OutcomeDone, r.Outcome)
		var reply workspace.RunReply
		require.NoError(t, wire.Decode(r.Value, &reply))
		return reply
	}
	require.Equal(t, workspace.RunReply{ID: enginetest.ID("x")}, save("x", 1))
	require.Equal(t, workspace.RunReply{ID: enginetest.ID("x"), Repeated: true}, save("y", 1))
	l.Stamp += 61_000
	l.DoPayload(engine.KindTick, nil)
	for _, body := range []string{"body", "another"} {
		_, o := m.Replay(key, enginetest.ID(body))
		require.Equal(t, engine.OutcomeNone, o, body)
	}
	m = restored(t, enginetest.Snapshot(t, m))
	l.Machine = m
	require.Equal(t, workspace.RunReply{ID: enginetest.ID("z")}, save("z", 2))
	require.Equal(t, workspace.RunReply{ID: enginetest.ID("z"), Repeated: true}, save("again", 2))
	_, o := m.Replay(key, enginetest.ID("another"))
	require.Equal(t, engine.OutcomeRequestKeyReused, o)
	require.Empty(t, m.Broken())
}
