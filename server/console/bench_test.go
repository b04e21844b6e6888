package console_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
	"tollgate/engine/workspace"
)

// customers adds customers c0 … to an environment.
func (n *node) customers(env uint32, count int) {
	n.t.Helper()
	const batch = 1000
	results := make([]engine.Result, batch)
	for from := 0; from < count; from += batch {
		var records []engine.Record
		for i := from; i < min(from+batch, count); i++ {
			c := billing.CreateCustomer{
				Env: env, ExternalID: fmt.Sprintf("c%d", i), FirstName: "C", LastName: fmt.Sprintf("c%d", i),
				Email: "c@example.com",
			}
			binary.BigEndian.PutUint64(c.ID[:], uint64(i)+1)
			c.ID[15] = 9
			records = append(records, engine.Record{
				Kind: billing.KindCreateCustomer, Payload: wire.Encode(nil, &c),
			})
		}
		n.Propose(n.now(), records, results[:len(records)])
		for _, r := range results[:len(records)] {
			require.Equal(n.t, engine.OutcomeDone, r.Outcome)
		}
	}
}

// BenchmarkPages is the time of every page, over HTTP, in an account with a million customers.
func BenchmarkPages(b *testing.B) {
	n := start(b)
	p := n.signedIn()
	names := p.hostileSandbox()
	n.tenants.Do(b, workspace.KindSignUp, &workspace.SignUp{
		ID: [16]byte{1}, KeyID: [16]byte{2}, KeyHash: [32]byte{3}, ClaimHash: [32]byte{4}, Label: "one",
	})
	n.customers(n.environment(), 1_000_000)
	const at = "/console/accounts/demo/sandbox"
	paths := map[string]string{
		"customers/middle":    at + "/customers?cursor=500000",
		"customers/find":      at + "/customers?find=c777777",
		"customers/elsewhere": "/console/accounts/demo/live/customers",
	}
	ws := p.firstLink("/console/workspaces", `/console/workspaces/[^"?]+`)
	for _, r := range n.pages.Rows() {
		if r.Method != "GET" {
			continue
		}
		paths[r.Name] = filled(r.Path, names)
		if strings.Contains(r.Path, "/workspaces/{") {
			paths[r.Name] = ws
		}
	}
	for _, name := range slices.Sorted(maps.Keys(paths)) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				shown := p.get(paths[name])
				// An invoice that is still pending is explained when it is due.
				pending := shown.status == 400 && strings.HasSuffix(paths[name], "/explain")
				if shown.status != 200 && shown.status != 303 && !pending {
					b.Fatal(paths[name], shown.status, shown.body)
				}
			}
		})
	}
}
