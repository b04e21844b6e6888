package workspace_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine"
	"tollgate/engine/workspace"
)

// gate is a writer that lets nothing through until it is opened.
type gate struct {
	bytes.Buffer
	opened chan struct{}
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.opened
	return g.Buffer.Write(b)
}

// many are workspaces, each with a run that has not ended: a quarter has a worker, one waits for a
// person, one waits with an answer, one was cancelled while it did: those stand in the queue behind
// one run, so that nothing but packing changes their pages when it leaves.
type many struct {
	*enginetest.Log
	machine *workspace.Machine
	runs    uint32
}

func (l *many) id(w uint32) [16]byte { return enginetest.ID(fmt.Sprint("open", w)) }

func (l *many) events(what string) []workspace.RunEvent {
	return []workspace.RunEvent{{At: l.Stamp, Text: what + " https://acme.example/"}, {At: l.Stamp}}
}

func (l *many) resume(w uint32) {
	l.Do(workspace.KindResumeRun, &workspace.ResumeRun{
		Workspace: w, ID: l.id(w), Agent: "a b 1", Answer: []byte("sealed " + fmt.Sprint(w)),
	})
}

func (l *many) cancel(w uint32) {
	l.Do(workspace.KindCancelRun, &workspace.CancelRun{
		Workspace: w, ID: l.id(w), Kind: workspace.RunHosted,
	})
}

func (l *many) claim() {
	l.Do(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "w", LeaseMS: 60_000})
}

func (l *many) begin() {
	for w := uint32(1); w <= l.runs; w++ {
		l.Do(workspace.KindStartRun, &workspace.StartRun{
			Workspace: w, Flow: newest(l.machine, w), ID: l.id(w), FlowVersion: 1, Cents: 500,
			Agent: "a b 1",
		})
		l.claim()
		l.Do(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: l.id(w), Token: 1, LeaseMS: 60_000, Step: "signup", Events: l.events("opened"),
		})
		if w%4 == 0 {
			continue
		}
		l.Do(workspace.KindAwaitPerson, &workspace.AwaitPerson{
			Run: l.id(w), Token: 1, Question: "the code?", Checkpoint: []byte(fmt.Sprint("at ", w)),
		})
	}
	l.resume(2)
	for w := uint32(3); w <= l.runs; w += 4 {
		l.resume(w)
		l.cancel(w)
	}
	for w := uint32(6); w <= l.runs; w += 4 {
		l.resume(w)
	}
}

// goOn changes all of them and ends most: those first that were cancelled in the queue, which are
// packed as they are.
func (l *many) goOn() {
	for range l.runs / 4 {
		l.claim()
	}
	for w := uint32(1); w <= l.runs; w++ {
		flows, _ := l.machine.Flows(w, workspace.Page{Limit: 2})
		agent := agentOf{l.Log, rand.New(rand.NewPCG(5, 6)), w, flows[1].ID}
		agent.run(fmt.Sprint("beside", w))
	}
	for w := uint32(1); w <= l.runs; w++ {
		switch w % 4 {
		case 1:
			l.resume(w)
		case 0, 2:
			token := 1 + w%4/2
			l.Do(workspace.KindExtendLease, &workspace.ExtendLease{
				Run: l.id(w), Token: token, LeaseMS: 60_000, Events: l.events("went on to"),
			})
			if w%8 > 3 {
				continue
			}
			l.Do(workspace.KindFinishRun, &workspace.FinishRun{
				Run: l.id(w), Token: token, Status: workspace.RunCompleted,
				Outcome: workspace.OutcomePassed, Proof: "run", Reason: "It works.",
				Calls: []workspace.Call{{Case: "real", Status: 200, Matched: true}},
			})
		}
		if w%8 == 1 {
			l.cancel(w)
		}
	}
}

// ended is how many runs have.
func (l *many) ended() (count int) {
	for w := uint32(1); w <= l.runs; w++ {
		runs, _ := l.machine.Runs(w, workspace.Page{Limit: 100})
		for i := range runs {
			if runs[i].Status.Final() {
				count++
			}
		}
	}
	return count
}

// TestSnapshotBesidePacking: a snapshot has the runs as they were at its begin, whole or packed,
// while they change, end and are packed, and others begin in the same parts; and what had ended
// then is packed where it is restored, though pages come in another order. The gate is closed until
// all that is done, so every page comes from the writer; without it, they come from both.
func TestSnapshotBesidePacking(t *testing.T) {
	for _, closed := range []bool{true, false} {
		m := opened()
		l := &many{enginetest.NewLog(m, enginetest.Epoch), m, 40}
		l.Shard = 1
		fill(l.Log, 0, 40, 2, 8)
		l.begin()
		before, ended, packed := enginetest.Snapshot(t, m), l.ended(), m.Packed()
		require.Equal(t, 40*8+10, ended)
		require.Equal(t, 40*8, packed, "ten stand in the queue")

		sn, err := m.Snapshot()
		require.NoError(t, err)
		beside, written := gate{opened: make(chan struct{})}, make(chan error)
		go func() {
			_, err := sn.WriteTo(&beside)
			written <- err
		}()
		if !closed {
			close(beside.opened)
		}
		l.goOn()
		require.Equal(t, ended+40+15, l.ended())
		require.Equal(t, l.ended()-4, m.Packed(), "four stand behind one that goes on")
		if closed {
			close(beside.opened)
		}
		require.NoError(t, <-written)
		sn.Release()
		again := restored(t, beside.Bytes())
		require.True(t, bytes.Equal(before, enginetest.Snapshot(t, again)))
		require.Equal(t, ended, again.Packed())
		require.Empty(t, m.Broken())
	}
}

