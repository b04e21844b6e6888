package limits_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"testing"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/prefetch"
)

// event is what Apply cannot do without of a usage event.
type event struct {
	key      [16]byte
	hash     uint64
	attempt  uint32
	customer uint64
	units    decimal.Decimal
	bytes    []byte
}

// read takes an event from its bytes, whose fields have a byte for tag and length.
func (e *event) read(seed maphash.Seed, b []byte) {
	e.bytes = b
	for len(b) > 0 {
		tag, n := b[0], 0
		var data []byte
		if tag&7 == 2 {
			data, n = b[2:2+b[1]], 2+int(b[1])
		} else {
			v, size := binary.Uvarint(b[1:])
			if n = 1 + size; tag>>3 == 3 {
				e.attempt = uint32(v)
			}
		}
		switch tag >> 3 {
		case 2:
			copy(e.key[:], data)
		case 6:
			e.customer = maphash.Bytes(seed, data)
		case 11:
			e.units = decimal.FromInt(int64(len(data)))
		}
		b = b[n:]
	}
}

// sealed makes events of random customers, each with its length before it.
func sealed(n, customers int) []byte {
	var all, payload []byte
	for i := range n {
		key := fmt.Appendf(nil, "bench-%012d", rand.Uint64N(1e12))
		c := billing.RecordUsage{
			Env: 1, Key: billing.UsageKey(1, key), Attempt: 7, KeyText: key,
			Customer: customerName(rand.IntN(customers)), EventName: []byte("input-tokens"),
			Units: decimal.FromInt(int64(i % 100)), OccurredAt: 1_790_000_000_000,
		}
		payload = c.Seal(payload[:0])
		all = append(append(all, uint8(len(payload))), payload...)
	}
	return all
}

// BenchmarkApplyFloor is to be set beside BenchmarkApplyUsage of engine/billing.
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

// level is a budget: what it has used and holds, its limit, and the one above it.
type level struct {
	used, held decimal.Exact
	limit      decimal.Decimal
	parent     uint32
	_          [44]byte // two lines in all
}

// leveled makes a budget for each customer, below others that are so many levels less one.
func leveled(customers, levels int) (all []level) {
	all = make([]level, 1, 1+levels+customers)
	for n := range levels - 1 + customers {
		above := uint32(min(n, levels-1))
		all = append(all, level{limit: decimal.FromInt(1e12), parent: above})
	}
	return all
}

// charge asks all levels from one up, then counts at them, and describes what it counted.
func charge(
	all []level, at uint32, amount decimal.Exact, hash uint64, record []byte,
) (uint64, []byte) {
	for n := at; n != 0; n = all[n].parent {
		if l := &all[n]; !decimal.Within(l.limit, &l.used, &l.held, &amount) {
			return hash, record
		}
	}
	for n := at; n != 0; n = all[n].parent {
		l := &all[n]
		l.used, _ = l.used.Add(amount)
		low, _ := l.used.Low()
		hash = machine.Fold(hash, uint64(n)<<32^low)
		record = binary.AppendUvarint(binary.AppendUvarint(record, uint64(n)), uint64(n))
	}
	words := amount.Words()
	for _, word := range words {
		record = binary.LittleEndian.AppendUint64(record, word)
	}
	return hash, record
}

// BenchmarkBudgetFloor is to be set beside BenchmarkApplyBudgetedUsage of engine/billing.
func BenchmarkBudgetFloor(b *testing.B) {
	for _, levels := range []int{0, 5} {
		b.Run(fmt.Sprint("levels=", levels), func(b *testing.B) {
			applied(b, filled(0), 1000, 1024, levels)
		})
	}
}

// applied applies events of random customers, each of which counts at so many levels of budgets.
func applied(b *testing.B, keys *idempotency.Keys, customers, anEntry, levels int) {
	const together = 64
	counters, seed := make([]decimal.Short, 3*customers), maphash.MakeSeed()
	records, index := journal.New(), uint64(0)
	var cut []journal.Segment
	var events [together]event
	lines := make([]prefetch.Address, 0, 2*together)
	input := sealed(b.N*together, customers)
	var budgets []level
	if levels > 0 {
		budgets = leveled(customers, levels)
	}
	price, hash, record := decimal.MustParse("0.000002"), uint64(0), []byte(nil)
	stop := perUnit(b, together)
	for i := range b.N {
		lines = lines[:0]
		for j := range events {
			e := &events[j]
			e.read(seed, input[1:1+input[0]])
			input = input[1+input[0]:]
			e.hash, e.customer = keys.Hash(e.key), e.customer%uint64(len(counters))
			lines = append(lines, prefetch.Of(keys.Near(e.hash)), prefetch.Of(&counters[e.customer]))
		}
		prefetch.Lines(lines)
		if i%(anEntry/together) == 0 {
			cut = records.EndEntry(index, cut[:0])
			index++
		}
		for j := range events {
			e := &events[j]
			if _, used := keys.Find(e.key, e.hash); used {
				continue
			}
			counter := &counters[e.customer]
			sum, _ := counter.Decimal().Add(e.units)
			*counter, _ = sum.Short()
			record = append(record[:0], e.bytes...)
			if levels > 0 {
				own := uint32(levels) + uint32(e.customer)/3
				hash, record = charge(budgets, own, decimal.Product(e.units, price), hash, record)
			}
			keys.Add(e.key, e.hash, idempotency.Slot{Attempt: e.attempt, Outcome: 1}, 1, 0)
			records.Append(journal.Record{
				Kind: journal.KindUsage, Index: index, Position: uint32(i*together + j + 1),
				Owner: uint32(e.customer), At: 1, Payload: record,
			})
		}
	}
	stop()
}
