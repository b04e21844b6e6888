package console_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/wire"
	state "tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/inspect"
	"tollgate/server/provider/fetch"
	"tollgate/server/workspace"
)

// tenants is a server.Proposer and a server.Reader over the workspaces' state machine, without
// raft.
type tenants struct {
	machine *state.Machine
	mu      sync.Mutex
	index   uint64
}

// Propose applies the records in one entry, now.
func (g *tenants) Propose(_ time.Time, records []engine.Record, results []engine.Result) {
	g.mu.Lock()
	defer g.mu.Unlock()
	entry := engine.AppendHeader(nil, 1)
	for _, r := range records {
		entry = engine.AppendRecord(entry, r)
	}
	engine.SetStamp(entry, time.Now().UnixMilli())
	g.index++
	var out engine.Applied
	if err := g.machine.Apply(g.index, entry, &out); err != nil {
		panic(err)
	}
	for i, r := range out.Results {
		results[i] = engine.Result{Outcome: r.Outcome, Value: append([]byte(nil), r.Value...)}
	}
}

// BeginRead answers at once.
func (g *tenants) BeginRead(time.Time) (engine.ReadTicket, engine.Outcome) {
	return engine.ReadTicket{Term: 1, Leader: true}, engine.OutcomeDone
}

// ReadStands is always so.
func (g *tenants) ReadStands(engine.ReadTicket) bool { return true }

// Staleness is none.
func (g *tenants) Staleness() time.Duration { return 0 }

func (g *tenants) do(t testing.TB, kind engine.Kind, c wire.Fielder) {
	t.Helper()
	results := make([]engine.Result, 1)
	g.Propose(time.Time{}, []engine.Record{{Kind: kind, Payload: wire.Encode(nil, c)}}, results)
	require.Equal(t, engine.OutcomeDone, results[0].Outcome)
}

// operatorTools are the rows about workspaces that an operations listener has.
func operatorTools(t testing.TB, guarded *fetch.Client) (*tenants, []server.Route) {
	t.Helper()
	g := &tenants{machine: state.New(state.Config{Shard: 1})}
	api, err := workspace.New(workspace.Config{
		Machine: g.machine, Proposer: g, Reader: g, PublicURL: "http://tollgate.test",
		Now: time.Now, QuoteKey: [32]byte{7}, Check: guarded.CheckAt,
		Inspector: inspect.New(guarded, time.Now), Agents: []workspace.Agent{{Name: "nop", Kind: "nop"}},
	})
	require.NoError(t, err)
	return g, api.OperatorRoutes()
}

// TestWorkspaces: an operator sees all workspaces, acts for an owner, and each act is kept.
func TestWorkspaces(t *testing.T) {
	n := start(t, nil)
	b := n.signedIn()
	b.get("/console/workspaces").is(200, "No workspace", "POST /v1/signup")
	n.tenants.do(t, state.KindSignUp, &state.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4},
		Label: hostile,
	})
	b.get("/console/workspaces?unclaimed=true").is(200, "&lt;script&gt;")
	list, _ := n.tenants.machine.Tenants(state.Page{Limit: 1}, false)
	require.Len(t, list, 1)
	at := b.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	b.submit(at, at+"/claim", fields("owner", "person@example.com")).
		is(200, "It was changed", "person@example.com", "operator")
	b.submit(at, at+"/credits", fields("amount", "5", "note", hostile)).is(200, "5")
	b.submit(at, at+"/cap", fields("cents", "700")).is(200, "700")
	b.submit(at, at+"/pause", fields("paused", "true")).is(200, "Allow purchases again")
	b.send(at+"/cap", b.fill(at, fields("cents", "-1"))).is(400, "capCents")
	b.send(at+"/approve", b.fill(at, fields("purchase", "pur_1"))).is(404, "No such purchase")
	safe(t, b.get(at))
	safe(t, b.get("/console/workspaces"))
}