// TestPackingIsBounded: an entry that ends many runs whose texts resemble nothing packs some of
// them, each tried once; those behind it pack the rest.
func TestPackingIsBounded(t *testing.T) {
	const runs, atOnce = 256, 5 // 64 KiB of texts of 15 KB
	m := opened()
	l := &many{enginetest.NewLog(m, enginetest.Epoch), m, runs}
	l.Shard, l.Keep = 1, false
	fill(l.Log, 0, runs, 1, 1)
	chance := rand.New(rand.NewPCG(7, 8))
	for w := uint32(1); w <= runs; w++ {
		l.Do(workspace.KindStartRun, &workspace.StartRun{
			Workspace: w, Flow: newest(m, w), ID: l.id(w), FlowVersion: 1, Cents: 500,
			Agent: "a b 1",
		})
		l.claim()
		var events []workspace.RunEvent
		for range 50 {
			text := make([]byte, 300)
			for i := range text {
				text[i] = byte(' ' + chance.IntN(95))
			}
			events = append(events, workspace.RunEvent{Text: string(text)})
		}
		l.Do(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: l.id(w), Token: 1, LeaseMS: 600_000, Events: events,
		})
	}
	require.Equal(t, runs, m.Packed())
	l.Stamp += 600_000
	attempts := m.PackingAttempts()
	for packed := m.Packed(); packed < 2*runs; packed = m.Packed() {
		l.DoPayload(engine.KindTick, nil)
		require.Zero(t, m.NextDue(), "one entry ended all")
		require.Greater(t, m.Packed(), packed)
		require.LessOrEqual(t, m.Packed(), packed+atOnce)
	}
	require.EqualValues(t, runs, m.PackingAttempts()-attempts)
}

// TestEveryFieldIsPacked: of a run, its text, its calls and its events; but for what goes when a
// run ends.
func TestEveryFieldIsPacked(t *testing.T) {
	row, text := workspace.Packable()
	next := uint64(0)
	fillFields(t, reflect.ValueOf(row).Elem(), &next)
	fillFields(t, reflect.ValueOf(text).Elem(), &next)
	said := text.(*workspace.RunText)
	said.Checkpoint, said.Answer = nil, nil
	rowAgain, textAgain := workspace.PackedAgain(row, text)
	require.Equal(t, row, rowAgain)
	require.Equal(t, text, textAgain)
}

// fillFields gives every field a value of its own.
func fillFields(t *testing.T, v reflect.Value, next *uint64) {
	*next++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillFields(t, v.Field(i), next)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fillFields(t, v.Index(0), next)
		fillFields(t, v.Index(1), next)
	case reflect.Array:
		for i := range v.Len() {
			fillFields(t, v.Index(i), next)
		}
	case reflect.String:
		v.SetString(fmt.Sprint("text ", *next))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int64:
		v.SetInt(int64(*next) << 33)
	case reflect.Uint8:
		v.SetUint(*next % 256)
	case reflect.Uint32:
		v.SetUint(*next << 20)
	default:
		t.Fatalf("a field of kind %v", v.Kind())
	}
	require.False(t, v.IsZero())
}

// TestATextOfAnotherBuildStaysAsItIs: one that has ended and has what packing leaves out.
func TestATextOfAnotherBuildStaysAsItIs(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 1, 1, 4)
	runs, _ := m.Runs(1, workspace.Page{Limit: 4})
	require.Equal(t, 4, m.Packed())
	for i := range 2 {
		text := m.ReadText(runs[i].ID)
		if i == 0 {
			text.Checkpoint = []byte("gone on from")
		} else {
			text.Answer = []byte("sealed")
		}
		m.WriteText(runs[i].ID, &text)
	}
	snapshot := enginetest.Snapshot(t, m)
	again := restored(t, snapshot)
	require.Equal(t, 2, again.Packed())
	require.NotZero(t, again.Unlike())
	for i := range runs {
		require.Equal(t, m.ReadText(runs[i].ID), again.ReadText(runs[i].ID))
	}
	require.True(t, bytes.Equal(snapshot, enginetest.Snapshot(t, again)))
	require.Zero(t, m.Unlike())
}

// TestTheHashOfEndedRunsStays: replicas of other builds compare it.
func TestTheHashOfEndedRunsStays(t *testing.T) {
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard = 1
	fill(l, 0, 2, 1, 4)
	for range 20 {
		l.DoPayload(engine.KindTick, nil)
	}
	_, hash := m.StateHash()
	require.EqualValues(t, 0x20bda20c479a812f, hash, "%#x", hash)
	require.Equal(t, 8, m.Packed())
}
