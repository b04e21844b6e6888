package workspace_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// keyed starts the nth run, with the nth key, and cancels it.
func (b *bench) keyed(n int) engine.Outcome {
	run := enginetest.ID(fmt.Sprint("r", n))
	o := b.log.Do(workspace.KindStartRun, &workspace.StartRun{
		Workspace: 1, Flow: flowOne, ID: run, Agent: "a b 1", FlowVersion: 1, Cents: 500,
		Key: enginetest.ID(fmt.Sprint("key", n)),
	}).Outcome
	if o == engine.OutcomeDone {
		b.done(workspace.KindCancelRun, &workspace.CancelRun{
			Workspace: 1, ID: run, Kind: workspace.RunHosted,
		})
	}
	return o
}

// again goes on with what a restore makes of the machine.
func (b *bench) again() {
	b.m = restored(b.t, enginetest.Snapshot(b.t, b.m))
	b.log.Machine = b.m
}

// TestKeysAreBounded: a group at its limit of keys refuses another until older ones
// have expired.
func TestKeysAreBounded(t *testing.T) {
	b := newBench(t, func(p *workspace.SetPolicy) { p.FreeRunsPerDay = 1000 })
	b.m.KeepAtMost(8)
	for n := range 5 {
		require.Equal(t, engine.OutcomeDone, b.keyed(n))
	}
	b.pass(workspace.RequestRetentionMS * time.Millisecond) // 0 to 4 are forgotten
	for n := 5; n < 13; n++ {
		require.Equal(t, engine.OutcomeDone, b.keyed(n))
	}
	require.Equal(t, engine.OutcomeKeysFull, b.keyed(13))
}

// TestKeysOfAllThatIsMadeAreRestored: of runs, purchases, inspections and what operators did, also
// where the workspace was removed since.
func TestKeysOfAllThatIsMadeAreRestored(t *testing.T) {
	b := newBench(t)
	require.Equal(t, engine.OutcomeDone, b.keyed(1))
	b.buys("first", "purchase", 1)
	b.approves("first")
	b.paid("first")
	b.done(workspace.KindSaveInspection, &workspace.SaveInspection{
		Workspace: 1, ID: enginetest.ID("inspected"), Kind: workspace.RunInspection,
		Key: enginetest.ID("key inspection"), Host: "a.example", Size: 1, Part: []byte{1},
	})
	b.done(workspace.KindSignUp, &workspace.SignUp{ID: enginetest.ID("w2"), KeyID: enginetest.ID("k2")})
	b.done(workspace.KindSaveInspection, &workspace.SaveInspection{
		Workspace: 2, ID: enginetest.ID("removed"), Kind: workspace.RunInspection,
		Key: enginetest.ID("key removed"), Host: "a.example", Size: 1, Part: []byte{1},
	})
	b.done(workspace.KindRemoveWorkspace, &workspace.RemoveWorkspace{Workspace: 2})
	b.done(workspace.KindAct, &workspace.Act{
		Workspace: 1, ID: enginetest.ID("act"), Actor: "operator", Key: enginetest.ID("key act"),
		Kind: workspace.KindGrantCredits, Payload: wire.Encode(nil, &workspace.GrantCredits{
			Workspace: 1, ID: enginetest.ID("gift"), Amount: 5,
		}),
	})
	for range 2 {
		for key, made := range map[string]string{
			"key1": "r1", "key purchase": "purchase first", "key inspection": "inspected",
			"key act": "act", "key removed": "removed",
		} {
			id, o := b.m.Replay(enginetest.ID(key), [16]byte{})
			require.Equal(t, engine.OutcomeDone, o, key)
			require.Equal(t, enginetest.ID(made), id, key)
		}
		require.True(t, b.m.ResolveAgain())
		b.again()
	}
}
