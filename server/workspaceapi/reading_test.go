package workspaceapi

import (
	"crypto/sha256"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/valyala/fasthttp"

	"tollgate/bench/servertest"
	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/workspace"
	"tollgate/server"
	"tollgate/server/client"
)

// repeated is a request that is served over and over, by the handler that a node serves with, and
// without a network.
type repeated struct {
	name  string
	serve fasthttp.RequestHandler
	ctx   fasthttp.RequestCtx
}

func get(serve fasthttp.RequestHandler, name, path, key string) *repeated {
	var r fasthttp.Request
	r.Header.SetMethod("GET")
	r.Header.SetHost("tollgate.test")
	r.Header.Set("Authorization", "Bearer "+key)
	r.SetRequestURI(path)
	got := &repeated{name: name, serve: serve}
	got.ctx.Init(&r, nil, nil)
	return got
}

func (r *repeated) once(t testing.TB) {
	r.ctx.Response.Reset()
	r.serve(&r.ctx)
	if status := r.ctx.Response.StatusCode(); status != 200 {
		t.Fatalf("%s: %d %s", r.name, status, r.ctx.Response.Body())
	}
}

// times serves the request n times, and returns how long that took.
func (r *repeated) times(t testing.TB, n int) time.Duration {
	begin := time.Now()
	for range n {
		r.once(t)
	}
	return time.Since(begin)
}

// metered is a client API with the customer acme, who may use tokens, and its key.
func metered(t testing.TB) (*client.API, string) {
	t.Helper()
	c := servertest.New()
	api, err := client.New(client.Config{
		Machine: c.Machine, Proposer: c, Reader: c, NodeID: 1, SpoolDir: t.TempDir(),
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, api.Close()) })
	c.Do(t, billing.KindCreateAccount, &billing.CreateAccount{ID: [16]byte{1}, Name: "demo"})
	env, ok := c.Machine.Environment("demo", billing.EnvironmentSandbox)
	require.True(t, ok)
	key := server.MintKey(server.KeyPrefixSandbox)
	hash := sha256.Sum256([]byte(key))
	c.Do(t, billing.KindCreateKey, &billing.CreateKey{
		Env: env, ID: [16]byte{2}, Hash: hash, Scope: billing.ScopeFull, Hint: key[:12],
	})
	feature, plan := [16]byte{3}, [16]byte{4}
	c.Do(t, billing.KindApplyCatalog, &billing.ApplyCatalog{
		Env: env, FeatureIDs: feature[:], PlanIDs: plan[:],
		Document: billing.CatalogDocument{
			Features: []billing.FeatureDocument{{Key: "tokens", Name: "Tokens"}},
			Plans: []billing.PlanDocument{{
				Key: "team", Name: "Team", PriceAmount: decimal.FromInt(20), Currency: "USD",
				IntervalMonths: 1,
				Features: []billing.PlanFeatureDocument{{
					Key: "tokens", PricingType: "usage_based", Pricing: billing.PricingDocument{
						PricePerUnit: decimal.FromInt(1), HasMax: true, MaxUsage: decimal.FromInt(10),
					},
				}},
			}},
		},
	})
	c.Do(t, billing.KindCreateCustomer, &billing.CreateCustomer{
		Env: env, ID: [16]byte{5}, ExternalID: "acme", FirstName: "Ada", LastName: "Lovelace",
		Email: "ada@example.com",
	})
	c.Do(t, billing.KindCreateSubscription, &billing.CreateSubscription{
		Env: env, ID: [16]byte{6}, InvoiceID: [16]byte{7}, Customer: "acme", Plan: "team",
	})
	return api, key
}

// readings are a check, and reads of a workspace with as many runs, through one handler: the
// workspace API's, which hands on what it has no path for.
func readings(t testing.TB, runs int) (n *node, check *repeated, reads []*repeated) {
	t.Helper()
	n = start(t)
	n.policy(func(p *workspace.SetPolicy) {
		p.RunsPerDay, p.FreeRunsPerDay, p.FreeRunsPerMonth = 1000, 1000, 1000
	})
	c := n.signUp("")
	c.claim()
	flow := c.flow(plainFlow)
	run := ""
	for range runs {
		run = c.start(flow, "start-"+rand8()).is(202, "").at("run", "id").(string)
		c.claimRun()
		id, _ := parseID(markRun, run)
		c.does(workspace.KindFinishRun, &workspace.FinishRun{
			Run: id, Token: 1, Status: workspace.RunCompleted, Outcome: workspace.OutcomePassed,
			Proof: "run",
			Calls: []workspace.Call{
				{Case: "none", Status: 401, Refused: true},
				{Case: "wrong", Status: 401, Refused: true},
				{Case: "real", Status: 200, Matched: true},
				{Case: "none", Status: 401, Refused: true},
			},
			Events: []workspace.RunEvent{
				{At: 1, Text: "asks for a key"},
				{At: 2, Text: "has tried it"},
			},
		})
	}
	meter, key := metered(t)
	serve := n.api.Handler(meter.Handler())
	check = get(serve, "check", client.Prefix+"/entitlements/acme/tokens", key)
	return n, check, []*repeated{
		get(serve, "run", "/v1/runs/"+run, c.key),
		get(serve, "account", "/v1/account", c.key),
		get(serve, "runs", "/v1/runs", c.key),
	}
}

// TestReadsAreAnsweredFromMemory: they put nothing into the log, and need nobody who takes it.
func TestReadsAreAnsweredFromMemory(t *testing.T) {
	n, check, reads := readings(t, 3)
	n.Refuse(engine.OutcomeUnavailable)
	entries := len(n.Entries())
	for _, r := range append(reads, check) {
		r.once(t)
	}
	require.Len(t, n.Entries(), entries)
}

// BenchmarkReads measures reads of a workspace that has 50 runs beside a check, in turns, so that
// what else the machine does is in both: how many checks a read costs.
func BenchmarkReads(b *testing.B) {
	_, check, reads := readings(b, 50)
	for _, r := range reads {
		b.Run(r.name, func(b *testing.B) {
			const turn = 100
			var took, beside time.Duration
			for b.Loop() {
				beside += check.times(b, turn)
				took += r.times(b, turn)
			}
			served := float64(b.N) * turn
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(beside)/served, "ns/check")
			b.ReportMetric(float64(took)/served, "ns/read")
			b.ReportMetric(float64(took)/float64(beside), "checks/read")
			b.ReportMetric(testing.AllocsPerRun(turn, func() { r.once(b) }), "allocs/read")
		})
	}
}
