package workspace_test

import (
	"bytes"
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/enginetest"
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

// fill makes workspaces with flows and finished runs, as the memory budget has them.
func fill(l *enginetest.Log, from, to, flows, runs int) {
	policy := workspace.DefaultPolicy()
	policy.SignupsPerHour, policy.RunsPerDay, policy.FreeRunsPerDay = 1<<31, 1<<31, 1<<31
	policy.FreeRunsPerMonth = 1 << 31
	l.Do(workspace.KindSetPolicy, &policy)
	for w := from; w < to; w++ {
		name := fmt.Sprint(w)
		hash := [32]byte(append(hashOf(name), hashOf("x"+name)...))
		l.Do(workspace.KindSignUp, &workspace.SignUp{
			ID: enginetest.ID("w" + name), KeyID: enginetest.ID("k" + name), KeyHash: hash,
			ClaimHash: hash, Scopes: workspace.ScopesAll, Label: "workspace " + name,
		})
		row := uint32(w + 1)
		l.Do(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			ID: enginetest.ID("w" + name), Owner: "ada@example.com",
		})
		for f := range flows {
			fillFlow(l, row, fmt.Sprintf("%s %d", name, f), runs/flows)
		}
	}
}

func hashOf(name string) []byte {
	id := enginetest.ID(name)
	return id[:]
}

func fillFlow(l *enginetest.Log, row uint32, name string, runs int) {
	flow := enginetest.ID("f" + name)
	l.Do(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: row, ID: flow, Document: workspace.FlowDocument{
			Name: "Sign up and read the account", URL: "https://product.example/",
			Task: "Open the product's site, find out how an agent signs up, sign up, create an API " +
				"key and call the account endpoint with it.",
			SuccessCriteria: "The account endpoint answers with the key.", Access: "public",
			VerificationURL: "https://api.product.example/v1/account", VerificationStatus: 200,
			VerificationContains: "account",
		},
	})
	for r := range runs {
		id := enginetest.ID(fmt.Sprintf("r%s %d", name, r))
		l.Do(workspace.KindStartRun, &workspace.StartRun{
			Workspace: row, Flow: flow, ID: id, FlowVersion: 1, Cents: 500, Agent: "http http 1",
		})
		l.Do(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000})
		l.Do(workspace.KindFinishRun, &workspace.FinishRun{
			Run: id, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
			Step: "authenticate", Proof: "run", Calls: []workspace.Call{
				{Case: "none", Status: 401, Refused: true},
				{Case: "wrong", Status: 401, Refused: true},
				{Case: "real", Status: 200, Matched: true},
				{Case: "none", Status: 401, Refused: true},
			},
		})
	}
}

// TestTheMemoryBudgetHolds: 100,000 workspaces with 10 flows and 50 runs each fit 2 GB, so one
// more workspace may take 21,474 bytes of heap: rows, texts and indexes.
func TestTheMemoryBudgetHolds(t *testing.T) {
	const few, many, perWorkspace = 150, 650, 2 << 30 / 100_000
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard, l.Keep = 1, false
	fill(l, 0, few, 10, 50)
	before := heap()
	fill(l, few, many, 10, 50)
	used := (heap() - before) / (many - few)
	tables, runs := m.TableBytes()
	t.Logf("%d bytes a workspace, %d of them rows; %d runs", used, tables/many, runs)
	require.EqualValues(t, many*50, runs)
	require.Less(t, used, uint64(perWorkspace))
	runtime.KeepAlive(m)
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
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
