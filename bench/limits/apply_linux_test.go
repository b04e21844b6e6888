package limits_test

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"tollgate/engine/billing"
	"tollgate/engine/decimal"
	"tollgate/engine/idempotency"
	"tollgate/engine/journal"
	"tollgate/engine/machine"
	"tollgate/engine/prefetch"
	"tollgate/engine/price"
	"tollgate/engine/wire"
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

// level is a budget's limit of price: what its window has used and what is held, in two lines.
type level struct {
	used, held decimal.Exact
	limit      decimal.Decimal
	start, end int64
	born       uint64
	thresholds [8]byte
	hard       bool
}

// forest has a budget for each customer, below others that are one less than the levels, with what
// the best design known keeps for each: its path's limits in one list, and what records call them.
type forest struct {
	sync.RWMutex
	limits []level
	paths  [][]uint32
	names  [][]byte
	hash   uint64
	prices [3]price.Model
}

func newForest(customers, levels int) *forest {
	f := &forest{
		limits: make([]level, levels+customers), paths: make([][]uint32, customers),
		names: make([][]byte, customers),
		prices: [3]price.Model{
			{Kind: price.KindPerUnit},
			{Kind: price.KindGraduated, Tiers: []price.Tier{
				{UpTo: decimal.FromInt(100_000), PricePerUnit: decimal.MustParse("0.000003")},
				{Infinite: true, PricePerUnit: decimal.MustParse("0.000002")},
			}},
			{Kind: price.KindPerUnit, PricePerUnit: decimal.MustParse("0.000015")},
		},
	}
	for n := range f.limits {
		f.limits[n] = level{
			limit: decimal.FromInt(1e12), end: math.MaxInt64, born: uint64(n), hard: true,
		}
	}
	for n := range customers {
		f.paths[n] = append(f.paths[n], uint32(levels+n))
		for above := levels - 1; above > 0; above-- {
			f.paths[n] = append(f.paths[n], uint32(above))
		}
		for _, row := range f.paths[n] {
			f.names[n] = binary.AppendUvarint(f.names[n], uint64(row))
			f.names[n] = binary.AppendUvarint(f.names[n], f.limits[row].born)
		}
	}
	return f
}

// added is what an event of a feature adds to the bill: rated after less rated before.
func (f *forest) added(feature uint64, before, after, units decimal.Decimal) decimal.Exact {
	m := &f.prices[feature]
	if m.Kind == price.KindPerUnit {
		return decimal.Product(units, m.PricePerUnit)
	}
	to, _ := price.Rate(m, after)
	from, _ := price.Rate(m, before)
	amount, _ := to.Sub(from)
	return amount
}

// charge asks the limits above a customer, then counts in them, and describes what it counted. A
// refusal describes nothing.
func (f *forest) charge(
	customer uint64, amount decimal.Exact, units decimal.Decimal, now int64, record []byte,
) []byte {
	path := f.paths[customer]
	for _, row := range path {
		l := &f.limits[row]
		if now >= l.end || l.hard && !decimal.Within(l.limit, &l.used, &l.held, &amount) {
			return record
		}
	}
	f.Lock()
	hash := f.hash
	for _, row := range path {
		l := &f.limits[row]
		l.used, _ = l.used.Add(amount)
		if l.thresholds[0] != 0 {
			record = append(record, l.thresholds[0])
		}
		low, high := l.used.Low()
		held, _ := l.held.Low()
		hash = machine.Fold(hash, machine.Fold(uint64(row)<<32^low^high, uint64(l.start)^held))
	}
	f.hash = hash
	f.Unlock()
	record = append(append(record, "\x08\x02\x12\x03USD"...), 0x2a, 16)
	low, high := amount.Low()
	record = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(record, low), high)
	record = wire.AppendDecimal(record, 3, units)
	record = binary.AppendUvarint(append(record, 0x30), uint64(now))
	names := f.names[customer]
	return append(append(record, 0x3a, byte(len(names))), names...)
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
	var budgets *forest
	if levels > 0 {
		budgets = newForest(customers, levels)
	}
	var record []byte
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
			before := counter.Decimal()
			sum, _ := before.Add(e.units)
			*counter, _ = sum.Short()
			record = append(record[:0], e.bytes...)
			if levels > 0 {
				amount := budgets.added(e.customer%3, before, sum, e.units)
				record = budgets.charge(e.customer/3, amount, e.units, 1_790_000_000_000, record)
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
