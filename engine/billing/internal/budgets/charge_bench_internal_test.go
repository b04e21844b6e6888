package budgets

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"tollgate/engine"
	"tollgate/engine/billing/internal/accounts"
	"tollgate/engine/decimal"
	"tollgate/engine/page"
)

// BenchmarkCharge asks and counts what an event counts at the own budget of one of so many
// customers, with four levels above it.
func BenchmarkCharge(b *testing.B) {
	for _, customers := range []uint32{10, 1000} {
		b.Run(fmt.Sprint("customers=", customers), func(b *testing.B) {
			var f Forest
			f.Open(page.NewStore())
			tx := accounts.Tx{}
			tx.Entry = new(accounts.Entry)
			put := func(key, parent string, customer uint32) {
				c := PutBudget{Env: 1, Key: key, Name: key, Parent: parent, Limits: []LimitDocument{
					{Of: MeasurePrice, Limit: decimal.FromInt(1e12), Window: WindowMonth},
				}}
				if customer != 0 {
					c.Customer = key
				}
				_, o := f.Put(&tx, &c, Known{Feature: featureNumber, Now: day, Customer: customer})
				require.Equal(b, engine.OutcomeDone, o)
			}
			parent := ""
			for level := range 4 {
				key := fmt.Sprint("level ", level)
				put(key, parent, 0)
				parent = key
			}
			for customer := range customers {
				put(fmt.Sprint("customer ", customer), parent, customer+1)
			}
			var record []byte
			b.ReportAllocs()
			for b.Loop() {
				c := Charge{
					Feature: 1, Currency: [3]byte{'U', 'S', 'D'}, Units: decimal.FromInt(3),
					Price: decimal.Product(decimal.FromInt(3), decimal.FromBits(0, 1_000_000)),
				}
				node := f.Own(rand.Uint32N(customers) + 1)
				if refused, _ := f.Ask(node, &c, day); refused != nil {
					b.Fatal(refused)
				}
				record, _ = f.Charge(&tx, 1, node, &c, day, true, record[:0])
			}
		})
	}
}
