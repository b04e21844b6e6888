package console_test

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing"
	"tollgate/engine/wire"
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

// BenchmarkPages is the time of whole pages, over HTTP, in an account with a million customers.
func BenchmarkPages(b *testing.B) {
	n := start(b)
	p := n.signedIn()
	p.furnish()
	n.customers(n.environment(), 1_000_000)
	const at = "/console/accounts/demo/sandbox"
	for name, path := range map[string]string{
		"customers": at, "customers/middle": at + "?cursor=500000", "customer": at + "/customers/anna",
		"find": at + "?find=c777777", "catalog": at + "/catalog", "cluster": "/console/cluster",
		"events": at + "/customers/anna/events", "elsewhere": "/console/accounts/demo/live",
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if shown := p.get(path); shown.status != 200 && shown.status != 303 {
					b.Fatal(shown.body)
				}
			}
		})
	}
}
