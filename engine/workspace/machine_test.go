package workspace_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

func entry(stamp int64, records ...engine.Record) []byte {
	e := engine.AppendHeader(nil, 1)
	for _, r := range records {
		e = engine.AppendRecord(e, r)
	}
	engine.SetStamp(e, stamp)
	return e
}

func check(index, hash uint64) engine.Record {
	payload := engine.AppendCheckState(nil, engine.CheckState{Index: index, Hash: hash})
	return engine.Record{Kind: engine.KindCheckState, Payload: payload}
}

var tick = engine.Record{Kind: engine.KindTick}

func TestApplyKnowsTheCommonKinds(t *testing.T) {
	m := opened()
	var out engine.Applied
	require.NoError(t, m.Apply(7, entry(1000, tick), &out))
	require.Equal(t, []engine.Result{{Outcome: engine.OutcomeDone}}, out.Results)
	require.EqualValues(t, 7, m.Applied())
	require.EqualValues(t, 1000, m.Stamp())
	index, hash := m.StateHash()
	require.EqualValues(t, 7, index)
	require.NotZero(t, hash)

	require.NoError(t, m.Apply(9, entry(900, check(index, hash), tick), &out))
	require.Len(t, out.Results, 2)
	require.EqualValues(t, 1000, m.Stamp(), "stamps never go backwards")
	require.Zero(t, m.NextDue())
	require.Nil(t, m.Journal())
}

func TestApplyHaltsAndChangesNothing(t *testing.T) {
	m := opened()
	var out engine.Applied
	require.NoError(t, m.Apply(7, entry(1000, tick), &out))
	before := enginetest.Snapshot(t, m)
	_, hash := m.StateHash()
	other := engine.AppendRecord(engine.AppendHeader(nil, 0), tick)
	failed := wire.Encode(nil, &workspace.FinishRun{
		Token: 1, Status: workspace.RunFailed, Outcome: workspace.OutcomePassed,
	})
	signUp := engine.Record{
		Kind: workspace.KindSignUp, Payload: wire.Encode(nil, &workspace.SignUp{Label: "x"}),
	}
	for name, bad := range map[string][]byte{
		"unknown kind":      entry(1001, signUp, engine.Record{Kind: 9999}),
		"another shard":     other,
		"another hash":      entry(1001, check(7, hash+1)),
		"short state check": entry(1001, engine.Record{Kind: engine.KindCheckState, Payload: []byte{1}}),
		"short hand-over":   entry(1001, engine.Record{Kind: engine.KindHandOver, Payload: make([]byte, 8)}),
		"a tick with bytes": entry(1001, engine.Record{Kind: engine.KindTick, Payload: []byte{1}}),
		"failed yet passed": entry(1001, engine.Record{Kind: workspace.KindFinishRun, Payload: failed}),
		"torn record":       append(entry(1001, signUp), 2, 16, 0),
		"version":           {9, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0},
		"empty":             nil,
	} {
		require.ErrorIs(t, m.Apply(8, bad, &out), engine.ErrHalt, name)
		require.True(t, bytes.Equal(before, enginetest.Snapshot(t, m)), name)
	}
	require.ErrorIs(t, m.Apply(7, entry(1001, tick), &out), engine.ErrHalt, "an entry again")
}

func TestRestoreRefusesWhatIsNoSnapshot(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 2, 2, 3)
	good := enginetest.Snapshot(t, m)
	for i := 0; i < len(good); i += 5 {
		bad := bytes.Clone(good)
		bad[i] ^= 0x10
		require.Error(t, opened().Restore(bytes.NewReader(bad)), "byte %d", i)
	}
	for n := 0; n < len(good); n += 3 {
		require.Error(t, opened().Restore(bytes.NewReader(good[:n])), "cut at %d", n)
	}
	require.Error(t, workspace.New(workspace.Config{Shard: 2}).Restore(bytes.NewReader(good)))
	require.NoError(t, opened().Restore(bytes.NewReader(good)))
}

// TestReadersSeeWholeCommands: queries run beside Apply, and an account never shows a run whose
// charge is neither left nor reserved nor used.
func TestReadersSeeWholeCommands(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 1, 1, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 300 {
			fillFlow(l, 1, fmt.Sprint("more", i), 3)
		}
	}()
	for reading := true; reading; {
		select {
		case <-done:
			reading = false
		default:
		}
		a, ok := m.Account(1, enginetest.Epoch)
		require.True(t, ok)
		require.Equal(t, a.StartedToday, a.FreeUsed)
		flows, _ := m.Flows(1, workspace.Page{Limit: 5})
		require.NotEmpty(t, flows)
		for _, r := range a.RecentRuns {
			require.Equal(t, r.Status.Final(), r.ChargeState == workspace.ChargeCommitted)
		}
	}
}

// FuzzApply: no entry makes the machine do anything but carry it out or halt.
func FuzzApply(f *testing.F) {
	for kind, c := range goldenCommands() {
		f.Add(uint16(kind), wire.Encode(nil, c))
	}
	f.Fuzz(func(t *testing.T, kind uint16, payload []byte) {
		m := opened()
		l := enginetest.NewLog(m, enginetest.Epoch)
		l.Shard = 1
		fill(l, 0, 1, 1, 1)
		r := engine.Record{Kind: engine.Kind(kind), Payload: payload}
		if err := m.Apply(l.Index+1, entry(l.Stamp, r), &engine.Applied{}); err != nil {
			require.ErrorIs(t, err, engine.ErrHalt)
			return
		}
		require.NoError(t, m.Apply(l.Index+2, entry(l.Stamp+1e10, tick), &engine.Applied{}))
		require.NoError(t, opened().Restore(bytes.NewReader(enginetest.Snapshot(t, m))))
		require.Empty(t, m.Broken())
	})
}
