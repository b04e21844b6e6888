package limits_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"tollgate/bench/limits/desk"
	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
)

// BenchmarkApplyFloor is to be set beside BenchmarkApplyUsage of engine/billing: with all that it
// asks of an event.
func BenchmarkApplyFloor(b *testing.B) {
	for _, n := range []struct {
		name            string
		customers, keys int
	}{{"1000", 1000, 0}, {"1000000-50M-keys", 1_000_000, 50_000_000}} {
		var keys *idempotency.Keys
		b.Run(n.name, func(b *testing.B) {
			if keys == nil {
				keys = filled(n.keys)
			}
			applied(b, keys, n.customers, 1024, 0)
		})
	}
}

func filled(n int) *idempotency.Keys {
	keys := idempotency.New(35 * 24 * 3600 * 1000)
	for range n {
		var key [16]byte
		binary.LittleEndian.PutUint64(key[:], rand.Uint64())
		binary.LittleEndian.PutUint64(key[8:], rand.Uint64())
		keys.Add(key, keys.Hash(key), idempotency.Slot{Attempt: 1}, 1, 0)
	}
	return keys
}

// BenchmarkBudgetFloor is to be set beside BenchmarkApplyBudgetedUsage of engine/billing.
func BenchmarkBudgetFloor(b *testing.B) {
	for _, levels := range []int{0, 5} {
		b.Run(fmt.Sprint("levels=", levels), func(b *testing.B) {
			applied(b, filled(0), 1000, 1024, levels)
		})
	}
}

// nowMS is the log's time.
const nowMS = 1_790_000_000_000

// staffed is a desk with customers.
func staffed(customers int, keys *idempotency.Keys) *desk.Desk {
	d := desk.New(customers, keys)
	for i := range customers {
		d.Enrol(customerName(i))
	}
	return d
}

// applied applies events of random customers, which count at so many levels of budgets.
func applied(b *testing.B, keys *idempotency.Keys, customers, anEntry, levels int) {
	b.Helper()
	d := staffed(customers, keys)
	if levels > 0 {
		d.Budget(levels)
	}
	input := sealed(b.N*desk.Together, customers)
	stop := perUnit(b, desk.Together)
	for i := range b.N {
		at := i % (anEntry / desk.Together) * desk.Together
		if at == 0 {
			d.End()
			d.Begin(nowMS)
		}
		d.Events(input[i*desk.Together:(i+1)*desk.Together], at)
	}
	stop()
	for _, r := range d.Results {
		if r.Outcome > desk.LimitReached {
			b.Fatalf("outcome %d", r.Outcome)
		}
	}
}

// sealed makes events of random customers.
func sealed(n, customers int) [][]byte {
	features := []string{"requests", "input-tokens", "output-tokens"}
	all := make([][]byte, n)
	memory := make([]byte, 0, 160*n) // one after the other, as an entry has them
	for i := range all {
		key := fmt.Appendf(nil, "bench-%012d", rand.Uint64N(1e12))
		c := billing.RecordUsage{
			Env: 1, Key: billing.UsageKey(1, key), Attempt: 7, KeyText: key,
			Customer: customerName(rand.IntN(customers)), EventName: []byte(features[i%3]),
			Units: decimal.FromInt(int64(i % 100)), OccurredAt: nowMS - 100,
		}
		from := len(memory)
		memory = c.Seal(memory)
		all[i] = memory[from:len(memory):len(memory)]
	}
	return all
}
