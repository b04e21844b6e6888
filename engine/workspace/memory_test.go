package workspace_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/bench/enginetest"
	"tollgate/engine/workspace"
)

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
			ID: minted(l, "w"+name), KeyID: minted(l, "k"+name), KeyHash: hash,
			ClaimHash: hash, Scopes: workspace.ScopesAll, Label: "workspace " + name,
		})
		row := uint32(w + 1)
		l.Do(workspace.KindClaimWorkspace, &workspace.ClaimWorkspace{
			Code: hash, Owner: "ada@example.com",
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

// minted is an id as the leader mints them: the time in front, the rest by chance.
func minted(l *enginetest.Log, name string) (id [16]byte) {
	id = enginetest.ID(name)
	for n := range 6 {
		id[n] = byte(l.Stamp >> (40 - 8*n))
	}
	return id
}

// fillFlow saves a flow and carries runs of it out, each with a key, a reason, four calls and eight
// events of what an agent does, which differ from run to run as those of a model's do.
func fillFlow(l *enginetest.Log, row uint32, name string, runs int) {
	flow := minted(l, "f"+name)
	l.Do(workspace.KindSaveFlow, &workspace.SaveFlow{
		Workspace: row, ID: flow, Document: workspace.FlowDocument{
			Name: "Sign up and read the account", URL: product(row),
			Task: "Open the product's site, find out how an agent signs up, sign up, create an API " +
				"key and call the account endpoint with it.",
			SuccessCriteria: "The account endpoint answers with the key.", Access: "public",
			VerificationURL: product(row) + "v1/account", VerificationStatus: 200,
			VerificationContains: "account",
		},
	})
	chance := rand.New(rand.NewPCG(uint64(row), binary.LittleEndian.Uint64(flow[8:])))
	agent := agentOf{l, chance, row, flow}
	for r := range runs {
		l.Stamp += chance.Int64N(400) // so that all keys of five million runs are younger than 30 days
		agent.run(fmt.Sprintf("r%s %d", name, r))
	}
}

func product(row uint32) string {
	return fmt.Sprintf("https://%s-%d.example/", [...]string{"acme", "parcel", "ledger", "mail"}[row%4], row)
}

// agentOf carries runs of a flow out.
type agentOf struct {
	*enginetest.Log
	chance *rand.Rand
	row    uint32
	flow   [16]byte
}

// run is all commands of a run; by its agent's clock it takes minutes.
func (a *agentOf) run(name string) {
	id := minted(a.Log, name)
	a.Do(workspace.KindStartRun, &workspace.StartRun{
		Workspace: a.row, Flow: a.flow, ID: id, FlowVersion: 1, Cents: 500, Agent: "http http 1",
		Key: [16]byte(hashOf("key" + name)), Body: [16]byte(hashOf("body" + name)),
	})
	a.Stamp += a.chance.Int64N(30)
	a.Do(workspace.KindClaimRun, &workspace.ClaimRun{Worker: "n1", LeaseMS: 60_000})
	events := a.events()
	for len(events) > 0 {
		a.Stamp += a.chance.Int64N(30)
		more := events[:min(len(events), 1+a.chance.IntN(3))]
		events = events[len(more):]
		a.Do(workspace.KindExtendLease, &workspace.ExtendLease{
			Run: id, Token: 1, LeaseMS: 60_000, Step: "signup", Events: more,
		})
	}
	a.Do(workspace.KindFinishRun, &workspace.FinishRun{
		Run: id, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
		Step: "authenticate", Proof: "run", Reason: fmt.Sprintf("The account endpoint answered with the "+
			"key that the agent obtained after %d s; without a key and with a wrong one it refused.",
			20+a.chance.IntN(160)),
		Calls: []workspace.Call{
			{Case: "none", Status: 401, Refused: true},
			{Case: "wrong", Status: 401, Refused: true},
			{Case: "real", Status: 200, Matched: true},
			{Case: "none", Status: 401, Refused: true},
		},
	})
}

// events are eight, of twelve things that an agent may do, in order: 55 bytes each in the mean.
func (a *agentOf) events() (events []workspace.RunEvent) {
	chance, row := a.chance, a.row
	did := []string{
		"opened " + product(row),
		"GET /llms.txt → 404",
		"read the quickstart at " + product(row) + "docs/quickstart",
		fmt.Sprintf("the documentation has %d pages on authentication, reads the shortest", 2+chance.IntN(30)),
		"POST /signup → 201",
		fmt.Sprintf("the form wants a name for the account, takes agent-%08x", chance.Uint32()),
		fmt.Sprintf("waits for an e-mail with a code, %d s so far", 3+chance.IntN(50)),
		"opened the dashboard, looks for where API keys are made",
		fmt.Sprintf("created the account acc_%08x in the free plan", chance.Uint32()),
		"POST /v1/keys → 201",
		"hands a key over",
		fmt.Sprintf("GET /v1/account → 200 after %d ms; the key works as documented", 20+chance.IntN(900)),
	}
	for len(did) > 8 {
		n := chance.IntN(len(did))
		did = append(did[:n], did[n+1:]...)
	}
	at := a.Stamp
	for _, text := range did {
		at += 500 + chance.Int64N(20_000)
		events = append(events, workspace.RunEvent{At: at, Text: text})
	}
	return events
}

// TestTheMemoryBudgetHolds: 100,000 workspaces with 10 flows and 50 runs each fit 2 GB, so one
// more workspace may take 20,000 bytes of heap: rows, texts, indexes, kept keys; and a key 60.
func TestTheMemoryBudgetHolds(t *testing.T) {
	const few, many, perWorkspace = 150, 650, 2_000_000_000 / 100_000
	m := opened()
	l := enginetest.NewLog(m, enginetest.Epoch)
	l.Shard, l.Keep = 1, false
	fill(l, 0, few, 10, 50)
	before := heap()
	fill(l, few, many, 10, 50)
	used := (heap() - before) / (many - few)
	runs, _ := m.Runs(many, workspace.Page{Limit: 100})
	require.Len(t, runs, 50)
	for _, r := range runs {
		require.Len(t, r.Events, 8)
		require.Equal(t, workspace.OutcomePassed, r.Outcome)
	}
	t.Logf("%d bytes a workspace: %s", used, m.Memory())
	require.Less(t, used, uint64(perWorkspace))
	require.Less(t, m.KeyBytes()/(many*50), uint64(60))
	runtime.KeepAlive(m)
}

// BenchmarkWorkspacesInMemory fills 100,000 workspaces with 10 flows and 50 finished runs each, and
// reports the heap that they take in MB (of 10^6 bytes; the budget is 2,000) and a command's time.
// Run it with -benchtime=1x.
func BenchmarkWorkspacesInMemory(b *testing.B) {
	const workspaces, flows, runs = 100_000, 10, 50
	for b.Loop() {
		before := heap()
		m := opened()
		l := enginetest.NewLog(m, enginetest.Epoch)
		l.Shard, l.Keep = 1, false
		begun := time.Now()
		fill(l, 0, workspaces, flows, runs)
		took := time.Since(begun)
		used := heap() - before
		b.Log(m.Memory())
		b.ReportMetric(float64(used)/1e6, "MB")
		b.ReportMetric(float64(took.Nanoseconds())/float64(l.Index), "ns/command")
		runtime.KeepAlive(m)
	}
}

func heap() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // what a pool keeps goes with the second
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
